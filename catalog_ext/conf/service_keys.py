"""The settings of a service: read access, allowed locations, and its page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from catalog_ext.conf.setting import TRUE_OR_FALSE, Form, Scope, Setting
from catalog_ext.metastore.errors import InvalidInputError
from catalog_ext.metastore.storage.allowed_locations import Allowed
from catalog_ext.metastore.storage.locations import Location

if TYPE_CHECKING:
    from collections.abc import Mapping

READ_TOKEN_FILE = Setting(
    "read-token-file", None, Form("a path", Path), (Scope.ENVIRONMENT,),
    "File with the read-only token of `catalog-ext serve`. Sessions with this file as their `token-file` can "
    "SELECT; writes are refused. The option `--read-token-file` wins over the setting.",
)  # fmt: skip
PAGE = Setting(
    "page", "false", TRUE_OR_FALSE, (Scope.SESSION, Scope.ENVIRONMENT),
    "Whether the session's service serves its page (`docs/page.md`) for a browser. `catalog_ext.open_page` opens the "
    "page at any time; `catalog-ext serve` serves it unless `--no-page` is given.",
)  # fmt: skip


def _allowed(text: str) -> Allowed:
    if text == "*":
        return Allowed(everything=True)
    try:
        return Allowed(False, tuple(Location.parse(one.strip()) for one in text.split(",") if one.strip()))
    except InvalidInputError as error:
        raise ValueError(f"give locations with commas between them, or '*': {error.message.rstrip('.')}") from error


STORAGE_ALLOW = Setting(
    "storage.allow", None, Form("comma-separated locations, or `*`", _allowed),
    (Scope.SESSION, Scope.ENVIRONMENT),
    "Locations that statements may name (LOAD DATA, LOCATION, `register_table`, ad-hoc paths, imports), besides the "
    "warehouse and the locations of namespaces and tables (`docs/rights.md`). Default: `*` in a session and in a "
    "Python program, which act with their user's rights; none in `catalog-ext serve`.",
)  # fmt: skip


def allowed_locations(conf: Mapping[str, str], *, standing: bool) -> Allowed:
    """Return the locations that statements may name besides those of tables, namespaces and the warehouse.

    By default a standing service allows no such location, and a session allows all.

    Raises:
        InvalidConfigurationError: The setting's value is invalid.
    """
    text = STORAGE_ALLOW.text(conf)
    return Allowed(everything=not standing) if text is None else STORAGE_ALLOW.value_of(text)


SERVICE_SETTINGS = (PAGE, READ_TOKEN_FILE, STORAGE_ALLOW)
