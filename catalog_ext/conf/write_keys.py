"""The settings of writes; ``catalog_ext.conf.keys`` has the others and says how all of them are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from catalog_ext.conf.lock_keys import LOCK_SETTINGS
from catalog_ext.conf.setting import (
    DEFAULT_STAGING,
    FLAG,
    NUMBER,
    SIZE,
    TIME,
    Scope,
    Setting,
    any_count_or_all,
    count,
    duration,
    flag,
    long_integer,
    seconds,
    size,
    staging_name,
    text_value,
    truth,
    unchecked,
    word,
)
from catalog_ext.metastore.commit.partition_commit import (
    PolicyKind,
    Trigger,
    parse_delay_ms,
    parse_policies,
    parse_policy_class,
    parse_success_file,
    parse_trigger,
    parse_zone,
)
from catalog_ext.metastore.commit.partition_expiry import RETENTION
from catalog_ext.metastore.commit.plan import MISMATCH
from catalog_ext.metastore.model.secrets import is_secret

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import tzinfo

_WRITE = (Scope.WRITE, Scope.SESSION, Scope.TABLE, Scope.ENVIRONMENT)
_HIVE = (Scope.WRITE, Scope.SQL, Scope.TABLE)
_OF_WRITE_ALONE = (Scope.WRITE,)
_WRITE_OR_TABLE = (Scope.WRITE, Scope.TABLE)

TRANSACTION_LEASE: Setting[float] = Setting(
    "transaction.lease", "10m",
    "How long a write that gives no sign of life is left alone before anybody may finish or undo it.",
    TIME, seconds, _WRITE,
)  # fmt: skip
RECOVERY_INTERVAL: Setting[float] = Setting(
    "recovery.interval", "1m",
    "How often a service looks for writes whose owners gave no sign of life for their lease, and finishes or undoes "
    "them; 0 for never.",
    TIME, duration, (Scope.SESSION, Scope.ENVIRONMENT),
)  # fmt: skip
EXPIRY_INTERVAL: Setting[float] = Setting(
    "expiry.interval", "10m",
    "How often a service forgets versions, ended transactions and repairs that are older than `vacuum.retention`, some "
    "at a time, so that the index stays small; 0 for never. No file is deleted.",
    TIME, duration, (Scope.SESSION, Scope.ENVIRONMENT),
)  # fmt: skip
COMMIT_UNKNOWN_TIMEOUT: Setting[float] = Setting(
    "commit.unknown-timeout", "2m",
    "How long the index is asked what became of a commit whose connection was lost, before the outcome is unknown.",
    TIME, seconds, (Scope.SESSION, Scope.ENVIRONMENT),
)  # fmt: skip
COMMIT_THREADS: Setting[int] = Setting(
    "commit.threads", "16", "Files that one commit renames, completes or deletes at the same time.",
    NUMBER, count, (Scope.SESSION, Scope.ENVIRONMENT),
)  # fmt: skip
VACUUM_RETENTION: Setting[float] = Setting(
    "vacuum.retention", "7d", "Age from which `vacuum` removes files and versions that nothing needs any more.",
    "a duration: `0s`, `12h`, `7d`; a bare number is seconds", duration, (Scope.TABLE, Scope.ENVIRONMENT),
)  # fmt: skip
PARTITION_RETENTION: Setting[float] = Setting(
    RETENTION, None,
    "Age, by their values, from which `expire_partitions` drops partitions, and repair registers none again.",
    "a duration: `12h`, `7d`; a bare number is seconds", duration, (Scope.TABLE,),
)  # fmt: skip
STAGING_DIR: Setting[str] = Setting(
    "staging-dir", DEFAULT_STAGING,
    "Name of the hidden directory, in the table's, where files of local disks and HDFS lie until their commit.",
    "a name that begins with `_` or `.`, holds no `/`, and is none of ours (`.catalog-ext`, `_catalog_ext_…`)",
    staging_name, _WRITE, alias="hive_staging_dir",
)  # fmt: skip
OVERWRITE_MODE: Setting[str] = Setting(
    "overwrite-mode", "in-place",
    "Where an overwrite puts new files: beside the old ones, which are deleted, or in a new directory to which the "
    "partition moves by one change in the metastore.",
    "`in-place` or `relocate`", word("in-place", "relocate"), _WRITE,
)  # fmt: skip
HIVE_COMPATIBLE: Setting[bool] = Setting(
    "hive-compatible", "true",
    "Whether tables that the metastore knows are written in the form that Hive 2.3 to 4 can read.",
    FLAG, flag, _WRITE,
)  # fmt: skip
WRITE_DISTRIBUTION_MODE: Setting[str] = Setting(
    "write.distribution-mode", "auto",
    "Whether a shuffle brings the rows of a partition to one task, for fewer files (`hash`), or every task writes the "
    "partitions that it has rows of (`none`); `auto` is the cheapest, today `none`.",
    "`auto`, `hash` or `none`", word("auto", "hash", "none"), _WRITE,
)  # fmt: skip
WRITE_MAX_OPEN_WRITERS: Setting[int] = Setting(
    "write.max-open-writers", "0",
    "Files that one task keeps open for different partitions before it sorts the rest of its rows; 0 is to sort all of "
    "them, which is the cheapest as a rule. Where it is not given, `spark.sql.maxConcurrentOutputFileWriters` goes "
    "before the default.",
    "a whole number from 0", long_integer, _WRITE, spark="spark.sql.maxConcurrentOutputFileWriters", spark_last=True,
)  # fmt: skip
WRITE_MAX_FILE_SIZE: Setting[int] = Setting(
    "write.max-file-size", "1g", "Size from which a task goes on in a new file.",
    SIZE, size, _WRITE, alias="hive_sink_max_file_size",
)  # fmt: skip
WRITE_STATISTICS_COLUMNS: Setting[int | None] = Setting(
    "write.statistics-columns", "100",
    "How many of a table's columns, the first ones, have the least and greatest value and the count of NULLs kept of "
    "each file that is written or analyzed.",
    "a whole number from 0, or `all`", any_count_or_all, _WRITE,
)  # fmt: skip
DYNAMIC_PARTITION: Setting[bool] = Setting(
    "hive.exec.dynamic.partition", "true", "Whether an INSERT may leave partition columns to its rows.",
    FLAG, flag, _HIVE,
)  # fmt: skip
DYNAMIC_PARTITION_MODE: Setting[str] = Setting(
    "hive.exec.dynamic.partition.mode", "nonstrict",
    "`strict` wants at least one partition column with a fixed value in such an INSERT.",
    "`nonstrict` or `strict`", word("nonstrict", "strict"), _HIVE,
)  # fmt: skip
MAX_DYNAMIC_PARTITIONS: Setting[int] = Setting(
    "hive.exec.max.dynamic.partitions", None,
    "Partitions that one write with dynamic keys may touch; no limit where it is not given.",
    "a whole number from 0", long_integer, _HIVE,
)  # fmt: skip
MAX_DYNAMIC_PARTITIONS_PER_TASK: Setting[int] = Setting(
    "hive.exec.max.dynamic.partitions.pernode", None,
    "Partitions that one task of such a write may touch; no limit where it is not given.",
    "a whole number from 0", long_integer, _HIVE,
)  # fmt: skip
TXN_APP_ID: Setting[str] = Setting(
    "txn-app-id", None,
    "Names the application whose numbered batches are each committed at most once; given with `txn-version`.",
    "text", text_value, _OF_WRITE_ALONE,
)  # fmt: skip
TXN_VERSION: Setting[int] = Setting(
    "txn-version", None,
    "Number of the batch: if this one or a higher one of the application is committed already, nothing is written.",
    "a whole number from 0", long_integer, _OF_WRITE_ALONE,
)  # fmt: skip
PARTITION_COMMIT_TRIGGER: Setting[Trigger] = Setting(
    "sink.partition-commit.trigger", "process-time",
    "When a partition of a streaming write becomes visible: with its epoch, or when the watermark reaches its time.",
    "`process-time` or `partition-time`", parse_trigger, _WRITE_OR_TABLE,
)  # fmt: skip
PARTITION_COMMIT_DELAY: Setting[int] = Setting(
    "sink.partition-commit.delay", "0s",
    "How far the watermark must be past a partition's time; with `process-time`, how long a partition waits.",
    "a duration: `0s`, `1 h`, `1 d`; a bare number is seconds", parse_delay_ms, _WRITE_OR_TABLE,
)  # fmt: skip
PARTITION_COMMIT_TIME_ZONE: Setting[tzinfo] = Setting(
    "sink.partition-commit.watermark-time-zone", "UTC", "Zone in which a partition's time is local time.",
    "a zone such as `UTC` or `Asia/Shanghai`", parse_zone, _WRITE_OR_TABLE,
)  # fmt: skip
PARTITION_COMMIT_POLICY: Setting[tuple[PolicyKind, ...]] = Setting(
    "sink.partition-commit.policy.kind", "metastore",
    "What is done for a partition when a write to it is committed; the metastore follows in any case.",
    "one or more of `metastore`, `success-file`, `custom`, with commas between them", parse_policies, _WRITE_OR_TABLE,
)  # fmt: skip
PARTITION_COMMIT_CLASS: Setting[str | None] = Setting(
    "sink.partition-commit.policy.class", None,
    "The callable of the policy `custom`: it gets the values and the location of a committed partition.",
    "an importable Python callable: `package.module:name`", parse_policy_class, _WRITE_OR_TABLE,
)  # fmt: skip
PARTITION_COMMIT_SUCCESS_FILE: Setting[str] = Setting(
    "sink.partition-commit.success-file.name", "_SUCCESS",
    "Name of the empty file that the policy `success-file` writes.",
    "a file name that begins with `_` or `.`", parse_success_file, _WRITE_OR_TABLE,
)  # fmt: skip
PARTITION_TIME_PATTERN: Setting[str] = Setting(
    "partition.time-extractor.timestamp-pattern", None,
    "How a partition's time is made of its keys: `$year-$month-$day $hour:00:00`; otherwise the first key is the time.",
    "text with `$key` in it", text_value, _WRITE_OR_TABLE,
)  # fmt: skip
PARTITION_OVERWRITE_MODE: Setting[str] = Setting(
    "partitionOverwriteMode", "dynamic",
    "Whether an overwrite with dynamic keys replaces the partitions that receive rows, or all of the table's (of the "
    "session catalog: Spark's own default, `static`).",
    "`dynamic` or `static`", word("dynamic", "static"), _OF_WRITE_ALONE,
    spark="spark.sql.sources.partitionOverwriteMode",
)  # fmt: skip
MAX_RECORDS_PER_FILE: Setting[int] = Setting(
    "maxRecordsPerFile", "0", "Rows after which a task goes on in a new file; 0 is no limit.",
    "a whole number from 0", long_integer, _OF_WRITE_ALONE, spark="spark.sql.files.maxRecordsPerFile",
)  # fmt: skip
TIME_ZONE: Setting[str] = Setting(
    "timeZone", None,
    "Zone that TIMESTAMP keys are local in. It may be an option of the table (`OPTIONS ('timeZone' = …)`) and of a "
    "read, too; all go before the session.",
    "a zone such as `UTC` or `Asia/Shanghai`", unchecked, _OF_WRITE_ALONE, spark="spark.sql.session.timeZone",
)  # fmt: skip
REPLACE_WHERE_MISMATCH: Setting[str] = Setting(
    MISMATCH, "error",
    "What becomes of rows that the condition of `REPLACE WHERE` or `overwrite(condition)` is not true for: the write "
    "is refused, or they are added to their partitions.",
    "`error` or `add`", word("error", "add"), _WRITE,
)  # fmt: skip
EXTERNAL_TABLE_PURGE: Setting[bool] = Setting(
    "external.table.purge", "false",
    "Whether TRUNCATE, and DELETE without a condition, may delete the files of an external table, which are somebody "
    "else's.",
    "`true`; any other text is false", truth, (Scope.TABLE,),
)  # fmt: skip

WRITE_SETTINGS: tuple[Setting[Any], ...] = (
    TRANSACTION_LEASE, RECOVERY_INTERVAL, EXPIRY_INTERVAL, COMMIT_UNKNOWN_TIMEOUT, COMMIT_THREADS, VACUUM_RETENTION,
    PARTITION_RETENTION, STAGING_DIR, OVERWRITE_MODE, HIVE_COMPATIBLE, WRITE_DISTRIBUTION_MODE, WRITE_MAX_OPEN_WRITERS,
    WRITE_MAX_FILE_SIZE, WRITE_STATISTICS_COLUMNS, DYNAMIC_PARTITION, DYNAMIC_PARTITION_MODE, MAX_DYNAMIC_PARTITIONS,
    MAX_DYNAMIC_PARTITIONS_PER_TASK, TXN_APP_ID, TXN_VERSION, PARTITION_COMMIT_TRIGGER, PARTITION_COMMIT_DELAY,
    PARTITION_COMMIT_TIME_ZONE, PARTITION_COMMIT_POLICY, PARTITION_COMMIT_CLASS, PARTITION_COMMIT_SUCCESS_FILE,
    PARTITION_TIME_PATTERN, PARTITION_OVERWRITE_MODE, MAX_RECORDS_PER_FILE, TIME_ZONE, REPLACE_WHERE_MISMATCH,
    EXTERNAL_TABLE_PURGE,
)  # fmt: skip
"""All of them, in the order of the reference page."""


_OF_TRANSACTION: tuple[Setting[Any], ...] = (
    TRANSACTION_LEASE, STAGING_DIR, OVERWRITE_MODE, REPLACE_WHERE_MISMATCH, *LOCK_SETTINGS,
)  # fmt: skip


def transaction_options(
    options: Mapping[str, str], session: Mapping[str, str], properties: Mapping[str, str], conf: Mapping[str, str]
) -> dict[str, str]:
    """Return a write's options with the settings that a transaction takes over when it begins, wherever they are set.

    Raises:
        InvalidConfigurationError: A value is none that its key may have.
    """
    # Spark's options have names without regard to case. What is secret is the writer's alone: these are kept.
    found = {key.lower(): text for key, text in options.items() if not is_secret(key)}
    for setting in _OF_TRANSACTION:
        text = setting.text(found, session, properties, conf)
        if text is not None:
            setting.value_of(text)
            found[setting.key] = text
    return found
