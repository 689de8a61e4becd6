"""What OpenLineage's listener for Spark, the real one, calls our tables (docs/monitoring.md)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import SparkContext

from tests.integration.lake import local_lake
from tests.integration.waiting import until
from tests.servers.maven_jars import fetch_bundle

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.integration.lake import Lake
    from tests.integration.spark_driver import Driver

pytestmark = pytest.mark.spark

VERSION = "1.53.0"
LISTENER = "io.openlineage.spark.agent.OpenLineageSparkListener"


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lineage") / "events.jsonl"


@pytest.fixture(scope="module")
def lake(driver: Driver, events: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    (jar,) = fetch_bundle(f"openlineage-{VERSION}", [f"!io.openlineage:openlineage-spark_2.13:{VERSION}"]).iterdir()
    driver.start_jvm()
    # As --jars does it: beside the connector, in the class loader that Spark makes listeners with.
    jvm: Any = SparkContext._jvm
    jvm.java.lang.Thread.currentThread().getContextClassLoader().addURL(jvm.java.io.File(str(jar)).toURI().toURL())
    conf = {
        "spark.extraListeners": LISTENER,
        "spark.openlineage.transport.type": "file",
        "spark.openlineage.transport.location": str(events),
        "spark.openlineage.namespace": "jobs",
    }
    with local_lake(driver, tmp_path_factory.mktemp("lake"), "sales", conf) as it:
        yield it


def test_tables_have_their_locations_and_their_names(lake: Lake, events: Path) -> None:
    lake.sql(
        "CREATE TABLE lake.sales.trips (id INT, ds DATE) USING parquet PARTITIONED BY (ds)",
        "INSERT INTO lake.sales.trips VALUES (1, DATE'2025-01-01'), (2, DATE'2025-01-02')",
        "CREATE TABLE lake.sales.daily USING parquet PARTITIONED BY (ds) AS SELECT id, ds FROM lake.sales.trips",
        "INSERT OVERWRITE lake.sales.daily SELECT id + 1, ds FROM lake.sales.trips WHERE ds = DATE'2025-01-01'",
    )
    copied = lake.folder / "copied"
    lake.sql("SELECT id FROM lake.sales.daily WHERE id > 0").write.parquet(str(copied))
    trips, daily = str(lake.location("trips")), str(lake.location("daily"))
    wanted = {
        ("append_data_lake_sales_trips", (), (trips,)),
        # What a CTAS makes is named by the listener for catalogs alone that it knows by their classes.
        ("atomic_create_table_as_select", (trips,), ()),
        ("overwrite_partitions_dynamic_lake_sales_daily", (trips,), (daily,)),
        ("execute_insert_into_hadoop_fs_relation_command", (daily,), (str(copied),)),
    }

    def found() -> list[dict[str, Any]]:
        lines = events.read_text().splitlines() if events.exists() else []
        return [event for line in lines if (event := json.loads(line))["eventType"] == "COMPLETE"]

    def seen() -> set[tuple[str, tuple[str, ...], tuple[str, ...]]]:
        return {
            (
                event["job"]["name"].split(".")[1],
                tuple(dataset["name"] for dataset in event["inputs"]),
                tuple(dataset["name"] for dataset in event["outputs"]),
            )
            for event in found()
            if "." in event["job"]["name"]
        }

    try:
        until(lambda: wanted <= seen(), "the events of the statements")
    except TimeoutError:
        assert seen() >= wanted
    datasets = [dataset for event in found() for side in ("inputs", "outputs") for dataset in event[side]]
    assert {dataset["namespace"] for dataset in datasets} == {"file"}
    names = {
        (dataset["name"], link["namespace"], link["name"], link["type"])
        for dataset in datasets
        for link in dataset["facets"].get("symlinks", {"identifiers": ()})["identifiers"]
    }
    assert names == {(trips, "lake", "sales.trips", "TABLE"), (daily, "lake", "sales.daily", "TABLE")}
    fields = {dataset["name"]: [f["name"] for f in dataset["facets"]["schema"]["fields"]] for dataset in datasets}
    assert fields[daily] == ["id", "ds"]


def test_the_names_are_shown_where_the_listener_is(lake: Lake) -> None:
    lake.sql("CREATE TABLE IF NOT EXISTS lake.sales.shown (id INT) USING parquet")
    shown = dict(lake.rows("SHOW TBLPROPERTIES lake.sales.shown"))
    assert shown["openlineage.dataset.name"] == str(lake.location("shown"))
    stored = lake.catalog.load_table("sales.shown").definition.properties
    assert not [key for key in stored if key.startswith("openlineage")]
