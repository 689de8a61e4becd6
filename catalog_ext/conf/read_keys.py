"""The settings of streams and of strict mode. ``catalog_ext.conf.keys`` describes where settings are read from."""

from __future__ import annotations

from catalog_ext.conf.setting import (
    BOOLEAN,
    NUMBER,
    SIZE,
    Form,
    Scope,
    Setting,
    above_zero,
    long_integer,
    milliseconds_or_none,
    settings_in,
    words,
)

_OF_STREAM = (Scope.STREAM,)
_READ = (Scope.READ, Scope.SESSION, Scope.TABLE)
_STRICT = (Scope.READ, Scope.SQL, Scope.SESSION, Scope.TABLE)


def _version(text: str) -> int | str:
    if text.lower() == "latest":
        return text.lower()
    try:
        return long_integer(text)
    except ValueError as error:
        raise ValueError(f"{error}, or 'latest'") from error


STRICT_CHECK = Setting(
    "hive.strict.checks.no.partition.filter", "false", BOOLEAN, _STRICT,
    "Whether a partitioned table is read with a predicate on one of its partition columns or not at all. Of two places "
    "the nearer wins; in one place it goes before `hive.mapred.mode`.",
)  # fmt: skip
STRICT_MODE = Setting(
    "hive.mapred.mode", "nonstrict", words("strict", "nonstrict"), _STRICT,
    "The older name of `hive.strict.checks.no.partition.filter`: `strict` is `true`.",
)  # fmt: skip
STARTING_VERSION = Setting(
    "startingVersion", None, Form("a whole number from 0, or `latest`", _version), _OF_STREAM,
    "Version from which a stream without a checkpoint reads what was added; otherwise what is there comes first.",
)  # fmt: skip
MAX_FILES_PER_TRIGGER = Setting(
    "maxFilesPerTrigger", None, Form(NUMBER.values, above_zero), _OF_STREAM,
    "Files that one batch of a stream reads; no limit where it is not given.",
)  # fmt: skip
MAX_BYTES_PER_TRIGGER = Setting(
    "maxBytesPerTrigger", None, SIZE, _OF_STREAM,
    "Bytes of files that one batch of a stream reads, and at least one file; no limit where it is not given.",
)  # fmt: skip
SKIP_CHANGE_COMMITS = Setting(
    "skipChangeCommits", "false", BOOLEAN, _OF_STREAM,
    "Whether a stream passes over versions that removed files, with what they added; it fails at them otherwise.",
)  # fmt: skip
INDEX_ANSWERS = Setting(
    "index-answers", "true", BOOLEAN, _READ,
    "Whether counts, least and greatest values and distinct values of partition columns, and how few files a LIMIT "
    "needs, come from the index, where it knows the rows of every file that matters, and not from the files.",
)  # fmt: skip
LEARN_STATISTICS = Setting(
    "statistics.learn", "true", BOOLEAN, _READ,
    "Whether row counts that a query has read out of footers of Parquet and ORC files are recorded in the index, so "
    "that the next query finds them there.",
)  # fmt: skip
FILE_SKIPPING = Setting(
    "file-skipping", "true", BOOLEAN, _READ,
    "Whether files are left out in which, by the least and greatest values and the NULLs that the index knows of their "
    "columns, no row can satisfy the filters of a query.",
)  # fmt: skip
DATA_GROUPING = Setting(
    "preserve-data-grouping", "false", BOOLEAN, _READ,
    "Whether each task reads files of one partition, so that Spark can join and group by partition columns without a "
    "shuffle (`spark.sql.sources.v2.bucketing.enabled`); many small partitions are many small tasks then.",
)  # fmt: skip
MAX_STALENESS = Setting(
    "max-staleness", "none",
    Form("a duration: `500ms`, `30s`, `10m`, `1d`, a bare number is seconds; or `none`", milliseconds_or_none), _READ,
    "How long ago the partitions that a query selects may have been compared with the store: those for which it is "
    "longer are listed before the query runs, and the index is brought in sync. `0s` lists them for each query.",
)  # fmt: skip

READ_SETTINGS = settings_in(globals())
