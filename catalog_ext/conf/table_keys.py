"""The settings that only a table or view has, as properties. ``catalog_ext.conf.keys`` describes how they are read.

Settings whose check needs the whole table (``tables.partition_strategy``, ``views.automatic``) are unchecked here.
"""

from __future__ import annotations

from catalog_ext.conf.setting import FLAG, TRUTH, Form, Scope, Setting, boolean, flag, settings_in, unchecked
from catalog_ext.metastore.model.ignored_names import IGNORED_NAMES_PROPERTY, parse_ignored_names
from catalog_ext.metastore.model.tables import BUCKETED_BY_PROPERTY, LOCATION_WILDCARDS_PROPERTY
from catalog_ext.metastore.model.views import AUTOMATIC_PROPERTY

_TABLE = (Scope.TABLE,)
_OF_FORMAT = Form("a codec that Spark's writer of the format knows; Doris' `plain` is `none`", unchecked)


def _boolean(text: str) -> bool:
    try:
        return flag(text)
    except ValueError as error:
        raise ValueError("it is a Boolean. Give 1, 0, true or false") from error  # ClickHouse's words


PARTITION_STRATEGY = Setting(
    "partition_strategy", "auto", Form("`auto` or `hive`", str.lower), _TABLE,
    "Whether ClickHouse's rules for Hive partitioning hold for the table, beyond Hive's own.",
)  # fmt: skip
IN_DATA_FILE = Setting(
    "partition_columns_in_data_file", "false", Form(FLAG.values, _boolean), _TABLE,
    "With `partition_strategy` = `hive`: whether the files hold the partition columns too.",
)  # fmt: skip
PATH = Setting(
    "path", None, Form("a location", unchecked), _TABLE, "With `partition_strategy` = `hive`: the table's place."
)
FILENAME = Setting(
    "filename", None, Form("a name", unchecked), _TABLE,
    "With `partition_strategy` = `hive`: a directory between the table's place and the first key.",
)  # fmt: skip
PARTITION_AUTO = Setting(
    AUTOMATIC_PROPERTY, "false", TRUTH, _TABLE, "Whether a view's partitions follow those of the tables that it reads."
)
PARTITION_AUTO_REQUIRES = Setting(
    f"{AUTOMATIC_PROPERTY}.requires", None,
    Form("`hr=00..23`, `region=eu|us` or `hr:24`, with semicolons between several", unchecked), _TABLE,
    "What a partition of such a view needs of the keys that the view does not have.",
)  # fmt: skip
PARTITION_AUTO_KEYS = Setting(
    f"{AUTOMATIC_PROPERTY}.keys.<namespace.table>", None, Form("`key=column`, with commas between them", unchecked),
    _TABLE, "Which key of that table is which column of the view, where their names differ.",
)  # fmt: skip
PARTITIONED_ON = Setting(
    "partitioned-on", None, Form("names with commas between them", unchecked), _TABLE,
    "A view's partition columns, as SHOW TBLPROPERTIES prints them; PARTITIONED ON says them in SQL.",
)  # fmt: skip
FILE_FORMAT = Setting(
    "file_format", None, Form("a format", unchecked), _TABLE, "Doris' name, in CREATE TABLE, of what USING says."
)
PARQUET_COMPRESSION = Setting(
    "parquet.compression", None, _OF_FORMAT, _TABLE,
    "Hive's name of the option `compression` of a Parquet table's writes.",
)  # fmt: skip
ORC_COMPRESS = Setting(
    "orc.compress", None, _OF_FORMAT, _TABLE,
    "Hive's name of the option `compression` of an ORC table's writes.",
)  # fmt: skip
ORC_BY_POSITION = Setting(
    "orc.force.positional.evolution", "true",
    Form("`true`; `false` if every Hive that reads it has that setting off", boolean), _TABLE,
    "Whether Hive reads this ORC table by position, as it does from release 3.1 on by its own setting of this name; "
    "ALTER TABLE then leaves columns' names and places alone.",
)  # fmt: skip
COMPRESSION = Setting(
    "compression", None, _OF_FORMAT, (Scope.WRITE, Scope.TABLE),
    "Codec of the files that are written. An option of the write goes before the table's. CSV files have `codec` for "
    "it as well, as in Spark.", alias="codec",
)  # fmt: skip
BUCKETED_BY = Setting(
    BUCKETED_BY_PROPERTY, None, Form("text such as `id into 4 buckets`", unchecked), _TABLE,
    "How an imported table is bucketed in the metastore; `import_table` says it, and what it holds is read and not "
    "written, because its files would be in no bucket.",
)  # fmt: skip
LOCATION_WILDCARDS = Setting(
    LOCATION_WILDCARDS_PROPERTY, None, Form("`true`", unchecked), _TABLE,
    "Whether the table's location is a pattern, which its registration says. Such a table is read and not written.",
)  # fmt: skip
IGNORED_NAMES = Setting(
    IGNORED_NAMES_PROPERTY, None, Form("globs with commas between them, such as `README*,*.tmp`", parse_ignored_names),
    _TABLE,
    "Names of files and directories that are no part of the table, besides hidden ones: repair, registration, "
    "ADD PARTITION, events and drift look at none of them.",
)  # fmt: skip
TRANSACTIONAL = Setting(
    "transactional", "false", Form("`false`", unchecked), _TABLE, "Hive's ACID tables, which are refused."
)
HEADER_LINES = Setting(
    "skip.header.line.count", "0", Form("a whole number", unchecked), _TABLE,
    "Lines at the start of each file that are no rows, in CREATE TABLE of Hive's text.",
)  # fmt: skip

TABLE_SETTINGS = settings_in(globals())
