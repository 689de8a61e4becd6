"""Airflow in an environment of its own: the DAGs of ``examples/airflow``, run by ``airflow dags test``."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from catalog_ext import connect
from tests.integration.standing_service import PROJECT
from tests.integration.waiting import until
from tests.neighbours.environments import environment as neighbour

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from tests.integration.client_servers import SparkServer
    from tests.integration.standing_service import StandingService
    from tests.servers.hive import HiveMetastore

pytestmark = [pytest.mark.spark, pytest.mark.neighbour]


@dataclass(frozen=True)
class Airflow:
    """Airflow with an SQLite database of its own and the folder of DAGs."""

    bin: Path
    home: Path
    variables: dict[str, str]

    def start(self, *command: str) -> subprocess.Popen[str]:
        kept = {
            key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "SPARK_", "PYSPARK_"))
        }
        environ = {
            **kept, "AIRFLOW_HOME": str(self.home), "PATH": f"{self.bin}{os.pathsep}{kept['PATH']}",
            "AIRFLOW__CORE__DAGS_FOLDER": str(PROJECT / "examples" / "airflow"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "false",
            **self.variables,
        }  # fmt: skip
        with (self.home / "log").open("w") as log:
            return subprocess.Popen(
                [str(self.bin / "airflow"), *command], env=environ, cwd=self.home, stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, text=True,
            )  # fmt: skip

    @property
    def log(self) -> str:
        return (self.home / "log").read_text()

    def run(self, *command: str) -> str:
        """Run a command, which ends well, and return what it printed."""
        process = self.start(*command)
        assert process.wait(300) == 0, self.log
        return self.log


@pytest.fixture(scope="module")
def airflow(
    delivering_service: StandingService, hive_metastore: HiveMetastore, tmp_path_factory: pytest.TempPathFactory
) -> Airflow:
    variables = {"CATALOG_EXT_INDEX": delivering_service.index, "CATALOG_EXT_METASTORE": hive_metastore.uri}
    found = Airflow(neighbour("airflow"), tmp_path_factory.mktemp("airflow"), variables)
    found.run("db", "migrate")
    return found


@pytest.fixture(scope="module")
def catalog(delivering_service: StandingService, hive_metastore: HiveMetastore) -> Iterator[Catalog]:
    """The catalog with the table ``sales.trips``, which has no partition yet."""
    with connect(index=delivering_service.index, metastore=hive_metastore.uri) as catalog:
        catalog.create_namespace("sales")
        folder = delivering_service.folder / "landed"
        folder.mkdir()
        catalog.register_table(
            "sales.trips", location=str(folder), partition_columns={"ds": "STRING"}, schema="id BIGINT"
        )
        yield catalog


def land(service: StandingService, day: str, rows: int, name: str = "part") -> None:
    """What another job does: files in the directory of a day."""
    folder = service.folder / "landed" / f"ds={day}"
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table({"id": list(range(rows))}), folder / f"{name}.parquet")


def states(airflow: Airflow, dag: str) -> dict[str, str]:
    """The states of the tasks of a DAG's newest run."""
    with contextlib.closing(sqlite3.connect(airflow.home / "airflow.db")) as database:
        query = (
            "SELECT task_id, state FROM task_instance WHERE dag_id = ? AND run_id = "
            "(SELECT run_id FROM dag_run WHERE dag_id = ? ORDER BY id DESC LIMIT 1)"
        )
        return dict(database.execute(query, (dag, dag)).fetchall())


def test_a_dag_without_spark(airflow: Airflow, catalog: Catalog, delivering_service: StandingService) -> None:
    land(delivering_service, "2025-01-01", 2)
    land(delivering_service, "2025-01-02", 3)
    airflow.run("dags", "test", "trips_landed", "2025-01-01")
    assert states(airflow, "trips_landed") == {"repair": "success", "check": "success"}, airflow.log
    assert catalog.partitions("sales.trips")["partition"].to_pylist() == ["ds=2025-01-01"]
    # An odd directory below the day: --strict refuses, and the run fails.
    (delivering_service.folder / "landed" / "ds=2025-01-02" / "hr=1").mkdir()
    land(delivering_service, "2025-01-02/hr=1", 1)
    airflow.start("dags", "test", "trips_landed", "2025-01-02").wait(300)
    assert states(airflow, "trips_landed") == {"repair": "failed", "check": "upstream_failed"}, airflow.log
    assert "RepairRefusedError" in airflow.log
    assert catalog.partitions("sales.trips").num_rows == 1


def test_a_dag_that_waits_for_a_partition_and_has_spark_work(
    airflow: Airflow, catalog: Catalog, delivering_service: StandingService, thrift: SparkServer
) -> None:
    from impala.dbapi import connect as thrift_connection

    airflow.variables["AIRFLOW_CONN_SPARK_THRIFT"] = json.dumps(
        {"conn_type": "hiveserver2", "host": "127.0.0.1", "port": thrift.port, "login": "airflow"}
    )
    connection = thrift_connection(host="127.0.0.1", port=thrift.port, auth_mechanism="PLAIN", user="a", password="b")
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE lake.sales.daily (trips BIGINT, ds STRING) PARTITIONED BY (ds)")
    cursor.execute("INSERT INTO lake.sales.daily VALUES (7, '2025-01-05'), (99, '2025-01-06')")
    land(delivering_service, "2025-01-06", 3)
    process = airflow.start("dags", "test", "trips_daily", "2025-01-06")
    until(lambda: "landed" in airflow.log and "Poking" in airflow.log, "the sensor's first look")
    assert process.poll() is None
    # The sensor has looked in vain: the day is not repaired yet. More of it lands, which the DAG's own repair finds.
    catalog.repair_partitions("sales.trips", where="ds = '2025-01-06'")
    land(delivering_service, "2025-01-06", 4, "late")
    assert process.wait(300) == 0, airflow.log
    assert set(states(airflow, "trips_daily").values()) == {"success"}, airflow.log
    cursor.execute("SELECT trips, ds FROM lake.sales.daily")
    assert sorted(cursor.fetchall()) == [(7, "2025-01-05"), (7, "2025-01-06")]
    connection.close()
