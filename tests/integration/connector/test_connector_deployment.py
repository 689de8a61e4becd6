"""The jar on executors of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import SparkRuntimeException

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.spark_driver import Driver
    from tests.servers.recorded_service import RecordedService


pytestmark = pytest.mark.spark


@pytest.mark.slow
def test_executors_in_other_processes_read(driver: Driver, recorded_service: RecordedService, tmp_path: Path) -> None:
    with driver.connected(
        recorded_service.uri, recorded_service.token, {"spark.executor.memory": "1g"}, master="local-cluster[2,1,1024]"
    ) as spark:
        spark.range(20).selectExpr("id", "id % 4 AS k").write.partitionBy("k").parquet(str(tmp_path / "t"))
        recorded_service.add_table("spread", tmp_path / "t", {"id": "bigint"}, {"k": "int"})
        query = (
            "SELECT k, count(*), count(_metadata.file_name) FROM lake.sales.spread WHERE k > 1 GROUP BY k ORDER BY k"
        )
        assert [tuple(row) for row in spark.sql(query).collect()] == [(2, 5, 5), (3, 5, 5)]
        for file in (tmp_path / "t" / "k=2").glob("*.parquet"):
            file.unlink()
        with pytest.raises(SparkRuntimeException, match=r"of partition 'k=2' of table lake.sales.spread") as caught:
            spark.sql("SELECT sum(id) FROM lake.sales.spread").collect()
        assert caught.value.getCondition() == "CATALOG_EXT_FILE_MISSING"
        assert recorded_service.requests["tables/plan"] == 2
