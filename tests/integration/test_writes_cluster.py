"""Writes by executors in processes of their own, one of which is killed while it writes."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import catalog_ext
from catalog_ext.spark import session as sessions
from tests.integration.spark_sessions import fresh_session, small_builder
from tests.integration.written import Lake

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_an_executor_is_killed(tmp_path: Path) -> None:
    # A function in a function goes to the executors by value: they cannot import the tests.
    def deadly(x: int, marker: str) -> int:
        """The number; the first time that it is 900 the executor dies."""
        if x == 900 and not Path(marker).exists():
            Path(marker).touch()
            # A Python worker is the child of a daemon, which is the executor's child.
            executor = int(Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1])
            os.kill(executor, signal.SIGKILL)
        return x

    builder = catalog_ext.configure(
        small_builder("local-cluster[2,1,1024]").config("spark.executor.memory", "1g"),
        catalog="lake", warehouse=str(tmp_path / "warehouse"), index=str(tmp_path / "index.db"), metastore=None,
    )  # fmt: skip
    with fresh_session(builder) as spark:
        spark.sql("CREATE NAMESPACE lake.w")
        lake = Lake(spark, sessions.active_catalog("lake"), tmp_path / "index.db")
        lake.sql("CREATE TABLE lake.w.t (x BIGINT, k BIGINT) PARTITIONED BY (k)")
        spark.udf.register("deadly", deadly, "bigint")
        marker = tmp_path / "died"
        # Many open files, so that the dead executor leaves some.
        spark.conf.set("spark.sql.catalog.lake.write.max-open-writers", "10")
        lake.sql(f"INSERT INTO lake.w.t SELECT deadly(id, '{marker}'), id % 4 FROM range(0, 1000, 1, 3)")
        assert marker.exists()
        assert lake.rows("SELECT count(*), count(DISTINCT x), sum(x) FROM lake.w.t") == [(1000, 1000, 499500)]
        lake.check_clean("t")
    sessions.stop("lake")
