"""One look of a follower in a process of its own: ``… follow_process INDEX METASTORE`` prints what it has cost."""

from __future__ import annotations

import json
import sys
import time

from catalog_ext.catalog import connect
from tests.benchmarks.repair_process import peak_mb


def main(index: str, metastore: str) -> None:
    with connect(index=index, metastore=metastore) as catalog:
        catalog.list_namespaces()
        before = peak_mb()
        wall, cpu = time.perf_counter(), time.process_time()
        outcome = catalog.follower.look()
        changed = sum(table.changed for table in outcome.tables)
        print(json.dumps({
            "events": outcome.events, "gap": outcome.gap, "source": outcome.source, "changed": changed,
            "seconds": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "imports_mb": before,
            "peak_mb": peak_mb(),
        }))  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
