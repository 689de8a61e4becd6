"""One comparison in a process of its own, which prints what it has cost.

``… drift_process FOLDER COUNT MOVED make`` makes the index, ``… compare`` compares: the metastore and the store are in
memory, and made while they are asked; MOVED says which partitions are elsewhere, 0 for none. ``… drift_process FOLDER
URI 0 hive`` compares with a real metastore.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from catalog_ext.catalog import connect
from catalog_ext.conf.resolved import Settings
from catalog_ext.scan import observe
from tests.benchmarks.repair_process import peak_mb
from tests.kit.fakes_many_partitions import ManyPartitions, grow, register
from tests.kit.fakes_metastore import serving

if TYPE_CHECKING:
    from catalog_ext.catalog import Catalog


def main(folder: Path, count: str, moved: int, what: str) -> None:
    if what == "hive":
        with connect(index=str(folder / "index.db"), metastore=count) as catalog:
            _compare(catalog, None)
        return
    _in_memory(folder, int(count), moved, what)


def _in_memory(folder: Path, count: int, moved: int, what: str) -> None:
    metastore = ManyPartitions(folder / "t", moved or None)
    Settings.connect_metastore = serving(lambda _: metastore)  # type: ignore[method-assign,return-value]
    observe.list_tree = metastore.listing  # type: ignore[assignment]
    with connect(
        index=str(folder / "index.db"), metastore="thrift://memory:9083", warehouse=str(folder / "warehouse")
    ) as catalog:
        if what == "make":
            register(catalog, folder / "t")
            grow(catalog, metastore, count)
            catalog.index.planner_statistics.analyze()
            print(json.dumps({"made": count}))
        else:
            metastore.restore(catalog, count)
            _compare(catalog, metastore)


def _compare(catalog: Catalog, metastore: ManyPartitions | None) -> None:
    before, calls = peak_mb(), 0 if metastore is None else metastore.calls.total()
    wall, cpu = time.perf_counter(), time.process_time()
    found = sum(1 for _ in catalog.drift("s.t"))
    called = None if metastore is None else metastore.calls.total() - calls
    print(json.dumps({
        "found": found, "seconds": time.perf_counter() - wall, "cpu": time.process_time() - cpu,
        "calls": called, "imports_mb": before, "peak_mb": peak_mb(),
    }))  # fmt: skip


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4])
