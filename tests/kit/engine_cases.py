"""Statements that a Hive engine and Spark run in turns on one table, and the comparison of their results.

The statements are written once: each engine runs them in its own dialect's common part, which Spark shares.
"""

from __future__ import annotations

import datetime
import json
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

FORMATS = ("parquet", "orc", "text")
DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
KEYS = ("k", "d", "i")
Rows = list[tuple[str, ...]]


class Engine(Protocol):
    """Runs HiveQL."""

    def run(self, statements: Sequence[str]) -> list[Rows]:
        """The rows of each statement, each value as Hive prints it."""
        ...


class SparksHiveCatalog:
    """Spark's own Hive catalog as an engine."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def run(self, statements: Sequence[str]) -> list[Rows]:
        # It keeps columns and files of tables that it has read; what others have changed is not seen before that.
        self._spark._jsparkSession.sessionState().catalog().invalidateAllCachedTables()
        known = (line.removesuffix(" CASCADE") for line in statements)
        # Hive's text is a table of Hive's SerDes to it. Its reader casts the default partition's name to the type of
        # the key, which ANSI mode refuses, and it writes dynamic keys in this mode only.
        settings = {"spark.sql.ansi.enabled": "false", "hive.exec.dynamic.partition.mode": "nonstrict"}
        for key, value in settings.items():
            self._spark.conf.set(key, value)
        try:
            return [[] if "EXCHANGE" in line else printed(self._spark, line) for line in known]
        finally:
            for key in settings:
                self._spark.conf.unset(key)


@dataclass(frozen=True)
class Value:
    """A column: its type, and its value in a row of the number ``id``."""

    name: str
    type: str
    of_id: str


PLAIN = (
    Value("id", "BIGINT", "CAST(id AS BIGINT)"),
    Value("n", "INT", "CAST(id AS INT)"),
    Value("name", "STRING", "CASE WHEN id % 5 = 0 THEN NULL ELSE concat('n ', CAST(id AS STRING)) END"),
    Value("fare", "DOUBLE", "CAST(id AS DOUBLE) / 4"),
    Value("price", "DECIMAL(9,2)", "CAST(concat(CAST(id AS STRING), '.25') AS DECIMAL(9,2))"),
    Value("day", "DATE", "CAST('2024-02-29' AS DATE)"),
    Value("at", "TIMESTAMP", "CAST('2024-07-01 12:34:56.789123' AS TIMESTAMP)"),
    Value("yes", "BOOLEAN", "id % 2 = 0"),
)
NESTED = (
    Value("tags", "ARRAY<STRING>", "array('a', CAST(id AS STRING))"),
    Value("counts", "MAP<STRING,INT>", "map('k', CAST(id AS INT))"),
    Value("place", "STRUCT<city:STRING,zip:INT>", "named_struct('city', CAST(id AS STRING), 'zip', CAST(id AS INT))"),
)
NOTE = Value("note", "STRING", "concat('note ', CAST(id AS STRING))")
THEIR_NOTE = Value("their_note", "INT", "CAST(id AS INT) + 1000")
"""The columns that a table gets later, from us and from an engine."""
REMARK = Value("remark", NOTE.type, NOTE.of_id)
THEIR_REMARK = Value("their_remark", THEIR_NOTE.type, THEIR_NOTE.of_id)
"""And what these are then called."""


def values_of(data_format: str) -> tuple[Value, ...]:
    """The columns of a table: delimited text holds no nested ones here."""
    return PLAIN if data_format == "text" else (*PLAIN, *NESTED)


def noted_values(data_format: str) -> tuple[Value, ...]:
    """With the one that we add."""
    return (*values_of(data_format), NOTE)


def altered_values(data_format: str) -> tuple[Value, ...]:
    """Ours after we have altered them (``fourth_of_ours``)."""
    kept = (v for v in values_of(data_format) if data_format != "parquet" or v.name != "yes")
    return (*kept, NOTE if data_format == "orc" else REMARK)


@dataclass(frozen=True)
class Row:
    """A row's number and its partition; None is NULL."""

    id: int
    k: str | None = "a"
    d: str | None = "2025-01-01"
    i: int | None = 1

    @property
    def literals(self) -> str:
        hour = "CAST(NULL AS INT)" if self.i is None else str(self.i)
        return ", ".join((str(self.id), text(self.k), text(self.d), hour))


