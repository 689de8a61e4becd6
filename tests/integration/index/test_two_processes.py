"""Processes that register and repair the same tables on one index at once, and one that is killed on its way."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import catalog_ext
from catalog_ext.tables.locations import TableOverlapWarning
from tests.kit.repair_cases import indexed, register, walked, write

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_ext.catalog import Catalog

PARTITIONS = 200
TABLES = ["s.a", "s.b", "s.c"]
ROOT = Path(__file__).parents[3]


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def index(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty index on each of the databases."""
    if request.param == "sqlite":
        return str(tmp_path / "index.db")
    fixture = {"postgresql": "postgres_url", "mariadb": "mariadb_url"}[request.param]
    return str(request.getfixturevalue(fixture))


@pytest.fixture
def catalog(index: str, tmp_path: Path) -> Iterator[Catalog]:
    from catalog_ext.metastore.index import Index

    with Index.connect(index) as fresh:
        fresh.migrate()
    with catalog_ext.connect(index=index, metastore=None, warehouse=str(tmp_path / "warehouse")) as catalog:
        catalog.create_namespace("s")
        yield catalog


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    write(tmp_path / "t", *(f"k={i}/1.csv" for i in range(PARTITIONS)))
    return tmp_path / "t"


class Process:
    """A repairing process, ready and waiting for the signal to start."""

    def __init__(self, **order: Any) -> None:
        command = [sys.executable, "-W", "ignore", "-m", "tests.integration.repairing_process", json.dumps(order)]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.line() == {"ready": True}

    def line(self) -> dict[str, Any]:
        assert self._process.stdout
        text = self._process.stdout.readline()
        assert text, self._process.stderr and self._process.stderr.read()
        return json.loads(text)  # type: ignore[no-any-return]

    def start(self) -> None:
        assert self._process.stdin
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def finish(self) -> list[dict[str, Any]]:
        out, err = self._process.communicate(timeout=120)
        assert self._process.returncode == 0, err
        return [json.loads(line) for line in out.splitlines()]

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


def test_processes_at_once_register_every_table_and_partition_once(
    catalog: Catalog, index: str, tree: Path, tmp_path: Path
) -> None:
    orders = [{"index": index, "warehouse": str(tmp_path / "warehouse"), "location": str(tree), "tables": TABLES}] * 3
    processes = [Process(**order) for order in orders]
    for process in processes:
        process.start()
    lines = [line for process in processes for line in process.finish()]
    for table in TABLES:
        reported = [line for line in lines if line["table"] == table]
        assert sum(line["registered"] for line in reported) == 1
        assert sum(line["added"] for line in reported) == PARTITIONS
        assert all(line["added"] + line["skipped"] in (0, PARTITIONS) for line in reported)
        assert indexed(catalog, table) == walked(tree, 1)
        totals = catalog.load_table(table).totals
        assert (totals.partitions, totals.files) == (PARTITIONS, PARTITIONS)


def test_a_repair_that_was_killed_is_finished_by_the_next_one(
    catalog: Catalog, index: str, tree: Path, tmp_path: Path
) -> None:
    order = {"index": index, "warehouse": str(tmp_path / "warehouse"), "location": str(tree)}
    process = Process(**order, tables=["s.a"], batch=10)
    process.start()
    while process.line() != {"phase": "applying", "partitions": 50}:
        pass
    process.kill()
    left = len(indexed(catalog, "s.a"))
    assert 50 <= left < PARTITIONS
    assert left % 10 == 0, "batches are whole or not there"
    report = catalog.repair_partitions("s.a")
    assert len(report.added) == PARTITIONS - left
    assert len(report.skipped) == 0
    assert indexed(catalog, "s.a") == walked(tree, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableOverlapWarning)
        register(catalog, tree, {"k": "INT"}, table="s.b")
    assert len(catalog.repair_partitions("s.b").added) == PARTITIONS
