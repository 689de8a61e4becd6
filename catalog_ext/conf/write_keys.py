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
    "How long a write without a keepalive is left alone; afterwards another process may finish or undo it.",
)  # fmt: skip
RECOVERY_INTERVAL = Setting(
    "recovery.interval", "1m", DURATION, _PROCESS,
    "Interval at which a service finishes or undoes writes whose lease is over; 0 means never.",
)  # fmt: skip
EXPIRY_INTERVAL = Setting(
    "expiry.interval", "10m", DURATION, _PROCESS,
    "Interval at which a service removes a batch of old rows from the index: versions, ended transactions and "
    "repairs older than `vacuum.retention`; 0 means never. No file is deleted.",
)  # fmt: skip
COMMIT_UNKNOWN_TIMEOUT = Setting(
    "commit.unknown-timeout", "2m", TIME, _PROCESS,
    "How long the index is asked for the outcome of a commit whose connection was lost, before the outcome is "
    "reported as unknown.",
)  # fmt: skip
COMMIT_THREADS = Setting(
    "commit.threads", "16", NUMBER, _PROCESS,
    "Number of files that one commit renames, completes or deletes in parallel.",
)  # fmt: skip
VACUUM_RETENTION = Setting(
    "vacuum.retention", "7d", Form("a duration: `0s`, `12h`, `7d`; a bare number is seconds", duration),
    (Scope.TABLE, Scope.ENVIRONMENT), "Minimum age of unneeded files and versions that `vacuum` removes.",
)  # fmt: skip
PARTITION_RETENTION = Setting(
    RETENTION, None,
    Form("a duration with its unit, as `90d` for 90 days; `90` is accepted, and is 90 seconds, as in Hive", duration),
    (Scope.TABLE,),
    "Maximum age of partitions, computed from their values: `expire_partitions` drops older ones, and repair does "
    "not register them again. An expiry that would drop all partitions, or more than `repair.mass-drop-percent`, is "
    "refused without `allow_mass_drop` (`--force`).",
)  # fmt: skip
STAGING_DIR = Setting(
    "staging-dir", DEFAULT_STAGING,
    Form(
        "a name that begins with `_` or `.`, holds no `/`, and is not reserved (`.catalog-ext`, `_catalog_ext_…`)",
        staging_name,
    ), _WRITE,
    "Name of the hidden directory, below the table's, that holds the files of local disks and HDFS until their commit.",
    alias="hive_staging_dir",
)  # fmt: skip
OVERWRITE_MODE = Setting(
    "overwrite-mode", "in-place", words("in-place", "relocate"), _WRITE,
    "Where an overwrite puts new files. `in-place`: an overwrite puts new files beside the old ones and then deletes "
    "these. `relocate`: it puts them into a new directory, and one metastore call changes the partition's location.",
)  # fmt: skip
HIVE_COMPATIBLE = Setting(
    "hive-compatible", "true", FLAG, _WRITE,
    "Whether tables that the metastore has are written so that Hive 2.3 to 4 can read them.",
)  # fmt: skip
WRITE_DISTRIBUTION_MODE = Setting(
    "write.distribution-mode", "auto", words("auto", "hash", "none"), _WRITE,
    "How a write distributes its rows to tasks. `hash`: a shuffle brings the rows of a partition to one task, which "
    "makes fewer files. `none`: every task writes files for all partitions of its rows. `auto`: the cheapest mode, "
    "currently `none`.",
)  # fmt: skip
WRITE_MAX_OPEN_WRITERS = Setting(
    "write.max-open-writers", "0", FROM_ZERO, _WRITE,
    "How many files, for different partitions, a task keeps open before it sorts its remaining rows; 0 sorts all "
    "rows, which is usually the cheapest. Without the setting `spark.sql.maxConcurrentOutputFileWriters` is used.",
    spark="spark.sql.maxConcurrentOutputFileWriters", spark_last=True,
)  # fmt: skip
WRITE_MAX_FILE_SIZE = Setting(
    "write.max-file-size", "1g", SIZE, _WRITE,
    "Size at which a task closes a file and opens the next one.", alias="hive_sink_max_file_size",
)  # fmt: skip
WRITE_STATISTICS_COLUMNS = Setting(
    "write.statistics-columns", "100", Form("a whole number from 0, or `all`", any_count_or_all), _WRITE,
    "For how many of a table's first columns the minimum, the maximum and the count of NULLs are stored, per "
    "written or analyzed file.",
)  # fmt: skip
DYNAMIC_PARTITION = Setting(
    "hive.exec.dynamic.partition",
    "true",
    FLAG,
    _HIVE,
    "Whether an INSERT may take values of partition columns from its rows (dynamic partitions).",
)
DYNAMIC_PARTITION_MODE = Setting(
    "hive.exec.dynamic.partition.mode", "nonstrict", words("nonstrict", "strict"), _HIVE,
    "With `strict` an INSERT with dynamic partitions must give a fixed value for at least one partition column.",
)  # fmt: skip
MAX_DYNAMIC_PARTITIONS = Setting(
    "hive.exec.max.dynamic.partitions", None, FROM_ZERO, _HIVE,
    "Maximum number of partitions that one write with dynamic partitions may touch. Default: no limit.",
)  # fmt: skip
MAX_DYNAMIC_PARTITIONS_PER_TASK = Setting(
    "hive.exec.max.dynamic.partitions.pernode", None, FROM_ZERO, _HIVE,
    "Maximum number of partitions that one task of a write with dynamic partitions may touch. Default: no limit.",
)  # fmt: skip
TXN_APP_ID = Setting(
    "txn-app-id", None, TEXT, _OF_WRITE_ALONE,
    "Name of the application that numbers its batches: each number is committed at most once. Requires `txn-version`.",
)  # fmt: skip
TXN_VERSION = Setting(
    "txn-version", None, FROM_ZERO, _OF_WRITE_ALONE,
    "Number of the batch. If the application has already committed this number or a higher one, nothing is written.",
)  # fmt: skip
PARTITION_COMMIT_TRIGGER = Setting(
    "sink.partition-commit.trigger", "process-time", Form("`process-time` or `partition-time`", parse_trigger),
    _WRITE_OR_TABLE,
    "When a streaming write makes a partition visible: `process-time` with its epoch, `partition-time` when the "
    "watermark reaches the partition's time.",
)  # fmt: skip
PARTITION_COMMIT_DELAY = Setting(
    "sink.partition-commit.delay", "0s",
    Form("a duration: `0s`, `1 h`, `1 d`; a bare number is seconds", parse_delay_ms), _WRITE_OR_TABLE,
    "How far the watermark must be past a partition's time before its commit; with `process-time`, how long a "
    "partition waits.",
)  # fmt: skip
PARTITION_COMMIT_TIME_ZONE = Setting(
    "sink.partition-commit.watermark-time-zone", "UTC", Form("a zone such as `UTC` or `Asia/Shanghai`", parse_zone),
    _WRITE_OR_TABLE, "Time zone of the times in partition values.",
)  # fmt: skip
PARTITION_COMMIT_POLICY = Setting(
    "sink.partition-commit.policy.kind", "metastore",
    Form("one or more of `metastore`, `success-file`, `custom`, comma-separated", parse_policies),
    _WRITE_OR_TABLE,
    "Actions for each partition that a write commits. The metastore is updated in any case.",
)  # fmt: skip
PARTITION_COMMIT_CLASS = Setting(
    "sink.partition-commit.policy.class", None,
    Form("an importable Python callable: `package.module:name`", parse_policy_class), _WRITE_OR_TABLE,
    "Callable of the policy `custom`. A write calls it with the values and the location of each committed partition.",
)  # fmt: skip
PARTITION_COMMIT_SUCCESS_FILE = Setting(
    "sink.partition-commit.success-file.name", "_SUCCESS",
    Form("a file name that begins with `_` or `.`", parse_success_file), _WRITE_OR_TABLE,
    "Name of the empty file that the policy `success-file` writes.",
)  # fmt: skip
PARTITION_TIME_PATTERN = Setting(
    "partition.time-extractor.timestamp-pattern", None, Form("text with `$key` in it", text_value), _WRITE_OR_TABLE,
    "How a partition's time is composed of its values, such as `$year-$month-$day $hour:00:00`. Default: the value "
    "of the first partition column.",
)  # fmt: skip
PARTITION_OVERWRITE_MODE = Setting(
    "partitionOverwriteMode", "dynamic", words("dynamic", "static"), _OF_WRITE_ALONE,
    "Which partitions an overwrite with dynamic partitions replaces. `dynamic`: only those that receive rows. "
    "`static`: all partitions of the table. In the session catalog the default is Spark's own, `static`.",
    spark="spark.sql.sources.partitionOverwriteMode",
)  # fmt: skip
MAX_RECORDS_PER_FILE = Setting(
    "maxRecordsPerFile", "0", FROM_ZERO, _OF_WRITE_ALONE,
    "Number of rows after which a task opens a new file; 0 means no limit.", spark="spark.sql.files.maxRecordsPerFile",
)  # fmt: skip
TIME_ZONE = Setting(
    "timeZone", None, Form("a zone such as `UTC` or `Asia/Shanghai`", unchecked), _OF_WRITE_ALONE,
    "Time zone of TIMESTAMP partition values. The zone can also be an option of the table (`OPTIONS ('timeZone' = "
    "…)`) and of a read; each wins over the session's time zone.", spark="spark.sql.session.timeZone",
)  # fmt: skip
REPLACE_WHERE_MISMATCH = Setting(
    MISMATCH, "error", words("error", "add"), _WRITE,
    "What happens with rows that do not match the condition of `REPLACE WHERE` or `overwrite(condition)`: `error` "
    "refuses the write, `add` appends them to their partitions.",
)  # fmt: skip
EXTERNAL_TABLE_PURGE = Setting(
    "external.table.purge", "false", TRUTH, (Scope.TABLE,),
    "Whether TRUNCATE, and DELETE without a condition, may delete the files of an external table, which belong to "
    "other programs.",
)  # fmt: skip

LOCKS = Setting(
    HIVE_LOCKS, LockMode.NONE, words(*LockMode), _WRITE,
    "Whether writes and repairs take Hive's locks, for Hive engines that use DbTxnManager. `strict`: an append "
    "takes an exclusive lock, as Hive's INSERT does by default. `shared`: Hive's readers and inserts run beside an "
    "append, as with `hive.txn.strict.locking.mode` = `false`.",
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
