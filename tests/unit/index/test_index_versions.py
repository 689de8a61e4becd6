"""Random commits against a model in memory: every version stays readable, and the totals stay true."""

from __future__ import annotations

import random
import sqlite3
from functools import partial
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.model.alterations import AddColumn, altered
from catalog_ext.metastore.model.changes import AddPartition, DropPartition, ReplaceFiles
from catalog_ext.metastore.model.tables import DataFile
from tests.kit.index_cases import create, data_files, local_index

if TYPE_CHECKING:
    from pathlib import Path

    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.changes import Change
    from catalog_ext.metastore.model.tables import Table

_State = dict[str, dict[str, DataFile]]


def _random_change(rng: random.Random, name: str, state: _State) -> list[Change]:
    if name not in state:
        return [AddPartition(name, _files(rng, "a"))]
    present = sorted(state[name])
    kind = rng.choice(("drop", "drop and add", "replace", "nothing"))
    if kind == "nothing":
        return [ReplaceFiles(name)]
    if kind == "replace":
        removed = rng.sample(present, rng.randint(0, len(present)))
        again = tuple(DataFile(path, 7, 7, rng.choice((None, 7))) for path in removed[:1])
        return [ReplaceFiles(name, (*again, *_files(rng, f"n{rng.random()}")), tuple(removed))]
    return [DropPartition(name), *([AddPartition(name, _files(rng, "b"))] if kind == "drop and add" else [])]


def _files(rng: random.Random, prefix: str) -> tuple[DataFile, ...]:
    return tuple(
        DataFile(f"{prefix}-{i}", rng.randint(0, 100), i, rng.choice((None, 0, 5, 10)))
        for i in range(rng.randint(0, 3))
    )


def _apply(state: _State, changes: list[Change]) -> _State:
    after = {name: dict(files) for name, files in state.items()}
    for change in sorted(changes, key=lambda c: isinstance(c, AddPartition)):
        match change:
            case AddPartition(name, files):
                after[name] = {f.path: f for f in files}
            case DropPartition(name):
                del after[name]
            case ReplaceFiles(name, added, removed):
                kept = {path: f for path, f in after[name].items() if path not in removed}
                after[name] = kept | {f.path: f for f in added}
    return after


def _read(index: Index, table: Table) -> _State:
    state: _State = {row["partition"]: {} for row in index.partitions.all(table, None).read_all().to_pylist()}
    for row in index.files.plan(table, None).read_all().to_pylist():
        state[row["partition"]][row["path"]] = DataFile(row["path"], row["size"], row["modified_ms"], row["rows"])
    return state


def _states_at(index: Index, newest: Table, version: int) -> dict[str, tuple[int, int]]:
    """The files and bytes of the partitions that a version had, by the metadata table ``partition_history``."""
    found = [
        row
        for row in index.partition_history.rows(newest).read_all().to_pylist()
        if row["version"] <= version and (row["until_version"] is None or version < row["until_version"])
    ]
    states = {row["partition"]: (row["files"], row["bytes"]) for row in found}
    assert len(states) == len(found), "a partition has one state in a version"
    assert {row["operation"] for row in found} <= {"test"}
    assert None not in {row["committed_at"] for row in found}
    return states


def _check_totals(table: Table, state: _State) -> None:
    files = [f for contents in state.values() for f in contents.values()]
    counts = [f.rows for f in files]
    totals = table.totals
    assert (totals.partitions, totals.files) == (len(state), len(files))
    assert totals.bytes == sum(f.size for f in files)
    assert totals.rows == (None if None in counts else sum(n for n in counts if n is not None))


@pytest.mark.parametrize("seed", range(4))
def test_random_commits(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    names = [f"k={i}" for i in range(6)]
    with local_index(tmp_path) as index:
        table = create(index, keys={"k": "int"})
        states: list[_State] = [{}]
        versions = [table]
        for _ in range(25):
            if rng.random() < 0.3:
                added = AddColumn((f"c{len(versions)}",), "int")
                versions.append(
                    index.alterations.alter(table.identifier, partial(altered, changes=[added]), deliver=False)
                )
                states.append(states[-1])
            chosen = rng.sample(names, rng.randint(1, 4))
            changes = [c for name in chosen for c in _random_change(rng, name, states[-1])]
            rng.shuffle(changes)
            outcome = index.commits.apply_changes(table.table_id, changes, operation="test", deliver=rng.random() < 0.5)
            after = _apply(states[-1], changes)
            if outcome.version == versions[-1].version:
                assert after == states[-1]
                continue
            assert outcome.version == versions[-1].version + 1
            states.append(after)
            versions.append(index.tables.load(table.identifier))
            _check_totals(versions[-1], after)
        for version, state in zip(versions, states, strict=True):
            assert _read(index, version) == state
            at = index.version_lookup.at_version(versions[-1], version.version)
            assert (at.version, at.totals) == (version.version, version.totals)
            assert at.definition == version.definition
            assert _read(index, at) == state
            assert _states_at(index, versions[-1], version.version) == {
                name: (len(there), sum(f.size for f in there.values())) for name, there in state.items()
            }


def test_statistics_are_renewed_after_a_load(tmp_path: Path) -> None:
    path = tmp_path / "index.db"
    with local_index(tmp_path) as index:
        table = create(index, keys={"k": "int"})
        index.commits.apply_changes(
            table.table_id, [AddPartition("k=-1", data_files(1))], operation="test", deliver=False
        )
        assert not _statistics(path)
        many = [AddPartition(f"k={i}", data_files(1)) for i in range(600)]
        index.commits.apply_changes(table.table_id, many, operation="test", deliver=False)
        assert {"partitions", "files"} <= _statistics(path)


def _statistics(path: Path) -> set[str]:
    with sqlite3.connect(path) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'sqlite_stat1'").fetchone():
            return set()
        found = {table for (table,) in connection.execute("SELECT tbl FROM sqlite_stat1")}
    connection.close()
    return found


def test_a_commit_stands_when_the_statistics_cannot_be_renewed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from catalog_ext.metastore.errors import IndexUnavailableError
    from catalog_ext.metastore.index.read.planner_statistics import PlannerStatistics

    def locked(_: object) -> None:
        raise IndexUnavailableError("locked")

    monkeypatch.setattr(PlannerStatistics, "analyze", locked)
    with local_index(tmp_path) as index:
        table = create(index, keys={"k": "int"})
        many = [AddPartition(f"k={i}", data_files(1)) for i in range(600)]
        assert index.commits.apply_changes(table.table_id, many, operation="test", deliver=False).version == 1
    assert "could not be renewed" in caplog.text
