"""dbt-spark in an environment of its own: the project of ``examples/dbt`` in the session catalog and in ``lake``."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from catalog_ext import connect
from catalog_ext.spark.session import SESSION_CATALOG
from tests.integration.spark_driver import HIVE
from tests.integration.standing_service import PROJECT, environment
from tests.neighbours.environments import environment as neighbour

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from tests.integration.spark_driver import Driver
    from tests.integration.standing_service import StandingService
    from tests.servers.hive import HiveMetastore

pytestmark = [pytest.mark.spark, pytest.mark.neighbour]

DAILY = {
    ("north", 1, 10.5, "2025-01-01"), ("south", 1, 20.0, "2025-01-01"), ("north", 2, 13.0, "2025-01-02"),
    ("south", 1, 12.0, "2025-01-03"),
}  # fmt: skip
DAYS = ["ds=2025-01-01", "ds=2025-01-02", "ds=2025-01-03"]


@dataclass(frozen=True)
class Dbt:
    """dbt with a target: a method, and the catalog that names without one mean."""

    bin: Path
    folder: Path
    conf: Path
    target: str
    schema: str
    variables: dict[str, str]

    def __call__(self, *command: str, **values: object) -> list[dict[str, Any]]:
        """Run a command, which ends well, and return the results of its nodes."""
        answer = self.run(*command, **values)
        assert answer.returncode == 0, answer.stdout + answer.stderr
        found: list[dict[str, Any]] = json.loads((self.folder / "target" / "run_results.json").read_text())["results"]
        return found

    def run(self, *command: str, **values: object) -> subprocess.CompletedProcess[str]:
        options = ["--target", self.target, "--profiles-dir", str(self.folder)]
        given = ["--vars", json.dumps(values)] if values else []
        kept = {k: v for k, v in environment(self.conf).items() if k not in ("SPARK_HOME", "PYTHONPATH")}
        environ = {
            **kept, "PYSPARK_PYTHON": str(self.bin / "python"), "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
            "DBT_SCHEMA": self.schema, **self.variables,
        }  # fmt: skip
        return subprocess.run(
            [str(self.bin / "dbt"), "--no-use-colors", *command, *options, *given], cwd=self.folder, env=environ,
            capture_output=True, text=True, check=False, timeout=400,
        )  # fmt: skip


@pytest.fixture
def dbt(request: pytest.FixtureRequest, method: str, place: str, conf: Path, tmp_path: Path) -> Dbt:
    """The project with names that mean tables of a catalog by themselves."""
    folder, schema = tmp_path / "project", f"of_{method}_{place}"
    shutil.copytree(PROJECT / "examples" / "dbt", folder)
    if method == "thrift":
        port = request.getfixturevalue("thrift").port
        return Dbt(neighbour("dbt"), folder, conf, method, schema, {"DBT_PORT": str(port), "DBT_CATALOG": place})
    own = tmp_path / "conf"
    shutil.copytree(conf, own)
    with (own / "spark-defaults.conf").open("a") as file:
        file.write(f"spark.sql.defaultCatalog {place}\n")
    return Dbt(neighbour("dbt"), folder, own, method, schema, {})


@pytest.fixture
def catalog(delivering_service: StandingService, hive_metastore: HiveMetastore) -> Iterator[Catalog]:
    with connect(index=delivering_service.index, metastore=hive_metastore.uri) as catalog:
        yield catalog


def files(catalog: Catalog, table: str) -> dict[str, set[str]]:
    """The files of each partition: an overwrite names new ones."""
    found: dict[str, set[str]] = {}
    for row in catalog.files(table).to_pylist():
        found.setdefault(row["partition"], set()).add(row["path"])
    return found


@pytest.mark.parametrize(
    ("method", "place", "file_format"),
    [
        ("session", SESSION_CATALOG, "parquet"),
        ("session", "lake", "orc"),
        ("thrift", SESSION_CATALOG, "orc"),
        ("thrift", "lake", "parquet"),
    ],
)
def test_a_project(dbt: Dbt, file_format: str, catalog: Catalog, driver: Driver, hive_metastore: HiveMetastore) -> None:
    built = dbt("build", file_format=file_format)
    assert {r["status"] for r in built} == {"success", "pass"}
    assert sorted(catalog.list_tables(dbt.schema)) == ["daily", "regions", "totals", "trips"]
    daily = f"{dbt.schema}.daily"
    assert catalog.load_table(daily).definition.format == file_format
    first = files(catalog, daily)
    assert sorted(first) == DAYS
    # The days that the model selects change, and no other.
    dbt("build", "--select", "daily+", file_format=file_format, since="2025-01-02", factor=10)
    second = files(catalog, daily)
    assert {day for day in DAYS if second[day] != first[day]} == set(DAYS[1:])
    expected = {(r, n, fare if ds == "2025-01-01" else fare * 10, ds) for r, n, fare, ds in DAILY}
    # Plain Spark, by the metastore.
    conf = HIVE | {"spark.hadoop.hive.metastore.uris": hive_metastore.uri}
    with driver.session(conf, connector=False) as spark:
        rows = spark.sql(f"SELECT region, trips, fare, string(ds) FROM {daily}").collect()
        assert {tuple(row) for row in rows} == expected
        totals = spark.sql(f"SELECT * FROM {dbt.schema}.totals").collect()
        assert {tuple(row) for row in totals} == {("north", 3), ("south", 2)}
    dbt("docs", "generate")
    documented = json.loads((dbt.folder / "target" / "catalog.json").read_text())
    node = documented["nodes"]["model.trips.daily"]
    assert list(node["columns"]) == ["region", "trips", "fare", "ds"]
    dbt("run", "--full-refresh", "--select", "daily", file_format=file_format)
    assert catalog.load_table(daily).definition.format == file_format


@pytest.mark.parametrize(("method", "place"), [("session", SESSION_CATALOG)])
def test_static_overwrites(dbt: Dbt, catalog: Catalog) -> None:
    """dbt-spark applies the profile's parameters before each statement, and so after its own SET of DYNAMIC."""
    profile = dbt.folder / "profiles.yml"
    parameters = "      server_side_parameters: {spark.sql.sources.partitionOverwriteMode: static}\n"
    text = profile.read_text().replace("      method: session\n", f"      method: session\n{parameters}")
    profile.write_text(text)
    own = Dbt(dbt.bin, dbt.folder, dbt.conf, dbt.target, "static_overwrites", dbt.variables)
    own("build", "--select", "trips", "daily")
    assert sorted(files(catalog, "static_overwrites.daily")) == DAYS
    own("run", "--select", "daily", since="2025-01-02")
    assert sorted(files(catalog, "static_overwrites.daily")) == DAYS[1:]


@pytest.mark.parametrize(("method", "place"), [("thrift", SESSION_CATALOG)])
def test_a_schema_with_a_catalogs_name_is_not_found_again(dbt: Dbt) -> None:
    """dbt takes the namespace of SHOW TABLE EXTENDED for the whole name of the schema."""
    own = Dbt(dbt.bin, dbt.folder, dbt.conf, dbt.target, "lake.named", dbt.variables)
    own("build", "--select", "trips", "daily")
    again = own.run("run", "--select", "daily")
    assert again.returncode == 1
    assert "TABLE_OR_VIEW_ALREADY_EXISTS" in again.stdout
