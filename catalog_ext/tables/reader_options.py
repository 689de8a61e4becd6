"""Checks the options of a table that is made, and spells their names as the rest of the catalog does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.conf.format_options import check_format_options
from catalog_ext.conf.properties import checked_map
from catalog_ext.metastore.errors import UnsupportedFormatError
from catalog_ext.metastore.hive.mapping.hive_text import LAZY, OPEN_CSV, SERDE, named_alike

if TYPE_CHECKING:
    from collections.abc import Mapping


def checked_options(options: Mapping[str, str], file_format: str, table: str) -> dict[str, str]:
    """Return the options that a user gives a table.

    Raises:
        InvalidConfigurationError: One is no text, a secret, or nearly called as one of the format's.
        UnsupportedFormatError: The option ``serde`` names a class that neither readers nor writers have.
    """
    checked = checked_map(options, "options")
    check_format_options(checked, file_format, table)
    named = named_alike(file_format, checked)
    serde = named.get(SERDE, LAZY)
    if file_format == "csv" and serde not in (LAZY, OPEN_CSV):
        raise UnsupportedFormatError(
            f"Table {table} cannot have the option {SERDE!r} = {serde[:200]!r}. Tables of text have {LAZY} or "
            f"{OPEN_CSV}.",
            {"table": table, "serde": serde[:200]},
        )
    return named
