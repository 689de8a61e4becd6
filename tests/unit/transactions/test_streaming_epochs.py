"""Epochs of a stream on the engine: what waits, when it is committed, and what is done for it then."""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.commit.fault_points import armed
from catalog_ext.metastore.commit.partition_commit import DELAY, POLICY_CLASS, POLICY_KIND, SUCCESS_FILE, TRIGGER
from catalog_ext.metastore.commit.partition_plans import RenamePartition
from catalog_ext.metastore.commit.transaction import State
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import (
    ConflictError,
    InvalidConfigurationError,
    InvalidInputError,
    InvalidValueError,
    LocationNotFoundError,
    StorageAccessDeniedError,
    TransactionStateError,
    WaitingFilesMissingError,
)
from catalog_ext.metastore.index.read.metadata_groups import Aggregate, Function
from catalog_ext.metastore.index.read.metadata_rows import NumberPredicate
from catalog_ext.metastore.model.changes import AddPartition, DropPartition
from catalog_ext.metastore.model.tables import DataFile
from catalog_ext.metastore.predicates.tree import Comparison, Operator
from tests.kit.streaming_cases import HOURLY, Stream, announced, below, hourly, unseen, waiting
from tests.kit.write_cases import TABLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.kit.streaming_cases import Calls
    from tests.kit.write_cases import Stand


@pytest.fixture
def made(tmp_path: Path) -> Iterator[tuple[Stand, Calls]]:
    with hourly(tmp_path) as there:
        yield there


@pytest.fixture
def stand(made: tuple[Stand, Calls]) -> Stand:
    return made[0]


@pytest.fixture
def calls(made: tuple[Stand, Calls]) -> Calls:
    return made[1]


def test_partitions_wait_until_the_watermark_reaches_them(stand: Stand, calls: Calls, tmp_path: Path) -> None:
    stream = Stream(stand)
    outcome = stream.epoch(8, {"h=8": "a\n", "h=9": "b\n"})
    assert (outcome.waiting, outcome.files_added, outcome.rows) == (2, 0, 0)
    assert (stand.rows(), stand.listed()) == ({}, {})
    assert waiting(stand) == ["h=8", "h=9"]
    assert announced(calls) == []

    outcome = stream.epoch(9, {"h=8": "c\n", "h=10": "d\n"})
    assert (outcome.waiting, outcome.files_added, outcome.partitions_added) == (1, 2, 1)
    assert stand.rows() == stand.listed() == {"h=8": "a\nc\n"}
    assert announced(calls) == ["8"]
    assert (tmp_path / "t" / "h=8" / "_SUCCESS").read_bytes() == b""

    # A late row appears with its epoch, and its partition is committed again.
    stream.epoch(11, {"h=8": "late\n", "h=11": "e\n"})
    assert stand.rows() == stand.listed() == {"h=8": "a\nc\nlate\n", "h=9": "b\n", "h=10": "d\n"}
    assert announced(calls) == ["10", "8", "9"]
    assert waiting(stand) == ["h=11"]
    assert len(unseen(stand)) == 1
    assert not list((tmp_path / "t" / "_catalog_ext_staging").glob("*/h=8"))

    outcome = stream.end()
    assert outcome is not None
    assert (outcome.operation, outcome.files_added, outcome.waiting) == ("STREAMING", 1, 0)
    assert stand.rows()["h=11"] == "e\n"
    assert announced(calls) == ["11"]
    assert unseen(stand) == []
    assert not (tmp_path / "t" / "_catalog_ext_staging").exists()
    assert stream.end() is None
    assert {t.state for t in stand.index.transactions.all()} == {State.FINISHED}


def test_history_counts_the_rows_and_bytes_that_a_version_shows(stand: Stand) -> None:
    stream = Stream(stand)
    stream.epoch(8, {"h=8": "a\n", "h=9": "waits\n"})
    outcome = stream.epoch(9, {"h=8": "bcd\n", "h=10": "waits, too\n"})
    assert (outcome.files_added, outcome.rows, outcome.bytes) == (2, 2, len("a\nbcd\n"))
    released = stream.end()
    assert released is not None
    assert (released.files_added, released.rows, released.bytes) == (2, 2, len("waits\nwaits, too\n"))
    versions = stand.index.tables.history(TABLE)
    counted = [tuple(v.summary.get(name) for name in ("files_added", "rows", "bytes")) for v in versions]
    assert counted[:2] == [(2, 2, 17), (2, 2, 6)]


