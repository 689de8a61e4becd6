"""pandera on a table of ours, by Spark: a check that passes, and one that fails and says why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandera.pyspark as pandera
import pytest
from pyspark.sql import types as T  # noqa: TC002

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

    from tests.integration.spark_driver import Driver

pytestmark = pytest.mark.spark


class Trips(pandera.DataFrameModel):
    """What the table is to hold; ``ds`` is a virtual column, which a query has to name."""

    id: T.LongType() = pandera.Field(gt=0)  # type: ignore[valid-type]
    fare: T.DoubleType() = pandera.Field(ge=0, nullable=True)  # type: ignore[valid-type]
    ds: T.DateType() = pandera.Field()  # type: ignore[valid-type]


@pytest.fixture(scope="module")
def spark(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    folder = tmp_path_factory.mktemp("pandera")
    with driver.catalog(warehouse=str(folder / "wh"), index=str(folder / "index.db"), metastore=None) as spark:
        spark.sql("CREATE NAMESPACE lake.s")
        spark.sql(
            "CREATE TABLE lake.s.trips (id BIGINT, fare DOUBLE, ds DATE) PARTITIONED BY (ds) "
            "TBLPROPERTIES ('partition-columns' = 'virtual')"
        )
        spark.sql("INSERT INTO lake.s.trips VALUES (1, 2.5, DATE'2025-01-01'), (2, -4.0, DATE'2025-01-02')")
        yield spark


def day(spark: SparkSession, ds: str) -> DataFrame:
    return spark.sql(f"SELECT *, ds FROM lake.s.trips WHERE ds = '{ds}'")


def test_a_check_that_passes(spark: SparkSession) -> None:
    checked = Trips.validate(day(spark, "2025-01-01"))
    assert checked.pandera.errors == {}
    assert checked.count() == 1


def test_a_check_that_fails(spark: SparkSession) -> None:
    checked = Trips.validate(day(spark, "2025-01-02"))
    (failure,) = checked.pandera.errors["DATA"]["DATAFRAME_CHECK"]
    assert (failure["column"], failure["check"]) == ("fare", "greater_than_or_equal_to(0)")
    without = Trips.validate(spark.sql("SELECT * FROM lake.s.trips"))
    (missing,) = without.pandera.errors["SCHEMA"]["COLUMN_NOT_IN_DATAFRAME"]
    assert "'ds'" in missing["error"]
