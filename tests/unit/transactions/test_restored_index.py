"""An index that was put back to an earlier time (a backup, a failover that forgot the last of it), and its store."""

from __future__ import annotations

import sqlite3
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pytest

from catalog_ext.catalog import connect
from catalog_ext.metastore.commit.fault_points import InjectedFault, armed
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import (
    CatalogExtError,
    CommitStateUnknownError,
    ConflictError,
    IndexUnavailableError,
    TransactionStateError,
)
from catalog_ext.metastore.index import Index
from catalog_ext.metastore.index.write import removals, row_writes, transaction_files
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import TableType
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.transactions.reports import RecoveryAction
from catalog_ext.metastore.transactions.steps import run
from catalog_ext.metastore.transactions.taken_files import take_files
from catalog_ext.repair.report import UNKNOWN_RELOCATION
from tests.kit.index_cases import local_index
from tests.kit.made_once import MadeOnce, making
from tests.kit.write_cases import Stand, definition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from catalog_ext.metastore.commit.transaction import Transaction
    from catalog_ext.metastore.transactions.reports import RecoveredTransaction

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _short_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists of files are long with 50 of them."""
    for module in (run, transaction_files, row_writes, removals):
        monkeypatch.setattr(module, "FILES_PER_DOCUMENT", 50)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> MadeOnce:
    """A table with a row."""
    folder = tmp_path_factory.mktemp("restored")
    with making(folder) as made, local_index(folder) as index:
        stand = Stand(index)
        stand.create(definition(folder / "t"))
        stand.write({"k=1": "old\n"})
    return made


@pytest.fixture
def tmp_path(made: MadeOnce) -> Path:
    """The folder as it was made."""
    return made.again()


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Stand]:
    with local_index(tmp_path) as index:
        yield Stand(index)


def copy(source: Path, target: Path) -> None:
    with closing(sqlite3.connect(source)) as there, closing(sqlite3.connect(target)) as here:
        there.backup(here)


def recovered(stand: Stand) -> RecoveredTransaction:
    (one,) = stand.engine.recover(older_than_s=0).transactions
    return one


@pytest.mark.parametrize("kind", [WriteKind.APPEND, WriteKind.OVERWRITE_PARTITIONS])
def test_commit_after_the_backup_survives_and_a_repair_finds_it(stand: Stand, tmp_path: Path, kind: WriteKind) -> None:
    begun = stand.begin(kind)
    staged = stand.put(begun, {"k=1": "new\n"})
    with armed("check.before", lambda _: copy(tmp_path / "index.db", tmp_path / "backup.db")):
        stand.engine.commit(begun.transaction_id, staged)
    acknowledged = stand.rows()
    with Index.open(str(tmp_path / "backup.db")) as index:
        restored = Stand(index)
        assert recovered(restored).action is RecoveryAction.UNDONE
        assert restored.listed() == acknowledged
    with connect(index=str(tmp_path / "backup.db"), metastore=None, warehouse=str(tmp_path)) as catalog:
        catalog.vacuum("s.t", retention=0, allow_short_retention=True)
        catalog.repair_partitions("s.t")
        assert Stand(catalog.index).rows() == acknowledged
        catalog.vacuum("s.t", retention=0, allow_short_retention=True)
        assert Stand(catalog.index).listed() == acknowledged


@pytest.mark.parametrize("fails_at", ["promote.file", "promote.after", "apply.before", "apply.after"])
@pytest.mark.parametrize("forgets", ["begin.before", "begin.after", "reserve.before"])
@pytest.mark.parametrize("staged_before", [0, 70])
def test_owner_undoes_promotion_of_a_write_lost_in_a_failover(
    stand: Stand, tmp_path: Path, staged_before: int, forgets: str, fails_at: str
) -> None:
    """In the middle of a write, which fails: it was not acknowledged, and it is run again."""
    stand = Stand(stand.index, options={"unknown_timeout_s": 60.0, "pause": lambda _: None})
    at = fail_over(tmp_path)
    with at(forgets, fails_at, unavailable=fails_at == "apply.after"):
        begun = stand.begin()
        staged = stand.put(begun, {f"k={k}": "new\n" for k in range(3)}, task=staged_before)
        for task in range(0, staged_before, 10):
            before = [file for t in range(task, task + 10) for file in stand.put(begun, {"k=1": "new\n"}, task=t)]
            stand.engine.stage(begun.transaction_id, before, task)
        with pytest.raises(TransactionStateError, match="Nothing of the write is visible"):
            stand.engine.commit(begun.transaction_id, staged, recorded=staged_before)
    assert stand.listed() == stand.rows() == {"k=1": "old\n"}
    assert stand.strays() == []
    assert stand.engine.recover(older_than_s=0).transactions == ()


@pytest.mark.parametrize("fails_at", ["promote.file", "promote.after", "apply.before", "apply.after"])
@pytest.mark.parametrize("forgets", ["begin.before", "begin.after", "reserve.before"])
@pytest.mark.parametrize("count", [2, 60])
def test_files_of_a_load_that_a_failover_forgot_go_back(
    stand: Stand, tmp_path: Path, count: int, forgets: str, fails_at: str
) -> None:
    """They may be a user's own files: nothing else has their rows."""
    stand = Stand(stand.index, options={"unknown_timeout_s": 60.0, "pause": lambda _: None})
    place = tmp_path / "in"
    place.mkdir()
    incoming = {f"{n}.csv": f"{n}\n" for n in range(count)}
    for name, content in incoming.items():
        (place / name).write_text(content)
    files = stand.storage.list_directory(Location.parse(str(place)))
    failing = fail_over(tmp_path)(forgets, fails_at, unavailable=fails_at == "apply.after")
    with failing, pytest.raises(CatalogExtError):
        take_files(stand.engine, stand.table(), "k=1", files, replaces=False)
    assert {path.name: path.read_text() for path in place.iterdir()} == incoming
    assert stand.listed() == stand.rows() == {"k=1": "old\n"}
    assert stand.strays() == []
    assert stand.engine.recover(older_than_s=0).transactions == ()


