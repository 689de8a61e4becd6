"""A real Spark takes the files of spark_conf/ and reaches a standing service through them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from catalog_ext.catalog import connect
from catalog_ext.connector.build import connector_jar
from catalog_ext.service.server import Service

pytestmark = pytest.mark.spark

CONF = Path(__file__).resolve().parents[2] / "spark_conf"
_PROGRAM = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
print([row.namespace for row in spark.sql("SHOW NAMESPACES IN lake").collect()])
spark.stop()
"""


def test_spark_reaches_the_service(tmp_path: Path) -> None:
    folder = tmp_path / "conf"
    shutil.copytree(CONF, folder)
    token = tmp_path / "token"
    with connect(index=str(tmp_path / "index.db"), metastore=None, warehouse=str(tmp_path / "warehouse")) as catalog:
        catalog.create_namespace("sales")
        with Service(catalog) as service:
            token.write_text(f"{service.token}\n")
            # What the file marks with CHANGE; S3A's jars are left out, they are fetched from the network.
            changes = {
                "spark.sql.catalog.lake.uri": service.uri,
                "spark.sql.catalog.lake.token-file": str(token),
                "spark.jars": str(connector_jar()),
                "spark.jars.packages": None,
                "spark.jars.excludes": None,
            }
            _change(folder / "spark-defaults.conf", changes)
            done = subprocess.run(
                [sys.executable, "-c", _PROGRAM],
                env=os.environ | {"SPARK_CONF_DIR": str(folder), "SPARK_LOCAL_IP": "127.0.0.1"},
                capture_output=True,
                text=True,
                timeout=180,
                cwd=tmp_path,
                check=False,
            )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "'sales'" in done.stdout
    # log4j2.properties is in force: Spark's default of a new session says how to change the level.
    assert "Setting default log level" not in done.stderr
    assert "NativeCodeLoader" not in done.stderr


def _change(file: Path, changes: dict[str, str | None]) -> None:
    text = file.read_text()
    for key, value in changes.items():
        line = "" if value is None else f"{key} {value}"
        text, count = re.subn(rf"^{re.escape(key)}\s.*$", lambda _, line=line: line, text, flags=re.MULTILINE)
        assert count == 1, key
    file.write_text(text)
