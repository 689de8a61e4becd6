"""Streaming writes and reads: every epoch once, partitions when they are due, new files in order."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import functions as f

from tests.integration import lake as lakes
from tests.integration import streaming_policies

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from tests.integration.spark_driver import Driver


pytestmark = pytest.mark.spark

EVENTS = "id BIGINT, at TIMESTAMP, ds STRING, hour INT"
BY_TIME = (
    "'sink.partition-commit.trigger' = 'partition-time', 'sink.partition-commit.delay' = '1 h', "
    "'partition.time-extractor.timestamp-pattern' = '$ds $hour:00:00', "
    "'sink.partition-commit.policy.kind' = 'metastore,success-file,custom', "
    "'sink.partition-commit.policy.class' = 'tests.integration.streaming_policies:committed'"
)


@dataclass(frozen=True)
class Lake(lakes.Lake):
    """Tables are named as in SQL."""

    names: list[str] = field(default_factory=list)

    def table(self, columns: str, keys: str, properties: str = "", location: str | None = None) -> str:
        name = f"lake.streams.t{len(self.names)}"
        self.names.append(name)
        place = f"LOCATION '{location}'" if location else ""
        options = f"TBLPROPERTIES ({properties})" if properties else ""
        partitioned = f"PARTITIONED BY ({keys})" if keys else ""
        self.spark.sql(f"CREATE TABLE {name} ({columns}) USING parquet {partitioned} {place} {options}")
        return name

    def history(self, table: str) -> list[tuple[Any, ...]]:
        return self.rows(f"SELECT operation, files_added, rows FROM {table}.history ORDER BY version")

    def check_clean(self, table: str) -> None:
        """The table's directory holds what the index has and nothing else, hidden names included."""
        location = self.catalog.load_table(table.removeprefix("lake.")).definition.location.removeprefix("file://")
        found = {str(p) for p in Path(location).rglob("*") if p.is_file() and not p.name.endswith(".crc")}
        known = self.spark.table(table).select("_metadata.file_path").distinct().collect()
        assert {p for p in found if not p.endswith("/_SUCCESS")} == {unquote(urlsplit(row[0]).path) for row in known}


@pytest.fixture(scope="module")
def lake(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder = tmp_path_factory.mktemp("streaming")
    with lakes.local_lake(driver, folder, "streams", {"spark.sql.session.timeZone": "UTC"}) as lake:
        yield Lake(lake.spark, lake.catalog, folder, lake.namespace)


class Source:
    """A folder of JSON files, each of which one epoch reads."""

    def __init__(self, lake: Lake, folder: Path, schema: str = EVENTS) -> None:
        self._lake = lake
        self._schema = schema
        self.folder = folder / "source"
        self.folder.mkdir()
        self._count = 0

    def put(self, *rows: dict[str, Any]) -> None:
        name = f"{self._count:05d}.json"
        # Spark takes the files by their time, in milliseconds.
        path = self.folder / f".{name}"
        path.write_text("\n".join(map(json.dumps, rows)))
        os.utime(path, (1_700_000_000 + self._count,) * 2)
        path.rename(self.folder / name)
        self._count += 1

    def stream(self) -> DataFrame:
        reader = self._lake.spark.readStream.schema(self._schema).option("maxFilesPerTrigger", 1)
        return reader.json(str(self.folder))


def event(number: int, hour: int, minute: int = 0) -> dict[str, Any]:
    return {"id": number, "at": f"2025-01-01T{hour:02d}:{minute:02d}:00Z", "ds": "2025-01-01", "hour": hour}


def run(writer: DataStreamWriter, table: str, checkpoint: Path) -> StreamingQuery:
    """A query that reads all that is there, run to its end."""
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).toTable(table)
    query.awaitTermination()
    return query


