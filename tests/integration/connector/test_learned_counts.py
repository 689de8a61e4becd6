"""Row counts that a query reads of footers: its answer, what the index keeps, and what the next query asks."""

from __future__ import annotations

import os
import time
from itertools import product
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from pyspark.errors import SparkRuntimeException

from catalog_ext.metastore.errors import IndexUnavailableError
from tests.integration.connector.test_connector_predicates import answered, gathered
from tests.integration.scans import files_read
from tests.servers.recorder import late, refusing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.kit.service_client import Answer
    from tests.servers.recorded_service import RecordedService
    from tests.servers.recorder import Ask, Body

pytestmark = [pytest.mark.spark, pytest.mark.slow]

MANY = 150
"""Files of a partition that tasks read; of fewer the driver reads the footers."""
LEARNED = "statistics/put"
QUESTIONS = {
    "SELECT count(*) FROM {t}": None,
    "SELECT max(k), min(k) FROM {t}": None,
    "SELECT count(DISTINCT k) FROM {t}": None,
    "SELECT k, count(*) FROM {t} GROUP BY k": None,
    "SELECT DISTINCT k FROM {t} WHERE k % 2 = 1": None,
    "SELECT count(*), count(k) FROM {t} WHERE k > 1": None,
}


def put(file: Path, rows: int) -> None:
    """A file of the format that its name says, with so many rows."""
    file.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({"id": pa.array(range(rows), pa.int64())})
    if file.suffix == ".parquet":
        pq.write_table(table, file)
    elif file.suffix == ".orc":
        orc.write_table(table, file)
    else:
        file.write_text("".join(f"{row}\n" for row in range(rows)))


@pytest.fixture(scope="module")
def spark(spark_with_connector: SparkSession) -> SparkSession:
    return spark_with_connector


@pytest.fixture
def service(recorded_service: RecordedService, tmp_path: Path) -> Iterator[RecordedService]:
    """The service with the table ``sales.c`` of 3 + 2 rows: ``make`` brings others."""
    put(tmp_path / "c" / "k=1" / "a.parquet", 3)
    put(tmp_path / "c" / "k=2" / "b.parquet", 2)
    make(recorded_service, tmp_path)
    yield recorded_service
    recorded_service.catalog.unregister_table("sales.c")


def make(service: RecordedService, folder: Path, kind: str = "parquet", **properties: str) -> None:
    """Register what lies in the folder ``c``."""
    service.add_table("c", folder / "c", {"id": "bigint"}, {"k": "int"}, file_format=kind, properties=properties)
    service.reset()


def count(spark: SparkSession, more: str = "") -> int:
    return int(spark.sql(f"SELECT count(*) FROM lake.sales.c {more}").collect()[0][0])


def known(service: RecordedService) -> dict[str, int | None]:
    """What the index knows of rows, by file."""
    return {f"{row['partition']}/{row['path']}": row["rows"] for row in service.catalog.files("sales.c").to_pylist()}


@pytest.mark.parametrize(("kind", "many"), [("parquet", MANY), ("parquet", 1), ("orc", MANY)])
def test_counts_of_footers_answer_every_later_question(
    spark: SparkSession, service: RecordedService, tmp_path: Path, kind: str, many: int
) -> None:
    """Files without rows and empty files among them; the later questions open no file: none is left."""
    folder = tmp_path / kind
    for number in range(many):
        put(folder / "c" / "k=1" / f"{number}.{kind}", 2)
    put(folder / "c" / "k=2" / f"none.{kind}", 0)
    put(folder / "c" / "k=3" / f"a.{kind}", 7)
    (folder / "c" / "k=4").mkdir()
    (folder / "c" / "k=4" / f"empty.{kind}").touch()
    make(service, folder, kind)
    table = "lake.sales.c"
    truth = {q: gathered(spark.sql(q.format(t=f"{table} WITH ('index-answers' = 'false')"))) for q in QUESTIONS}
    assert truth["SELECT count(*) FROM {t}"] == [f"({2 * many + 7},)"]
    assert truth["SELECT max(k), min(k) FROM {t}"] == ["(3, 1)"]
    service.reset()
    frames = {q: spark.sql(q.format(t=table)) for q in QUESTIONS}
    for question, frame in frames.items():
        assert not answered(frame), question
    assert not {"tables/plan", LEARNED} & set(service.requests), "EXPLAIN neither lists files nor opens one"
    first = next(iter(frames))
    assert gathered(frames[first]) == truth[first]
    assert files_read(frames[first]) == many + 3
    assert service.requests["tables/plan"] == 1
    assert sum(len(body["files"]) for name, body in service.bodies if name == LEARNED) == many + 3
    assert not service.last(LEARNED)["publish"], "no metastore is changed by a query"
    assert None not in known(service).values()
    version = service.table("c").version
    for file in folder.rglob(f"*.{kind}"):
        file.unlink()
    service.reset()
    for question in QUESTIONS:
        frame = spark.sql(question.format(t=table))
        assert answered(frame), question
        assert gathered(frame) == truth[question], question
    assert set(service.requests) <= {"tables/load", "partitions/groups"}
    assert max(service.requests.values()) <= 2 * len(QUESTIONS)
    assert service.table("c").version == version