def text(value: str | None) -> str:
    """A literal of the type STRING."""
    if value is None:
        return "CAST(NULL AS STRING)"
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def select(values: Sequence[Value], rows: Sequence[Row], *, keys: bool = True) -> str:
    """A query of these rows, with their keys or for one partition."""
    chosen = [v.of_id for v in values]
    if keys:
        chosen += ["k", "CAST(d AS DATE)", "i"]
    stacked = ", ".join(row.literals for row in rows)
    return f"SELECT {', '.join(chosen)} FROM (SELECT stack({len(rows)}, {stacked}) AS (id, k, d, i)) numbers"


def partition(k: str, d: str = "2025-01-01", i: int = 1) -> str:
    """A clause that names one partition."""
    return f"PARTITION (k = {text(k)}, d = '{d}', i = {i})"


SPECIAL = ("eu west", "x/y", "q'd", "50%", "k=v", "ä€", 'a"b', "c:d", None)
FIRST = (
    *(Row(100 + n, k, i=1 + n % 3) for n, k in enumerate(SPECIAL)),
    Row(120, "a", None),
    Row(121, "a", "2025-01-02", None),
    Row(122, ""),
    Row(123, None, None, None),
    Row(124, "a", "2025-01-03", -7),
    *(Row(200 + n, k, i=1 + n % 2) for n, k in enumerate(("static", "static", "dynamic", "dynamic", "kept", "kept"))),
    *(Row(220 + n, k) for n, k in enumerate(("old name", "dropped", "emptied", "a/b=c"))),
)


def first_of_ours(table: str, data_format: str) -> list[str]:
    """Our table, and its rows."""
    columns = ", ".join(f"{v.name} {v.type}" for v in values_of(data_format))
    stored = "STORED AS TEXTFILE" if data_format == "text" else f"USING {data_format}"
    create = "CREATE TABLE {} (" + columns + ", k STRING, d DATE, i INT) " + stored + " PARTITIONED BY (k, d, i)"
    return [
        create.format(table),
        create.format(f"{table}_staged"),
        f"INSERT INTO {table} {select(values_of(data_format), FIRST)}",
        f"INSERT INTO {table}_staged {select(values_of(data_format), (Row(300, 'moved'), Row(301, 'moved', i=2)))}",
    ]


def second_of_ours(table: str, data_format: str) -> list[str]:
    """Everything that we can do to it."""
    values = values_of(data_format)
    return [
        f"INSERT OVERWRITE {table} {partition('static')} {select(values, (Row(310), Row(311)), keys=False)}",
        f"INSERT OVERWRITE {table} {select(values, (Row(312, 'dynamic'), Row(313, 'dynamic', i=5)))}",
        f"ALTER TABLE {table} {partition('old name')} RENAME TO {partition('new/na me')}",
        f"ALTER TABLE {table} EXCHANGE PARTITION (k = 'moved') WITH TABLE {table}_staged",
        f"ALTER TABLE {table} DROP PARTITION (k = 'dropped')",
        f"TRUNCATE TABLE {table} {partition('emptied')}",
        f"ALTER TABLE {table} ADD COLUMNS ({NOTE.name} {NOTE.type})",
        f"ALTER TABLE {table}_staged ADD COLUMNS ({NOTE.name} {NOTE.type})",
        f"INSERT INTO {table} {select((*values, NOTE), (Row(320, 'eu west'), Row(321, 'noted')))}",
    ]


