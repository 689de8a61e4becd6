"""The settings of streams and of strict mode; ``catalog_ext.conf.keys`` says how all settings are read."""

from __future__ import annotations

from typing import Any

from catalog_ext.conf.setting import (
    NUMBER,
    SIZE,
    Scope,
    Setting,
    above_zero,
    boolean,
    long_integer,
    milliseconds_or_none,
    size,
    word,
)

_OF_STREAM = (Scope.STREAM,)
_STRICT = (Scope.READ, Scope.SQL, Scope.SESSION, Scope.TABLE)


def _version(text: str) -> int | str:
    if text.lower() == "latest":
        return text.lower()
    try:
        return long_integer(text)
    except ValueError as error:
        raise ValueError(f"{error}, or 'latest'") from error


STRICT_CHECK: Setting[bool] = Setting(
    "hive.strict.checks.no.partition.filter", "false",
    "Whether a partitioned table is read with a predicate on one of its partition columns or not at all. Of two places "
    "the nearer wins; in one place it goes before `hive.mapred.mode`.",
    "`true` or `false`", boolean, _STRICT,
)  # fmt: skip
STRICT_MODE: Setting[str] = Setting(
    "hive.mapred.mode", "nonstrict", "The older name of `hive.strict.checks.no.partition.filter`: `strict` is `true`.",
    "`strict` or `nonstrict`", word("strict", "nonstrict"), _STRICT,
)  # fmt: skip
STARTING_VERSION: Setting[int | str] = Setting(
    "startingVersion", None,
    "Version from which a stream without a checkpoint reads what was added; otherwise what is there comes first.",
    "a whole number from 0, or `latest`", _version, _OF_STREAM,
)  # fmt: skip
MAX_FILES_PER_TRIGGER: Setting[int] = Setting(
    "maxFilesPerTrigger", None, "Files that one batch of a stream reads; no limit where it is not given.", NUMBER,
    above_zero, _OF_STREAM,
)  # fmt: skip
MAX_BYTES_PER_TRIGGER: Setting[int] = Setting(
    "maxBytesPerTrigger", None,
    "Bytes of files that one batch of a stream reads, and at least one file; no limit where it is not given.",
    SIZE, size, _OF_STREAM,
)  # fmt: skip
SKIP_CHANGE_COMMITS: Setting[bool] = Setting(
    "skipChangeCommits", "false",
    "Whether a stream passes over versions that removed files, with what they added; it fails at them otherwise.",
    "`true` or `false`", boolean, _OF_STREAM,
)  # fmt: skip
INDEX_ANSWERS: Setting[bool] = Setting(
    "index-answers", "true",
    "Whether counts, least and greatest values and distinct values of partition columns, and how few files a LIMIT "
    "needs, come from the index, where it knows the rows of every file that matters, and not from the files.",
    "`true` or `false`", boolean, (Scope.READ, Scope.SESSION, Scope.TABLE),
)  # fmt: skip
LEARN_STATISTICS: Setting[bool] = Setting(
    "statistics.learn", "true",
    "Whether row counts that a query has read out of footers of Parquet and ORC files are recorded in the index, so "
    "that the next query finds them there.",
    "`true` or `false`", boolean, (Scope.READ, Scope.SESSION, Scope.TABLE),
)  # fmt: skip
FILE_SKIPPING: Setting[bool] = Setting(
    "file-skipping", "true",
    "Whether files are left out in which, by the least and greatest values and the NULLs that the index knows of their "
    "columns, no row can satisfy the filters of a query.",
    "`true` or `false`", boolean, (Scope.READ, Scope.SESSION, Scope.TABLE),
)  # fmt: skip
MAX_STALENESS: Setting[int | None] = Setting(
    "max-staleness", "none",
    "How long ago the partitions that a query selects may have been compared with the store: those for which it is "
    "longer are listed before the query runs, and the index is brought in step. `0s` lists them for each query.",
    "a duration: `500ms`, `30s`, `10m`, `1d`, a bare number is seconds; or `none`", milliseconds_or_none,
    (Scope.READ, Scope.SESSION, Scope.TABLE),
)  # fmt: skip
DATA_GROUPING: Setting[bool] = Setting(
    "preserve-data-grouping", "false",
    "Whether each task reads files of one partition, so that Spark can join and group by partition columns without a "
    "shuffle (`spark.sql.sources.v2.bucketing.enabled`); many small partitions are many small tasks then.",
    "`true` or `false`", boolean, (Scope.READ, Scope.SESSION, Scope.TABLE),
)  # fmt: skip

READ_SETTINGS: tuple[Setting[Any], ...] = (
    STRICT_CHECK, STRICT_MODE, STARTING_VERSION, MAX_FILES_PER_TRIGGER, MAX_BYTES_PER_TRIGGER, SKIP_CHANGE_COMMITS,
    INDEX_ANSWERS, LEARN_STATISTICS, FILE_SKIPPING, DATA_GROUPING, MAX_STALENESS,
)  # fmt: skip
"""All of them, in the order of the reference page."""
