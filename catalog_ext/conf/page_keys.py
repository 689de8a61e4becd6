"""The setting of the page that a service shows in a browser."""

from __future__ import annotations

from typing import Any

from catalog_ext.conf.setting import Scope, Setting, flag

PAGE: Setting[bool] = Setting(
    "page", "false",
    "Whether the session's service shows its page (`docs/page.md`). `catalog_ext.open_page` shows it at any time; "
    "`catalog-ext serve` does unless it is told `--no-page`.",
    "`true` or `false`", flag, (Scope.SESSION, Scope.ENVIRONMENT),
)  # fmt: skip

PAGE_SETTINGS: tuple[Setting[Any], ...] = (PAGE,)
"""All of them, in the order of the reference page."""
