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
    "Whether a query of a partitioned table is refused unless it filters a partition column. In one place this key "
    "wins over `hive.mapred.mode`; of two places the one that ranks first decides.",
)  # fmt: skip
STRICT_MODE = Setting(
    "hive.mapred.mode", "nonstrict", words("strict", "nonstrict"), _STRICT,
    "Hive's old name of `hive.strict.checks.no.partition.filter`: `strict` means `true`.",
)  # fmt: skip
STARTING_VERSION = Setting(
    "startingVersion", None, Form("a whole number from 0, or `latest`", _version), _OF_STREAM,
    "Version from which a stream without a checkpoint reads added rows. Default: it reads the whole table first.",
)  # fmt: skip
MAX_FILES_PER_TRIGGER = Setting(
    "maxFilesPerTrigger", None, Form(NUMBER.values, above_zero), _OF_STREAM,
    "Maximum number of files in one batch of a stream. Default: no limit.",
)  # fmt: skip
MAX_BYTES_PER_TRIGGER = Setting(
    "maxBytesPerTrigger", None, SIZE, _OF_STREAM,
    "Maximum size of the files in one batch of a stream; a batch has at least one file. Default: no limit.",
)  # fmt: skip
SKIP_CHANGE_COMMITS = Setting(
    "skipChangeCommits", "false", BOOLEAN, _OF_STREAM,
    "Whether a stream skips versions that removed files, including the rows that they added. With `false` the "
    "stream fails at a version that removed files.",
)  # fmt: skip
INDEX_ANSWERS = Setting(
    "index-answers", "true", BOOLEAN, _READ,
    "Whether `count`, `min`, `max` and `DISTINCT` of partition columns are answered from the index instead of the "
    "files, and a LIMIT reads only as many files as it needs. The index must know the row count of every "
    "selected file.",
)  # fmt: skip
LEARN_STATISTICS = Setting(
    "statistics.learn", "true", BOOLEAN, _READ,
    "Whether row counts that a query reads from Parquet and ORC footers are stored in the index for later queries.",
)  # fmt: skip
FILE_SKIPPING = Setting(
    "file-skipping", "true", BOOLEAN, _READ,
    "Whether a query skips files that cannot have a matching row, according to their column statistics in the index "
    "(minimum, maximum and count of NULLs).",
)  # fmt: skip
DATA_GROUPING = Setting(
    "preserve-data-grouping", "false", BOOLEAN, _READ,
    "Whether a task reads files of one partition only, so that Spark joins and groups by partition columns without "
    "a shuffle (`spark.sql.sources.v2.bucketing.enabled`). Many small partitions cause many small tasks.",
)  # fmt: skip
MAX_STALENESS = Setting(
    "max-staleness", "none",
    Form("a duration: `500ms`, `30s`, `10m`, `1d`, a bare number is seconds; or `none`", milliseconds_or_none), _READ,
    "Maximum time since the partitions that a query selects were compared with the store. Partitions that exceed it "
    "are listed, and the index is updated, before the query runs. `0s` lists them for every query.",
)  # fmt: skip

READ_SETTINGS = settings_in(globals())