@pytest.mark.parametrize("question", QUESTIONS)
def test_each_question_is_answered_by_footers_first(
    spark: SparkSession, service: RecordedService, tmp_path: Path, question: str
) -> None:
    put(tmp_path / "c" / "k=3" / "none.parquet", 0)
    service.catalog.repair_partitions("sales.c")
    spark.sql("INSERT INTO lake.sales.c (id, k) VALUES (1, 1), (2, 5)")
    scanned = gathered(spark.sql(question.format(t="lake.sales.c WITH ('index-answers' = 'false')")))
    service.reset()
    assert gathered(spark.sql(question.format(t="lake.sales.c"))) == scanned
    assert service.requests[LEARNED] == 1
    service.reset()
    frame = spark.sql(question.format(t="lake.sales.c"))
    assert (answered(frame), gathered(frame)) == (True, scanned)
    assert service.requests["tables/plan"] == 0


def test_of_values_of_keys_one_partition_with_rows_is_read(
    spark: SparkSession, service: RecordedService, tmp_path: Path
) -> None:
    """Of the second day four of five partitions are without rows: it takes three rounds, of one, two and two."""
    for day, region in product((1, 2, 3), range(5)):
        put(tmp_path / "d" / f"ds={day}" / f"r={region}" / "a.parquet", 0 if day == 2 and region < 4 else 1)
    put(tmp_path / "d" / "ds=4" / "r=0" / "a.parquet", 0)
    service.add_table("d", tmp_path / "d", {"id": "bigint"}, {"ds": "int", "r": "int"})
    first = spark.sql("SELECT max(ds), min(ds) FROM lake.sales.d")
    assert (gathered(first), files_read(first)) == (["(3, 1)"], 1 + 5 + 1 + 1)
    service.reset()
    for question, expected in {
        "SELECT max(ds) FROM lake.sales.d": ["(3,)"],
        "SELECT min(ds), max(ds) FROM lake.sales.d WHERE ds > 1": ["(2, 3)"],
        "SELECT count(DISTINCT ds) FROM lake.sales.d": ["(3,)"],
        "SELECT DISTINCT ds FROM lake.sales.d WHERE abs(r) < 9": ["(1,)", "(2,)", "(3,)"],
        "SELECT max(ds) FROM lake.sales.d WHERE concat(ds, r) <> '9'": ["(3,)"],
    }.items():
        frame = spark.sql(question)
        assert (answered(frame), gathered(frame)) == (True, expected), question
    assert service.requests["tables/plan"] == 0
    assert gathered(spark.sql("SELECT max(r) FROM lake.sales.d WHERE ds = 1")) == ["(4,)"]
    assert gathered(spark.sql("SELECT count(*) FROM lake.sales.d")) == ["(11,)"]


@pytest.mark.parametrize("size", ["same", "other"])
def test_a_file_that_changed_since_the_repair_stays_unknown(
    spark: SparkSession, service: RecordedService, tmp_path: Path, size: str
) -> None:
    """The query has the rows of the file that is there, as a scan has; the index has not."""
    file = tmp_path / "c" / "k=1" / "a.parquet"
    put(file, 3 if size == "same" else 30)
    os.utime(file, (time.time(), file.stat().st_mtime + 5))
    rows = pq.read_metadata(file).num_rows + 2
    for _ in range(2):
        assert count(spark) == rows
        assert known(service) == {"k=1/a.parquet": None, "k=2/b.parquet": 2}
    spark.sql("ANALYZE TABLE lake.sales.c COMPUTE STATISTICS")
    assert known(service)["k=1/a.parquet"] is None
    service.catalog.repair_partitions("sales.c")
    assert count(spark) == rows
    assert known(service) == {"k=1/a.parquet": rows - 2, "k=2/b.parquet": 2}


def replaced(service: RecordedService, folder: Path) -> None:
    put(folder / "c" / "k=1" / "a.parquet", 30)
    service.catalog.repair_partitions("sales.c")


def dropped(service: RecordedService, folder: Path) -> None:
    (folder / "c" / "k=1" / "a.parquet").unlink()
    put(folder / "c" / "k=1" / "other.parquet", 30)
    service.catalog.repair_partitions("sales.c")


def unregistered(service: RecordedService, folder: Path) -> None:
    put(folder / "c" / "k=1" / "a.parquet", 30)
    service.add_table("c", folder / "c", {"id": "bigint"}, {"k": "int"})