def test_files_of_a_load_go_back_when_an_outage_precedes_the_failover(stand: Stand, tmp_path: Path) -> None:
    """The first attempt finds the index away, the second one finds the reservation, which is gone at its end."""
    stand = Stand(stand.index, options={"unknown_timeout_s": 60.0, "pause": lambda _: None})
    place = tmp_path / "in"
    place.mkdir()
    (place / "1.csv").write_text("1\n")
    files = stand.storage.list_directory(Location.parse(str(place)))
    failing = fail_over(tmp_path)("reserve.before", "apply.before")
    with failing, armed("promote.after", "unavailable"), pytest.raises(TransactionStateError, match="run it again"):
        take_files(stand.engine, stand.table(), "k=1", files, replaces=False)
    assert [path.name for path in place.iterdir()] == ["1.csv"]
    assert stand.listed() == stand.rows() == {"k=1": "old\n"}
    assert stand.strays() == []


@pytest.mark.parametrize("count", [2, 60])
def test_a_load_that_an_older_index_does_not_know_stays_where_it_is(stand: Stand, tmp_path: Path, count: int) -> None:
    place = tmp_path / "in"
    place.mkdir()
    for n in range(count):
        (place / f"{n}.csv").write_text(f"{n}\n")
    files = stand.storage.list_directory(Location.parse(str(place)))
    with armed("reserve.before", lambda _: copy(tmp_path / "index.db", tmp_path / "backup.db")):
        take_files(stand.engine, stand.table(), "k=1", files, replaces=False)
    acknowledged = stand.rows()
    with Index.open(str(tmp_path / "backup.db")) as index:
        assert recovered(Stand(index)).action is RecoveryAction.UNDONE
    with connect(index=str(tmp_path / "backup.db"), metastore=None, warehouse=str(tmp_path)) as catalog:
        catalog.vacuum("s.t", retention=0, allow_short_retention=True)
        catalog.repair_partitions("s.t")
        assert Stand(catalog.index).rows() == acknowledged