def first_of_theirs(table: str, data_format: str) -> list[str]:
    """What an engine does to it: new and old partitions, by name and by value."""
    values = noted_values(data_format)
    over = (Row(421, "kept"), Row(422, "kept", i=9))
    dynamic = (Row(410, "eu west"), Row(411, "new one"), Row(412, "p%q/r"), Row(413, None), Row(414, "a", None))
    done = [
        f"INSERT INTO TABLE {table} PARTITION (k, d, i) {select(values, dynamic)}",
        f"INSERT OVERWRITE TABLE {table} PARTITION (k, d, i) {select(values, over)}",
        f"ALTER TABLE {table} ADD PARTITION (k = 'added', d = '2025-03-01', i = 1)",
        f"ALTER TABLE {table} DROP PARTITION (k = 'k=v')",
        f"ALTER TABLE {table} {partition('static', i=2)} RENAME TO {partition('their name', i=2)}",
        f"TRUNCATE TABLE {table} {partition('moved', i=2)}",
    ]
    if data_format == "parquet":  # each is a job of seconds, and knows no format
        done += [
            f"INSERT INTO TABLE {table} {partition('static')} {select(values, (Row(400),), keys=False)}",
            f"INSERT INTO TABLE {table} {partition('theirs', '2025-02-01')} {select(values, (Row(401),), keys=False)}",
            f"INSERT OVERWRITE TABLE {table} {partition('dynamic')} {select(values, (Row(420),), keys=False)}",
            f"INSERT INTO TABLE {table}_staged {partition('exchanged')} {select(values, (Row(430),), keys=False)}",
            f"ALTER TABLE {table} EXCHANGE {partition('exchanged')} WITH TABLE {table}_staged",
        ]
    return done


def third_of_ours(table: str, data_format: str) -> list[str]:
    """We go on with what the engine has made."""
    values = noted_values(data_format)
    return [
        f"INSERT INTO {table} {select(values, (Row(500, 'theirs', '2025-02-01'), Row(501, 'added', '2025-03-01')))}",
        f"INSERT OVERWRITE {table} {select(values, (Row(502, 'new one'), Row(503, None)))}",
        f"ALTER TABLE {table} {partition('their name', i=2)} RENAME TO {partition('ours again', i=2)}",
        f"ALTER TABLE {table} DROP PARTITION (k = 'p%q/r')",
    ]


def second_of_theirs(table: str, data_format: str) -> list[str]:
    """And the engine with that."""
    values = (*noted_values(data_format), THEIR_NOTE)
    rows = (Row(600, "new one"), Row(601, "moved"), Row(602, "ours again", i=2))
    return [
        f"ALTER TABLE {table} ADD COLUMNS ({THEIR_NOTE.name} {THEIR_NOTE.type}) CASCADE",
        f"INSERT INTO TABLE {table} PARTITION (k, d, i) {select(values, rows)}",
    ]


def fourth_of_ours(table: str, data_format: str) -> list[str]:
    """We alter columns: what all engines read in the same way afterwards."""
    done = [f"ALTER TABLE {table} ALTER COLUMN fare COMMENT 'in euros'"]
    if data_format != "orc":  # which Hive reads by position from release 3.1 on: refused
        done.append(f"ALTER TABLE {table} RENAME COLUMN {NOTE.name} TO {REMARK.name}")
    if data_format == "parquet":
        done.append(f"ALTER TABLE {table} DROP COLUMN yes")
    else:  # of Parquet, Hive 2.3 cannot read it, its own files included
        done.append(f"ALTER TABLE {table} ALTER COLUMN n TYPE BIGINT")
    values = (*altered_values(data_format), THEIR_NOTE)
    return [*done, f"INSERT INTO {table} {select(values, (Row(700, 'eu west'), Row(701, 'altered')))}"]


def third_of_theirs(table: str, data_format: str) -> list[str]:
    """The engine alters the column that it added."""
    values = (*altered_values(data_format), THEIR_REMARK)
    return [
        f"ALTER TABLE {table} CHANGE COLUMN {THEIR_NOTE.name} {THEIR_REMARK.name} {THEIR_REMARK.type} CASCADE",
        f"INSERT INTO TABLE {table} PARTITION (k, d, i) {select(values, (Row(800, 'altered'), Row(801, 'later')))}",
    ]


