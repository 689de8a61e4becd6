"""The settings that only a table or view has, as properties. ``catalog_ext.conf.keys`` describes how they are read.

This module does not check settings whose check needs the whole table: ``tables.partition_strategy`` and
``views.automatic`` check them.
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
    "With `hive` the table follows ClickHouse's stricter rules for Hive partitioning.",
)  # fmt: skip
IN_DATA_FILE = Setting(
    "partition_columns_in_data_file", "false", Form(FLAG.values, _boolean), _TABLE,
    "With `partition_strategy` = `hive`: whether the files contain the partition columns too.",
)  # fmt: skip
PATH = Setting(
    "path", None, Form("a location", unchecked), _TABLE, "With `partition_strategy` = `hive`: location of the table."
)
FILENAME = Setting(
    "filename", None, Form("a name", unchecked), _TABLE,
    "With `partition_strategy` = `hive`: a directory between the table's location and the first key=value directory.",
)  # fmt: skip
PARTITION_AUTO = Setting(
    AUTOMATIC_PROPERTY,
    "false",
    TRUTH,
    _TABLE,
    "Whether a view's partitions are derived from the partitions of the tables that it reads.",
)
PARTITION_AUTO_REQUIRES = Setting(
    f"{AUTOMATIC_PROPERTY}.requires", None,
    Form("`hr=00..23`, `region=eu|us` or `hr:24`, several separated by semicolons", unchecked), _TABLE,
    "For an automatic view: the values of partition columns that are missing in the view which must all exist "
    "before a view partition exists.",
)  # fmt: skip
PARTITION_AUTO_KEYS = Setting(
    f"{AUTOMATIC_PROPERTY}.keys.<namespace.table>", None, Form("comma-separated `key=column` pairs", unchecked),
    _TABLE,
    "For an automatic view: which partition column of that table is which column of the view, if their names "
    "differ.",
)  # fmt: skip
PARTITIONED_ON = Setting(
    "partitioned-on", None, Form("comma-separated names", unchecked), _TABLE,
    "Partition columns of a view, as SHOW TBLPROPERTIES prints them. In SQL the clause PARTITIONED ON sets them.",
)  # fmt: skip
FILE_FORMAT = Setting(
    "file_format",
    None,
    Form("a format", unchecked),
    _TABLE,
    "Doris' name, in CREATE TABLE, for the format of the clause USING.",
)
PARQUET_COMPRESSION = Setting(
    "parquet.compression", None, _OF_FORMAT, _TABLE,
    "Hive's name for the option `compression` of writes to a Parquet table.",
)  # fmt: skip
ORC_COMPRESS = Setting(
    "orc.compress", None, _OF_FORMAT, _TABLE,
    "Hive's name for the option `compression` of writes to an ORC table.",
)  # fmt: skip
ORC_BY_POSITION = Setting(
    "orc.force.positional.evolution", "true",
    Form("`true`; `false` if every Hive that reads it has that setting off", boolean), _TABLE,
    "Whether Hive matches this ORC table's columns by position, as Hive 3.1 and later do by their setting of this "
    "name. With `true` ALTER TABLE does not rename or reorder columns.",
)  # fmt: skip
COMPRESSION = Setting(
    "compression", None, _OF_FORMAT, (Scope.WRITE, Scope.TABLE),
    "Compression codec of written files. An option of the write wins over the table's property. For CSV files "
    "`codec` is another name for it, as in Spark.", alias="codec",
)  # fmt: skip
BUCKETED_BY = Setting(
    BUCKETED_BY_PROPERTY, None, Form("text such as `id into 4 buckets`", unchecked), _TABLE,
    "How an imported table is bucketed in the metastore; `import_table` sets it. A bucketed table can be read but not "
    "written, because new files would belong to no bucket.",
)  # fmt: skip
LOCATION_WILDCARDS = Setting(
    LOCATION_WILDCARDS_PROPERTY, None, Form("`true`", unchecked), _TABLE,
    "Whether the table's location is a pattern; the registration sets it. A table with a pattern is read-only.",
)  # fmt: skip
IGNORED_NAMES = Setting(
    IGNORED_NAMES_PROPERTY, None, Form("comma-separated globs, such as `README*,*.tmp`", parse_ignored_names),
    _TABLE,
    "Names of files and directories that do not belong to the table, besides hidden ones. Repair, registration, ADD "
    "PARTITION, events and drift ignore them.",
)  # fmt: skip
TRANSACTIONAL = Setting(
    "transactional", "false", Form("`false`", unchecked), _TABLE, "Marks Hive's ACID tables, which are refused."
)
HEADER_LINES = Setting(
    "skip.header.line.count", "0", Form("a whole number", unchecked), _TABLE,
    "Number of header lines at the start of each file that are skipped, in CREATE TABLE for Hive's text formats.",
)  # fmt: skip

TABLE_SETTINGS = settings_in(globals())
