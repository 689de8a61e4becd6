"""The queries of the demonstration, each asked twice: through the index, and of the files as plain Spark finds them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from examples.demo.plans import FilesRead, files_read

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from examples.demo.stage import Stage

PLAIN_VIEW = "flights_as_files"


@dataclass(frozen=True, slots=True)
class Query:
    """One query; ``plain`` is what the same means to Spark where it differs.

    Attributes:
        sql: With ``{t}`` for the table.
        plain: The same for a table whose keys are ordinary columns; None for the same text.
    """

    title: str
    sql: str
    plain: str | None = None


QUERIES = (
    Query(
        "a point",
        "SELECT carrier, count(*) AS flights FROM {t} WHERE origin = 'JFK' AND month = 2 AND day = 14 GROUP BY carrier",
    ),
    Query(
        "a range", "SELECT count(*) AS flights, sum(distance) AS miles FROM {t} WHERE month = 7 AND day BETWEEN 1 AND 7"
    ),
    Query("an IN", "SELECT dest, count(*) AS flights FROM {t} WHERE day = 24 AND month IN (11, 12) GROUP BY dest"),
    Query(
        "a join",
        "SELECT h.name, count(*) AS flights FROM {t} f JOIN holidays h ON f.month = h.month AND f.day = h.day "
        "WHERE h.season = 'summer' GROUP BY h.name",
    ),
    Query("GROUP BY a key", "SELECT origin, count(*) AS flights, max(dep_delay) AS worst FROM {t} GROUP BY origin"),
    Query(
        "SELECT *",
        "SELECT * FROM {t} WHERE origin = 'LGA' AND month = 3",
        "SELECT * EXCEPT (origin, month, day) FROM {t} WHERE origin = 'LGA' AND month = 3",
    ),
    Query(
        "SELECT *, keys",
        "SELECT *, origin, month, day FROM {t} WHERE origin = 'LGA' AND month = 3",
        "SELECT * FROM {t} WHERE origin = 'LGA' AND month = 3",
    ),
)


@dataclass(frozen=True, slots=True)
class Measured:
    """One query's answer and what it cost.

    Attributes:
        read: What its scans read of the table.
        planning_lists: LIST requests that the S3 server saw until the physical plan was there.
        running_lists: Those that it saw after that.
        seconds: From the query's text to its rows in Python.
    """

    rows: pa.Table
    read: FilesRead
    planning_lists: int
    running_lists: int
    seconds: float


def through_index(stage: Stage, query: Query, table: str, location: str) -> Measured:
    """The query on the registered table."""
    return _measure(stage, query.sql.format(t=table), location, fresh_view=False)


def through_files(stage: Stage, query: Query, location: str) -> Measured:
    """The query on ``spark.read.parquet``, made anew as a user would: its listing is part of the query."""
    return _measure(stage, (query.plain or query.sql).format(t=PLAIN_VIEW), location, fresh_view=True)


def equal(one: pa.Table, other: pa.Table) -> bool:
    """Whether both have the same columns and, in any order, the same rows."""
    names = sorted(one.column_names)
    if names != sorted(other.column_names):
        return False
    order = [(name, "ascending") for name in names]
    left, right = (table.select(names).sort_by(order).combine_chunks() for table in (one, other))
    return bool(left.equals(right.cast(left.schema)))


def _measure(stage: Stage, sql: str, location: str, *, fresh_view: bool) -> Measured:
    before = stage.s3.list_requests()
    started = time.monotonic()
    if fresh_view:
        stage.spark.read.parquet(location).createOrReplaceTempView(PLAIN_VIEW)
    frame: DataFrame = stage.spark.sql(sql)
    frame._jdf.queryExecution().executedPlan()
    planned = stage.s3.list_requests()
    rows = frame.toArrow()
    seconds = time.monotonic() - started
    after = stage.s3.list_requests()
    return Measured(rows, files_read(frame, location), planned - before, after - planned, seconds)
