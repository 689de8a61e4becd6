"""The parts of the demonstration that need neither a server nor Spark."""

from __future__ import annotations

import ast
import io
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import LocalFileSystem

from catalog_ext.context import RepairProgress
from examples.demo import flights, sessions
from examples.demo.keep import SCRIPT
from examples.demo.queries import QUERIES, equal
from examples.demo.screen import WIDTH, Screen
from examples.demo.stage import still_answering
from tests.servers.hive_cli import HiveCli

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def all_flights() -> pa.Table:
    return flights.flights()


@pytest.mark.slow
def test_the_flights_are_whole_and_make_the_partitions_that_are_promised(all_flights: pa.Table) -> None:
    assert all_flights.num_rows == 336_776
    assert (
        all_flights.select(list(flights.KEYS)).group_by(list(flights.KEYS)).aggregate([]).num_rows == flights.PARTITIONS
    )


@pytest.mark.slow
def test_missing_numbers_are_null_and_integers_stay_integers(all_flights: pa.Table) -> None:
    delays = all_flights["dep_delay"]
    assert pa.types.is_integer(delays.type)
    assert delays.null_count == 8_255
    assert pa.types.is_timestamp(all_flights["time_hour"].type)
    assert not any(pc.any(pc.is_nan(c)).as_py() for c in all_flights.columns if pa.types.is_floating(c.type))


@pytest.mark.slow
def test_the_other_tables_fit_what_the_steps_say_of_them(tmp_path: Path) -> None:
    assert flights.prepare(tmp_path / "source") == 336_776
    assert flights.count_partitions(tmp_path / "source") == flights.PARTITIONS
    airports = pq.read_table(tmp_path / "source" / "airports.parquet")
    assert airports["tzone"].null_count == 3
    holidays = pq.read_table(tmp_path / "source" / "holidays.parquet")
    assert pc.sum(pc.equal(holidays["season"], "summer")).as_py() == 2
    assert holidays.schema.field("month").type == pa.int32()


def test_damage_puts_copies_of_a_good_file_where_none_may_be(tmp_path: Path) -> None:
    day = tmp_path / "origin=LGA/month=2/day=28"
    day.mkdir(parents=True)
    (day / "_SUCCESS").touch()
    (day / "part-7.parquet").write_bytes(b"good")
    for below in ("month=2/day=notanumber", "mes=2/day=1"):
        (tmp_path / "origin=LGA" / below).mkdir(parents=True)  # S3 has no directories to make
    paths = flights.damage(LocalFileSystem(), str(tmp_path))
    assert [(tmp_path / path).read_bytes() for path in paths] == [b"good"] * 3


def test_equal_looks_at_rows_and_not_at_their_order() -> None:
    one = pa.table({"a": [1, 2, None], "b": ["x", "y", "z"]})
    assert equal(one, pa.table({"b": ["z", "x", "y"], "a": [None, 1, 2]}))
    assert not equal(one, pa.table({"a": [1, 2, 3], "b": ["x", "y", "z"]}))
    assert not equal(one, pa.table({"a": [1, 2], "b": ["x", "y"]}))
    assert not equal(one, one.rename_columns(["a", "c"]))


def test_every_query_names_the_table_by_its_placeholder_only() -> None:
    assert len({query.title for query in QUERIES}) == len(QUERIES) == 7
    for query in QUERIES:
        for sql in (query.sql, query.plain or query.sql):
            assert sql.format(t="lake.demo.flights").count("lake.demo.flights") == 1


def test_nothing_printed_is_wider_than_the_terminal_that_was_promised() -> None:
    output = io.StringIO()
    screen = Screen(output)
    screen.step("A title with [brackets]")
    screen.say("word " * 60)
    screen.code("SELECT " + "a_long_name, " * 20, "sql")
    screen.table(["query", "time", "SQL"], [["[point]", "1.20 s", "x" * 200], ["range", "0.10 s", "y"]], title="T")
    screen.error("it [failed] here " * 20)
    with screen.busy("working on [it]"):
        pass
    with screen.repairing(10) as progress:
        progress(RepairProgress("listing", 10, 10))
        progress(RepairProgress("comparing", 0, 0))
        progress(RepairProgress("delivering", 0, 0))
    printed = output.getvalue()
    assert max(map(len, printed.splitlines())) <= WIDTH
    for text in ("[brackets]", "[point]", "[it]", "[failed]", "listing", "delivering"):
        assert text in printed


def test_a_preview_shows_no_applying_and_no_delivering() -> None:
    output = io.StringIO()
    with Screen(output).repairing(preview=True) as progress:
        for phase in ("listing", "comparing", "applying", "delivering"):
            progress(RepairProgress(phase, 2, 2))
    assert "comparing" in output.getvalue()
    assert "applying" not in output.getvalue()
    assert "delivering" not in output.getvalue()


def test_port_in_use_is_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert still_answering([port]) == [port]
    assert still_answering([port]) == []


def test_processes_started_inside_print_to_the_file_and_those_after_do_not(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    command = [sys.executable, "-c", "import sys; print('to stdout'); print('to stderr', file=sys.stderr)"]
    with sessions.printing_to(tmp_path / "log"):
        subprocess.run(command, check=True)
    subprocess.run([sys.executable, "-c", "print('afterwards')"], check=True)
    assert sorted((tmp_path / "log").read_text(encoding="utf-8").split("\n")) == ["", "to stderr", "to stdout"]
    assert capfd.readouterr() == ("afterwards\n", "")


def test_settings_keep_everything_in_the_folder_and_on_loopback(tmp_path: Path) -> None:
    settings = sessions.local_settings(tmp_path)
    assert settings["spark.driver.bindAddress"] == "127.0.0.1"
    assert settings["spark.sql.sources.parallelPartitionDiscovery.parallelism"] == str(sessions.LISTING_PARALLELISM)
    for key in ("spark.local.dir", "spark.sql.warehouse.dir", "spark.driver.extraJavaOptions"):
        assert str(tmp_path) in settings[key]


def test_the_script_for_another_terminal_is_python_whatever_the_keys_are() -> None:
    storage = {"endpoint": "http://127.0.0.1:1", "secret_key": "a'b\"c\\"}
    ast.parse(SCRIPT.format(catalog="lake", index="sqlite:////tmp/i.db", metastore="thrift://h:1", storage=storage))


def test_hive_is_configured_for_the_metastore_and_keeps_to_its_folder(tmp_path: Path) -> None:
    HiveCli(tmp_path / "hive", "thrift://127.0.0.1:9083", class_path=[])
    site = (tmp_path / "hive" / "conf" / "hive-site.xml").read_text(encoding="utf-8")
    assert "<name>hive.metastore.uris</name><value>thrift://127.0.0.1:9083</value>" in site
    assert f"<name>hive.exec.scratchdir</name><value>{tmp_path}" in site
