"""Look-up of properties, whose keys ignore case, and the parameters in which Spark keeps results of ANALYZE."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def property_value(properties: Mapping[str, str], key: str) -> str | None:
    """Return the text of the property, or None; a key in the same case wins over one that differs in case."""
    if key in properties:
        return properties[key]
    lower = key.lower()
    return next((text for name, text in properties.items() if name.lower() == lower), None)


COLUMN_PREFIX = "spark.sql.statistics.colStats."


def statistics_column(parameter: str) -> str:
    """Return the column that Spark's statistics parameter describes; empty for other parameters."""
    # The column's name may have dots itself.
    return parameter.removeprefix(COLUMN_PREFIX).rpartition(".")[0] if parameter.startswith(COLUMN_PREFIX) else ""