@pytest.mark.parametrize("change", [replaced, dropped, unregistered])
def test_a_commit_between_footer_and_record_leaves_its_files_unknown(
    spark: SparkSession,
    service: RecordedService,
    tmp_path: Path,
    change: Callable[[RecordedService, Path], None],
) -> None:
    def after_change(body: Body, ask: Ask) -> Answer:
        change(service, tmp_path)
        return ask(body)

    with service.answering(after_change, LEARNED):
        assert count(spark) == 5
    assert [rows for file, rows in known(service).items() if file.startswith("k=1")] == [None]
    assert count(spark) == 32


@pytest.mark.parametrize("place", ["option", "property", "session"])
def test_nothing_is_recorded_where_learning_is_off(
    spark: SparkSession, service: RecordedService, tmp_path: Path, place: str
) -> None:
    if place == "property":
        make(service, tmp_path, **{"statistics.learn": "false"})
    if place == "session":
        spark.conf.set("spark.sql.catalog.lake.statistics.learn", "false")
    try:
        for _ in range(2):
            assert count(spark, "WITH ('statistics.learn' = 'false')" if place == "option" else "") == 5
    finally:
        spark.conf.unset("spark.sql.catalog.lake.statistics.learn")
    assert service.requests[LEARNED] == 0
    assert set(known(service).values()) == {None}


def test_an_index_that_refuses_or_is_slow_costs_no_answer(spark: SparkSession, service: RecordedService) -> None:
    with service.answering(refusing(IndexUnavailableError("locked")), LEARNED):
        assert count(spark) == 5
    assert set(known(service).values()) == {None}
    began = time.monotonic()
    with service.answering(late(8), LEARNED):
        assert count(spark) == 5
        assert time.monotonic() - began < 6, "the answer does not wait for the record"
    assert count(spark) == 5


@pytest.mark.parametrize("many", [1, MANY])
def test_a_file_that_is_gone_or_broken_is_named(
    spark: SparkSession, service: RecordedService, tmp_path: Path, many: int
) -> None:
    for number in range(many):
        put(tmp_path / "c" / "k=7" / f"{number}.parquet", 1)
    service.catalog.repair_partitions("sales.c")
    (tmp_path / "c" / "k=1" / "a.parquet").write_bytes(b"no footer, but some bytes")
    with pytest.raises(SparkRuntimeException, match=r"a\.parquet of partition 'k=1'.*cannot be read") as broken:
        count(spark)
    assert broken.value.getCondition() == "CATALOG_EXT_FILE_UNREADABLE"
    (tmp_path / "c" / "k=1" / "a.parquet").unlink()
    with pytest.raises(SparkRuntimeException, match=r"a\.parquet of partition 'k=1'.*repair_partitions") as gone:
        count(spark)
    assert gone.value.getCondition() == "CATALOG_EXT_FILE_MISSING"
    assert count(spark, "WITH ('missing-files' = 'skip')") == many + 2
    service.catalog.repair_partitions("sales.c")
    assert count(spark) == many + 2


def test_files_without_footers_are_read_and_not_recorded(
    spark: SparkSession, service: RecordedService, tmp_path: Path
) -> None:
    put(tmp_path / "text" / "c" / "k=1" / "a.csv", 4)
    make(service, tmp_path / "text", "csv")
    for _ in range(2):
        assert count(spark) == 4
    assert service.requests[LEARNED] == 0


@pytest.mark.filterwarnings("ignore::catalog_ext.tables.locations.TableOverlapWarning")
def test_analyze_counts_a_file_of_two_partitions_once_for_each(
    spark: SparkSession, service: RecordedService, tmp_path: Path
) -> None:
    put(tmp_path / "text" / "c" / "k=1" / "a.csv", 4)
    put(tmp_path / "text" / "shared" / "b.csv", 3)
    make(service, tmp_path / "text", "csv")
    places = " ".join(f"PARTITION (k = {k}) LOCATION '{tmp_path / 'text' / 'shared'}'" for k in (2, 3))
    spark.sql(f"ALTER TABLE lake.sales.c ADD {places}")
    spark.sql("ANALYZE TABLE lake.sales.c COMPUTE STATISTICS")
    assert known(service) == {"k=1/a.csv": 4, "k=2/b.csv": 3, "k=3/b.csv": 3}


def test_a_held_answer_is_read_once(spark: SparkSession, service: RecordedService) -> None:
    """A plan that runs again, and what is cached of it, open no file again."""
    held = spark.sql("SELECT k, count(*) AS n FROM lake.sales.c GROUP BY k")
    expected = ["(1, 3)", "(2, 2)"]
    assert (gathered(held), gathered(held)) == (expected, expected)
    assert service.requests["tables/plan"] == 1
    spark.sql("SELECT sum(n) FROM (SELECT k, count(*) AS n FROM lake.sales.c GROUP BY k)").collect()
    assert service.requests[LEARNED] == 1
