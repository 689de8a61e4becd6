"""A Hive 2.3 metastore that keeps a log, and Hive's own command line writing: what it does is in the index at once."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

import catalog_ext
from catalog_ext.metastore.commit.fault_points import armed
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.predicates.tree import Comparison, Operator
from catalog_ext.service.server import Service
from tests.kit.repair_cases import indexed, write
from tests.kit.writes import begin, stage
from tests.servers.hive import HiveCli, HiveMetastore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from catalog_ext.catalog import Catalog

NOW = "!date +%s.%N"
_WAIT_S = 20.0


@pytest.fixture(scope="module")
def hive(logged_hive_metastore: HiveMetastore, tmp_path_factory: pytest.TempPathFactory) -> HiveCli:
    settings = {"hive.stats.autogather": "true"}
    return HiveCli(tmp_path_factory.mktemp("hive") / "cli", logged_hive_metastore.uri, settings=settings)


@pytest.fixture
def catalog(logged_hive_metastore: HiveMetastore, tmp_path: Path) -> Iterator[Catalog]:
    with catalog_ext.connect(
        index=str(tmp_path / "index.db"), metastore=logged_hive_metastore.uri, warehouse=str(tmp_path / "warehouse")
    ) as catalog:
        yield catalog


def follower(index: Path, uri: str) -> subprocess.Popen[bytes]:
    """The command, until it is ended."""
    program = [sys.executable, "-m", "catalog_ext.cli.main", "--index", str(index), "--metastore", uri]
    return subprocess.Popen([*program, "follow"], stdout=subprocess.DEVNULL)


def sizes(catalog: Catalog, table: str) -> dict[str, int]:
    """How many files each partition has."""
    return {name: len(files) for name, files in indexed(catalog, table).items()}


def test_every_statement_of_hive_arrives(catalog: Catalog, hive: HiveCli, tmp_path: Path) -> None:
    """Each statement by itself, followed at once: in order, each once."""
    root = tmp_path / "t"
    hive.run([
        "CREATE DATABASE IF NOT EXISTS f",
        f"CREATE EXTERNAL TABLE f.t (x INT) PARTITIONED BY (ds STRING, k INT) STORED AS PARQUET LOCATION 'file://{root}'",
        "INSERT INTO f.t PARTITION (ds = 'a', k = 1) VALUES (1)",
    ])  # fmt: skip
    catalog.import_table("f.t")
    assert catalog.follower.look().source == "log"
    assert sizes(catalog, "f.t") == {"ds=a/k=1": 1}

    (root / "ds=m" / "k=7").mkdir(parents=True)
    hive.run([
        "INSERT INTO f.t PARTITION (ds = 'a', k = 1) VALUES (2)",
        "INSERT INTO f.t PARTITION (ds, k) SELECT 5, 'b b', 2 UNION ALL SELECT 6, 'c', 3",
        f"ALTER TABLE f.t ADD PARTITION (ds = 'n', k = 9) LOCATION 'file://{tmp_path}/elsewhere'",
        "ALTER TABLE f.t ADD COLUMNS (y STRING)",
        "ALTER TABLE f.t SET TBLPROPERTIES ('a' = '1', 'b' = '1')",
        "MSCK REPAIR TABLE f.t",
    ])  # fmt: skip
    outcome = catalog.follower.look()
    assert outcome.event_id == outcome.newest_id
    assert sizes(catalog, "f.t") == {"ds=a/k=1": 2, "ds=b b/k=2": 1, "ds=c/k=3": 1, "ds=n/k=9": 0, "ds=m/k=7": 0}
    definition = catalog.load_table("f.t").definition
    assert [c.name for c in definition.columns] == ["x", "y"]
    assert (definition.properties["a"], definition.properties["b"]) == ("1", "1")

    hive.run([
        "INSERT OVERWRITE TABLE f.t PARTITION (ds = 'a', k = 1) VALUES (3, 'z')",
        "ALTER TABLE f.t PARTITION (ds = 'c', k = 3) RENAME TO PARTITION (ds = 'd', k = 3)",
        "ALTER TABLE f.t DROP PARTITION (ds = 'n')",
        "ALTER TABLE f.t UNSET TBLPROPERTIES ('a')",
        "CREATE TABLE f.plain (x INT)",
        "INSERT INTO f.plain VALUES (1)",
        "CREATE TABLE f.made (x INT) PARTITIONED BY (k INT)",
        "INSERT INTO f.made PARTITION (k = 1) VALUES (1)",
        "ALTER TABLE f.made PARTITION (k = 1) RENAME TO PARTITION (k = 2)",
    ])  # fmt: skip
    catalog.follower.look(databases=["f"])
    assert sizes(catalog, "f.t") == {"ds=a/k=1": 1, "ds=b b/k=2": 1, "ds=d/k=3": 1, "ds=m/k=7": 0}
    assert "a" not in catalog.load_table("f.t").definition.properties
    assert sizes(catalog, "f.plain") == {"": 1}
    assert sizes(catalog, "f.made") == {"k=2": 1}

    hive.run([
        "INSERT INTO f.plain VALUES (2)", "INSERT OVERWRITE TABLE f.made PARTITION (k = 2) VALUES (3)",
        "TRUNCATE TABLE f.plain", "DROP TABLE f.made",
    ])  # fmt: skip
    catalog.follower.look()
    assert sizes(catalog, "f.plain") == {"": 0}
    assert "made" not in catalog.list_tables("f")
    assert catalog.index.outbox.count() == 0
    assert catalog.follower.look().is_idle
    assert catalog.index.followed.suspects() == []


def test_the_delay_from_hives_statement_to_our_answer(catalog: Catalog, hive: HiveCli, tmp_path: Path) -> None:
    """A service follows in the background: a statement's rows are in the index within two seconds of its end."""
    hive.run([
        "CREATE DATABASE IF NOT EXISTS f",
        f"CREATE EXTERNAL TABLE f.quick (x INT) PARTITIONED BY (k INT) STORED AS PARQUET LOCATION 'file://{tmp_path}/q'",
    ])  # fmt: skip
    catalog.import_table("f.quick")
    catalog.follower.look()
    statements = [f"INSERT INTO f.quick PARTITION (k = {k}) VALUES (1)" for k in range(4)]
    with Service(catalog, follow=True):
        answers = hive.run([line for statement in statements for line in (statement, NOW)])
        ended_s = [float(rows[0][0]) for rows in answers[1::2]]
        until = time.monotonic() + _WAIT_S
        while len(sizes(catalog, "f.quick")) < len(statements) and time.monotonic() < until:
            threading.Event().wait(0.05)
    committed_s = sorted(v.committed_at_ms / 1000 for v in catalog.history("f.quick"))[-len(statements) :]
    delays = [committed - ended for committed, ended in zip(committed_s, ended_s, strict=True)]
    assert max(delays) < 2.0, [round(delay, 2) for delay in delays]


