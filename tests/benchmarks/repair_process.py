"""One repair in a process of its own: ``python -m tests.benchmarks.repair_process LOCATION INDEX`` prints its cost."""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

from catalog_ext.catalog import connect
from tests.benchmarks import trees


def main(location: str, index: str) -> None:
    with connect(index=index, metastore=None) as catalog:
        if not catalog.list_namespaces():
            catalog.create_namespace("bench")
            catalog.register_table("bench.t", location=location, schema=trees.SCHEMA, partition_columns=trees.KEYS)
        before = peak_mb()
        started = time.perf_counter()
        catalog.repair_partitions("bench.t")
        seconds = time.perf_counter() - started
    print(json.dumps({"peak_mb": peak_mb(), "imports_mb": before, "seconds": seconds}))


def peak_mb() -> float:
    """The most memory that this process has had, in MB."""
    # getrusage would give the parent's peak where that is higher: Linux hands it on at exec.
    status = Path("/proc/self/status")
    if status.is_file():
        lines = dict(line.split(":", 1) for line in status.read_text(encoding="ascii").splitlines())
        return int(lines["VmHWM"].split()[0]) * 1024 / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
