"""docker-compose.yml from end to end: its services, as processes, and a user who works with them."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow as pa
import pyarrow.fs as fs
import pyarrow.parquet as pq
import pytest
from impala.dbapi import connect as hiveserver2

from catalog_ext.metastore.hive.thrift.connect import connect
from tests.integration.compose.containers_as_processes import Composed
from tests.integration.waiting import until
from tests.servers.composition import variables_of_compose
from tests.servers.trino import WITHOUT_JAVA, TrinoClient, TrinoError, trino_java

if TYPE_CHECKING:
    from collections.abc import Iterator

    from impala.hiveserver2 import HiveServer2Cursor

pytestmark = [pytest.mark.spark, pytest.mark.server]


@pytest.fixture(scope="module")
def secret() -> dict[str, str]:
    """Passwords of one's own, as the head of the file says."""
    return {name: secrets.token_hex(8) for name in variables_of_compose()}


@pytest.fixture(scope="module")
def composed(secret: dict[str, str]) -> Iterator[Composed]:
    # PostgreSQL runs as the user `nobody`, who may not enter pytest's folders.
    with tempfile.TemporaryDirectory(prefix="catalog-ext-compose-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        token = folder / "token"
        token.touch(mode=0o600)
        token.write_text(secrets.token_urlsafe(32))
        up = Composed(folder, {**secret, "LAKE_TOKEN_FILE": str(token)})
        yield up
        up.stop()


@pytest.fixture(scope="module")
def sql(composed: Composed) -> Iterator[HiveServer2Cursor]:
    """A session of the Thrift server."""
    with _session(composed) as cursor:
        yield cursor


@contextmanager
def _session(composed: Composed) -> Iterator[HiveServer2Cursor]:
    port = composed.port(10000)
    connection = hiveserver2(host="127.0.0.1", port=port, auth_mechanism="PLAIN", user="ada", password="unused")
    with connection.cursor() as cursor:
        yield cursor
    connection.close()


def rows(cursor: HiveServer2Cursor, statement: str) -> list[tuple[Any, ...]]:
    cursor.execute(statement)
    found: list[tuple[Any, ...]] = cursor.fetchall()
    return found


def run(composed: Composed, *arguments: str) -> Any:
    """What ``docker compose exec service catalog-ext … --json`` answers."""
    command = [sys.executable, "-m", "catalog_ext.cli.main", *arguments, "--json"]
    done = subprocess.run(
        command, env=composed.client(), cwd=composed.folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def store(composed: Composed, secret: dict[str, str]) -> fs.S3FileSystem:
    return fs.S3FileSystem(
        access_key="catalog", secret_key=secret["LAKE_S3_SECRET"], region="us-east-1",
        endpoint_override=f"http://127.0.0.1:{composed.port(8333)}",
    )  # fmt: skip


TRIPS = "lake/warehouse/sales.db/trips"


@pytest.fixture(scope="module")
def trips(sql: HiveServer2Cursor) -> None:
    """The table, made through the Thrift server; tests add what they need."""
    sql.execute("CREATE NAMESPACE IF NOT EXISTS lake.sales")
    columns = "id BIGINT, fare DECIMAL(10,2), ds DATE, region STRING"
    sql.execute(f"CREATE TABLE lake.sales.trips ({columns}) PARTITIONED BY (ds, region)")
    sql.execute(
        "INSERT INTO lake.sales.trips VALUES (1, 1.50, DATE '2025-01-01', 'a b/c'), (2, 2.50, DATE '2025-01-02', NULL)"
    )


def test_a_table_from_the_thrift_server_to_the_store_and_both_databases(
    composed: Composed, sql: HiveServer2Cursor, secret: dict[str, str], trips: None
) -> None:
    assert rows(sql, "SELECT id, fare FROM lake.sales.trips WHERE ds > '2025-01-01' AND region IS NULL") == [
        (2, Decimal("2.50"))
    ]
    # The worker's executors wrote them, to the S3 server.
    assert list((composed.folder / "home" / "work").glob("app-*"))
    files = store(composed, secret).get_file_info(fs.FileSelector(TRIPS, recursive=True))
    names = {
        Path(file.path).parent.relative_to(TRIPS) for file in files if file.is_file and file.path.endswith(".parquet")
    }
    assert names >= {
        Path("ds=2025-01-01/region=a b%2Fc"), Path("ds=2025-01-02/region=__HIVE_DEFAULT_PARTITION__"),
    }  # fmt: skip
    # Each database has a user of its own, who may not open the other's.
    place = f"host=127.0.0.1 port={composed.port(5432)}"
    with psycopg.connect(f"{place} dbname=catalog user=catalog password={secret['LAKE_DATABASE_PASSWORD']}") as index:
        assert index.execute("SELECT count(*) >= 2 FROM partitions").fetchone() == (True,)
    with psycopg.connect(
        f"{place} dbname=metastore user=metastore password={secret['LAKE_METASTORE_PASSWORD']}"
    ) as hive:
        assert set(hive.execute('SELECT "PART_NAME" FROM "PARTITIONS"').fetchall()) >= {
            ("ds=2025-01-01/region=a b%2Fc",), ("ds=2025-01-02/region=__HIVE_DEFAULT_PARTITION__",),
        }  # fmt: skip


def test_the_command_line_beside_the_service(
    composed: Composed, sql: HiveServer2Cursor, secret: dict[str, str], trips: None
) -> None:
    with store(composed, secret).open_output_stream(f"{TRIPS}/ds=2025-01-03/region=x/new.parquet") as sink:
        pq.write_table(pa.table({"id": [3], "fare": pa.array([Decimal("3.50")], pa.decimal128(10, 2))}), sink)
    report = run(composed, "repair", "sales.trips")
    # What another test has dropped in the metastore lies there still.
    assert "ds=2025-01-03/region=x" in [each["partition"] for each in report["added"]], report
    assert rows(sql, "SELECT id FROM lake.sales.trips WHERE region = 'x'") == [(3,)]
    assert [row[0] for row in rows(sql, "SHOW PARTITIONS lake.sales.trips")].count("ds=2025-01-03/region=x") == 1
    doctor = run(composed, "doctor")
    assert doctor["healthy"], doctor
    (follower,) = run(composed, "status")["entries"]
    assert (follower["kind"], follower["state"]) == ("follower", "in sync"), follower


def test_what_others_change_in_the_metastore_is_followed(
    composed: Composed, sql: HiveServer2Cursor, trips: None
) -> None:
    sql.execute("INSERT INTO lake.sales.trips VALUES (4, 4, DATE '2025-01-04', 'gone')")
    client = connect(composed.places.here("thrift://metastore:9083"))
    client.drop_partitions("sales", "trips", ["ds=2025-01-04/region=gone"])
    client.close()
    gone = "SELECT count(*) FROM lake.sales.trips WHERE region = 'gone'"
    until(lambda: rows(sql, gone) == [(0,)], "the follower of the service")


def test_the_thrift_server_goes_on_when_the_service_was_started_again(
    composed: Composed, sql: HiveServer2Cursor, trips: None
) -> None:
    query = "SELECT id FROM lake.sales.trips WHERE id < 3 ORDER BY id"
    assert rows(sql, query) == [(1,), (2,)]
    composed.restart("service")
    assert rows(sql, query) == [(1,), (2,)]


@pytest.fixture(scope="module")
def trino(composed: Composed) -> TrinoClient:
    if trino_java() is None:
        pytest.skip(WITHOUT_JAVA)
    client = TrinoClient(composed.port(8085), "lake")

    def answers() -> bool:
        try:
            return client("SELECT 1") == [(1,)]
        except (TrinoError, OSError):
            return False

    until(answers, "Trino")
    return client


def same(sql: HiveServer2Cursor, trino: TrinoClient, query: str, table: str) -> list[tuple[Any, ...]]:
    """The rows of a query, which both engines answer alike."""
    ours = sorted(rows(sql, query.format(table=f"lake.{table}")), key=repr)
    theirs = sorted(trino(query.format(table=table)), key=repr)
    assert [tuple(map(_text, row)) for row in theirs] == [tuple(map(_text, row)) for row in ours], (table, query)
    return ours


def _text(value: object) -> str | None:
    return None if value is None else str(value)


NAMES = ("'n'", "NULL")
QUERIES = (
    "SELECT * FROM {table}",
    "SELECT id FROM {table} WHERE region = 'a b/c'",
    "SELECT id FROM {table} WHERE region IN ('50%', 'ä€', 'k=v')",
    "SELECT id FROM {table} WHERE region IS NULL",
    "SELECT id FROM {table} WHERE ds > DATE '2025-01-01'",
    "SELECT ds, count(*) FROM {table} GROUP BY ds",
    "SELECT count(DISTINCT region) FROM {table}",
)


@pytest.mark.parametrize("data_format", ["parquet", "orc"])
def test_trino_reads_what_we_write_and_change(
    composed: Composed, sql: HiveServer2Cursor, trino: TrinoClient, data_format: str
) -> None:
    table = f"sales.by_{data_format}"
    sql.execute("CREATE NAMESPACE IF NOT EXISTS lake.sales")
    sql.execute(
        f"CREATE TABLE lake.{table} (id BIGINT, fare DECIMAL(10,2), name STRING, ds DATE, region STRING) "
        f"USING {data_format} PARTITIONED BY (ds, region)"
    )
    values = ", ".join(
        f"({number}, {number}.25, {NAMES[number % 2]}, DATE '2025-01-0{1 + number % 3}', {region})"
        for number, region in enumerate(["'a b/c'", "'50%'", "'ä€'", "'k=v'", "'q\"d'", "NULL"])
    )
    sql.execute(f"INSERT INTO lake.{table} VALUES {values}")
    assert (table.partition(".")[2],) in trino("SHOW TABLES FROM sales")
    for query in QUERIES:
        same(sql, trino, query, table)
    partitions = trino(f'SELECT * FROM sales."by_{data_format}$partitions"')
    assert sorted(map(repr, partitions)) == sorted(
        repr((str(day), region)) for day, region in rows(sql, f"SELECT DISTINCT ds, region FROM lake.{table}")
    )
    pruned = trino(f"EXPLAIN (TYPE IO, FORMAT JSON) SELECT id FROM {table} WHERE region = '50%'")
    assert "50%" in pruned[0][0]
    changes = (
        f"INSERT INTO lake.{table} VALUES (10, 1, 'more', DATE '2025-01-02', '50%')",
        f"INSERT OVERWRITE lake.{table} VALUES (11, 2, 'over', DATE '2025-01-01', 'a b/c')",
        f"ALTER TABLE lake.{table} PARTITION (ds = '2025-01-02', region = '50%') "
        "RENAME TO PARTITION (ds = '2025-01-02', region = '50 %')",
        f"ALTER TABLE lake.{table} ADD COLUMNS (note STRING)",
        f"INSERT INTO lake.{table} (id, fare, note, ds, region) VALUES (12, 3, 'noted', DATE '2025-01-02', '50 %')",
        f"ALTER TABLE lake.{table} SET TBLPROPERTIES ('overwrite-mode' = 'relocate')",
        f"INSERT OVERWRITE lake.{table} VALUES (13, 4, 'moved', 'here', DATE '2025-01-03', 'ä€')",
        f"ALTER TABLE lake.{table} DROP PARTITION (ds = '2025-01-01', region = 'k=v')",
    )
    for change in changes:
        sql.execute(change)
        same(sql, trino, QUERIES[0], table)
    for query in QUERIES:
        same(sql, trino, query, table)


@pytest.mark.parametrize("data_format", ["parquet", "orc"])
def test_what_trino_writes_is_followed(sql: HiveServer2Cursor, trino: TrinoClient, data_format: str) -> None:
    table = f"sales.both_{data_format}"
    sql.execute("CREATE NAMESPACE IF NOT EXISTS lake.sales")
    sql.execute(
        f"CREATE TABLE lake.{table} (id BIGINT, ds DATE, region STRING) USING {data_format} PARTITIONED BY (ds, region)"
    )
    sql.execute(f"INSERT INTO lake.{table} VALUES (1, DATE '2025-01-01', 'x')")

    def comes(expected: list[tuple[Any, ...]]) -> None:
        until(lambda: rows(sql, f"SELECT id, region FROM lake.{table} ORDER BY id") == expected, f"{expected}")
        same(sql, trino, QUERIES[0], table)

    trino(f"INSERT INTO {table} VALUES (2, DATE '2025-01-02', 'a b/c'), (3, DATE '2025-01-02', NULL)")
    comes([(1, "x"), (2, "a b/c"), (3, None)])
    # Into a partition that is there: Trino alters it in the metastore.
    trino(f"INSERT INTO {table} VALUES (4, DATE '2025-01-01', 'x')")
    comes([(1, "x"), (2, "a b/c"), (3, None), (4, "x")])
    sql.execute(f"INSERT INTO lake.{table} VALUES (5, DATE '2025-01-02', 'a b/c')")
    comes([(1, "x"), (2, "a b/c"), (3, None), (4, "x"), (5, "a b/c")])
    # Its files go first: until the drop has come here, a query would name one that has gone.
    trino(f"DELETE FROM {table} WHERE region = 'x'")
    until(lambda: len(rows(sql, f"SHOW PARTITIONS lake.{table}")) == 2, "the drop")
    comes([(2, "a b/c"), (3, None), (5, "a b/c")])
    trino(f"ANALYZE {table}")
    assert rows(sql, f"SELECT count(*) FROM lake.{table}") == [(3,)]