def test_followers_that_are_killed_again_and_again_lose_nothing(
    catalog: Catalog, logged_hive_metastore: HiveMetastore, hive: HiveCli, tmp_path: Path
) -> None:
    """While Hive writes: each is killed -9 soon after it has begun, and the last one ends well."""
    root = tmp_path / "killed"
    hive.run([
        "CREATE DATABASE IF NOT EXISTS f",
        f"CREATE EXTERNAL TABLE f.killed (x INT) PARTITIONED BY (k INT) STORED AS PARQUET LOCATION 'file://{root}'",
    ])  # fmt: skip
    catalog.import_table("f.killed")
    catalog.follower.look()
    catalog.follower.close()
    statements = [f"INSERT INTO f.killed PARTITION (k = {number % 3}) VALUES (1)" for number in range(8)]
    deaths = 0
    with ThreadPoolExecutor(1) as threads:
        written = threads.submit(hive.run, [*statements, "ALTER TABLE f.killed DROP PARTITION (k = 2)"])
        while not written.done():
            process = follower(tmp_path / "index.db", logged_hive_metastore.uri)
            threading.Event().wait(2.0 + 0.3 * (deaths % 4))
            process.kill()
            process.wait()
            deaths += 1
        written.result()
    assert deaths > 3
    catalog.follower.look()
    found = {name: sorted(files) for name, files in indexed(catalog, "f.killed").items()}
    assert found == {
        f"k={k}": sorted(f.name for f in (root / f"k={k}").iterdir() if not f.name.startswith((".", "_")))
        for k in (0, 1)
    }
    assert [len(files) for files in found.values()] == [3, 3]
    assert catalog.follower.look().is_idle


