"""What jobs written for Spark's Hive session send, and what becomes of it on a table of ours.

``tests.integration.spark.test_session_catalog_hive`` runs it on a table of ours, on one of Hive's, and on that in a
session without us. ``t`` is the table (``n`` its name), ``out`` a directory, ``file`` and ``file2`` directories with a
file of its format, ``sink`` another table, which is Hive's everywhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

SAME, WORDS = "=", "~"


@dataclass(frozen=True)
class Statement:
    """A statement.

    Attributes:
        text: With names in braces.
        meant: ``=``: rows or error are those of Hive's table; ``~``: it works on both, and says it in words of its own;
            otherwise the condition of the error that a table of ours gets.
    """

    text: str
    meant: str


_LINES = """
= DESCRIBE {t}
~ DESCRIBE EXTENDED {t}
~ DESCRIBE FORMATTED {t}
= DESCRIBE {t} id
= DESCRIBE {t} PARTITION (ds = 'a')
~ DESCRIBE FORMATTED {t} PARTITION (ds = 'a')
CATALOG_EXT_NOT_SUPPORTED: DESCRIBE EXTENDED {t} AS JSON
= DESCRIBE QUERY SELECT * FROM {t}
~ SHOW CREATE TABLE {t}
~ SHOW CREATE TABLE {t} AS SERDE
= SHOW COLUMNS IN {t}
~ SHOW TBLPROPERTIES {t}
= SHOW TBLPROPERTIES {t} ('k')
= SHOW PARTITIONS {t}
= SHOW PARTITIONS {t} PARTITION (ds = 'a')
~ SHOW TABLE EXTENDED LIKE '{n}'
~ SHOW TABLE EXTENDED LIKE '{n}' PARTITION (ds = 'a')
= SHOW TABLES LIKE '{n}'
= SHOW VIEWS
= SELECT * FROM {t} ORDER BY id
= SELECT /*+ BROADCAST(x) */ count(*) FROM {t} x JOIN {t} y ON x.id = y.id
= SELECT id, w FROM {t} LATERAL VIEW explode(split(name, '')) e AS w ORDER BY id, w
= SELECT * FROM {t} TABLESAMPLE (100 PERCENT) ORDER BY id
= SELECT TRANSFORM (id) USING 'cat' AS (x STRING) FROM {t} SORT BY x
= FROM {t} SELECT count(*)
= FROM {t} INSERT INTO sink SELECT id, name INSERT INTO sink SELECT id + 100, name WHERE id = 1
= INSERT INTO TABLE {t} PARTITION (ds = 'a') SELECT 10, 'ten'
= INSERT INTO {t} PARTITION (ds) SELECT 11, 'eleven', 'b'
= INSERT OVERWRITE TABLE {t} PARTITION (ds = 'b') SELECT 12, 'twelve'
= INSERT OVERWRITE TABLE {t} PARTITION (ds = 'b') IF NOT EXISTS SELECT 13, 'not'
= INSERT OVERWRITE TABLE {t} PARTITION (ds = 'n') IF NOT EXISTS SELECT 15, 'new'
= INSERT INTO {t} (id, ds) VALUES (14, 'c')
= FROM sink INSERT OVERWRITE TABLE {t} PARTITION (ds = 'd') SELECT * INSERT INTO {t} PARTITION (ds = 'e') SELECT *
= INSERT OVERWRITE DIRECTORY '{out}/csv' USING csv SELECT * FROM {t}
= INSERT OVERWRITE LOCAL DIRECTORY '{out}/text' ROW FORMAT DELIMITED FIELDS TERMINATED BY ',' SELECT * FROM {t}
= SELECT * FROM {t} ORDER BY id, ds
= LOAD DATA LOCAL INPATH '{file}' INTO TABLE {t} PARTITION (ds = 'l')
= LOAD DATA LOCAL INPATH '{file}/part-*' INTO TABLE {t} PARTITION (ds = 'l')
= LOAD DATA INPATH '{file}' INTO TABLE {t} PARTITION (ds = 'm')
= SELECT id, name, ds FROM {t} WHERE ds IN ('l', 'm') ORDER BY ds
= LOAD DATA INPATH '{file2}/part-*' OVERWRITE INTO TABLE {t} PARTITION (ds = 'm')
= SELECT id, name, ds FROM {t} WHERE ds IN ('l', 'm') ORDER BY ds
CATALOG_EXT_INVALID_PARTITION_SPEC: LOAD DATA INPATH '{file}' INTO TABLE {t}
CATALOG_EXT_INVALID_PARTITION_SPEC: LOAD DATA INPATH '{file}' INTO TABLE {t} PARTITION (nothing = 'm')
CATALOG_EXT_LOCATION_NOT_FOUND: LOAD DATA INPATH '/nowhere/at/all' INTO TABLE {t} PARTITION (ds = 'm')
CATALOG_EXT_INVALID_INPUT: LOAD DATA LOCAL INPATH '/nowhere/at/all' INTO TABLE {t} PARTITION (ds = 'm')
= LOAD DATA INPATH '{file}' INTO TABLE nothing
= ALTER TABLE {t} ADD PARTITION (ds = 'p')
= ALTER TABLE {t} ADD IF NOT EXISTS PARTITION (ds = 'p') PARTITION (ds = 'q') LOCATION '{out}'
= ALTER TABLE {t} PARTITION (ds = 'p') RENAME TO PARTITION (ds = 'r')
CATALOG_EXT_LOCATION_NOT_FOUND: ALTER TABLE {t} PARTITION (ds = 'r') SET LOCATION '/nowhere/at/all'
CATALOG_EXT_NOT_SUPPORTED: ALTER TABLE {t} PARTITION (ds = 'r') SET SERDEPROPERTIES ('field.delim' = ';')
= ALTER TABLE {t} PARTITION (ds = 'r') SET FILEFORMAT orc
= ALTER TABLE {t} DROP IF EXISTS PARTITION (ds = 'q')
CATALOG_EXT_PARTITION_NOT_FOUND: ALTER TABLE {t} DROP PARTITION (ds = 'q')
~ ALTER TABLE {t} RECOVER PARTITIONS
~ MSCK REPAIR TABLE {t}
~ MSCK REPAIR TABLE {t} DROP PARTITIONS
~ MSCK REPAIR TABLE {t} SYNC PARTITIONS
CATALOG_EXT_NOT_SUPPORTED: ALTER TABLE {t} EXCHANGE PARTITION (ds = 'r') WITH TABLE sink
= ALTER TABLE {t} ARCHIVE PARTITION (ds = 'r')
= ALTER TABLE {t} TOUCH
= ALTER TABLE {t} COMPACT 'major'
= ALTER TABLE {t} CONCATENATE
= ALTER TABLE {t} CLUSTERED BY (id) INTO 2 BUCKETS
= ALTER TABLE {t} SKEWED BY (id) ON (1)
= ALTER TABLE {t} SET FILEFORMAT parquet
= ALTER TABLE {t} SET SERDE 'org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe'
= ALTER TABLE {t} SET SERDEPROPERTIES ('serialization.format' = '1')
= ALTER TABLE {t} SET TBLPROPERTIES ('k' = 'v')
= SHOW TBLPROPERTIES {t} ('k')
= ALTER TABLE {t} UNSET TBLPROPERTIES ('k')
= ALTER TABLE {t} UNSET TBLPROPERTIES IF EXISTS ('k')
= COMMENT ON TABLE {t} IS 'a comment'
= ALTER TABLE {t} ADD COLUMNS (more STRING)
= ALTER TABLE {t} CHANGE COLUMN name name STRING COMMENT 'a name'
= ALTER TABLE {t} ALTER COLUMN id COMMENT 'number'
= DESCRIBE {t}
= ALTER TABLE {t} PARTITION (ds = 'a') ADD COLUMNS (x INT)
= ALTER TABLE {t} PARTITION (ds = 'a') CHANGE COLUMN name name STRING
= ANALYZE TABLE {t} COMPUTE STATISTICS
= ANALYZE TABLE {t} COMPUTE STATISTICS NOSCAN
= ANALYZE TABLE {t} PARTITION (ds = 'a') COMPUTE STATISTICS
= ANALYZE TABLE {t} PARTITION (ds) COMPUTE STATISTICS
= ANALYZE TABLE {t} COMPUTE STATISTICS FOR COLUMNS id, name
~ DESCRIBE EXTENDED {t} id
= CACHE TABLE {t}
= SELECT count(*) FROM {t}
= REFRESH TABLE {t}
= REFRESH '{out}'
= UNCACHE TABLE {t}
= CACHE LAZY TABLE cached AS SELECT * FROM {t}
= UNCACHE TABLE cached
= DROP VIEW cached
~ EXPLAIN SELECT * FROM {t}
= CREATE TABLE like_it LIKE {t}
= INSERT INTO like_it SELECT * FROM {t} WHERE ds = 'a'
= SELECT count(*) FROM like_it
= CREATE TABLE like_orc LIKE {t} STORED AS ORC
= CREATE EXTERNAL TABLE like_external LIKE {t} LOCATION '{out}/like'
= CREATE TABLE like_csv LIKE {t} USING csv
= CREATE TABLE ctas AS SELECT * FROM {t}
= CREATE TABLE ctas_parquet STORED AS PARQUET AS SELECT * FROM {t}
= CREATE TABLE ctas_keys USING orc PARTITIONED BY (ds) AS SELECT * FROM {t}
= SELECT count(*) FROM ctas_keys
= CREATE TABLE IF NOT EXISTS {t} (id INT) STORED AS PARQUET
TABLE_OR_VIEW_ALREADY_EXISTS: CREATE TABLE {t} (id INT) STORED AS PARQUET
= CREATE VIEW v AS SELECT id, ds FROM {t}
= CREATE OR REPLACE VIEW v (n COMMENT 'x') COMMENT 'c' TBLPROPERTIES ('a' = 'b') AS SELECT id FROM {t}
= SELECT count(*) FROM v
= ALTER VIEW v AS SELECT id, name FROM {t} WHERE ds = 'a'
= ALTER VIEW v SET TBLPROPERTIES ('x' = 'y')
= ALTER VIEW v UNSET TBLPROPERTIES ('x')
= SELECT * FROM v ORDER BY 1
= SHOW VIEWS LIKE 'v*'
= DESCRIBE v
= SHOW CREATE TABLE v
= ALTER VIEW v RENAME TO w
TABLE_OR_VIEW_ALREADY_EXISTS: CREATE VIEW {t} AS SELECT 1
TABLE_OR_VIEW_ALREADY_EXISTS: CREATE OR REPLACE VIEW {t} AS SELECT 1
~ ALTER VIEW {t} AS SELECT 1
~ DROP VIEW {t}
= DROP VIEW w
= CREATE TEMPORARY VIEW tv AS SELECT * FROM {t}
= SELECT count(*) FROM tv
= DROP VIEW tv
= CREATE GLOBAL TEMPORARY VIEW gv AS SELECT * FROM {t}
= SELECT count(*) FROM global_temp.gv
= DROP VIEW global_temp.gv
= CREATE TEMPORARY FUNCTION counted(x INT) RETURNS BIGINT RETURN SELECT count(*) FROM {t}
= SELECT counted(1)
= DROP TEMPORARY FUNCTION counted
= TRUNCATE TABLE {t} PARTITION (ds = 'e')
= SELECT ds, count(*) FROM {t} GROUP BY ds ORDER BY ds
= CREATE TABLE avro (id INT, name STRING) PARTITIONED BY (ds STRING) STORED AS AVRO
= INSERT INTO avro PARTITION (ds = 'a') SELECT id, name FROM {t} WHERE ds = 'a'
= SELECT count(*) FROM avro a JOIN {t} t ON a.id = t.id AND t.ds = 'a'
= DESCRIBE avro
= ALTER TABLE avro SET SERDEPROPERTIES ('avro.schema.literal' = '{{"type": "record", "name": "r", "fields": []}}')
= CREATE TABLE avro_source (id INT) USING avro
CATALOG_EXT_INVALID_ALTERATION: ALTER TABLE {t} SET SERDE 'org.apache.hadoop.hive.serde2.OpenCSVSerde'
CATALOG_EXT_INVALID_ALTERATION: ALTER TABLE {t} SET LOCATION '{out}/moved'
= LOCK TABLE {t} SHARED
= SHOW LOCKS {t}
= EXPORT TABLE {t} TO '{out}/export'
= GRANT SELECT ON {t} TO USER ada
CATALOG_EXT_NOT_SUPPORTED: UPDATE {t} SET id = 1
CATALOG_EXT_NOT_SUPPORTED: MERGE INTO {t} USING sink ON {t}.id = sink.id WHEN MATCHED THEN DELETE
= ALTER TABLE {t} RENAME TO renamed
= DROP TABLE renamed
= DROP TABLE IF EXISTS renamed PURGE
""".strip().splitlines()

STATEMENTS = tuple(
    Statement(line[found.end() :], found[1] or found[2])
    for line in _LINES
    if (found := re.match(r"(?:([=~])|([\w.]+):) ", line))
)
assert len(STATEMENTS) == len(_LINES), "each line has what it is to come to, and a statement"

ON_VIEWS = tuple(
    one
    for one in STATEMENTS
    if one.text.startswith(("LOAD", "ALTER TABLE {t}", "INSERT", "TRUNCATE", "MSCK", "SHOW", "DESCRIBE {t}", "ANALYZE"))
)
"""What is said of a temporary view that has the table's name."""
