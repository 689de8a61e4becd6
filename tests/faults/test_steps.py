"""An error at every step of a write, and another actor at every step of it, in one process."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.commit.fault_points import POINTS, InjectedFault, armed
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import CatalogExtError, IndexUnavailableError, StorageUnavailableError
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.transactions.reports import RecoveryAction
from tests.faults.scenarios import APPEND, OVERWRITE, SCENARIOS, Scenario
from tests.kit.index_cases import local_index
from tests.kit.write_cases import Stand

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OF_UNDOING = [p for p in POINTS if p.startswith("undo.")]
OF_WRITING = [p for p in POINTS if p not in OF_UNDOING]
# From here on a write can only go forward.
DECIDED = OF_WRITING[OF_WRITING.index("reserve.after") :]
# Whatever goes wrong from here on, the write has succeeded.
COMMITTED = OF_WRITING[OF_WRITING.index("publish.before") :]


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Stand]:
    with local_index(tmp_path) as index:
        yield Stand(index)


def forget(stand: Stand) -> None:
    """Makes room for the same tables."""
    for name in stand.index.tables.all("s"):
        stand.index.tables.drop(TableIdentifier("s", name), deliver=False)


def recover(stand: Stand) -> None:
    assert stand.engine.recover(older_than_s=0).failed == ()


@pytest.mark.parametrize(
    ("name", "action"),
    [
        ("overwrite", "error"), ("overwrite", "unavailable"), ("overwrite", "storage"), ("append", "error"),
        ("relocate", "unavailable"), ("create", "error"), ("replace", "unavailable"),
    ],
)  # fmt: skip
def test_an_error_at_every_step(stand: Stand, tmp_path: Path, name: str, action: str) -> None:
    scenario = SCENARIOS[name]
    for number, point in enumerate(OF_WRITING):
        case = Stand(stand.index, stand.storage)
        location = tmp_path / f"{number}"
        scenario.prepare(case, location)
        nth = 2 if point == "promote.file" else 1
        with armed(point, action, nth):
            reported = scenario.write(case, location)
        if point in COMMITTED or (point == "reserve.after" and action != "unavailable"):
            assert reported == "success", point
        elif point in DECIDED:
            assert reported == "unknown", point
        elif point in ("commit.called", "reserve.before"):
            # Whether an index that is away has received the request is unknown.
            assert reported == ("unknown" if action == "unavailable" else "failure")
        else:
            assert reported == "failure", point
        recover(case)
        scenario.check(case, reported, str(location))
        forget(case)


@pytest.mark.parametrize("point", OF_UNDOING)
@pytest.mark.parametrize("action", ["error", "unavailable", "storage"])
def test_an_error_while_undoing(stand: Stand, tmp_path: Path, point: str, action: str) -> None:
    OVERWRITE.prepare(stand, tmp_path / "t")
    with armed("check.after", "storage"), armed(point, action), contextlib.suppress(InjectedFault):
        assert OVERWRITE.write(stand, tmp_path / "t") == "failure"
    recover(stand)
    OVERWRITE.check(stand, "failure")


@pytest.mark.parametrize(
    "point", ["commit.called", "reserve.before", "reserve.after", "promote.file", "apply.before", "apply.after"]
)
def test_an_index_that_comes_back_in_time_is_no_error(stand: Stand, tmp_path: Path, point: str) -> None:
    pauses: list[float] = []
    case = Stand(stand.index, stand.storage, {"unknown_timeout_s": 60.0, "pause": pauses.append})
    OVERWRITE.prepare(case, tmp_path / "t")
    with armed(point, "unavailable"):
        assert OVERWRITE.write(case, tmp_path / "t") == "success"
    assert pauses == [0.1]
    OVERWRITE.check(case, "success")


@pytest.mark.parametrize("point", ["check.before", "check.after"])
@pytest.mark.parametrize("away", [IndexUnavailableError, StorageUnavailableError])
def test_what_is_away_for_a_moment_gives_no_write_up(
    stand: Stand, tmp_path: Path, point: str, away: type[CatalogExtError]
) -> None:
    pauses: list[float] = []
    case = Stand(stand.index, stand.storage, {"unknown_timeout_s": 60.0, "pause": pauses.append})
    OVERWRITE.prepare(case, tmp_path / "t")

    def refuse(_: str) -> None:
        raise away("later")

    with armed(point, refuse):
        assert OVERWRITE.write(case, tmp_path / "t") == "success"
    assert pauses == [0.1]
    OVERWRITE.check(case, "success")


@pytest.mark.parametrize("away", [IndexUnavailableError, StorageUnavailableError])
def test_what_stays_away_gives_a_write_up_with_its_own_error(
    stand: Stand, tmp_path: Path, away: type[CatalogExtError]
) -> None:
    OVERWRITE.prepare(stand, tmp_path / "t")

    def refuse(_: str) -> None:
        raise away("later")

    with armed("check.before", refuse, lasting=True):
        assert OVERWRITE.write(stand, tmp_path / "t") == "failure"
    OVERWRITE.check(stand, "failure")


def test_an_index_that_stays_away_is_asked_for_as_long_as_is_set(stand: Stand, tmp_path: Path) -> None:
    OVERWRITE.prepare(stand, tmp_path / "t")
    case = Stand(stand.index, stand.storage, {"unknown_timeout_s": 0.5})
    with armed("apply.before", "unavailable", lasting=True):
        assert OVERWRITE.write(case, tmp_path / "t") == "unknown"
        assert [t.action for t in case.engine.recover(older_than_s=0).transactions] == [RecoveryAction.FAILED]
    recover(case)
    assert case.rows() == OVERWRITE.after


@pytest.mark.parametrize("name", ["overwrite", "create", "replace"])
def test_a_recoverer_at_every_step_of_a_slow_owner(stand: Stand, tmp_path: Path, name: str) -> None:
    scenario = SCENARIOS[name]
    for number, point in enumerate(OF_WRITING):
        case = Stand(stand.index, stand.storage)
        location = tmp_path / f"{number}"
        scenario.prepare(case, location)
        with armed(point, lambda _, case=case: recover(case)):
            reported = scenario.write(case, location)
        assert reported == ("failure" if point not in (*DECIDED, "begin.before") else "success"), point
        recover(case)
        scenario.check(case, reported, str(location))
        forget(case)


@pytest.mark.parametrize("reserved", [False, True])
def test_a_slow_owner_at_every_step_of_a_recoverer(stand: Stand, tmp_path: Path, reserved: bool) -> None:
    points = DECIDED[1:] if reserved else OF_UNDOING
    for number, point in enumerate(points):
        case = Stand(stand.index, stand.storage)
        location = tmp_path / f"{number}"
        APPEND.prepare(case, location)
        begun = case.begin()
        staged = case.put(begun, {"k=1": "3\n", "k=3": "4\n"})
        case.engine.stage(begun.transaction_id, staged)
        if reserved:
            with armed("promote.before", "storage"), pytest.raises(CatalogExtError):
                case.engine.commit(begun.transaction_id)
        reported: list[str] = []

        def owner(
            _: str, case: Stand = case, begun: str = begun.transaction_id, reported: list[str] = reported
        ) -> None:
            try:
                case.engine.commit(begun)
                reported.append("success")
            except CatalogExtError:
                reported.append("failure")

        with armed(point, owner):
            recover(case)
        # An append is finished by its commit.
        passed = not point.startswith(("publish", "clean"))
        assert reported == (["success" if reserved else "failure"] if passed else []), point
        recover(case)
        APPEND.check(case, "success" if reserved else "failure")
        forget(case)


@pytest.mark.parametrize("point", [p for p in DECIDED if not p.startswith(("reserve", "publish"))])
def test_a_recoverer_that_dies_is_followed_by_another_one(stand: Stand, tmp_path: Path, point: str) -> None:
    OVERWRITE.prepare(stand, tmp_path / "t")
    with armed("promote.before", "error"):
        assert OVERWRITE.write(stand, tmp_path / "t") == "unknown"
    with armed(point, "error"):
        stand.engine.recover(older_than_s=0)
    recover(stand)
    assert stand.rows() == OVERWRITE.after
    OVERWRITE.check(stand, "success")


def test_a_commit_that_is_called_again_while_the_first_call_is_at_work(stand: Stand, tmp_path: Path) -> None:
    for number, point in enumerate(OF_WRITING[OF_WRITING.index("stage.after") :]):
        case = Stand(stand.index, stand.storage)
        OVERWRITE.prepare(case, tmp_path / f"{number}")
        begun = case.begin(WriteKind.OVERWRITE_PARTITIONS)
        case.engine.stage(begun.transaction_id, case.put(begun, {"k=1": "3\n", "k=3": "4\n"}))
        versions: list[int] = []

        def again(
            _: str, case: Stand = case, begun: str = begun.transaction_id, versions: list[int] = versions
        ) -> None:
            versions.append(case.engine.commit(begun).version)

        with armed(point, again):
            versions.append(case.engine.commit(begun.transaction_id).version)
        assert versions == [2, 2], point
        OVERWRITE.check(case, "success")
        forget(case)


def test_an_index_that_is_away_from_the_beginning(stand: Stand, tmp_path: Path) -> None:
    OVERWRITE.prepare(stand, tmp_path / "t")
    with armed("begin.before", "unavailable"), pytest.raises(IndexUnavailableError):
        stand.write({"k=1": "3\n"})
    OVERWRITE.check(stand, "failure")


def test_a_file_that_vanishes_while_it_is_promoted_undoes_the_write(stand: Stand, tmp_path: Path) -> None:
    scenario: Scenario = OVERWRITE
    scenario.prepare(stand, tmp_path / "t")

    def lose(_: str) -> None:
        (victim,) = (tmp_path / "t" / "_catalog_ext_staging").rglob("k=3/*.csv")
        victim.unlink()

    with armed("promote.before", lose):
        assert scenario.write(stand, tmp_path / "t") == "failure"
    scenario.check(stand, "failure")
    (last,) = stand.index.transactions.all(limit=1)
    assert "gone" in (last.error or "")


def test_a_table_that_is_dropped_before_the_commit_undoes_the_write(stand: Stand, tmp_path: Path) -> None:
    APPEND.prepare(stand, tmp_path / "t")
    identifier = stand.table().identifier

    def drop(_: str) -> None:
        stand.index.tables.drop(identifier, deliver=False)

    with armed("apply.before", drop):
        assert APPEND.write(stand, tmp_path / "t") == "failure"
    assert sorted(p.parent.name for p in (tmp_path / "t").rglob("*.csv")) == ["k=1", "k=2"]
    recover(stand)
