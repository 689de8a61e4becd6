"""One contender in its own environment: ``python -m tests.benchmarks.peers.contender_process``.

Reads a task as one line of JSON and prints a line of JSON for each thing done:
``{"version": text}`` when it is ready, then for each measure ``{"measure": name, "begun": true}``,
``{"measure": name, "seconds": s, "warm": bool}`` for each run, and ``{"measure": name, "ended": true}``; where it has
no such thing ``{"measure": name, "reason": text}``. A result that is wrong ends it with an AssertionError.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.benchmarks.peers.contender import Task, measure_all

if TYPE_CHECKING:
    from tests.benchmarks.peers.contender import Contender

MODULES = {
    "catalog-ext": "tests.benchmarks.peers.spark_engines",
    "hive": "tests.benchmarks.peers.spark_engines",
    "iceberg": "tests.benchmarks.peers.spark_engines",
    "delta": "tests.benchmarks.peers.spark_engines",
    "ducklake": "tests.benchmarks.peers.duckdb_engines",
    "duckdb": "tests.benchmarks.peers.duckdb_engines",
}


def main() -> None:
    # What libraries and the JVM print goes to standard error; the answers have the standard output for themselves.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def say(answer: dict[str, object]) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    given = json.loads(sys.stdin.readline())
    task = Task(
        given["contender"], Path(given["root"]), Path(given["folder"]), given["partitions"],
        tuple(given["measures"]), given["options"],
    )  # fmt: skip
    contender: Contender = importlib.import_module(MODULES[task.contender]).start(task)
    try:
        say({"version": contender.version})
        measure_all(task, contender, say)
    finally:
        contender.close()


if __name__ == "__main__":
    main()
