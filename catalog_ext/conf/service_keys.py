"""The settings of a service: who may read, which locations it serves, its page, and its log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from catalog_ext.conf.setting import Scope, Setting, flag, word
from catalog_ext.metastore.errors import InvalidInputError
from catalog_ext.metastore.storage.allowed_locations import Allowed
from catalog_ext.metastore.storage.locations import Location

if TYPE_CHECKING:
    from collections.abc import Mapping


LogFormat: TypeAlias = Literal["text", "json"]
_word = word("text", "json")

READ_TOKEN_FILE: Setting[Path] = Setting(
    "read-token-file", None,
    "The file with the token for reading of `catalog-ext serve`: sessions that have it as their `token-file` SELECT, "
    "and writes are refused. `--read-token-file` goes before it.",
    "a path", Path, (Scope.ENVIRONMENT,),
)  # fmt: skip
PAGE: Setting[bool] = Setting(
    "page", "false",
    "Whether the session's service shows its page (`docs/page.md`). `catalog_ext.open_page` shows it at any time; "
    "`catalog-ext serve` does unless it is told `--no-page`.",
    "`true` or `false`", flag, (Scope.SESSION, Scope.ENVIRONMENT),
)  # fmt: skip


def _allowed(text: str) -> Allowed:
    if text == "*":
        return Allowed(everything=True)
    try:
        return Allowed(False, tuple(Location.parse(one.strip()) for one in text.split(",") if one.strip()))
    except InvalidInputError as error:
        raise ValueError(f"give locations with commas between them, or '*': {error.message.rstrip('.')}") from error


STORAGE_ALLOW: Setting[Allowed] = Setting(
    "storage.allow", None,
    "The locations that statements may name (LOAD DATA, LOCATION, `register_table`, ad-hoc paths, imports), besides "
    "the warehouse and those of namespaces and tables (`docs/rights.md`). Default: `*` in a session and in a Python "
    "program, which have their user's rights; none in `catalog-ext serve`.",
    "locations with commas between them, or `*`", _allowed, (Scope.SESSION, Scope.ENVIRONMENT),
)  # fmt: skip


def allowed_locations(conf: Mapping[str, str], *, standing: bool) -> Allowed:
    """Return what the setting allows; without it a standing service allows nothing more, and a session everything.

    Raises:
        InvalidConfigurationError: The text is none that the setting may have.
    """
    text = STORAGE_ALLOW.text(conf)
    return Allowed(everything=not standing) if text is None else STORAGE_ALLOW.value_of(text)


PAGE_SETTINGS: tuple[Setting[Any], ...] = (PAGE,)
SERVICE_SETTINGS: tuple[Setting[Any], ...] = (READ_TOKEN_FILE, STORAGE_ALLOW)
"""All of them, in the order of the reference page."""


def _format(text: str) -> LogFormat:
    return cast("LogFormat", _word(text))


LOG_FORMAT: Setting[LogFormat] = Setting(
    "log-format", "text",
    "How `catalog-ext serve` writes its log; as JSON each line is an object. `--log-format` goes before it.",
    "`text` or `json`", _format, (Scope.ENVIRONMENT,),
)  # fmt: skip

LOG_SETTINGS: tuple[Setting[Any], ...] = (LOG_FORMAT,)
"""All of them, in the order of the reference page."""
