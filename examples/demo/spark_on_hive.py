"""Spark's own Hive catalog in a process of its own: ``python -m examples.demo.spark_on_hive REQUEST ANSWER``.

Nothing of catalog-ext's reading is in it. The request is ``{"settings": {}, "queries": [], "log": path}``, the answer a
list of the queries' rows, both JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from catalog_ext.metastore.errors import MetastoreError
from examples.demo import sessions

_PROJECT = Path(__file__).parents[2]
_TIMEOUT_SECONDS = 240


def ask(folder: Path, settings: dict[str, str], queries: list[str]) -> list[list[list[Any]]]:
    """The rows of each query, from a Spark session with Hive support in another process.

    Raises:
        MetastoreError: It failed; the message names its log.
    """
    folder.mkdir(parents=True, exist_ok=True)
    request, answer, log = folder / "request.json", folder / "answer.json", folder / "spark.log"
    # The settings hold the store's keys, which the command line would show to every user.
    request.touch(mode=0o600)
    content = {"settings": settings, "queries": queries, "log": str(log)}
    request.write_text(json.dumps(content), encoding="utf-8")
    command = [sys.executable, "-m", "examples.demo.spark_on_hive", str(request), str(answer)]
    with log.open("ab") as output:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            check=False,
            timeout=_TIMEOUT_SECONDS,
            cwd=folder,
            # The demo is no part of what is installed.
            env=os.environ
            | {"PYTHONPATH": os.pathsep.join(filter(None, (str(_PROJECT), os.environ.get("PYTHONPATH"))))},
        )
    if done.returncode:
        tail = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:])
        raise MetastoreError(
            f"Spark with its Hive catalog failed (status {done.returncode}); its log ends with:\n{tail}"
        )
    rows: list[list[list[Any]]] = json.loads(answer.read_text(encoding="utf-8"))
    return rows


def main(request: Path, answer: Path) -> None:
    """Answer a request that ``ask`` wrote."""
    from pyspark.sql import SparkSession

    wanted = json.loads(request.read_text(encoding="utf-8"))
    builder: SparkSession.Builder = SparkSession.Builder()
    for key, value in wanted["settings"].items():
        builder = builder.config(key, value)
    session = sessions.start(builder.enableHiveSupport(), Path(wanted["log"]))
    try:
        rows = [[list(row) for row in session.sql(query).collect()] for query in wanted["queries"]]
    finally:
        sessions.stop(session)
    answer.write_text(json.dumps(rows), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