def test_how_files_are_read_and_where_they_lie(catalog: Catalog, hive: HiveCli, tmp_path: Path) -> None:
    """Partitions keep what they were made with, as in Hive: what holds for all of them is taken over, else refused."""
    text = "ROW FORMAT DELIMITED FIELDS TERMINATED BY '|'"
    write(tmp_path, "t/k=1/one", content=b"a|b\n")
    write(tmp_path, "whole/one", content=b"a|b\n")
    write(tmp_path, "moved/one", "moved/two", content=b"a,b\n")
    write(tmp_path, "new/k=2/one", content=b"a,b\n")
    hive.run([
        "CREATE DATABASE IF NOT EXISTS f",
        f"CREATE EXTERNAL TABLE f.d (x STRING, y STRING) PARTITIONED BY (k INT) {text} LOCATION 'file://{tmp_path}/t'",
        f"CREATE EXTERNAL TABLE f.w (x STRING, y STRING) {text} LOCATION 'file://{tmp_path}/whole'",
        "ALTER TABLE f.d ADD PARTITION (k = 1)",
    ])  # fmt: skip
    for name in ("f.d", "f.w"):
        catalog.import_table(name)
    catalog.follower.look()

    hive.run([
        *(f"ALTER TABLE f.{name} SET SERDEPROPERTIES ('field.delim' = ',')" for name in "dw"),
        f"ALTER TABLE f.d SET LOCATION 'file://{tmp_path}/new'",
        f"ALTER TABLE f.w SET LOCATION 'file://{tmp_path}/moved'",
        "ALTER TABLE f.d ADD PARTITION (k = 2)",
    ])  # fmt: skip
    outcome = catalog.follower.look()
    assert {t.table: t.action for t in outcome.tables} == {"f.d": "refused", "f.w": "followed"}
    whole = catalog.load_table("f.w").definition
    assert (whole.options["sep"], whole.location) == (",", f"file://{tmp_path}/moved")
    assert sizes(catalog, "f.w") == {"": 2}
    parted = catalog.load_table("f.d")
    assert (parted.definition.options["sep"], parted.definition.location) == ("|", f"file://{tmp_path}/new")
    assert sizes(catalog, "f.d") == {"k=1": 1, "k=2": 1}
    assert catalog.index.partitions.located(parted) == {"k=1": f"file://{tmp_path}/t/k=1"}
    (said,) = [entry for entry in catalog.status() if entry.kind == "suspect"]
    assert (said.table, said.state) == ("f.d", "refused")
    assert "partitions that are there keep their own: of 'k=1' its option sep is '|'" in said.detail

    hive.run([
        "USE f",
        "ALTER TABLE d PARTITION (k = 1) SET SERDEPROPERTIES ('field.delim' = ',')",
        "ALTER TABLE d SET TBLPROPERTIES ('p' = '1')",
        "ALTER TABLE w SET FILEFORMAT ORC",
    ])  # fmt: skip
    catalog.follower.look()
    assert catalog.load_table("f.d").definition.options["sep"] == ","
    assert catalog.load_table("f.w").definition.format == "orc"
    assert catalog.index.followed.suspects() == []
    assert catalog.index.outbox.count() == 0