def test_an_epoch_after_the_end_is_not_taken_for_a_duplicate(stand: Stand) -> None:
    stream = Stream(stand)
    stream.epoch(0, {"h=8": "a\n"})
    stream.end()
    assert not stream.epoch(0, {"h=8": "b\n"}).duplicate
    stream.end()
    assert stand.rows() == {"h=8": "a\nb\n"}


def test_a_repeated_epoch_is_a_duplicate_also_while_its_files_wait(stand: Stand) -> None:
    stream = Stream(stand)
    stream.epoch(0, {"h=8": "a\n"})
    again = stand.begin(app_id="query", app_version=0)
    assert again.duplicate
    stream.end()
    assert stand.rows() == {"h=8": "a\n"}


def test_each_query_has_its_own_watermark(stand: Stand) -> None:
    slow, fast = Stream(stand, "slow"), Stream(stand, "fast")
    slow.epoch(0, {"h=8": "slow\n"})
    fast.epoch(12, {"h=8": "fast\n"})
    assert stand.rows() == {"h=8": "fast\n"}
    fast.end()
    assert waiting(stand) == ["h=8"]
    slow.end()
    assert stand.rows() == {"h=8": "fast\nslow\n"}
    assert unseen(stand) == []


def test_other_writes_never_wait_and_have_policies_too(stand: Stand, calls: Calls) -> None:
    stream = Stream(stand)
    stream.epoch(0, {"h=8": "stream\n"})
    stand.write({"h=8": "batch\n", "h=9": "batch\n"})
    assert stand.rows() == {"h=8": "batch\n", "h=9": "batch\n"}
    assert announced(calls) == ["8", "9"]
    # What waits is not there yet, so that an overwrite does not concern it.
    stand.write({"h=8": "new\n"}, WriteKind.OVERWRITE_PARTITIONS)
    stream.end()
    assert stand.rows() == {"h=8": "new\nstream\n", "h=9": "batch\n"}