class TestWrites:
    def test_each_epoch_is_committed_once(self, lake: Lake, tmp_path: Path) -> None:
        table, source, checkpoint = lake.table(EVENTS, "ds, hour"), Source(lake, tmp_path), tmp_path / "checkpoint"
        for number in range(3):
            source.put(event(number, 9), event(10 + number, number))
        query = run(source.stream().writeStream, table, checkpoint)
        assert lake.history(table)[1:] == [("STREAMING", 2, 2), ("STREAMING", 2, 2), ("STREAMING", 2, 2)]
        epochs = lake.rows(f"SELECT app_id, app_version, state FROM {table}.transactions ORDER BY version")
        assert epochs == [(str(query.id), n, "finished") for n in range(3)]

        # As after a crash between the commit and Spark's note of it: the epoch runs again.
        (checkpoint / "commits" / "2").unlink()
        (checkpoint / "commits" / ".2.crc").unlink(missing_ok=True)
        run(source.stream().writeStream, table, checkpoint)
        assert len(lake.history(table)) == 4
        source.put(event(20, 9))
        run(source.stream().writeStream, table, checkpoint)
        assert lake.rows(f"SELECT id, hour FROM {table} ORDER BY id") == [
            (0, 9), (1, 9), (2, 9), (10, 0), (11, 1), (12, 2), (20, 9),
        ]  # fmt: skip
        lake.check_clean(table)

    @pytest.mark.requirement("Flink.ExactlyOnce", statement="run(source.stream().writeStream")
    def test_a_killed_query_is_started_again_at_once(self, lake: Lake, tmp_path: Path) -> None:
        table, source, checkpoint = lake.table(EVENTS, "ds, hour"), Source(lake, tmp_path), tmp_path / "checkpoint"
        for number in range(3):
            source.put(event(number, 9), event(10 + number, number))
        # Its second epoch is reserved, with the first of its two files under its final name.
        environment = {**os.environ, "CATALOG_EXT_FAULT": "promote.file=kill:4"}
        command = [sys.executable, "-m", "tests.integration.streaming_process"]
        arguments = [str(lake.folder), table, str(source.folder), str(checkpoint)]
        killed = subprocess.run([*command, *arguments], env=environment, capture_output=True, check=False, timeout=300)
        assert killed.returncode == -signal.SIGKILL, killed.stderr[-2000:]
        assert lake.rows(f"SELECT id FROM {table} ORDER BY id") == [(0,), (10,)]

        run(source.stream().writeStream, table, checkpoint)
        assert lake.rows(f"SELECT id FROM {table} ORDER BY id") == [(0,), (1,), (2,), (10,), (11,), (12,)]
        assert [row[0] for row in lake.history(table)[1:]] == ["STREAMING"] * 3
        lake.check_clean(table)

    def test_others_may_overwrite_between_epochs(self, lake: Lake, tmp_path: Path) -> None:
        table, source = lake.table(EVENTS, "ds, hour"), Source(lake, tmp_path)
        source.put(event(1, 9))
        query = source.stream().writeStream.option("checkpointLocation", str(tmp_path / "checkpoint")).toTable(table)
        try:
            query.processAllAvailable()
            lake.spark.sql(f"INSERT OVERWRITE {table} VALUES (7, TIMESTAMP '2025-01-01 09:00:00', '2025-01-01', 9)")
            source.put(event(2, 9))
            query.processAllAvailable()
        finally:
            query.stop()
        assert lake.rows(f"SELECT id FROM {table} ORDER BY id") == [(2,), (7,)]
        lake.check_clean(table)

    def test_comments_may_change_between_epochs_and_columns_not(self, lake: Lake, tmp_path: Path) -> None:
        columns = "id BIGINT, s STRUCT<x: INT>, k STRING"
        table, source = lake.table(columns, "k"), Source(lake, tmp_path, columns)
        source.put({"id": 1, "s": {"x": 1}, "k": "a"})
        query = source.stream().writeStream.option("checkpointLocation", str(tmp_path / "checkpoint")).toTable(table)
        try:
            query.processAllAvailable()
            for column in ("id", "s.x", "k"):
                lake.spark.sql(f"ALTER TABLE {table} ALTER COLUMN {column} COMMENT 'a comment of {column}'")
            lake.spark.sql(f"ALTER TABLE {table} ALTER COLUMN id SET DEFAULT 7")
            source.put({"id": 2, "s": {"x": 2}, "k": "b"})
            query.processAllAvailable()
            assert lake.rows(f"SELECT * FROM {table} ORDER BY id") == [(1, (1,), "a"), (2, (2,), "b")]
            lake.spark.sql(f"ALTER TABLE {table} ADD COLUMNS (more INT)")
            source.put({"id": 3, "s": {"x": 3}, "k": "c"})
            with pytest.raises(StreamingQueryException, match="CATALOG_EXT_STREAM_CHANGED"):
                query.processAllAvailable()
        finally:
            query.stop()
        assert lake.rows(f"SELECT max(id) FROM {table}") == [(2,)]

    def test_virtual_keys_and_columns_by_name(self, lake: Lake, tmp_path: Path) -> None:
        table = lake.table("id BIGINT, name STRING, ds STRING", "ds", "'partition-columns' = 'virtual'")
        source = Source(lake, tmp_path, "DS STRING, id INT, name STRING")
        source.put({"DS": "a b", "id": 1, "name": "x"}, {"id": 2, "name": None})
        run(source.stream().writeStream, table, tmp_path / "checkpoint")
        assert lake.rows(f"SELECT *, ds FROM {table} ORDER BY id") == [(1, "x", "a b"), (2, None, None)]

    def test_a_table_that_the_query_makes(self, lake: Lake, tmp_path: Path) -> None:
        source = Source(lake, tmp_path)
        source.put(event(1, 9), event(2, 10))
        writer = source.stream().select("id", "hour").writeStream.partitionBy("hour")
        run(writer, "lake.streams.made", tmp_path / "checkpoint")
        assert lake.rows("SELECT * FROM lake.streams.made ORDER BY id") == [(1, 9), (2, 10)]
        assert lake.rows("SHOW PARTITIONS lake.streams.made") == [("hour=9",), ("hour=10",)]

    @pytest.mark.parametrize(
        ("columns", "problem"),
        [
            (["id", "ds", "hour", "id AS more"], "'more'.*which the table has not"),
            (["CAST(id AS STRING) id", "ds", "1 AS hour"], "'id' of type STRING.*without loss"),
            (["id", "ds"], "'hour'"),
        ],
    )
    def test_rows_that_do_not_fit_are_refused(
        self, lake: Lake, tmp_path: Path, columns: list[str], problem: str
    ) -> None:
        table, source = lake.table("id BIGINT, ds STRING, hour INT", "ds"), Source(lake, tmp_path)
        source.put(event(1, 9))
        with pytest.raises(StreamingQueryException, match=rf"CATALOG_EXT_INVALID_INPUT(.|\n)*{problem}"):
            run(source.stream().selectExpr(*columns).writeStream, table, tmp_path / "checkpoint")
        assert lake.rows(f"SELECT * FROM {table}") == []

    def test_fields_within_columns_are_found_by_name(self, lake: Lake, tmp_path: Path) -> None:
        table = lake.table(
            "id INT, s STRUCT<a: INT, b: INT>, l ARRAY<STRUCT<a: INT, b: STRUCT<x: INT, y: INT>>>, "
            "m MAP<STRING, STRUCT<a: INT, b: INT>>",
            "id",
        )
        swapped = (
            "id INT, s STRUCT<b: INT, A: INT>, l ARRAY<STRUCT<b: STRUCT<y: INT, x: INT>, a: INT>>, "
            "m MAP<STRING, STRUCT<b: INT, a: INT>>"
        )
        source = Source(lake, tmp_path, swapped)
        inner = {"b": {"y": 4, "x": 3}, "a": 1}
        source.put({"id": 1, "s": {"b": 2, "A": 1}, "l": [inner, None], "m": {"k": {"b": 2, "a": 1}, "n": None}})
        source.put({"id": 2, "s": None, "l": None, "m": None})
        run(source.stream().writeStream, table, tmp_path / "checkpoint")
        shown = "s.a, s.b, to_json(l), to_json(m)"
        assert lake.rows(f"SELECT {shown} FROM {table} ORDER BY id") == [
            (1, 2, '[{"a":1,"b":{"x":3,"y":4}},null]', '{"k":{"a":1,"b":2},"n":null}'), (None,) * 4,
        ]  # fmt: skip

    @pytest.mark.parametrize(
        "schema", ["s STRUCT<a: INT, c: INT>", "s STRUCT<a: INT>", "s STRUCT<a: INT, b: BIGINT>", "s ARRAY<INT>"]
    )
    def test_fields_that_do_not_fit_are_refused(self, lake: Lake, tmp_path: Path, schema: str) -> None:
        table, source = lake.table("id INT, s STRUCT<a: INT, b: INT>", ""), Source(lake, tmp_path, f"id INT, {schema}")
        source.put({"id": 1})
        with pytest.raises(StreamingQueryException, match=r"CATALOG_EXT_INVALID_INPUT(.|\n)*'s' of type.*without loss"):
            run(source.stream().writeStream, table, tmp_path / "checkpoint")
        assert lake.rows(f"SELECT * FROM {table}") == []

    def test_lengths_of_char_and_varchar_are_those_of_batch_writes(self, lake: Lake, tmp_path: Path) -> None:
        columns = "id INT, v VARCHAR(3), c CHAR(4), s STRUCT<v: VARCHAR(3)>, k CHAR(3), w VARCHAR(2)"
        texts = "id INT, v STRING, c STRING, s STRUCT<v: STRING>, k STRING, w STRING"
        table, source = lake.table(columns, "k, w"), Source(lake, tmp_path, texts)
        source.put({"id": 1, "v": "abc  ", "c": "ab", "s": {"v": "abc"}, "k": "x", "w": "y "})
        run(source.stream().writeStream, table, tmp_path / "checkpoint")
        lake.sql(f"INSERT INTO {table} VALUES (2, 'abc  ', 'ab', named_struct('v', 'abc'), 'x', 'y ')")
        streamed, batch = lake.rows(f"SELECT v, c, s.v, k, w, `$partition` FROM {table} ORDER BY id")
        assert streamed == batch
        assert streamed[:2] == ("abc", "ab  ")
        lake.sql("SET spark.sql.readSideCharPadding = false")
        try:
            assert lake.rows(f"SELECT length(c) FROM {table}") == [(4,), (4,)], "the files have the padded text"
        finally:
            lake.spark.conf.unset("spark.sql.readSideCharPadding")
        for number, row in enumerate(({"v": "abcd"}, {"c": "abcde"}, {"s": {"v": "abcd"}}, {"k": "abcd"})):
            folder = tmp_path / str(number)
            folder.mkdir()
            source = Source(lake, folder, texts)
            source.put({"id": 3, **row})
            with pytest.raises(StreamingQueryException, match="EXCEED_LIMIT_LENGTH"):
                run(source.stream().writeStream, table, folder / "checkpoint")
        assert lake.rows(f"SELECT count(*) FROM {table}") == [(2,)]

    def test_null_is_refused_where_the_table_has_none(self, lake: Lake, tmp_path: Path) -> None:
        table, source = lake.table("id INT NOT NULL, v STRING", ""), Source(lake, tmp_path, "id INT, v STRING")
        source.put({"v": "x"})
        with pytest.raises(StreamingQueryException, match="NOT_NULL_ASSERT_VIOLATION"):
            run(source.stream().writeStream, table, tmp_path / "checkpoint")
        assert lake.rows(f"SELECT * FROM {table}") == []

    def test_complete_mode_replaces_the_table(self, lake: Lake, tmp_path: Path) -> None:
        table, source = lake.table("n BIGINT, hour INT", "hour"), Source(lake, tmp_path)
        for rows in ([event(1, 9), event(2, 9)], [event(3, 9), event(4, 10)]):
            source.put(*rows)
        counts = source.stream().groupBy("hour").agg(f.count("*").alias("n")).select("n", "hour")
        run(counts.writeStream.outputMode("complete"), table, tmp_path / "checkpoint")
        assert sorted(lake.rows(f"SELECT hour, n FROM {table}")) == [(9, 3), (10, 1)]
        lake.check_clean(table)

    def test_foreach_batch_with_an_application_and_a_version(self, lake: Lake, tmp_path: Path) -> None:
        table, source, checkpoint = lake.table(EVENTS, "ds, hour"), Source(lake, tmp_path), tmp_path / "checkpoint"

        def write(batch: DataFrame, epoch: int) -> None:
            for _ in range(2):
                batch.writeTo(table).option("txn-app-id", "mine").option("txn-version", str(epoch)).append()

        for number in range(2):
            source.put(event(number, 9))
        writer = source.stream().writeStream.foreachBatch(write).trigger(availableNow=True)
        writer.option("checkpointLocation", str(checkpoint)).start().awaitTermination()
        assert lake.rows(f"SELECT id FROM {table} ORDER BY id") == [(0,), (1,)]