A = Comparison(Operator.EQ, "ds", "a")
LOAD = "LOAD DATA LOCAL INPATH 'file://{folder}/300/000000_0' INTO TABLE f.{table} PARTITION (ds = 'a')"
DROP = "ALTER TABLE f.{table} DROP PARTITION (ds = 'a')"


def overwrite(catalog: Catalog, table: str, **options: str) -> None:
    begun = begin(catalog, WriteKind.OVERWRITE_PARTITIONS, table=table, **options)
    catalog.writes.transactions.commit(begun.transaction_id, [stage(begun, "ds=a", b"40\n")])


def delete(catalog: Catalog, table: str) -> None:
    there = catalog.load_table(table)
    catalog.writes.delete(there.table_id, there.version, A, truncate=False)


OURS: Mapping[str, Callable[[Catalog, str], object]] = {
    "overwrite": overwrite,
    "delete": delete,
    "drop": lambda catalog, table: catalog.partition_commands.drop(table, [A]),
    "rename": lambda catalog, table: catalog.partition_commands.rename(table, {"ds": "a"}, {"ds": "n"}),
}
# Of each statement of ours: at which of its steps Hive's statements run, and the rows that are there afterwards.
BETWEEN: Mapping[str, tuple[str, Sequence[str], Mapping[str, list[str]]]] = {
    "overwrite": ("reserve.after", (LOAD,), {"a": ["300", "40"], "b": ["2"]}),
    "delete": ("promote.after", (DROP, LOAD), {"a": ["300"], "b": ["2"]}),
    "drop": ("apply.before", (LOAD,), {"a": ["300"], "b": ["2"]}),
    "rename": ("promote.after", (DROP, LOAD), {"a": ["300"], "b": ["2"], "n": ["1"]}),
}


def test_rows_that_hive_loads_between_the_steps_of_our_statements_stay(
    catalog: Catalog, hive: HiveCli, tmp_path: Path
) -> None:
    """Managed tables, whose files a statement deletes; the follower looks right after Hive, before our next step."""
    write(tmp_path, "300/000000_0", content=b"300\n")
    made = []
    for ours in OURS:
        write(tmp_path, f"{ours}/ds=a/000000_0", content=b"1\n")
        write(tmp_path, f"{ours}/ds=b/000000_0", content=b"2\n")
        made += [
            f"CREATE TABLE f.b_{ours} (x INT) PARTITIONED BY (ds STRING) ROW FORMAT DELIMITED "
            f"FIELDS TERMINATED BY ',' LOCATION 'file://{tmp_path}/{ours}'",
            f"ALTER TABLE f.b_{ours} ADD PARTITION (ds = 'a') PARTITION (ds = 'b')",
        ]
    hive.run(["CREATE DATABASE IF NOT EXISTS f", *made])
    for ours, statement in OURS.items():
        catalog.import_table(f"f.b_{ours}")
        catalog.follower.look()
        point, hives, _ = BETWEEN[ours]
        lines = [line.format(folder=tmp_path, table=f"b_{ours}") for line in hives]

        def between(_: str, lines: Sequence[str] = lines) -> None:
            hive.run(lines)
            catalog.follower.look()

        with armed(point, between):
            statement(catalog, f"f.b_{ours}")
        catalog.follower.look()
        catalog.repair_partitions(f"f.b_{ours}")
    assert catalog.deliver().pending == 0
    answers = hive.run([f"SELECT ds, x FROM f.b_{ours}" for ours in OURS])
    for ours, rows in zip(OURS, answers, strict=True):
        found = defaultdict(list)
        for partition, value in rows:
            found[partition].append(value)
        assert {name: sorted(values) for name, values in found.items()} == BETWEEN[ours][2], ours
        assert sizes(catalog, f"f.b_{ours}") == {f"ds={name}": len(values) for name, values in found.items()}, ours
