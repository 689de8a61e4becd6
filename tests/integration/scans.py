"""What the scans of a query did."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def files_read(frame: DataFrame) -> int:
    """The files that the table's scan read, by its own metric."""
    plan = frame._jdf.queryExecution().executedPlan().toString()
    metrics = frame._jdf.queryExecution().executedPlan()
    leaves = metrics.collectLeaves()
    found = [leaves.apply(i) for i in range(leaves.size())]
    while found:
        node = found.pop()
        if node.nodeName().startswith("AdaptiveSparkPlan"):
            found.extend(_leaves(node.executedPlan()))
        elif "QueryStage" in node.nodeName():
            found.extend(_leaves(node.plan()))
        elif node.nodeName().startswith("BatchScan"):
            return int(node.metrics().apply("numFiles").value())
    raise AssertionError(f"no scan of ours in {plan}")


def _leaves(plan: object) -> list[object]:
    leaves = plan.collectLeaves()  # type: ignore[attr-defined]
    return [leaves.apply(i) for i in range(leaves.size())]
