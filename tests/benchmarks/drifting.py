"""What a comparison of store, index and metastore costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from catalog_ext.catalog import connect
from tests.benchmarks import trees
from tests.benchmarks.measure import Outcome, shown
from tests.benchmarks.processes import child, metastore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.benchmarks.stand import Stand

SIZES = (100_000, 1_000_000)
MOVED = 100
MOST_MB = 300
ON_HIVE = 50_000
COLUMNS = ["partitions", "time", "CPU time", "differences", "peak memory", "memory before the comparison"]


def drift(stand: Stand) -> Outcome:
    """What a comparison of store, index and metastore costs."""
    rows, peak = [], 0.0
    for size in SIZES:
        folder = stand.folder / f"drift-{size}"
        folder.mkdir()
        child("drift_process", str(folder), str(size), "0", "make")
        for what, moved in (("in sync", 0), (f"one in {MOVED} at another location", MOVED)):
            answer = child("drift_process", str(folder), str(size), str(moved), "compare")
            peak = max(peak, answer["peak_mb"])
            rows.append([f"{size:,}, {what}", *_cells(answer, f"{answer['calls']:,}")])
    return Outcome(
        "Drift",
        "One comparison of store, index and metastore, in its own process; SQLite index; each partition has one file. "
        "Metastore and store are simulated, and generate their partitions and files on request.",
        [*COLUMNS[:4], "calls to the metastore", *COLUMNS[4:]],
        rows,
        [
            (
                f"a comparison of {SIZES[-1]:,} partitions takes less than {MOST_MB} MB of memory",
                peak < MOST_MB,
                f"{peak:.0f} MB",
            )
        ],
    )


def drift_on_hive(stand: Stand) -> Outcome:
    """What a comparison costs where the metastore is a real one."""
    rows = [[f"{ON_HIVE:,}, {what}", *_cells(answer)] for what, answer in _on_hive(stand)]
    return Outcome(
        "Drift on a real metastore",
        "The same with a Hive 2.3 on PostgreSQL, on the same machine; files are on the local disk.",
        COLUMNS,
        rows,
        [],
    )


def _on_hive(stand: Stand) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what a comparison with a real metastore costs: in sync, and where it lacks some partitions."""
    folder = stand.folder / "drift-hive"
    with metastore(folder, None) as (_, uri):
        root = trees.grow(folder / "t", stand.seed, range(ON_HIVE))
        with connect(index=str(folder / "index.db"), metastore=uri, warehouse=str(folder / "warehouse")) as catalog:
            catalog.create_namespace("s")
            catalog.register_table("s.t", location=str(root), partition_columns={"p": "INT"})
            catalog.repair_partitions("s.t")
            if catalog.deliver().pending:
                raise AssertionError("the metastore has not got its messages")
            yield "in sync", child("drift_process", str(folder), uri, "0", "hive")
            client = catalog.metastore.client()
            lacking = [f"p={key}" for key in range(0, ON_HIVE, MOVED)]
            client.drop_partitions("s", "t", lacking)
            answer = child("drift_process", str(folder), uri, "0", "hive")
            if answer["found"] != len(lacking):
                raise AssertionError(f"{len(lacking)} partitions that the metastore lacks came to {answer}")
            yield f"which lacks one in {MOVED}", answer


def _cells(answer: dict[str, Any], *more: str) -> list[str]:
    return [
        shown(answer["seconds"]), shown(answer["cpu"]), f"{answer['found']:,}", *more, f"{answer['peak_mb']:.0f} MB",
        f"{answer['imports_mb']:.0f} MB",
    ]  # fmt: skip
