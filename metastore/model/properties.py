"""Reads table properties, whose keys ignore case, and recognizes parameters with Spark's results of ANALYZE."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def property_value(properties: Mapping[str, str], key: str) -> str | None:
    """Return the value of a property, ignoring case, or None. A key with exactly this spelling is preferred."""
    if key in properties:
        return properties[key]
    lower = key.lower()
    return next((text for name, text in properties.items() if name.lower() == lower), None)


ANALYZED_VERSION = "catalog-ext.statistics.version"
"""The property with the table version that Spark's statistics describe; for other versions they are out of date."""

COLUMN_PREFIX = "spark.sql.statistics.colStats."


def statistics_column(parameter: str) -> str:
    """Return the column that one of Spark's statistics parameters describes; empty for other parameters."""
    # Split at the last dot, because the column's name may contain dots.
    return parameter.removeprefix(COLUMN_PREFIX).rpartition(".")[0] if parameter.startswith(COLUMN_PREFIX) else ""