def test_a_policy_that_fails_runs_again_with_recovery(
    stand: Stand, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    def committed(values: Mapping[str, str | None], location: str) -> None:
        raise RuntimeError("the pager is off")

    with monkeypatch.context() as patch:
        patch.setattr("json.committed", committed)
        stand.write({"h=8": "a\n"})
    assert stand.rows() == {"h=8": "a\n"}
    assert [t.state for t in stand.index.transactions.all()] == [State.COMMITTED]
    stand.engine.recover(older_than_s=0)
    assert announced(calls) == ["8"]
    assert [t.state for t in stand.index.transactions.all()] == [State.FINISHED]


def test_failed_policy_does_not_keep_the_next_write_from_its_policy(
    stand: Stand, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    def committed(values: Mapping[str, str | None], location: str) -> None:
        raise RuntimeError("the pager is off")

    with monkeypatch.context() as patch:
        patch.setattr("json.committed", committed)
        stand.write({"h=8": "a\n"})
    stand.write({"h=8": "b\n"})
    assert announced(calls) == ["8"]
    # The first write is left to recovery.
    assert sorted(t.state for t in stand.index.transactions.all()) == [State.COMMITTED, State.FINISHED]


def test_write_with_failed_policy_finishes_when_its_table_was_dropped(
    stand: Stand, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    def committed(values: Mapping[str, str | None], location: str) -> None:
        raise RuntimeError("the pager is gone")

    with monkeypatch.context() as patch:
        patch.setattr("json.committed", committed)
        stand.write({"h=8": "a\n"})
        stand.engine.recover_before(stand.table())
        stand.index.tables.drop(TABLE, deliver=False)
    assert stand.engine.recover(older_than_s=0).failed == ()
    assert [t.state for t in stand.index.transactions.all()] == [State.FINISHED]
    assert calls == []


def test_a_policy_that_fails_for_good_is_in_no_renames_way(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    def committed(values: Mapping[str, str | None], location: str) -> None:
        raise RuntimeError("the pager is gone")

    monkeypatch.setattr("json.committed", committed)
    stand.write({"h=8": "a\n", "h=9": "b\n"})
    stand.write({"h=8": "c\n"}, WriteKind.OVERWRITE_PARTITIONS)
    assert [t.state for t in stand.index.transactions.all()] == [State.COMMITTED] * 2
    stand.engine.recover(older_than_s=0)
    stand.engine.command(stand.table(), RenamePartition("h=9", "h=10"), "RENAME PARTITION")
    assert stand.rows() == stand.listed() == {"h=8": "c\n", "h=10": "b\n"}


def test_a_partition_without_a_time_fails_its_epoch_alone(stand: Stand) -> None:
    stream = Stream(stand)
    with pytest.raises(InvalidValueError, match="has no time"):
        stream.epoch(0, {"h=8": "a\n", "h=__HIVE_DEFAULT_PARTITION__": "b\n"})
    assert stand.strays() == []
    assert waiting(stand) == []


def test_the_writes_own_options_go_before_the_tables(stand: Stand, calls: Calls) -> None:
    stream = Stream(stand)
    stream.epoch(0, {"h=8": "a\n"}, options={TRIGGER: "process-time", DELAY: "0s", POLICY_KIND: "metastore"})
    assert stand.rows() == {"h=8": "a\n"}
    assert announced(calls) == []
    with pytest.raises(InvalidConfigurationError, match="trigger"):
        stand.begin(options={TRIGGER: "never"})
    with pytest.raises(InvalidConfigurationError, match="no callable 'nothing'"):
        stand.begin(options={POLICY_CLASS: "json:nothing"})


def test_what_waits_for_the_clock_waits_for_the_databases(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stream(stand)
    hour = {TRIGGER: "process-time", DELAY: "1h", POLICY_KIND: "metastore"}
    stream.epoch(0, {"h=8": "a\n"}, options=hour)
    right = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: right() + 2 * 3_600_000_000_000)
    stream.epoch(0, {"h=9": "b\n"}, options=hour)
    assert waiting(stand) == ["h=8", "h=9"]


def test_partition_rows_show_what_waits(stand: Stand, tmp_path: Path) -> None:
    stream = Stream(stand)
    stream.epoch(10, {"h=8": "a\n", "h=12": "b\n"})
    stream.epoch(10, {"h=12": "c\n\n"})
    found = stand.index.metadata_rows.partitions(stand.table()).read_all().to_pylist()
    assert [row.pop("created_at") is None for row in found] == [False, True]
    root = f"file://{tmp_path}/t"
    assert found == [
        {"partition": "h=8", "location": f"{root}/h=8", "files": 1, "bytes": 2, "rows": 1, "state": "committed"},
        {"partition": "h=12", "location": f"{root}/h=12", "files": 2, "bytes": 5, "rows": 3, "state": "waiting"},
    ]
    table, more = stand.table(), NumberPredicate("partitions", Comparison(Operator.GT, "rows", "1"))
    asked = [Aggregate(Function.COUNT, None), Aggregate(Function.SUM, "bytes"), Aggregate(Function.MAX, "rows")]
    groups = stand.index.metadata_groups.groups(table, "partitions", None, table.definition.keys, asked).read_all()
    assert [tuple(row.values()) for row in groups.to_pylist()] == [("h=8", 1, 2, 1), ("h=12", 1, 5, 3)]
    assert stand.index.metadata_groups.count(table, "partitions", None).read_all().num_rows == 2
    assert stand.index.metadata_rows.partitions(table, None, ["state"], more).read_all().to_pylist() == [
        {"state": "waiting"}
    ]
    # What waits belongs to no version.
    assert stand.index.metadata_rows.partitions(table, None, ["state"], waiting=False).read_all().num_rows == 1
    assert stand.index.metadata_groups.count(table, "partitions", None, waiting=False).read_all().num_rows == 1


def test_vacuum_and_recovery_leave_what_waits(stand: Stand) -> None:
    stream = Stream(stand)
    stream.epoch(0, {"h=8": "a\n", "h=9": "b\n"})
    stand.write({"h=1": "x\n"})
    stand.engine.recover(older_than_s=0)
    for _ in range(2):
        stand.engine.vacuum(stand.table(), 0)
        stand.write({"h=1": "y\n"}, WriteKind.OVERWRITE_PARTITIONS)
    assert waiting(stand) == ["h=8", "h=9"]
    stream.end()
    assert stand.rows() == stand.listed() == {"h=1": "y\n", "h=8": "a\n", "h=9": "b\n"}
    assert unseen(stand) == []


@pytest.mark.parametrize("moved", ["relocated", "overwritten", "by its table"])
def test_what_waits_goes_to_where_its_partition_is_when_it_is_due(stand: Stand, tmp_path: Path, moved: str) -> None:
    stand.write({"h=7": "old\n"})
    stream = Stream(stand)
    stream.epoch(7, {"h=7": "a\n"})
    old = "old\n"
    if moved == "overwritten":
        old = "new\n"
        stand.write({"h=7": old}, WriteKind.OVERWRITE_PARTITIONS, options={"overwrite-mode": "relocate"})
    elif moved == "relocated":
        (file,) = (tmp_path / "t" / "h=7").glob("*.csv")
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        kept = DataFile(file.name, file.stat().st_size, 0, 1)
        file.rename(elsewhere / file.name)
        changes = [DropPartition("h=7"), AddPartition("h=7", (kept,), location=f"file://{elsewhere}")]
        stand.index.commits.apply_changes(stand.table().table_id, changes, operation="repair", deliver=False)
    else:
        elsewhere = tmp_path / "u"
        shutil.copytree(tmp_path / "t", elsewhere, ignore=shutil.ignore_patterns("_*"))
        there = f"file://{elsewhere}"
        stand.index.alterations.alter(
            stand.table().identifier, lambda table: replace(table, location=there), deliver=False
        )
    stream.epoch(8, {"h=8": "b\n"})
    assert stand.rows() == {"h=7": f"a\n{old}"}
    assert waiting(stand) == ["h=8"]
    stream.end()
    assert stand.rows() == {"h=7": f"a\n{old}", "h=8": "b\n"}


def test_keys_keep_the_types_that_what_waits_has(stand: Stand) -> None:
    stream = Stream(stand)
    stream.epoch(7, {"h=7": "a\n"})
    with pytest.raises(InvalidValueError, match=r"1 of its partitions have values that do not fit, such as 'h=7'"):
        stand.index.alterations.change_key_types(stand.table(), {"h": "date"}, deliver=False)
    stream.end()
    assert stand.rows() == {"h=7": "a\n"}


@pytest.mark.slow
def test_many_partitions_wait_in_bounded_steps(stand: Stand) -> None:
    stream = Stream(stand)
    names = [f"h={hour}" for hour in range(10, 24)]
    for _ in range(3):
        stream.epoch(0, dict.fromkeys(names, "x\n"))
    left = [(w.partition, w.transaction_id) for w in stand.index.waiting_files.all(stand.table().table_id, "query")]
    assert len(left) == len(set(left)) == 3 * len(names)
    stream.end()
    assert stand.rows() == dict.fromkeys(names, "x\nx\nx\n")


def test_what_waits_goes_with_its_table(stand: Stand, tmp_path: Path) -> None:
    Stream(stand).epoch(10, {"h=8": "a\n", "h=12": "b\n"})
    table = stand.table()
    with stand.engine.waiting.dropping(table):
        stand.index.tables.drop(table.identifier, deliver=False)
    assert below(tmp_path / "t") == {"h=8", "h=8/_SUCCESS", "h=8/part"}
    assert list(stand.index.waiting_files.all(table.table_id)) == []


def test_epoch_without_its_waiting_files_fails_before_anything_is_written(stand: Stand, tmp_path: Path) -> None:
    stream = Stream(stand)
    stream.epoch(7, {"h=7": "a\n", "h=8": "b\n"})
    stream.epoch(7, {"h=7": "c\n"})
    (gone, *_) = sorted(tmp_path.glob("t/_catalog_ext_staging/*/h=7/*.csv"))
    left = {"a\n": "c\n", "c\n": "a\n"}[gone.read_text()]
    gone.unlink()
    for _ in range(2):
        with pytest.raises(WaitingFilesMissingError, match=r"1 files .* s\.t .* are gone.*h=7.*discard-waiting s\.t"):
            stream.epoch(8, {"h=8": "d\n"})
    assert (stand.rows(), stand.listed()) == ({}, {})
    assert {t.state for t in stand.index.transactions.all()} <= {State.FINISHED, State.ABORTED}
    preview = stand.engine.waiting.discard(stand.table(), dry_run=True)
    assert [(f.partition, f.location, f.rows) for f in preview.files] == [("h=7", f"file://{gone}", 1)]
    assert waiting(stand) == ["h=7", "h=8"]
    report = stand.engine.waiting.discard(stand.table())
    assert (report.files, report.rows) == (preview.files, 1)
    assert stand.engine.waiting.discard(stand.table()).files == ()
    stream.epoch(8, {"h=8": "e\n"})
    assert stand.rows() == stand.listed() == {"h=7": left}
    stream.end()
    assert stand.rows()["h=8"] == "b\ne\n"
    assert unseen(stand) == []


def test_a_whole_partition_that_has_gone_waits_no_more(stand: Stand, tmp_path: Path) -> None:
    stream = Stream(stand)
    stream.epoch(7, {"h=7": "a\n", "h=8": "b\n"})
    for file in tmp_path.glob("t/_catalog_ext_staging/*/h=7/*.csv"):
        file.write_text("cut off by a full disk")
    with pytest.raises(WaitingFilesMissingError):
        stream.end()
    assert len(stand.engine.waiting.discard(stand.table()).files) == 1
    assert waiting(stand) == ["h=8"]
    stream.end()
    assert stand.rows() == {"h=8": "b\n"}


def test_nothing_is_given_up_while_the_tables_directory_is_away(stand: Stand, tmp_path: Path) -> None:
    Stream(stand).epoch(7, {"h=7": "a\n"})
    (tmp_path / "t").rename(tmp_path / "away")
    with pytest.raises(LocationNotFoundError):
        stand.engine.waiting.discard(stand.table())
    (tmp_path / "away").rename(tmp_path / "t")
    assert stand.engine.waiting.discard(stand.table()).files == ()
    assert waiting(stand) == ["h=7"]


def test_epoch_undone_after_promoting_waiting_files_loses_nothing(stand: Stand) -> None:
    stream = Stream(stand)
    stream.epoch(7, {"h=7": "a\n"})

    def refuse(_: str) -> None:
        raise StorageAccessDeniedError("No.")

    with armed("promote.after", refuse), pytest.raises(StorageAccessDeniedError):
        stream.epoch(8, {"h=8": "b\n"})
    assert stand.listed() == {}
    assert waiting(stand) == ["h=7"]
    assert stand.engine.waiting.discard(stand.table()).files == ()
    stream.epoch(8, {"h=8": "c\n"})
    assert stand.rows() == stand.listed() == {"h=7": "a\n"}


def test_who_is_late_neither_shows_nor_hides_what_waits(stand: Stand) -> None:
    """An owner that slept while it was undone, and an undoing that slept while the next epoch was committed."""
    stream = Stream(stand)
    stream.epoch(7, {"h=7": "a\n"})

    def overtaken(_: str) -> None:
        (mine,) = stand.index.transactions.all(states=(State.RESERVED,))
        stand.engine.undo(mine.transaction_id)

    with armed("promote.before", overtaken), pytest.raises(TransactionStateError, match="was undone"):
        stream.epoch(8, {"h=8": "b\n"})
    assert (stand.rows(), stand.listed(), waiting(stand)) == ({}, {}, ["h=7"])

    def refuse(_: str) -> None:
        raise StorageAccessDeniedError("No.")

    def next_epoch(_: str) -> None:
        stand.engine.recover(older_than_s=0)
        Stream(stand, first=2).epoch(8, {"h=8": "c\n"})

    with armed("promote.after", refuse), armed("undo.due", next_epoch), pytest.raises(StorageAccessDeniedError):
        Stream(stand, first=1).epoch(8, {"h=8": "b\n"})
    assert stand.rows() == stand.listed() == {"h=7": "a\n"}


def test_an_epoch_waits_until_one_of_its_query_is_undone(stand: Stand) -> None:
    """Otherwise the undoing would hide what the epoch has shown."""
    stream = Stream(stand)
    stream.epoch(7, {"h=7": "a\n"})
    begun = stand.begin(operation="STREAMING", app_id="query", app_version=1)

    def refuse(_: str) -> None:
        raise StorageAccessDeniedError("No.")

    def meanwhile(_: str) -> None:
        with pytest.raises(ConflictError, match="is undoing a batch of the application 'query'"):
            stand.engine.commit(begun.transaction_id, stand.put(begun, {"h=7": "b\n"}), final=True)

    with armed("promote.after", refuse), armed("undo.before", meanwhile), pytest.raises(StorageAccessDeniedError):
        stream.end()
    assert (stand.rows(), stand.listed(), waiting(stand)) == ({}, {}, ["h=7"])


def test_what_the_store_refuses_to_hide_stops_no_undoing(
    stand: Stand, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stream = Stream(stand)
    stream.epoch(7, {"h=7": "a\n"})

    def refuse(*_: object, **__: object) -> None:
        raise StorageAccessDeniedError("No.")

    monkeypatch.setattr("catalog_ext.metastore.transactions.steps.due_files.hide", refuse)
    with armed("promote.after", refuse), pytest.raises(StorageAccessDeniedError):
        stream.epoch(8, {"h=8": "b\n"})
    assert "stay visible until its next epoch: No." in caplog.text
    assert State.ABORTING not in {t.state for t in stand.index.transactions.all()}
    stream.epoch(8, {"h=8": "c\n"})
    assert stand.rows() == stand.listed() == {"h=7": "a\n"}


def test_what_an_abandoned_query_has_kept_back_can_be_committed(tmp_path: Path) -> None:
    """Its checkpoint is lost, or it has another id now."""
    with hourly(tmp_path) as (stand, calls):
        Stream(stand, "lost").epoch(8, {"h=9": "a\n", "h=10": "b\n"})
        Stream(stand, "other").epoch(8, {"h=9": "c\n"})
        assert stand.rows() == {}
        preview = stand.engine.waiting.release_all(stand.table(), None, "test", dry_run=True)
        shown = [(one.partition, one.application, one.files, one.rows) for one in preview.partitions]
        assert shown == [("h=10", "lost", 1, 1), ("h=9", "lost", 1, 1), ("h=9", "other", 1, 1)]
        assert (stand.rows(), announced(calls)) == ({}, [])
        report = stand.engine.waiting.release_all(stand.table(), "lost", "test")
        assert (len(report.partitions), report.version) == (2, stand.table().version)
        assert stand.rows() == stand.listed() == {"h=10": "b\n", "h=9": "a\n"}
        assert sorted(filter(None, announced(calls))) == ["10", "9"]
        stand.engine.waiting.release_all(stand.table(), None, "test")
        assert stand.rows() == {"h=10": "b\n", "h=9": "a\nc\n"}
        nothing = stand.engine.waiting.release_all(stand.table(), None, "test")
        assert (nothing.partitions, nothing.version) == ((), None)


def test_what_is_released_has_the_policies_of_its_query(stand: Stand, calls: Calls, tmp_path: Path) -> None:
    """The table says nothing: the options of each query do, and those of its last epoch."""
    stand.index.alterations.alter(TABLE, lambda table: replace(table, properties={}), deliver=False)
    named = Stream(stand, "named")
    named.epoch(8, {"h=9": "a\n"}, options={**HOURLY, SUCCESS_FILE: "_OLD"})
    named.epoch(8, {"h=10": "b\n"}, options=HOURLY)
    plain = {key: text for key, text in HOURLY.items() if key not in (POLICY_KIND, POLICY_CLASS)}
    Stream(stand, "plain").epoch(8, {"h=11": "c\n"}, options=plain)
    stand.engine.waiting.release_all(stand.table(), None, "test")
    assert stand.rows() == stand.listed() == {"h=10": "b\n", "h=11": "c\n", "h=9": "a\n"}
    assert sorted(filter(None, announced(calls))) == ["10", "9"]
    marks = {str(path.relative_to(tmp_path / "t")) for path in (tmp_path / "t").rglob("_*") if path.is_file()}
    assert marks == {"h=10/_SUCCESS", "h=9/_SUCCESS"}


def test_release_for_an_unknown_query_is_an_error(stand: Stand) -> None:
    stream = Stream(stand)
    stream.epoch(8, {"h=8": "a\n"})
    with pytest.raises(InvalidInputError, match=r"No query 'nix' has written to table s\.t\. Rows wait of query;"):
        stand.engine.waiting.release_all(stand.table(), "nix", "test")
    assert stand.engine.waiting.release_all(stand.table(), "query", "test").version is not None
    assert stand.engine.waiting.release_all(stand.table(), "query", "test").partitions == ()
    with pytest.raises(InvalidInputError, match="No rows wait in it"):
        stand.engine.waiting.release_all(stand.table(), "nix", "test", dry_run=True)
