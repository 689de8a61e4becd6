"""The settings that only a table or a view has, as properties; ``catalog_ext.conf.keys`` says how all are read.

What is checked with the whole table at hand (``tables.partition_strategy``, ``views.automatic``) is unchecked here.
"""

from __future__ import annotations

from typing import Any

from catalog_ext.conf.setting import FLAG, Scope, Setting, boolean, flag, truth, unchecked
from catalog_ext.metastore.model.ignored_names import IGNORED_NAMES_PROPERTY, parse_ignored_names
from catalog_ext.metastore.model.tables import BUCKETED_BY_PROPERTY, LOCATION_WILDCARDS_PROPERTY
from catalog_ext.metastore.model.views import AUTOMATIC_PROPERTY

_TABLE = (Scope.TABLE,)
_OF_FORMAT = "a codec that Spark's writer of the format knows; Doris' `plain` is `none`"


def _boolean(text: str) -> bool:
    try:
        return flag(text)
    except ValueError as error:
        raise ValueError("it is a Boolean. Give 1, 0, true or false") from error  # ClickHouse's words


PARTITION_STRATEGY: Setting[str] = Setting(
    "partition_strategy", "auto",
    "Whether ClickHouse's rules for Hive partitioning hold for the table, beyond Hive's own.",
    "`auto` or `hive`", str.lower, _TABLE,
)  # fmt: skip
IN_DATA_FILE: Setting[bool] = Setting(
    "partition_columns_in_data_file", "false",
    "With `partition_strategy` = `hive`: whether the files hold the partition columns too.",
    FLAG, _boolean, _TABLE,
)  # fmt: skip
PATH: Setting[str] = Setting(
    "path", None, "With `partition_strategy` = `hive`: the table's place.", "a location", unchecked, _TABLE
)
FILENAME: Setting[str] = Setting(
    "filename", None, "With `partition_strategy` = `hive`: a directory between the table's place and the first key.",
    "a name", unchecked, _TABLE,
)  # fmt: skip
PARTITION_AUTO: Setting[bool] = Setting(
    AUTOMATIC_PROPERTY, "false", "Whether a view's partitions follow those of the tables that it reads.",
    "`true`; any other text is false", truth, _TABLE,
)  # fmt: skip
PARTITION_AUTO_REQUIRES: Setting[str] = Setting(
    f"{AUTOMATIC_PROPERTY}.requires", None,
    "What a partition of such a view needs of the keys that the view does not have.",
    "`hr=00..23`, `region=eu|us` or `hr:24`, with semicolons between several", unchecked, _TABLE,
)  # fmt: skip
PARTITION_AUTO_KEYS: Setting[str] = Setting(
    f"{AUTOMATIC_PROPERTY}.keys.<namespace.table>", None,
    "Which key of that table is which column of the view, where their names differ.",
    "`key=column`, with commas between them", unchecked, _TABLE,
)  # fmt: skip
PARTITIONED_ON: Setting[str] = Setting(
    "partitioned-on", None,
    "A view's partition columns, as SHOW TBLPROPERTIES prints them; PARTITIONED ON says them in SQL.",
    "names with commas between them", unchecked, _TABLE,
)  # fmt: skip
FILE_FORMAT: Setting[str] = Setting(
    "file_format", None, "Doris' name, in CREATE TABLE, of what USING says.", "a format", unchecked, _TABLE
)
PARQUET_COMPRESSION: Setting[str] = Setting(
    "parquet.compression", None, "Hive's name of the option `compression` of a Parquet table's writes.",
    _OF_FORMAT, unchecked, _TABLE,
)  # fmt: skip
ORC_COMPRESS: Setting[str] = Setting(
    "orc.compress", None, "Hive's name of the option `compression` of an ORC table's writes.", _OF_FORMAT, unchecked,
    _TABLE,
)  # fmt: skip
ORC_BY_POSITION: Setting[bool] = Setting(
    "orc.force.positional.evolution", "true",
    "Whether Hive reads this ORC table by position, as it does from release 3.1 on by its own setting of this name; "
    "ALTER TABLE then leaves columns' names and places alone.",
    "`true`; `false` if every Hive that reads it has that setting off", boolean, _TABLE,
)  # fmt: skip
COMPRESSION: Setting[str] = Setting(
    "compression", None,
    "Codec of the files that are written. An option of the write goes before the table's. CSV files have `codec` for "
    "it as well, as in Spark.",
    _OF_FORMAT, unchecked, (Scope.WRITE, Scope.TABLE), alias="codec",
)  # fmt: skip
BUCKETED_BY: Setting[str] = Setting(
    BUCKETED_BY_PROPERTY, None,
    "How an imported table is bucketed in the metastore; `import_table` says it, and what it holds is read and not "
    "written, because its files would be in no bucket.",
    "text such as `id into 4 buckets`", unchecked, _TABLE,
)  # fmt: skip
LOCATION_WILDCARDS: Setting[str] = Setting(
    LOCATION_WILDCARDS_PROPERTY, None,
    "Whether the table's location is a pattern, which its registration says. Such a table is read and not written.",
    "`true`", unchecked, _TABLE,
)  # fmt: skip
IGNORED_NAMES: Setting[tuple[str, ...]] = Setting(
    IGNORED_NAMES_PROPERTY, None,
    "Names of files and directories that are no part of the table, besides hidden ones: repair, registration, "
    "ADD PARTITION, events and drift look at none of them.",
    "globs with commas between them, such as `README*,*.tmp`", parse_ignored_names, _TABLE,
)  # fmt: skip
TRANSACTIONAL: Setting[str] = Setting(
    "transactional", "false", "Hive's ACID tables, which are refused.", "`false`", unchecked, _TABLE
)
HEADER_LINES: Setting[str] = Setting(
    "skip.header.line.count", "0", "Lines at the start of each file that are no rows, in CREATE TABLE of Hive's text.",
    "a whole number", unchecked, _TABLE,
)  # fmt: skip

TABLE_SETTINGS: tuple[Setting[Any], ...] = (
    PARTITION_STRATEGY, IN_DATA_FILE, PATH, FILENAME, PARTITION_AUTO, PARTITION_AUTO_REQUIRES, PARTITION_AUTO_KEYS,
    PARTITIONED_ON, FILE_FORMAT, PARQUET_COMPRESSION, ORC_COMPRESS, ORC_BY_POSITION, COMPRESSION, BUCKETED_BY,
    LOCATION_WILDCARDS, IGNORED_NAMES, TRANSACTIONAL, HEADER_LINES,
)  # fmt: skip
"""All of them, in the order of the reference page."""
