"""Names of the parameters in which Spark keeps what ANALYZE has found of a table's columns."""

from __future__ import annotations

COLUMN_PREFIX = "spark.sql.statistics.colStats."


def statistics_column(parameter: str) -> str:
    """Return the column of which Spark's parameter is a statistic; empty where it is of none."""
    # The column's name may have dots itself.
    return parameter.removeprefix(COLUMN_PREFIX).rpartition(".")[0] if parameter.startswith(COLUMN_PREFIX) else ""
