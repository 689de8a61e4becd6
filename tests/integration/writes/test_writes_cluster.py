"""Writes by executors in processes of their own, one of which is killed while it writes."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.lake import local_lake

if TYPE_CHECKING:
    from tests.integration.spark_driver import Driver

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_an_executor_is_killed(driver: Driver, tmp_path: Path) -> None:
    # A function in a function goes to the executors by value: they cannot import the tests.
    def deadly(x: int, marker: str) -> int:
        """The number; the first time that it is 900 the executor dies."""
        if x == 900 and not Path(marker).exists():
            Path(marker).touch()
            # A Python worker is the child of a daemon, which is the executor's child.
            executor = int(Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1])
            os.kill(executor, signal.SIGKILL)
        return x

    memory = {"spark.executor.memory": "1g"}
    with local_lake(driver, tmp_path, conf=memory, master="local-cluster[2,1,1024]") as lake:
        lake.sql("CREATE TABLE lake.w.t (x BIGINT, k BIGINT) PARTITIONED BY (k)")
        lake.spark.udf.register("deadly", deadly, "bigint")
        marker = tmp_path / "died"
        # Many open files, so that the dead executor leaves some.
        lake.spark.conf.set("spark.sql.catalog.lake.write.max-open-writers", "10")
        lake.sql(f"INSERT INTO lake.w.t SELECT deadly(id, '{marker}'), id % 4 FROM range(0, 1000, 1, 3)")
        assert marker.exists()
        assert lake.rows("SELECT count(*), count(DISTINCT x), sum(x) FROM lake.w.t") == [(1000, 1000, 499500)]
        lake.check_clean("t")
