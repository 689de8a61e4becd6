"""The statistics among the metastore's parameters: Hive's figures about a table's or a partition's files."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

FILES = "numFiles"
BYTES = "totalSize"
ROWS = "numRows"
DDL_TIME = "transient_lastDdlTime"
"""The last change of a table or partition, in seconds since the epoch, by the clock of the metastore or the engine."""
ERASURE_CODED = "numFilesErasureCoded"

_OF_THE_FILES = frozenset(
    {FILES, BYTES, ROWS, ERASURE_CODED, "COLUMN_STATS_ACCURATE", "rawDataSize", "STATS_GENERATED_VIA_STATS_TASK"}
)
SPARK_PREFIX = "spark.sql.statistics."
"""The prefix of keys of Spark's ``ANALYZE TABLE``: ``numRows``, ``totalSize``, ``colStats.<column>.<statistic>``."""


def with_statistics(found: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters of a table or partition after its files have changed, with the new statistics.

    All other statistics of the old files are removed: the row count if ``new`` has none, Spark's statistics, and Hive's
    mark that statistics are exact. Without that mark Hive uses them for planning, but counts rows itself. This is
    needed because an engine may have added files that the index does not know. An empty ``new`` changes nothing.

    Args:
        found: The present parameters.
        new: ``numFiles``, ``totalSize``, ``numRows`` if every row is counted, ``transient_lastDdlTime``.
    """
    if not new:
        return dict(found)
    kept = {k: v for k, v in found.items() if k not in _OF_THE_FILES and not k.startswith(SPARK_PREFIX)}
    # Hive from release 3 on lists a partition's directory unless its parameters have all three quick statistics: the
    # numbers of files and bytes, and this one.
    added = {ERASURE_CODED: "0"} if FILES in new else {}
    return {**kept, **added, **new}


def without_sparks_statistics(found: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters without the results of Spark's ``ANALYZE TABLE``: Spark drops these when rows change."""
    return {k: v for k, v in found.items() if not k.startswith(SPARK_PREFIX)}
