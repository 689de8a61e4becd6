"""Two DAGs on the table ``sales.trips``, whose days land as directories; docs/neighbours.md says what they need.

``trips_landed`` needs no Spark: it brings a day into the index, by Python or by the command line. ``trips_daily`` waits
until a day is in the index, then has Spark's Thrift server work on it.

The workers' environment names the index (``CATALOG_EXT_INDEX``), the metastore (``CATALOG_EXT_METASTORE``) and the
store (``CATALOG_EXT_STORAGE``); the connection ``spark_thrift`` is of the kind ``hiveserver2``.
"""

from __future__ import annotations

from datetime import datetime

from airflow.providers.common.sql.operators.sql import SQLExecuteQueryOperator
from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import dag, task

TABLE = "sales.trips"
START = datetime(2025, 1, 1)


@dag(schedule="@daily", start_date=START, catchup=False)
def trips_landed() -> None:
    """Repair the day that has landed, and fail if anything of it was skipped."""

    @task
    def repair(ds: str | None = None) -> int:
        # Where it runs: what is imported at the top of the file is imported by every look at the folder of DAGs.
        import catalog_ext

        with catalog_ext.connect() as catalog:
            report = catalog.repair_partitions(TABLE, where=f"ds = '{ds}'", strict=True)
        return len(report.added)

    check = BashOperator(
        task_id="check",
        # Exit code 3, which fails the task: the files and the index differ.
        bash_command=f"catalog-ext repair {TABLE} --where \"ds = '{{{{ ds }}}}'\" --check",
    )
    repair() >> check


@dag(schedule="@daily", start_date=START, catchup=False)
def trips_daily() -> None:
    """Wait for a day's partition, bring the rest of it in by CALL, and overwrite the day of another table."""

    @task.sensor(poke_interval=30, timeout=6 * 3600, mode="reschedule")
    def landed(ds: str | None = None) -> bool:
        import catalog_ext

        with catalog_ext.connect() as catalog:
            return bool(catalog.partitions(TABLE, where=f"ds = '{ds}'").num_rows)

    repair = SQLExecuteQueryOperator(
        task_id="repair",
        conn_id="spark_thrift",
        sql=f"CALL lake.system.repair_partitions(table => '{TABLE}', where => \"ds = '{{{{ ds }}}}'\")",
    )
    overwrite = SQLExecuteQueryOperator(
        task_id="overwrite",
        conn_id="spark_thrift",
        sql=f"INSERT OVERWRITE lake.sales.daily "
        f"SELECT count(*), ds FROM lake.{TABLE} WHERE ds = '{{{{ ds }}}}' GROUP BY ds",
    )
    landed() >> repair >> overwrite


trips_landed()
trips_daily()
