"""The contenders in Spark: ours and the Hive catalog on the project's PySpark, Iceberg and Delta on an older one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from examples.demo import sessions
from tests.benchmarks.peers.contender import NoSuchThingError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tests.benchmarks.peers.contender import Contender, Task
    from tests.benchmarks.peers.table import Partition

COLUMNS = "x BIGINT, ds DATE, region STRING, hour INT"
KEYS = "ds, region, hour"


def start(task: Task) -> Contender:
    """The contender that the task names."""
    kinds: dict[str, type[_InSpark]] = {"catalog-ext": Ours, "hive": Hive, "iceberg": Iceberg, "delta": Delta}
    return kinds[task.contender](task)


class _InSpark:
    """What all of them share: a session with 4 GB, the statements, and the way to the planned files."""

    table: str
    builder: SparkSession.Builder

    def __init__(self, task: Task) -> None:
        self.task = task
        builder: SparkSession.Builder = SparkSession.Builder()
        settings = sessions.local_settings(task.folder / "spark") | {"spark.driver.memory": "4g"} | self.settings()
        for key, value in settings.items():
            builder = builder.config(key, value)
        self.spark = sessions.start(self.configured(builder), task.folder / "spark.log")
        self.version = self.named(self.spark.version)

    def settings(self) -> dict[str, str]:
        """Spark's settings beside the common ones."""
        return {}

    def configured(self, builder: SparkSession.Builder) -> SparkSession.Builder:
        """The builder, with what else it needs."""
        return builder

    def named(self, spark: str) -> str:
        """The contender with its version and Spark's."""
        raise NotImplementedError

    def first(self) -> None:
        raise NotImplementedError

    def rows(self) -> None:
        raise NoSuchThingError("the first registration has read every footer")

    def plan(self, condition: str) -> int | None:
        execution = self._frame("sum(x)", condition)._jdf.queryExecution()
        execution.executedPlan()
        scan = execution.sparkPlan().collectLeaves().apply(0)
        scan.inputRDD().getNumPartitions()
        return self.planned_files(scan)

    def planned_files(self, scan: Any) -> int | None:
        """How many files the scan will read."""
        return int(scan.metrics().apply("numFiles").value())

    def value(self, expression: str, condition: str = "") -> object:
        return self._frame(expression, condition).collect()[0][0]

    def unchanged(self) -> None:
        raise NotImplementedError

    def commit(self, partition: Partition) -> None:
        self.spark.sql(f"INSERT INTO {self.table} PARTITION ({partition.spec}) VALUES (1)")

    def close(self) -> None:
        sessions.stop(self.spark)

    def _frame(self, expression: str, condition: str) -> DataFrame:
        where = f" WHERE {condition}" if condition else ""
        return self.spark.sql(f"SELECT {expression} FROM {self.table}{where}")


class Ours(_InSpark):
    """catalog-ext, a SQLite index, no metastore."""

    table = "lake.bench.t"

    def configured(self, builder: SparkSession.Builder) -> SparkSession.Builder:
        from catalog_ext.spark.session import configure

        warehouse = (self.task.folder / "warehouse").as_uri()
        index = f"sqlite:///{self.task.folder / 'index.db'}"
        return configure(builder, catalog="lake", warehouse=warehouse, index=index, metastore=None)

    def named(self, spark: str) -> str:
        return f"catalog-ext on Spark {spark}, SQLite"

    def first(self) -> None:
        from catalog_ext.spark.session import active_catalog

        catalog = active_catalog("lake")
        catalog.create_namespace("bench")
        keys = {"ds": "DATE", "region": "STRING", "hour": "INT"}
        catalog.register_table("bench.t", location=self.task.root.as_uri(), schema="x BIGINT", partition_columns=keys)
        added = len(catalog.repair_partitions("bench.t").added)
        if added != self.task.partitions:
            raise AssertionError(f"first: {added} partitions were added")

    def rows(self) -> None:
        self.spark.sql(f"ANALYZE TABLE {self.table} COMPUTE STATISTICS")

    def planned_files(self, scan: Any) -> int:
        return int(scan.scan().choice().get().files())

    def unchanged(self) -> None:
        from catalog_ext.spark.session import active_catalog

        if len(active_catalog("lake").repair_partitions("bench.t")):
            raise AssertionError("unchanged: the repair found something to do")

    def close(self) -> None:
        from catalog_ext.spark.session import stop

        super().close()
        stop("lake")


