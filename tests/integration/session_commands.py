"""Spark's own catalog commands, run in a session with our session catalog and in one without, to be compared."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMMON = """
CREATE DATABASE untouched COMMENT 'of Spark' WITH DBPROPERTIES ('a' = 'b')
CREATE DATABASE untouched
CREATE DATABASE IF NOT EXISTS untouched
ALTER DATABASE untouched SET DBPROPERTIES ('c' = 'd')
DESCRIBE DATABASE EXTENDED untouched
DESCRIBE DATABASE nowhere
SHOW DATABASES LIKE 'unt*'
USE untouched
SELECT current_catalog(), current_database()
CREATE TABLE t (id INT COMMENT 'no', name STRING DEFAULT 'x', ds STRING) USING parquet PARTITIONED BY (ds)
CREATE TABLE t (id INT) USING parquet
CREATE TABLE IF NOT EXISTS t (id INT) USING parquet
INSERT INTO t VALUES (1, 'a', 'x'), (2, 'b', 'y'), (3, 'c', 'y')
INSERT INTO t (id, ds) VALUES (4, 'z')
INSERT OVERWRITE t PARTITION (ds = 'x') VALUES (10, 'q')
INSERT INTO nothing VALUES (1)
SELECT * FROM t ORDER BY id
SELECT * FROM untouched.t WHERE ds = 'y' ORDER BY id
SELECT count(*) FROM spark_catalog.untouched.t
SELECT * FROM spark_catalog.untouched.nothing
SELECT nothing FROM t
SHOW PARTITIONS t
SHOW PARTITIONS t PARTITION (ds = 'y')
ALTER TABLE t ADD PARTITION (ds = 'w')
ALTER TABLE t ADD PARTITION (ds = 'w')
ALTER TABLE t PARTITION (ds = 'w') RENAME TO PARTITION (ds = 'v')
ALTER TABLE t DROP PARTITION (ds = 'v')
ALTER TABLE t DROP PARTITION (ds = 'v')
MSCK REPAIR TABLE t
DESCRIBE t
DESCRIBE EXTENDED t
DESCRIBE EXTENDED t PARTITION (ds = 'y')
DESCRIBE EXTENDED t id
DESCRIBE EXTENDED t AS JSON
SHOW CREATE TABLE t
SHOW COLUMNS IN t
SHOW TBLPROPERTIES t
ALTER TABLE t SET TBLPROPERTIES ('k' = 'w')
ALTER TABLE t UNSET TBLPROPERTIES ('nothing')
COMMENT ON TABLE t IS 'changed'
SHOW TBLPROPERTIES t ('k')
ALTER TABLE t ADD COLUMNS (more DOUBLE)
ALTER TABLE t ALTER COLUMN id COMMENT 'identifier'
ALTER TABLE t DROP COLUMN more
ALTER TABLE t RENAME COLUMN id TO number
SELECT more FROM t LIMIT 1
ANALYZE TABLE t COMPUTE STATISTICS
ANALYZE TABLE t PARTITION (ds = 'y') COMPUTE STATISTICS
ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS id
ANALYZE TABLES COMPUTE STATISTICS NOSCAN
DESCRIBE EXTENDED t id
TRUNCATE TABLE t PARTITION (ds = 'z')
CREATE TABLE u LIKE t
CREATE TABLE u LIKE t
CREATE TABLE v USING orc AS SELECT 1 AS a, 'two' AS b
CREATE TABLE v USING orc AS SELECT 1 AS a
CREATE OR REPLACE TABLE v USING orc AS SELECT 1 AS a
CREATE TABLE b (id INT, k INT) USING parquet CLUSTERED BY (k) SORTED BY (id) INTO 2 BUCKETS
SHOW CREATE TABLE b
SHOW TABLES
SHOW TABLES LIKE 'u|v'
SHOW TABLE EXTENDED LIKE 'v'
SHOW TABLE EXTENDED LIKE 't' PARTITION (ds = 'y')
CREATE VIEW w (x) COMMENT 'a view' AS SELECT id FROM t
CREATE VIEW w AS SELECT 1
CREATE OR REPLACE VIEW w AS SELECT id, ds FROM t WHERE ds = 'y'
ALTER VIEW w SET TBLPROPERTIES ('p' = 'q')
ALTER VIEW w AS SELECT id FROM t
SELECT * FROM w ORDER BY 1
SHOW VIEWS
DESCRIBE EXTENDED w
SHOW CREATE TABLE w
DROP TABLE w
ALTER VIEW w RENAME TO w2
DROP VIEW w2
DROP VIEW IF EXISTS w2
CREATE TEMPORARY VIEW tv AS SELECT 1 AS one
CREATE TEMPORARY VIEW t AS SELECT 'hides' AS word
SELECT * FROM t
SELECT count(*) FROM untouched.t
SHOW TABLES
SHOW VIEWS
DROP VIEW t
CREATE GLOBAL TEMPORARY VIEW gv AS SELECT 2 AS two
SELECT * FROM global_temp.gv
SHOW TABLES IN global_temp
DROP VIEW global_temp.gv
DROP VIEW tv
CACHE TABLE t
REFRESH TABLE t
UNCACHE TABLE t
CACHE LAZY TABLE cached AS SELECT * FROM v
SELECT * FROM cached
UNCACHE TABLE cached
DROP VIEW cached
CREATE FUNCTION f AS 'org.apache.spark.sql.catalyst.expressions.Abs'
SHOW USER FUNCTIONS LIKE 'f'
DESCRIBE FUNCTION f
DROP FUNCTION f
DROP FUNCTION f
CREATE TEMPORARY FUNCTION tf(x INT) RETURNS INT RETURN x + 1
SELECT tf(1)
DROP TEMPORARY FUNCTION tf
CREATE FUNCTION sf(x INT) RETURNS INT RETURN x * 2
SELECT sf(4), untouched.sf(5)
DROP FUNCTION sf
DECLARE VARIABLE var INT DEFAULT 5
SET VAR var = 6
SELECT var
DROP TEMPORARY VARIABLE var
ALTER TABLE u RENAME TO u2
ALTER TABLE u2 RENAME TO v
SELECT * FROM parquet.`/nothing/there`
SELECT * FROM `not a table`
SELECT * FROM a.b.c.d
DELETE FROM t WHERE id = 1
UPDATE t SET id = 1
TRUNCATE TABLE t
SELECT count(*) FROM t
DROP TABLE u2
DROP TABLE u2
DROP TABLE IF EXISTS u2
DROP TABLE v PURGE
SET CATALOG spark_catalog
SHOW CATALOGS LIKE 'spark*'
USE default
DROP DATABASE untouched
DROP DATABASE untouched CASCADE
DROP DATABASE untouched
DROP DATABASE IF EXISTS untouched
SHOW TABLES IN untouched
""".strip().splitlines()
"""One statement a line. What fails has to fail alike."""

HIVE = """
CREATE DATABASE untouched_hive
USE untouched_hive
CREATE TABLE t (id INT) PARTITIONED BY (ds STRING) STORED AS ORC
INSERT INTO t PARTITION (ds = 'x') VALUES (1), (2)
INSERT OVERWRITE TABLE t PARTITION (ds) SELECT id + 10, 'y' FROM t
SELECT * FROM t ORDER BY id
SHOW PARTITIONS t
DESCRIBE FORMATTED t
SHOW CREATE TABLE t AS SERDE
CREATE TABLE s (a INT, b STRING) ROW FORMAT DELIMITED FIELDS TERMINATED BY ',' STORED AS TEXTFILE
INSERT INTO s VALUES (1, 'x')
SELECT * FROM s
ALTER TABLE s SET SERDEPROPERTIES ('field.delim' = ';')
ALTER TABLE t ADD PARTITION (ds = 'z')
ALTER TABLE t PARTITION (ds = 'z') SET LOCATION '/tmp/elsewhere-of-untouched'
SHOW TABLE EXTENDED LIKE 't' PARTITION (ds = 'z')
MSCK REPAIR TABLE t
ANALYZE TABLE t COMPUTE STATISTICS FOR ALL COLUMNS
SHOW TABLES
USE default
DROP DATABASE untouched_hive CASCADE
""".strip().splitlines()
"""What only a session with Hive has."""

_VARYING = [
    (re.compile(r"\b\w{3} \w{3} \d+ \d\d:\d\d:\d\d \w+ \d{4}\b"), "TIME"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "TIME"),
    (re.compile(r"#\d+L?"), "#"),
    (re.compile(r"transient_lastDdlTime['=]*[ ,=']*\d+"), "TIME"),
    (re.compile(r"part-[-\w.]+"), "FILE"),
    (re.compile(r"\b\d+ bytes"), "SIZE"),
]


def outcome(spark: SparkSession, statement: str) -> object:
    """Columns, types and rows of the result, or what the error says, without what differs from run to run."""
    try:
        frame = spark.sql(statement)
        return frame.dtypes, [_steady(str(tuple(row))) for row in frame.collect()]
    except PySparkException as error:
        return error.getCondition(), _steady(str(error).splitlines()[0])


def _steady(text: str) -> str:
    for pattern, word in _VARYING:
        text = pattern.sub(word, text)
    return text


def differences(ours: SparkSession, plain: SparkSession, statements: list[str]) -> list[str]:
    """What is not the same in the two sessions, run one after the other."""
    with_ours = [outcome(ours, statement) for statement in statements]
    without = [outcome(plain, statement) for statement in statements]
    return [
        f"{statement}\n  ours:  {mine}\n  plain: {theirs}"
        for statement, mine, theirs in zip(statements, with_ours, without, strict=True)
        if mine != theirs
    ]


def plain_session(spark: SparkSession) -> SparkSession:
    """A session of the same JVM whose session catalog is Spark's own."""
    session = spark.newSession()
    session.conf.set("spark.sql.catalog.spark_catalog", "builtin")
    return session
