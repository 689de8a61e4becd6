"""What Spark's SQL page says the index did for a query, and the trace that a driver's requests belong to."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from opentelemetry import trace

from catalog_ext import traced
from tests.integration.lake import external, local_lake
from tests.integration.waiting import until
from tests.kit.spans import recorded_spans

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from tests.integration.lake import Lake
    from tests.integration.spark_driver import Driver

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def lake(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A lake with a table of six days, two files each."""
    with local_lake(driver, tmp_path_factory.mktemp("lake")) as it:
        external(it, "days", {"ds": "date"}, "v INT")
        for day in range(1, 7):
            folder = it.folder / "days" / f"ds=2025-01-{day:02d}"
            folder.mkdir()
            for part in range(2):
                pq.write_table(pa.table({"v": pa.array([day * 10 + part], pa.int32())}), folder / f"{part}.parquet")
        it.catalog.repair_partitions("w.days")
        yield it


def shown(spark: SparkSession, query: str) -> dict[str, str]:
    """The numbers that the SQL page shows for the scan of a query, by what it calls them."""
    description = f"metrics of {query}"
    spark.sparkContext.setJobDescription(description)
    try:
        spark.sql(query).collect()
    finally:
        spark.sparkContext.setJobDescription(None)  # type: ignore[arg-type] # None removes it
    store = spark._jsparkSession.sharedState().statusStore()

    def ended() -> list[int]:
        executions = store.executionsList()
        found = [executions.apply(i) for i in range(executions.size())]
        return [e.executionId() for e in found if e.description() == description and e.completionTime().isDefined()]

    # The store hears of a query by Spark's events, which come a little later.
    until(ended, "the end of the query in the status store")
    (execution,) = ended()
    values = store.executionMetrics(execution)
    nodes = store.planGraph(execution).allNodes()
    (scan,) = (nodes.apply(i) for i in range(nodes.size()) if nodes.apply(i).name().startswith("BatchScan"))
    metrics = [scan.metrics().apply(i) for i in range(scan.metrics().size())]
    found = {m.name(): values.get(m.accumulatorId()) for m in metrics}
    return {name: value.get() for name, value in found.items() if value.isDefined()}


def test_the_sql_page_says_what_the_index_did(lake: Lake) -> None:
    found = shown(lake.spark, "SELECT v FROM lake.w.days WHERE ds >= DATE '2025-01-05' AND v > 0")
    assert {name: found[name] for name in found if not re.search("time|size|output", name)} == {
        "number of partitions read": "2",
        "number of partitions of the table": "6",
        "number of files read": "4",
        "number of files of the table": "12",
        "number of files left out by their statistics": "0",
        "requests to the index's service": "1",
    }
    for part in ("choose files by the index", "share files among tasks"):
        assert re.fullmatch(r"\d{1,5}", found[f"time to {part} in milliseconds"]), found


def test_the_requests_of_a_traced_query_belong_to_the_drivers_span(lake: Lake) -> None:
    with recorded_spans() as spans:
        with trace.get_tracer("a.job").start_as_current_span("load") as job, traced(lake.spark):
            lake.spark.sql("SELECT v FROM lake.w.days WHERE ds = DATE '2025-01-02'").collect()
        lake.spark.sql("SELECT v FROM lake.w.days WHERE ds = DATE '2025-01-03'").collect()
        ended = spans.get_finished_spans()
    here = job.get_span_context()
    mine = [s for s in ended if s.context.trace_id == here.trace_id and s.name != "load"]
    requests = {s.name: s for s in mine if s.kind is trace.SpanKind.SERVER}
    assert {"tables/load", "tables/plan"} <= set(requests)
    assert {s.parent.span_id for s in requests.values() if s.parent} == {here.span_id}
    (planning,) = (s for s in mine if s.name == "plan_files")
    assert planning.parent is not None
    assert planning.parent.span_id == requests["tables/plan"].context.span_id
    # The other query has no parent span: each of its requests has a trace of its own.
    assert [s.name for s in ended if s.name == "tables/plan" and s.parent is None]
