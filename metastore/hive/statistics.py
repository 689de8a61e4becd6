"""The statistics among the metastore's parameters: what Hive believes of a table's or a partition's files."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

FILES = "numFiles"
BYTES = "totalSize"
ROWS = "numRows"
CHANGED = "transient_lastDdlTime"
ACCURATE = "COLUMN_STATS_ACCURATE"
ERASURE_CODED = "numFilesErasureCoded"

_ONLY_BASIC = '{"BASIC_STATS":"true"}'
_OF_THE_FILES = frozenset(
    {FILES, BYTES, ROWS, ERASURE_CODED, ACCURATE, "rawDataSize", "STATS_GENERATED_VIA_STATS_TASK"}
)
_OF_SPARK = "spark.sql.statistics."


def with_statistics(found: Mapping[str, str], new: Mapping[str, str], *, counted: bool) -> dict[str, str]:
    """The parameters after the files have changed: ``new`` says what is known of them now.

    Whatever else somebody had computed for the old files goes: a count of rows that ``new`` does not have, column
    statistics (Hive's are told to be out of date), Spark's own. Without ``new`` nothing is known, and all stays.

    Args:
        found: The parameters as they are.
        new: ``numFiles``, ``totalSize``, ``numRows`` if every row is counted, ``transient_lastDdlTime``.
        counted: Whether Hive counts the same rows, so that it may answer ``count(*)`` with ``numRows``.
    """
    if not new:
        return dict(found)
    kept = {k: v for k, v in found.items() if k not in _OF_THE_FILES and not k.startswith(_OF_SPARK)}
    # Releases from 3 on list the directory of a partition that comes without this third one of their quick statistics.
    added = {ERASURE_CODED: "0"} if FILES in new else {}
    accurate = {ACCURATE: _ONLY_BASIC} if counted and ROWS in new else {}
    return {**kept, **added, **accurate, **new}


def without_sparks_statistics(found: Mapping[str, str]) -> dict[str, str]:
    """The parameters without what Spark's ``ANALYZE TABLE`` wrote there: Spark drops it when rows change."""
    return {k: v for k, v in found.items() if not k.startswith(_OF_SPARK)}