class TestPartitionCommit:
    @pytest.mark.requirement("Flink.StreamingWrite", statement="writeStream")
    def test_partitions_become_visible_when_the_watermark_reaches_them(self, lake: Lake, tmp_path: Path) -> None:
        table, source, checkpoint = lake.table(EVENTS, "ds, hour", BY_TIME), Source(lake, tmp_path), tmp_path / "check"
        location = Path(
            lake.catalog.load_table(table.removeprefix("lake.")).definition.location.removeprefix("file://")
        )
        streaming_policies.calls.clear()

        def visible() -> list[tuple[Any, ...]]:
            return lake.rows(f"SELECT hour, id FROM {table} ORDER BY id")

        def states() -> list[tuple[Any, ...]]:
            return lake.rows(f"SELECT partition, files, rows, state FROM {table}.partitions ORDER BY partition, state")

        def announced() -> list[str | None]:
            hours = [values["hour"] for values, _ in streaming_policies.calls]
            streaming_policies.calls.clear()
            return sorted(hours, key=str)

        stream = source.stream().withWatermark("at", "0 seconds")
        query = stream.writeStream.option("checkpointLocation", str(checkpoint)).toTable(table)
        try:
            source.put(event(1, 9, 10), event(2, 10, 5))
            query.processAllAvailable()
            assert visible() == []
            assert states() == [("ds=2025-01-01/hour=10", 1, 1, "waiting"), ("ds=2025-01-01/hour=9", 1, 1, "waiting")]
            assert announced() == []
            assert not (location / "ds=2025-01-01" / "hour=9").exists()

            # The watermark is now 10:05, that of the epoch before; the partition of 9 o'clock is due at 10.
            source.put(event(3, 11, 30), event(4, 9, 50))
            query.processAllAvailable()
            assert visible() == [(9, 1), (9, 4)]
            assert announced() == ["9"]
            assert (location / "ds=2025-01-01" / "hour=9" / "_SUCCESS").is_file()
            assert not (location / "ds=2025-01-01" / "hour=10").exists()

            # A late row appears with its epoch, and its partition is committed again.
            source.put(event(5, 9, 55))
            query.processAllAvailable()
            assert visible() == [(9, 1), (10, 2), (9, 4), (9, 5)]
            assert announced() == ["10", "9"]
            assert states()[-1] == ("ds=2025-01-01/hour=9", 3, 3, "committed")
            assert [s for s in states() if s[3] == "waiting"] == [("ds=2025-01-01/hour=11", 1, 1, "waiting")]
        finally:
            query.stop()
        # It was stopped, which is no end.
        assert (11, 3) not in visible()

        # What a repair must not take for its own lies in the table's directory.
        lake.spark.sql(f"CALL lake.system.repair_partitions(table => '{table}', mode => 'sync')")
        assert (11, 3) not in visible()

        source.put(event(6, 12, 0))
        run(source.stream().withWatermark("at", "0 seconds").writeStream, table, checkpoint)
        assert visible() == [(9, 1), (10, 2), (11, 3), (9, 4), (9, 5), (12, 6)]
        assert announced() == ["11", "12"]
        assert {state for *_, state in states()} == {"committed"}
        lake.check_clean(table)

    def test_a_policy_that_fails_runs_again_with_recovery(self, lake: Lake, tmp_path: Path) -> None:
        table, source = lake.table(EVENTS, "ds, hour", BY_TIME), Source(lake, tmp_path)
        streaming_policies.calls.clear()
        streaming_policies.fail_once.append(RuntimeError("the pager is off"))
        source.put(event(1, 9))
        run(source.stream().writeStream, table, tmp_path / "checkpoint")
        assert lake.rows(f"SELECT id FROM {table}") == [(1,)]
        assert streaming_policies.calls == []
        lake.spark.sql(f"CALL lake.system.recover(table => '{table}', older_than => '0s')")
        assert [values for values, _ in streaming_policies.calls] == [{"ds": "2025-01-01", "hour": "9"}]

    def test_a_query_without_a_watermark_would_wait_for_ever(self, lake: Lake, tmp_path: Path) -> None:
        table, source = lake.table(EVENTS, "ds, hour", BY_TIME), Source(lake, tmp_path)
        source.put(event(1, 9))
        writer = source.stream().writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        with pytest.raises(StreamingQueryException, match=r"CATALOG_EXT_INVALID_CONFIGURATION(.|\n)*withWatermark"):
            writer.toTable(table).processAllAvailable()
        # Options of the query go before the table's properties; that delay would now be one of the clock.
        options = {"sink.partition-commit.trigger": "process-time", "sink.partition-commit.delay": "0s"}
        query = writer.options(**options).toTable(table)
        try:
            query.processAllAvailable()
        finally:
            query.stop()
        assert lake.rows(f"SELECT id FROM {table}") == [(1,)]

    def test_options_that_do_not_fit_are_refused_at_once(self, lake: Lake) -> None:
        with pytest.raises(AnalysisException, match="CATALOG_EXT_INVALID_CONFIGURATION"):
            lake.table("id BIGINT", "", "'sink.partition-commit.trigger' = 'partition-time'")
        table = lake.table(EVENTS, "ds, hour", BY_TIME)
        with pytest.raises(AnalysisException, match="CATALOG_EXT_INVALID_CONFIGURATION"):
            lake.spark.sql(
                f"ALTER TABLE {table} SET TBLPROPERTIES ('partition.time-extractor.timestamp-pattern' = 'x')"
            )


