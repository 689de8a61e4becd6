"""One session from nothing: ``python -m tests.benchmarks.startup_process CONTENDER FOLDER``; prints its times in JSON.

The contenders are ``plain``, ``index`` (ours, ``metastore=None``) and ``embedded`` (ours, by ``configure``'s defaults).
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

PLAIN, INDEX, EMBEDDED = "plain", "index", "embedded"


def main(contender: str, folder: Path) -> None:
    os.chdir(folder)
    times: dict[str, float] = {}
    began = last = time.perf_counter()

    def note(name: str) -> None:
        nonlocal last
        now = time.perf_counter()
        times[name], last = now - last, now

    from pyspark.sql import SparkSession

    note("import pyspark")
    builder: Any = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.warehouse.dir", str(folder / "spark-warehouse"))
    where = ""
    if contender != PLAIN:
        import catalog_ext

        chosen = {"metastore": None} if contender == INDEX else {}
        configure = catalog_ext.configure
        note("import catalog_ext")
        timed = _Parts()
        builder = configure(builder, **chosen)
        times |= timed.seconds
        note("configure")
        where = " IN lake"
    spark = builder.getOrCreate()
    note("getOrCreate")
    spark.sql(f"SHOW NAMESPACES{where}").collect()
    note("first answer")
    times["total"] = time.perf_counter() - began
    if contender == EMBEDDED:
        from catalog_ext.spark.session import active_catalog

        active_catalog("lake").metastore.client()
        times["metastore"] = time.perf_counter() - began
    print(json.dumps(times), flush=True)


class _Parts:
    """Notes what the parts of ``configure`` take."""

    def __init__(self) -> None:
        from catalog_ext.connector import build
        from catalog_ext.spark import session

        self.seconds: dict[str, float] = {}
        self._time(build, "connector_jar", "jar")
        self._time(session, "Catalog", "index")
        self._time(session.Service, "start", "service")

    def _time(self, owner: Any, name: str, part: str) -> None:
        called = getattr(owner, name)

        def timed(*arguments: Any, **named: Any) -> Any:
            began = time.perf_counter()
            try:
                return called(*arguments, **named)
            finally:
                self.seconds[part] = time.perf_counter() - began

        setattr(owner, name, timed)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