@pytest.mark.parametrize("forgets", ["begin.after", "reserve.before"])
@pytest.mark.parametrize("gives_up_at", ["check.before", "reserve.before", None])
def test_retried_commit_after_a_failover_leaves_all_or_nothing(
    stand: Stand, tmp_path: Path, gives_up_at: str | None, forgets: str
) -> None:
    """The service that was asked first is dead, and its index has failed over."""
    stand.create(replace(definition(tmp_path / "e", name="e"), table_type=TableType.EXTERNAL))
    with fail_over(tmp_path)(forgets, "promote.after", error=True):
        begun = stand.begin(table=stand.table(TableIdentifier("s", "e")))
        staged = stand.put(begun, {"k=1": "new\n", "k=2": "new\n"})
        with pytest.raises(CommitStateUnknownError):
            stand.engine.commit(begun.transaction_id, staged, recorded=0)
    of = TableIdentifier("s", "e")
    assert stand.listed(of) == {"k=1": "new\n", "k=2": "new\n"}

    def fail(_: str) -> None:
        raise ConflictError("Another writer was first.")

    with armed(gives_up_at, fail) if gives_up_at else nullcontext(), pytest.raises(CatalogExtError):
        stand.engine.commit(begun.transaction_id, staged, recorded=0, is_retry=True)
    assert stand.listed(of) == stand.rows(of) == {}
    assert stand.strays(of) == []


@pytest.mark.parametrize("fails_at", ["promote.file", "promote.after", "apply.before", "apply.after"])
def test_retried_commit_is_undone_if_only_its_reservation_was_lost(stand: Stand, tmp_path: Path, fails_at: str) -> None:
    """That it was asked for again is still known: the transaction is open, and counts as one that was reserved."""
    stand = Stand(stand.index, options={"unknown_timeout_s": 60.0, "pause": lambda _: None})
    begun = stand.begin()
    staged = stand.put(begun, {"k=1": "new\n", "k=2": "new\n"})
    at = fail_over(tmp_path)("reserve.before", fails_at, unavailable=fails_at == "apply.after")
    with at, pytest.raises(TransactionStateError, match="Nothing of the write is visible"):
        stand.engine.commit(begun.transaction_id, staged, recorded=0, is_retry=True)
    assert stand.listed() == stand.rows() == {"k=1": "old\n"}
    assert stand.strays() == []
    assert stand.engine.recover(older_than_s=0).transactions == ()


