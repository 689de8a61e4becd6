"""The statistics among the metastore's parameters: Hive's figures about a table's or a partition's files."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

FILES = "numFiles"
BYTES = "totalSize"
ROWS = "numRows"
DDL_TIME = "transient_lastDdlTime"
"""The last change of a table or partition, in seconds since the epoch, by the metastore's or engine's clock."""
ERASURE_CODED = "numFilesErasureCoded"

_OF_THE_FILES = frozenset(
    {FILES, BYTES, ROWS, ERASURE_CODED, "COLUMN_STATS_ACCURATE", "rawDataSize", "STATS_GENERATED_VIA_STATS_TASK"}
)
SPARK_PREFIX = "spark.sql.statistics."
"""Of the keys that Spark's ``ANALYZE TABLE`` writes: ``numRows``, ``totalSize``, ``colStats.<column>.<statistic>``."""


def with_statistics(found: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters after the files have changed, with the new statistics.

    All other statistics of the old files are removed: a row count that ``new`` lacks, Spark's statistics,
    and Hive's mark that statistics are exact. Without that mark Hive plans with them, but counts rows itself, since an
    engine may have added files that the index does not know. An empty ``new`` changes nothing.

    Args:
        found: The present parameters.
        new: ``numFiles``, ``totalSize``, ``numRows`` if every row is counted, ``transient_lastDdlTime``.
    """
    if not new:
        return dict(found)
    kept = {k: v for k, v in found.items() if k not in _OF_THE_FILES and not k.startswith(SPARK_PREFIX)}
    # Releases from 3 on list the directory of a partition that comes without this third one of their quick statistics.
    added = {ERASURE_CODED: "0"} if FILES in new else {}
    return {**kept, **added, **new}


def without_sparks_statistics(found: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters without results of Spark's ``ANALYZE TABLE``: Spark drops these when rows change."""
    return {k: v for k, v in found.items() if not k.startswith(SPARK_PREFIX)}