class Hive(_InSpark):
    """Spark's own catalog on Hive's metastore 2.3 with Derby, in a JVM of its own."""

    table = "spark_catalog.bench.t"

    def configured(self, builder: SparkSession.Builder) -> SparkSession.Builder:
        from catalog_ext.metastore.hive.embedded.embedded_metastore import EmbeddedMetastore

        self._metastore = EmbeddedMetastore(self.task.folder / "metastore")
        return builder.config("spark.hadoop.hive.metastore.uris", self._metastore.start()).enableHiveSupport()

    def named(self, spark: str) -> str:
        return f"Spark {spark}, Hive catalog (metastore 2.3, Derby)"

    def first(self) -> None:
        self.spark.sql("CREATE DATABASE IF NOT EXISTS spark_catalog.bench")
        self.spark.sql(
            f"CREATE TABLE {self.table} ({COLUMNS}) USING parquet PARTITIONED BY ({KEYS}) "
            f"LOCATION '{self.task.root.as_uri()}'"
        )
        self.unchanged()

    def rows(self) -> None:
        raise NoSuchThingError("it answers no query from row counts")

    def unchanged(self) -> None:
        self.spark.sql(f"MSCK REPAIR TABLE {self.table}")

    def close(self) -> None:
        super().close()
        self._metastore.stop()


class _Packaged(_InSpark):
    """On an older Spark, by Maven coordinates, which the launcher fetches into the benchmark's cache."""

    def settings(self) -> dict[str, str]:
        return {
            "spark.jars.packages": self.task.options["package"],
            "spark.jars.ivy": self.task.options["ivy"],
        }

    @property
    def release(self) -> str:
        """The version in the coordinates."""
        return self.task.options["package"].rpartition(":")[2]


class Iceberg(_Packaged):
    """Iceberg in its Hadoop catalog; the files stay where they are."""

    table = "ice.bench.t"

    def settings(self) -> dict[str, str]:
        return super().settings() | {
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.ice.type": "hadoop",
            "spark.sql.catalog.ice.warehouse": (self.task.folder / "iceberg").as_uri(),
        }

    def named(self, spark: str) -> str:
        return f"Iceberg {self.release} on Spark {spark}, Hadoop catalog"

    def first(self) -> None:
        self.spark.sql(f"CREATE TABLE {self.table} ({COLUMNS}) USING iceberg PARTITIONED BY ({KEYS})")
        answer = self.spark.sql(
            f"CALL ice.system.add_files(table => 'bench.t', source_table => '`parquet`.`{self.task.root}`', "
            "check_duplicate_files => false)"
        ).collect()
        if answer[0][0] != self.task.partitions:
            raise AssertionError(f"first: {answer[0][0]} files were added")

    def planned_files(self, scan: Any) -> int:
        # A row each; it counts those of the tasks that it has planned.
        return int(scan.scan().estimateStatistics().numRows().getAsLong())

    def unchanged(self) -> None:
        raise NoSuchThingError("it does not compare its list with a tree of files; `add_files` only adds files")


class Delta(_Packaged):
    """Delta, converted in place."""

    @property
    def table(self) -> str:  # type: ignore[override]
        """The path is the table's name."""
        return f"delta.`{self.task.root}`"

    def settings(self) -> dict[str, str]:
        return super().settings() | {
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            # As many tasks as the other contenders' shuffles have; its default, 50, is for clusters.
            "spark.databricks.delta.snapshotPartitions": "4",
        }

    def named(self, spark: str) -> str:
        return f"Delta {self.release} on Spark {spark}"

    def first(self) -> None:
        self.spark.sql(f"CONVERT TO DELTA parquet.`{self.task.root}` PARTITIONED BY (ds DATE, region STRING, hour INT)")

    def unchanged(self) -> None:
        raise NoSuchThingError("it does not compare its log with a tree of files")
