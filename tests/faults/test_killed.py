"""Writers that are killed with ``kill -9`` at every step: recovery leaves the old state or the new one, no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.commit.fault_points import DEFERRED_DELETE_POINTS, POINTS
from catalog_ext.metastore.index import Index
from catalog_ext.metastore.transactions.reports import RecoveryAction
from tests.faults import commands
from tests.faults.scenarios import SCENARIOS
from tests.faults.writer import Order, run_all, stand
from tests.kit.index_cases import empty_index

if TYPE_CHECKING:
    from pathlib import Path

KILLED = -9
COMMITTED = POINTS.index("apply.after")
RESERVED = POINTS.index("reserve.after")
SOME = (
    "stage.after",
    "reserve.after",
    "promote.file",
    "apply.before",
    "apply.after",
    "clean.removed",
    "undo.sources",
)


def faults(point: str) -> tuple[tuple[str, str, int], ...]:
    kill = (point, "kill", 2 if point == "promote.file" else 1)
    return (("check.after", "storage", 1), kill) if point.startswith("undo.") else (kill,)


def check(order: Order, point: str) -> None:
    """Recovers, and looks at everything."""
    scenario = SCENARIOS[order.scenario]
    with Index.open(order.index) as index:
        left = stand(index, order)
        before = scenario.state(left)
        # What readers of the index see never depends on recovery.
        reached = COMMITTED if point in DEFERRED_DELETE_POINTS else POINTS.index(point)
        decided = not point.startswith("undo.") and reached >= RESERVED
        assert before == (scenario.after if decided and reached >= COMMITTED else scenario.before)
        report = left.engine.recover(older_than_s=0)
        actions = [t.action for t in report.transactions]
        by_commit = order.scenario in ("append", "create") and point == "apply.after"
        finished = by_commit or point in ("begin.before", "clean.after", "undo.after")
        expected = RecoveryAction.FINISHED if decided else RecoveryAction.UNDONE
        assert actions == ([] if finished else [expected]), point
        scenario.check(left, "success" if decided else "failure", order.location)
        assert left.engine.recover(older_than_s=0).transactions == ()


@pytest.mark.parametrize("scenario", ["overwrite", "create", "everything"])
def test_a_writer_killed_at_every_step(tmp_path: Path, scenario: str) -> None:
    # What only adds files is finished by its commit.
    points = [p for p in POINTS if scenario == "overwrite" or (p in SOME and not p.startswith("clean."))]
    if scenario == "everything":
        points = [
            *DEFERRED_DELETE_POINTS, "apply.before", "apply.after", "clean.before", "clean.removed", "clean.after",
        ]  # fmt: skip
    orders = []
    for number, point in enumerate(points):
        path = tmp_path / f"{number}.db"
        path.write_bytes(empty_index())
        order = Order(f"sqlite:///{path}", f"file://{tmp_path}/{number}", scenario, faults(point))
        with Index.open(order.index) as index:
            SCENARIOS[scenario].prepare(stand(index, order), order.location)
        orders.append(order)
    assert run_all(orders) == [KILLED] * len(orders)
    for order, point in zip(orders, points, strict=True):
        check(order, point)


def test_a_writer_killed_on_postgresql(tmp_path: Path, postgres_url: str) -> None:
    with Index.open(postgres_url, migrate=True):
        pass
    for number, point in enumerate(("reserve.after", "apply.before", "apply.after")):
        order = Order(postgres_url, f"file://{tmp_path}/{number}", "overwrite", faults(point))
        with Index.open(order.index) as index:
            SCENARIOS["overwrite"].prepare(stand(index, order), order.location)
        assert run_all([order]) == [KILLED]
        check(order, point)
        with Index.open(order.index) as index:
            index.tables.drop(stand(index, order).table().identifier, deliver=False)


@pytest.mark.parametrize("command", ["rollback", *commands.MOVING])
def test_a_partition_command_killed_at_every_step(tmp_path: Path, command: str) -> None:
    fourth = "promote.file" if command in commands.MOVING else "apply.before"
    points = ("check.after", "reserve.after", fourth, "promote.after", "apply.after", "clean.removed")
    orders = []
    for number, point in enumerate(points):
        path = tmp_path / f"{number}.db"
        path.write_bytes(empty_index())
        kill = ((point, "kill", 1),)
        order = Order(f"sqlite:///{path}", f"file://{tmp_path}/{number}", command, kill)
        with Index.open(order.index) as index:
            commands.prepare(stand(index, order), order.location, command)
        orders.append(order)
    assert run_all(orders) == [KILLED] * len(orders)
    for order, point in zip(orders, points, strict=True):
        with Index.open(order.index) as index:
            left = stand(index, order)
            assert left.engine.recover(older_than_s=0).failed == ()
            reported = "success" if POINTS.index(point) >= RESERVED else "failure"
            commands.check(left, commands.COMMANDS[command], reported, point=point)
