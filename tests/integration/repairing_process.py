"""A process of its own that registers and repairs tables: ``python -m tests.integration.repairing_process JSON``.

It prints one JSON line for each table: what it added and skipped. With ``batch`` it commits so many partitions a time
and prints a line after each batch, so that a test can kill it between two of them.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import catalog_ext
from catalog_ext.metastore.errors import TableAlreadyExistsError
from catalog_ext.repair.options import RepairOptions
from catalog_ext.repair.repair import Repair
from catalog_ext.scan.scratch import Scratch


def say(**line: Any) -> None:
    print(json.dumps(line), flush=True)  # noqa: T201 -- this is what the parent reads


def main(order: dict[str, Any]) -> None:
    with catalog_ext.connect(index=order["index"], metastore=None, warehouse=order["warehouse"]) as catalog:
        say(ready=True)
        sys.stdin.readline()
        for table in order["tables"]:
            try:
                catalog.register_table(
                    table, location=order["location"], format="csv", schema="x INT", partition_columns={"k": "INT"}
                )
                registered = True
            except TableAlreadyExistsError:
                registered = False
            if "batch" in order:
                slowly(catalog, table, order["batch"])
                continue
            report = catalog.repair_partitions(table)
            say(table=table, registered=registered, added=len(report.added), skipped=len(report.skipped))


def slowly(catalog: catalog_ext.Catalog, table: str, batch: int) -> None:
    def reported(progress: catalog_ext.RepairProgress) -> None:
        say(phase=progress.phase, partitions=progress.partitions)
        time.sleep(0.05)

    options = RepairOptions(deliver=False, batch_partitions=batch)
    Repair(catalog.index, catalog.storage, catalog.load_table(table), options, reported).run(Scratch())


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
