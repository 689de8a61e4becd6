"""What an executed query read, from its physical plan: the files that its scans handed to the readers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from py4j.java_gateway import JavaObject
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class FilesRead:
    """How much of a table a query read."""

    partitions: int
    files: int


def files_read(frame: DataFrame, root: str) -> FilesRead:
    """The files below ``root`` that the query's scans were given, after all pruning; the query must have run.

    Scans of the catalog say so by their metrics, as the SQL page of Spark's UI shows them; Spark's own by their tasks.

    Args:
        frame: Of PySpark's classic API.
        root: The table's location.
    """
    files: set[str] = set()
    counted = FilesRead(0, 0)
    for scan in _scans(frame._jdf.queryExecution().executedPlan()):
        if scan.getClass().getSimpleName() == "BatchScanExec":
            metrics = scan.metrics()
            found = (metrics.apply(name).value() for name in ("numPartitions", "numFiles"))
            counted = FilesRead(*map(sum, zip((counted.partitions, counted.files), found, strict=True)))
        else:
            files.update(path for path in _paths(scan) if path.startswith(f"{root}/"))
    directories = {path.rpartition("/")[0] for path in files}
    return FilesRead(counted.partitions + len(directories), counted.files + len(files))


def _scans(plan: JavaObject) -> Iterator[JavaObject]:
    kind = plan.getClass().getSimpleName()
    if kind == "AdaptiveSparkPlanExec":
        yield from _scans(plan.executedPlan())
    elif kind.endswith("QueryStageExec"):
        yield from _scans(plan.plan())
    elif kind in ("BatchScanExec", "FileSourceScanExec"):
        yield plan
    yield from (scan for child in _each(plan.children()) for scan in _scans(child))


def _paths(scan: JavaObject) -> Iterator[str]:
    for rdd in _each(scan.inputRDDs()):
        for part in rdd.partitions():
            for file in part.files():
                yield str(file.toPath().toString())


def _each(sequence: JavaObject) -> Iterator[JavaObject]:
    for position in range(sequence.size()):
        yield sequence.apply(position)