def ids_after(data_format: str, *, exchanges: bool) -> dict[str, set[int]]:
    """The rows that are to be there after each turn, when the engine exchanges partitions or cannot."""
    of_parquet = data_format == "parquet"
    ours = {row.id for row in FIRST} - {200, 202, 221, 222} | {300, 301, 310, 311, 312, 313, 320, 321}
    theirs = ours - {104, 204, 301} | {410, 411, 412, 413, 414, 421, 422}
    if of_parquet:
        theirs = theirs - {312} | {400, 401, 420} | ({430} if exchanges else set())
    # The empty text is in NULL's partition, which we overwrite.
    again = theirs - {122, 411, 412, 413} | {500, 501, 502, 503, 600, 601, 602}
    altered = again | {700, 701}
    return {
        "ours": ours, "theirs": theirs, "ours again, theirs again": again, "columns altered by us": altered,
        "columns altered by them": altered | {800, 801},
    }  # fmt: skip


FILTERS = (
    "k = 'eu west'", "k = 'x/y'", "k = 'q\\'d'", "k IN ('50%', 'k=v', 'nothing')", "k = 'ä€'",
    "k = 'c:d'", "k = 'new/na me'", "k > 'm' AND i >= 2", "d = '2025-01-02'", "d > '2025-01-01' AND d < '2025-01-03'",
    "d IS NULL", "i = -7", "i IN (2, 5)", "i IS NULL", "i IS NOT NULL AND k = 'moved'", "k = 'nothing'",
)  # fmt: skip
OF_NULL = {"k IS NULL": f"k = '{DEFAULT_PARTITION}'"}
"""To Hive, 2.3 and 4, the NULL of a STRING key is a text: what its engines ask instead."""


def filters_of(data_format: str) -> tuple[str, ...]:
    """The filters that choose among a table's partitions: all of them for one format, as partitions know no format."""
    return (*FILTERS, *OF_NULL) if data_format == "parquet" else (*FILTERS[:4], *OF_NULL)


def question(table: str, values: Sequence[Value], where: str = "") -> str:
    """All columns by name, of the partitions that a filter chooses."""
    condition = f" WHERE {where}" if where else ""
    return f"SELECT {', '.join((*(v.name for v in values), *KEYS))} FROM {table}{condition}"


@dataclass(frozen=True)
class Seen:
    """The content of a table for a reader: rows by filter (the empty one: all), and the partitions' names."""

    rows: dict[str, Rows]
    partitions: list[str]


def looked(table: str, values: Sequence[Value], filters: Sequence[str]) -> list[str]:
    return [question(table, values, where) for where in ("", *filters)] + [f"SHOW PARTITIONS {table}"]


def seen(filters: Sequence[str], answers: Sequence[Rows]) -> Seen:
    *rows, partitions = answers
    return Seen(
        dict(zip(("", *filters), (sorted(map(_without_marker, found)) for found in rows), strict=True)),
        sorted(name for (name,) in partitions),
    )


def _without_marker(row: tuple[str, ...]) -> tuple[str, ...]:
    return tuple("NULL" if value == DEFAULT_PARTITION else value for value in row)


def seen_by_us(spark: SparkSession, table: str, values: Sequence[Value], filters: Sequence[str]) -> Seen:
    """The same, in one query of ``spark.sql``."""
    union = " UNION ALL ".join(
        question(table, values, where).replace("SELECT", f"SELECT {number} AS question,", 1)
        for number, where in enumerate(("", *filters))
    )
    answers: list[Rows] = [[] for _ in ("", *filters)]
    for number, *row in printed(spark, union):
        answers[int(number)].append(tuple(row))
    return seen(filters, [*answers, printed(spark, f"SHOW PARTITIONS {table}")])


def printed(spark: SparkSession, statement: str) -> Rows:
    """The rows of a query of Spark's, each value as Hive prints it."""
    return [tuple(_as_hive_prints(value) for value in row) for row in spark.sql(statement).collect()]


def _as_hive_prints(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, dict)) or hasattr(value, "asDict"):
        plain = value.asDict() if hasattr(value, "asDict") else value
        return json.dumps(plain, separators=(",", ":"), ensure_ascii=False)
    if isinstance(value, (int, float, str, Decimal, datetime.date)):
        return str(value)
    raise AssertionError(f"how does Hive print {value!r}?")
