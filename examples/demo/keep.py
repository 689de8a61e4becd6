"""What ``KEEP=1`` says: how to use what was left running, and how to stop it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from examples.demo.stage import CATALOG

if TYPE_CHECKING:
    from pathlib import Path

    from examples.demo.screen import Screen
    from examples.demo.stage import Stage

SCRIPT = '''"""A Spark session on what the demo left running."""
import catalog_ext
from pyspark.sql import SparkSession

builder = catalog_ext.configure(
    SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false"),
    catalog="{catalog}",
    warehouse="s3a://demo/warehouse",
    index="{index}",
    metastore="{metastore}",
    storage={storage!r},
)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
spark.sql("SELECT origin, count(*) FROM {catalog}.demo.flights WHERE month = 2 GROUP BY origin").show()
'''


def instructions(screen: Screen, stage: Stage) -> None:
    """Prints how to use the running servers and how to stop them."""
    script = write_script(stage)
    screen.step("Left running (KEEP=1)")
    screen.say("In another terminal, a Python session with the catalog:")
    screen.code(f"{sys.executable} -i {script}", "bash")
    screen.table(
        ["what", "where"],
        [
            ["S3 endpoint", stage.s3.endpoint],
            ["S3 access key, secret key", f"{stage.s3.access_key}, {stage.s3.secret_key}"],
            ["Hive Metastore", stage.metastore],
            ["index", stage.index],
            ["Spark's log", str(stage.spark_log)],
        ],
    )
    screen.say(f"Stop everything and remove {stage.folder}: press Ctrl-C here, or run: kill {os.getpid()}", "bold")


def write_script(stage: Stage) -> Path:
    """The path of a Python script that starts a Spark session on the running servers; only its owner can read it."""
    # Apart from the other folders: Python would take "metastore" beside the script for our package.
    script = stage.folder / "use" / "session.py"
    script.parent.mkdir(exist_ok=True)
    script.touch(mode=0o600)
    script.write_text(
        SCRIPT.format(catalog=CATALOG, index=stage.index, metastore=stage.metastore, storage=stage.storage),
        encoding="utf-8",
    )
    return script
