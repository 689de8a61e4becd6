"""The settings of a standing service."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from catalog_ext.conf.setting import Scope, Setting

READ_TOKEN_FILE: Setting[Path] = Setting(
    "read-token-file",
    None,
    "The file with the token for reading of `catalog-ext serve`: sessions that have it as their `token-file` SELECT, "
    "and writes are refused. `--read-token-file` goes before it.",
    "a path",
    Path,
    (Scope.ENVIRONMENT,),
)

SERVICE_SETTINGS: tuple[Setting[Any], ...] = (READ_TOKEN_FILE,)
"""All of them, in the order of the reference page."""