class Planned:
    """The batches of a stream as Spark asks its source for them, without a query around them."""

    def __init__(self, lake: Lake, table: str, checkpoint: Path) -> None:
        jvm: Any = lake.spark._jvm
        self._all = jvm.org.apache.spark.sql.connector.read.streaming.ReadLimit.allAvailable()
        plan = lake.spark.readStream.table(table)._jdf.queryExecution().analyzed()
        while plan.nodeName() == "SubqueryAlias":
            plan = plan.child()
        self._stream = plan.table().newScanBuilder(plan.extraOptions()).build().toMicroBatchStream(checkpoint.as_uri())
        self.start = self._stream.initialOffset()

    def end(self, start: Any) -> Any:
        return self._stream.latestOffset(start, self._all)

    def ids(self, start: Any, end: Any) -> list[int]:
        """The first column of a batch's rows."""
        factory, found = self._stream.createReaderFactory(), []
        for partition in self._stream.planInputPartitions(start, end):
            reader = factory.createColumnarReader(partition)
            while reader.next():
                batch = reader.get()
                found += [batch.column(0).getLong(row) for row in range(batch.numRows())]
            reader.close()
        return sorted(found)


class TestReads:
    def read(self, lake: Lake, table: str, checkpoint: Path, *columns: str, **options: Any) -> list[list[Any]]:
        """The batches of a query that reads all that is there, each sorted."""
        batches: list[list[Any]] = []

        def collect(batch: DataFrame, _: int) -> None:
            batches.append(sorted(tuple(row) if len(row) > 1 else row[0] for row in batch.collect()))

        stream = lake.spark.readStream.options(**options).table(table).selectExpr(*(columns or ("id",)))
        writer = stream.writeStream.option("checkpointLocation", str(checkpoint)).foreachBatch(collect)
        writer.trigger(availableNow=True).start().awaitTermination()
        return batches

    def insert(self, lake: Lake, table: str, *rows: str) -> None:
        lake.spark.sql(f"INSERT INTO {table} VALUES {', '.join(rows)}")

    def test_new_files_in_the_order_of_versions(self, lake: Lake, tmp_path: Path) -> None:
        table, checkpoint = lake.table("id BIGINT, k STRING", "k"), tmp_path / "checkpoint"
        for number in range(2):
            self.insert(lake, table, f"({number}, 'b')")
        self.insert(lake, table, "(10, 'a')")
        # What is there is read by partition; then version by version.
        first, second = self.read(lake, table, checkpoint, maxFilesPerTrigger=2)
        assert (10 in first, sorted(first + second)) == (True, [0, 1, 10])
        for number in range(3):
            self.insert(lake, table, f"({20 + number}, 'a')")
        assert self.read(lake, table, checkpoint, maxFilesPerTrigger=2) == [[20, 21], [22]]
        assert self.read(lake, table, checkpoint) == []
        # A smaller limit than any file still reads one at a time.
        self.insert(lake, table, "(30, 'a')")
        self.insert(lake, table, "(31, 'a')")
        assert self.read(lake, table, checkpoint, maxBytesPerTrigger="1") == [[30], [31]]

    def test_a_batch_that_was_planned_is_the_same_after_a_restart(self, lake: Lake, tmp_path: Path) -> None:
        table, checkpoint = lake.table("id BIGINT, k STRING", "k"), tmp_path / "checkpoint"
        self.insert(lake, table, "(1, 'a')")
        assert self.read(lake, table, checkpoint) == [[1]]
        # As if the first batch had not been committed: meanwhile there is more.
        self.insert(lake, table, "(2, 'a')")
        for name in ("0", ".0.crc"):
            (checkpoint / "commits" / name).unlink(missing_ok=True)
        assert self.read(lake, table, checkpoint) == [[1], [2]]

    def test_starting_version(self, lake: Lake, tmp_path: Path) -> None:
        table = lake.table("id BIGINT, k STRING", "k")
        for number in range(3):
            self.insert(lake, table, f"({number}, 'a')")
        newest = lake.catalog.load_table(table.removeprefix("lake.")).version
        assert self.read(lake, table, tmp_path / "a", startingVersion=newest - 1) == [[1, 2]]
        assert self.read(lake, table, tmp_path / "b", startingVersion="latest") == []
        self.insert(lake, table, "(3, 'a')")
        assert self.read(lake, table, tmp_path / "b", startingVersion=0) == [[3]]
        for text, problem in ((str(newest + 9), "newest version"), ("soon", "startingVersion")):
            with pytest.raises(StreamingQueryException, match=problem):
                self.read(lake, table, tmp_path / text, startingVersion=text)

    def test_virtual_columns_and_metadata(self, lake: Lake, tmp_path: Path) -> None:
        table = lake.table("id BIGINT, k STRING, j INT", "k, j", "'partition-columns' = 'virtual'")
        self.insert(lake, table, "(1, 'a b', 7)", "(2, NULL, 8)")
        columns = ("j", "_metadata.file_name LIKE 'part-%' AS named", "k", "*")
        found = self.read(lake, table, tmp_path / "checkpoint", *columns)
        assert found == [[(7, True, "a b", 1), (8, True, None, 2)]]

    def test_versions_that_remove_files(self, lake: Lake, tmp_path: Path) -> None:
        table, checkpoint = lake.table("id BIGINT, k STRING", "k"), tmp_path / "checkpoint"
        self.insert(lake, table, "(1, 'a')")
        assert self.read(lake, table, checkpoint) == [[1]]
        lake.spark.sql(f"INSERT OVERWRITE {table} VALUES (2, 'a')")
        self.insert(lake, table, "(3, 'b')")
        with pytest.raises(StreamingQueryException, match=r"CATALOG_EXT_STREAM_CHANGED(.|\n)*skipChangeCommits"):
            self.read(lake, table, checkpoint)
        assert self.read(lake, table, checkpoint, skipChangeCommits="true") == [[3]]

    def test_a_table_that_was_made_again_is_another_one(self, lake: Lake, tmp_path: Path) -> None:
        table, checkpoint = lake.table("id BIGINT, k STRING", "k"), tmp_path / "checkpoint"
        self.insert(lake, table, "(1, 'a')")
        assert self.read(lake, table, checkpoint) == [[1]]
        lake.spark.sql(f"DROP TABLE {table}")
        lake.spark.sql(f"CREATE TABLE {table} (id BIGINT, k STRING) USING parquet PARTITIONED BY (k)")
        with pytest.raises(StreamingQueryException, match="CATALOG_EXT_STREAM_CHANGED"):
            self.read(lake, table, checkpoint)

    def test_from_table_to_table(self, lake: Lake, tmp_path: Path) -> None:
        first, second = lake.table("id BIGINT, k STRING", "k"), lake.table("id BIGINT, k STRING", "k")
        for number in range(4):
            self.insert(lake, first, f"({number}, 'k{number % 2}')")
        stream = lake.spark.readStream.option("maxFilesPerTrigger", 1).table(first)
        run(stream.writeStream, second, tmp_path / "checkpoint")
        assert lake.rows(f"SELECT * FROM {second} ORDER BY id") == lake.rows(f"SELECT * FROM {first} ORDER BY id")
        assert [row[0] for row in lake.history(second)[1:]] == ["STREAMING"] * 4


class TestPlanning:
    # A Spark that remembers the files of a scan must not give one batch those of another.
    def test_batches_planned_on_one_scan_read_their_own_files(self, lake: Lake, tmp_path: Path) -> None:
        table = lake.table("id BIGINT, ds STRING", "ds")
        lake.spark.sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")
        planned = Planned(lake, table, tmp_path / "checkpoint")
        first = planned.end(planned.start)
        assert planned.ids(planned.start, first) == [1, 2]
        lake.spark.sql(f"INSERT INTO {table} VALUES (3, 'a')")
        second = planned.end(first)
        assert planned.ids(first, second) == [3]
        # As after a failure, and as one batch over both.
        assert planned.ids(first, second) == [3]
        assert planned.ids(planned.start, first) == [1, 2]
        assert planned.ids(planned.start, second) == [1, 2, 3]