def test_reservation_of_a_concurrent_retry_is_not_undone(
    stand: Stand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes between the owner's look at the index and what the owner has it remember."""
    reserve, remember = stand.index.commits.reserve, stand.index.transactions.remember_undone
    asked: list[Callable[[], object]] = []

    def reserved(*args: Any, **named: Any) -> object:
        asked.append(lambda: reserve(*args, **named))
        return reserve(*args, **named)

    def remembered(transaction: Transaction, error: str) -> Transaction:
        asked.pop()()
        return remember(transaction, error)

    monkeypatch.setattr(stand.index.commits, "reserve", reserved)
    monkeypatch.setattr(stand.index.transactions, "remember_undone", remembered)
    begun = stand.begin()
    with fail_over(tmp_path)("reserve.before", "promote.after"):
        stand.engine.commit(begun.transaction_id, stand.put(begun, {"k=1": "new\n"}), recorded=0)
    assert asked == [], "the index had forgotten the reservation"
    assert stand.listed() == stand.rows() == {"k=1": "new\nold\n"}
    assert stand.strays() == []


def test_retried_commit_of_a_lost_transaction_is_unknown_not_failed(stand: Stand, tmp_path: Path) -> None:
    with fail_over(tmp_path)("begin.before", "promote.after", error=True):
        begun = stand.begin()
        staged = stand.put(begun, {"k=1": "new\n"})
        with pytest.raises(CommitStateUnknownError):
            stand.engine.commit(begun.transaction_id, staged, recorded=0)
    with pytest.raises(CommitStateUnknownError, match="the next repair registers it") as raised:
        stand.engine.commit(begun.transaction_id, staged, recorded=0, is_retry=True)
    assert raised.value.parameters["ask_again"] == "false"


def fail_over(tmp_path: Path) -> Callable[..., AbstractContextManager[None]]:
    """Returns what puts the index back, at one fault point, to what it was at an earlier one; once."""

    @contextmanager
    def at(forgets: str, fails_at: str, *, unavailable: bool = False, error: bool = False) -> Iterator[None]:
        live, backup, done = tmp_path / "index.db", tmp_path / "backup.db", []

        def fail(_: str) -> None:
            if not done:
                done.append(fails_at)
                copy(backup, live)
                if unavailable:
                    raise IndexUnavailableError("It fails over.")
                if error:
                    raise InjectedFault("The service dies.")

        with armed(forgets, lambda _: copy(live, backup)), armed(fails_at, fail):
            yield

    return at


@pytest.mark.parametrize("kind", [WriteKind.REPLACE, WriteKind.CREATE_OR_REPLACE])
@pytest.mark.parametrize("external", [True, False])
def test_a_write_that_was_never_reserved_leaves_no_file(
    tmp_path_factory: pytest.TempPathFactory, kind: WriteKind, external: bool
) -> None:
    folder = tmp_path_factory.mktemp("own")
    with local_index(folder) as index:
        stand = Stand(index)
        table = stand.create(definition(folder / "t", external=external))
        stand.put(stand.begin(), {"k=1": "unclaimed\n"})
        stand.put(stand.begin(kind, table, definition=table.definition), {"k=1": "nor of this one\n"})
        stand.engine.recover(older_than_s=0)
        assert stand.strays() == []


def relocation_skips(catalog: Catalog) -> list[tuple[str, int, bool]]:
    report = catalog.repair_partitions("s.t")
    skips = report.to_arrow().filter(pc.field("action") == "skip").to_pylist()
    return [(row["path"], row["files"], report.in_sync) for row in skips if row["reason"] == UNKNOWN_RELOCATION]


@pytest.mark.slow
def test_a_repair_reports_relocated_rows_that_the_index_does_not_know(
    stand: Stand, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    copy(tmp_path / "index.db", tmp_path / "backup.db")
    begun = stand.begin(WriteKind.OVERWRITE_PARTITIONS, options={"overwrite-mode": "relocate"})
    stand.engine.commit(begun.transaction_id, stand.put(begun, {"k=1": "new\n", "k=2": "other\n"}))
    path = f"_catalog_ext_data/{begun.transaction_id}"
    with connect(index=str(tmp_path / "index.db"), metastore=None, warehouse=str(tmp_path)) as catalog:
        assert relocation_skips(catalog) == []
        with armed("promote.after", lambda _: _none(catalog)):
            again = stand.begin(WriteKind.OVERWRITE_PARTITIONS, options={"overwrite-mode": "relocate"})
            stand.engine.commit(again.transaction_id, stand.put(again, {"k=2": "newest\n"}))
        assert relocation_skips(catalog) == []
    # The files of the second one went with the first one's directory for k=2, which vacuum has not removed.
    with connect(index=str(tmp_path / "backup.db"), metastore=None, warehouse=str(tmp_path)) as catalog:
        found = relocation_skips(catalog)
        assert (path, 2, False) in found
        assert len(found) == 2
        assert "that this index does not know" in caplog.text
    with connect(index=str(tmp_path / "index.db"), metastore=None, warehouse=str(tmp_path)) as catalog:
        table = catalog.load_table("s.t").definition
        caplog.clear()
        catalog.unregister_table("s.t")
        assert "by import, not by register" in caplog.text
        catalog.register_table(
            "s.t", location=table.location, partition_columns={"k": "int"}, schema="x INT", format="csv"
        )
        assert (path, 2, False) in relocation_skips(catalog)


def _none(catalog: Catalog) -> None:
    assert relocation_skips(catalog) == [], "one that is being committed is known"
