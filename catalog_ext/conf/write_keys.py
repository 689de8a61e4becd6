"""The settings of writes, and of Hive locks during writes and repairs; ``catalog_ext.conf.keys`` has the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.conf.setting import (
    DEFAULT_STAGING,
    DURATION,
    FLAG,
    FROM_ZERO,
    NUMBER,
    SIZE,
    TEXT,
    TIME,
    TRUTH,
    Form,
    Scope,
    Setting,
    any_count_or_all,
    duration,
    settings_in,
    staging_name,
    text_value,
    unchecked,
    words,
)
from catalog_ext.metastore.commit.lock_settings import (
    DEFAULT_WAIT_S,
    HIVE_LOCKS,
    HIVE_LOCKS_WAIT,
    LockMode,
    LockSettings,
)
from catalog_ext.metastore.commit.partition_commit import (
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

_WRITE = (Scope.WRITE, Scope.SESSION, Scope.TABLE, Scope.ENVIRONMENT)
_HIVE = (Scope.WRITE, Scope.SQL, Scope.TABLE)
_OF_WRITE_ALONE = (Scope.WRITE,)
_PROCESS = (Scope.SESSION, Scope.ENVIRONMENT)
_WRITE_OR_TABLE = (Scope.WRITE, Scope.TABLE)

TRANSACTION_LEASE = Setting(
    "transaction.lease", "10m", TIME, _WRITE,
    "How long a write that gives no sign of life is left alone before another process may finish or undo it.",
)  # fmt: skip
RECOVERY_INTERVAL = Setting(
    "recovery.interval", "1m", DURATION, _PROCESS,
    "How often a service looks for writes whose owners gave no sign of life for their lease, and finishes or undoes "
    "them; 0 for never.",
)  # fmt: skip
EXPIRY_INTERVAL = Setting(
    "expiry.interval", "10m", DURATION, _PROCESS,
    "How often a service forgets versions, ended transactions and repairs that are older than `vacuum.retention`, some "
    "at a time, so that the index stays small; 0 for never. No file is deleted.",
)  # fmt: skip
COMMIT_UNKNOWN_TIMEOUT = Setting(
    "commit.unknown-timeout", "2m", TIME, _PROCESS,
    "How long the index is asked what became of a commit whose connection was lost, before the outcome is unknown.",
)  # fmt: skip
COMMIT_THREADS = Setting(
    "commit.threads", "16", NUMBER, _PROCESS,
    "Files that one commit renames, completes or deletes at the same time.",
)  # fmt: skip
VACUUM_RETENTION = Setting(
    "vacuum.retention", "7d", Form("a duration: `0s`, `12h`, `7d`; a bare number is seconds", duration),
    (Scope.TABLE, Scope.ENVIRONMENT), "Age from which `vacuum` removes files and versions that nothing needs any more.",
)  # fmt: skip
PARTITION_RETENTION = Setting(
    RETENTION, None, Form("a duration: `12h`, `7d`; a bare number is seconds", duration), (Scope.TABLE,),
    "Age, by their values, from which `expire_partitions` drops partitions, and repair registers none again.",
)  # fmt: skip
STAGING_DIR = Setting(
    "staging-dir", DEFAULT_STAGING,
    Form(
        "a name that begins with `_` or `.`, holds no `/`, and is not reserved (`.catalog-ext`, `_catalog_ext_…`)",
        staging_name,
    ), _WRITE,
    "Name of the hidden directory, in the table's, where files of local disks and HDFS lie until their commit.",
    alias="hive_staging_dir",
)  # fmt: skip
OVERWRITE_MODE = Setting(
    "overwrite-mode", "in-place", words("in-place", "relocate"), _WRITE,
    "Where an overwrite puts new files: beside the old ones, which are deleted, or in a new directory to which the "
    "partition moves by one change in the metastore.",
)  # fmt: skip
HIVE_COMPATIBLE = Setting(
    "hive-compatible", "true", FLAG, _WRITE,
    "Whether tables that the metastore knows are written in the form that Hive 2.3 to 4 can read.",
)  # fmt: skip
WRITE_DISTRIBUTION_MODE = Setting(
    "write.distribution-mode", "auto", words("auto", "hash", "none"), _WRITE,
    "Whether a shuffle brings the rows of a partition to one task, for fewer files (`hash`), or every task writes the "
    "partitions that it has rows of (`none`); `auto` is the cheapest, today `none`.",
)  # fmt: skip
WRITE_MAX_OPEN_WRITERS = Setting(
    "write.max-open-writers", "0", FROM_ZERO, _WRITE,
    "Files that one task keeps open for different partitions before it sorts the rest of its rows; 0 is to sort all of "
    "them, which is the cheapest as a rule. Where it is not given, `spark.sql.maxConcurrentOutputFileWriters` goes "
    "before the default.", spark="spark.sql.maxConcurrentOutputFileWriters", spark_last=True,
)  # fmt: skip
WRITE_MAX_FILE_SIZE = Setting(
    "write.max-file-size", "1g", SIZE, _WRITE,
    "Size from which a task goes on in a new file.", alias="hive_sink_max_file_size",
)  # fmt: skip
WRITE_STATISTICS_COLUMNS = Setting(
    "write.statistics-columns", "100", Form("a whole number from 0, or `all`", any_count_or_all), _WRITE,
    "How many of a table's columns, the first ones, have the least and greatest value and the count of NULLs kept of "
    "each file that is written or analyzed.",
)  # fmt: skip
DYNAMIC_PARTITION = Setting(
    "hive.exec.dynamic.partition", "true", FLAG, _HIVE, "Whether an INSERT may leave partition columns to its rows."
)
DYNAMIC_PARTITION_MODE = Setting(
    "hive.exec.dynamic.partition.mode", "nonstrict", words("nonstrict", "strict"), _HIVE,
    "`strict` wants at least one partition column with a fixed value in such an INSERT.",
)  # fmt: skip
MAX_DYNAMIC_PARTITIONS = Setting(
    "hive.exec.max.dynamic.partitions", None, FROM_ZERO, _HIVE,
    "Partitions that one write with dynamic keys may touch; no limit where it is not given.",
)  # fmt: skip
MAX_DYNAMIC_PARTITIONS_PER_TASK = Setting(
    "hive.exec.max.dynamic.partitions.pernode", None, FROM_ZERO, _HIVE,
    "Partitions that one task of such a write may touch; no limit where it is not given.",
)  # fmt: skip
TXN_APP_ID = Setting(
    "txn-app-id", None, TEXT, _OF_WRITE_ALONE,
    "Names the application whose numbered batches are each committed at most once; given with `txn-version`.",
)  # fmt: skip
TXN_VERSION = Setting(
    "txn-version", None, FROM_ZERO, _OF_WRITE_ALONE,
    "Number of the batch: if this one or a higher one of the application is committed already, nothing is written.",
)  # fmt: skip
PARTITION_COMMIT_TRIGGER = Setting(
    "sink.partition-commit.trigger", "process-time", Form("`process-time` or `partition-time`", parse_trigger),
    _WRITE_OR_TABLE,
    "When a partition of a streaming write becomes visible: with its epoch, or when the watermark reaches its time.",
)  # fmt: skip
PARTITION_COMMIT_DELAY = Setting(
    "sink.partition-commit.delay", "0s",
    Form("a duration: `0s`, `1 h`, `1 d`; a bare number is seconds", parse_delay_ms), _WRITE_OR_TABLE,
    "How far the watermark must be past a partition's time; with `process-time`, how long a partition waits.",
)  # fmt: skip
PARTITION_COMMIT_TIME_ZONE = Setting(
    "sink.partition-commit.watermark-time-zone", "UTC", Form("a zone such as `UTC` or `Asia/Shanghai`", parse_zone),
    _WRITE_OR_TABLE, "Zone in which a partition's time is local time.",
)  # fmt: skip
PARTITION_COMMIT_POLICY = Setting(
    "sink.partition-commit.policy.kind", "metastore",
    Form("one or more of `metastore`, `success-file`, `custom`, with commas between them", parse_policies),
    _WRITE_OR_TABLE,
    "What is done for a partition when a write to it is committed; the metastore follows in any case.",
)  # fmt: skip
PARTITION_COMMIT_CLASS = Setting(
    "sink.partition-commit.policy.class", None,
    Form("an importable Python callable: `package.module:name`", parse_policy_class), _WRITE_OR_TABLE,
    "The callable of the policy `custom`: it gets the values and the location of a committed partition.",
)  # fmt: skip
PARTITION_COMMIT_SUCCESS_FILE = Setting(
    "sink.partition-commit.success-file.name", "_SUCCESS",
    Form("a file name that begins with `_` or `.`", parse_success_file), _WRITE_OR_TABLE,
    "Name of the empty file that the policy `success-file` writes.",
)  # fmt: skip
PARTITION_TIME_PATTERN = Setting(
    "partition.time-extractor.timestamp-pattern", None, Form("text with `$key` in it", text_value), _WRITE_OR_TABLE,
    "How a partition's time is made of its keys: `$year-$month-$day $hour:00:00`; otherwise the first key is the time.",
)  # fmt: skip
PARTITION_OVERWRITE_MODE = Setting(
    "partitionOverwriteMode", "dynamic", words("dynamic", "static"), _OF_WRITE_ALONE,
    "Whether an overwrite with dynamic keys replaces the partitions that receive rows, or all of the table's (of the "
    "session catalog: Spark's own default, `static`).", spark="spark.sql.sources.partitionOverwriteMode",
)  # fmt: skip
MAX_RECORDS_PER_FILE = Setting(
    "maxRecordsPerFile", "0", FROM_ZERO, _OF_WRITE_ALONE,
    "Rows after which a task goes on in a new file; 0 is no limit.", spark="spark.sql.files.maxRecordsPerFile",
)  # fmt: skip
TIME_ZONE = Setting(
    "timeZone", None, Form("a zone such as `UTC` or `Asia/Shanghai`", unchecked), _OF_WRITE_ALONE,
    "Zone that TIMESTAMP keys are local in. It may be an option of the table (`OPTIONS ('timeZone' = …)`) and of a "
    "read, too; all go before the session.", spark="spark.sql.session.timeZone",
)  # fmt: skip
REPLACE_WHERE_MISMATCH = Setting(
    MISMATCH, "error", words("error", "add"), _WRITE,
    "What becomes of rows that the condition of `REPLACE WHERE` or `overwrite(condition)` is not true for: the write "
    "is refused, or they are added to their partitions.",
)  # fmt: skip
EXTERNAL_TABLE_PURGE = Setting(
    "external.table.purge", "false", TRUTH, (Scope.TABLE,),
    "Whether TRUNCATE, and DELETE without a condition, may delete the files of an external table, which are other "
    "programs'.",
)  # fmt: skip

LOCKS = Setting(
    HIVE_LOCKS, LockMode.NONE, words(*LockMode), _WRITE,
    "Whether writes and repairs take Hive's locks on what they change, for engines whose transaction manager is "
    "DbTxnManager. `strict`: an append is exclusive, as Hive's INSERT is by default; `shared`: Hive's readers and "
    "inserts go on beside it, as with `hive.txn.strict.locking.mode` = `false`.",
)  # fmt: skip
LOCKS_WAIT = Setting(
    HIVE_LOCKS_WAIT, f"{DEFAULT_WAIT_S / 60:g}m", DURATION, _WRITE,
    "How long a write or a repair waits for Hive's locks.",
)  # fmt: skip

WRITE_SETTINGS = settings_in(globals())
LOCK_SETTINGS = (LOCKS, LOCKS_WAIT)
_OF_TRANSACTION = (TRANSACTION_LEASE, STAGING_DIR, OVERWRITE_MODE, REPLACE_WHERE_MISMATCH, *LOCK_SETTINGS)


def transaction_options(
    options: Mapping[str, str], session: Mapping[str, str], properties: Mapping[str, str], conf: Mapping[str, str]
) -> dict[str, str]:
    """Return a write's options and settings that its transaction stores when it begins.

    Raises:
        InvalidConfigurationError: A value is invalid for its key.
    """
    # Spark's option names ignore case. Secrets are dropped, because the options are stored in the index.
    found = {key.lower(): text for key, text in options.items() if not is_secret(key)}
    for setting in _OF_TRANSACTION:
        text = setting.text(found, session, properties, conf)
        if text is not None:
            setting.value_of(text)
            found[setting.key] = text
    return found


def lock_settings(*sources: Mapping[str, str]) -> LockSettings:
    """Return the settings for Hive locks.

    Raises:
        InvalidConfigurationError: A value is invalid for its key.
    """
    return LockSettings(LOCKS.read(*sources), LOCKS_WAIT.read(*sources))
