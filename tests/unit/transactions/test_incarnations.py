"""An index that was put back learns it by the counter in its warehouse, and goes on by ``restored``."""

from __future__ import annotations

import errno
import itertools
import json
import os
import re
import shlex
import shutil
import sqlite3
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from catalog_ext.catalog import connect
from catalog_ext.cli.main import main
from catalog_ext.identity.counter_file import COUNTER_FILE
from catalog_ext.metastore.commit.fault_points import armed
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import (
    IndexRestoredError,
    InvalidInputError,
    LocationNotFoundError,
    StorageError,
    TableNotFoundError,
)
from catalog_ext.metastore.index.tables.incarnations import VERSIONS
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import Namespace
from catalog_ext.metastore.predicates.tree import Comparison, Operator
from catalog_ext.metastore.storage.store import Storage
from tests.kit.write_cases import Stand, definition
from tests.kit.writes import begin, stage

if TYPE_CHECKING:
    from collections.abc import Callable

    from catalog_ext.catalog import Catalog

pytestmark = pytest.mark.slow

ONE = Comparison(Operator.EQ, "k", "1")


def opened(folder: Path, index: str = "index.db") -> Catalog:
    return connect(index=str(folder / index), metastore=None, warehouse=str(folder))


def made(catalog: Catalog, folder: Path, *names: str) -> None:
    if "s" not in catalog.list_namespaces():
        catalog.index.namespaces.create(Namespace("s"), deliver=False)
    for name in names:
        (folder / name).mkdir()
        catalog.index.tables.create(definition(folder / name, name=name), deliver=False)


def write(catalog: Catalog, table: str, text: str, kind: WriteKind = WriteKind.APPEND, k: int = 1) -> None:
    begun = begin(catalog, kind, table=f"s.{table}")
    catalog.writes.transactions.commit(begun.transaction_id, [stage(begun, f"k={k}", text.encode() + b"\n")])


def rows(catalog: Catalog, table: str) -> dict[str, str]:
    return Stand(catalog.index, catalog.storage).rows(TableIdentifier("s", table))


def copied(folder: Path) -> Callable[[str], None]:
    """Copy the index at the first of some fault points, as a backup or a lagging replica has it."""

    def copy(_: str) -> None:
        if not (folder / "backup.db").exists():
            with (
                closing(sqlite3.connect(folder / "index.db")) as there,
                closing(sqlite3.connect(folder / "backup.db")) as here,
            ):
                there.backup(here)

    return copy


def documented() -> list[list[str]]:
    """The commands of docs/operations.md about backups, block by block."""
    text = (Path(__file__).parents[3] / "docs/operations.md").read_text(encoding="utf-8")
    section = text.split("### How do I back up and restore an index?")[1].split("\n###")[0]
    return [block.split("\n```")[0].strip().splitlines() for block in section.split("```bash\n")[1:]]


def files(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*.csv"))


def truncate(catalog: Catalog) -> None:
    table = catalog.load_table("s.t")
    catalog.writes.delete(table.table_id, table.version, ONE, truncate=True)


def drop(catalog: Catalog) -> None:
    catalog.partition_commands.drop("s.t", [ONE])


def overwrite(catalog: Catalog) -> None:
    write(catalog, "t", "new", WriteKind.OVERWRITE_PARTITIONS)


@pytest.mark.parametrize("statement", [truncate, drop, overwrite])
def test_failover_within_a_lease_keeps_later_rows(
    tmp_path: Path, statement: Callable[[Catalog], None], caplog: pytest.LogCaptureFixture
) -> None:
    with opened(tmp_path) as catalog:
        made(catalog, tmp_path, "t")
        write(catalog, "t", "old")
        with armed("apply.before", copied(tmp_path)):
            statement(catalog)
        write(catalog, "t", "acknowledged")
        reality = rows(catalog, "t")
    with opened(tmp_path, "backup.db") as catalog:
        before = files(tmp_path)
        for refused in (
            lambda: catalog.recover(older_than="0s"),
            lambda: catalog.vacuum("s.t", retention=0, allow_short_retention=True),
            lambda: catalog.vacuum(),
            lambda: catalog.repair_partitions("s.t"),
            lambda: write(catalog, "t", "more"),
        ):
            with pytest.raises(IndexRestoredError, match="restored --dry-run"):
                refused()
        table = catalog.load_table("s.t")
        assert catalog.reads.plan_files(table.table_id, table.version).read_all().num_rows == 1
        assert "is planned as it was" in caplog.text
        catalog.restored()
        assert files(tmp_path) == before
        assert rows(catalog, "t") == reality
        catalog.recover(older_than="0s")
        catalog.vacuum("s.t", retention=0, allow_short_retention=True)
        assert rows(catalog, "t") == reality


def test_rows_that_were_exchanged_since_the_backup_stay(tmp_path: Path) -> None:
    with opened(tmp_path) as catalog:
        made(catalog, tmp_path, "prod", "staging")
        with armed("promote.after", copied(tmp_path)):
            write(catalog, "staging", "acknowledged")
        catalog.partition_commands.exchange("s.prod", "s.staging", [{"k": "1"}])
    with opened(tmp_path, "backup.db") as catalog:
        with pytest.raises(IndexRestoredError):
            catalog.recover(older_than="0s")
        catalog.restored()
        for name in ("prod", "staging"):
            catalog.vacuum(f"s.{name}", retention=0, allow_short_retention=True)
        assert rows(catalog, "prod") == {"k=1": "acknowledged\n"}
        assert rows(catalog, "staging") == {}


def test_preview_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with opened(tmp_path) as catalog:
        made(catalog, tmp_path, "t")
        write(catalog, "t", "old")
        with armed("apply.before", copied(tmp_path)):
            overwrite(catalog)
    options = ["--index", str(tmp_path / "backup.db"), "--warehouse", str(tmp_path), "--metastore", "none"]
    assert main([*options, "restored", "--dry-run"]) == 0
    assert "ended" in capsys.readouterr().out
    with opened(tmp_path, "backup.db") as catalog:
        assert catalog.index.incarnations.position().incarnation == 0
        with pytest.raises(IndexRestoredError):
            write(catalog, "t", "more")
    assert main([*options, "restored"]) == 0
    with opened(tmp_path, "backup.db") as catalog:
        write(catalog, "t", "more")
    # The other copy is the one that is behind now.
    with opened(tmp_path) as catalog, pytest.raises(IndexRestoredError):
        write(catalog, "t", "more")


def test_preview_says_what_a_repair_will_change(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A partition whose files stayed comes back; a table that was made later has no name in the index any more."""
    with opened(tmp_path) as catalog:
        made(catalog, tmp_path, "t", "same", "gone")
        catalog.index.namespaces.create(Namespace("inner", location=f"file://{tmp_path}/s.db/inner.db"), deliver=False)
        catalog.backup(str(tmp_path / "backup.db"))
        write(catalog, "t", "later")
        write(catalog, "t", "later", k=2)
        (tmp_path / "s.db" / "new").mkdir(parents=True)
        (tmp_path / "s.db" / "_hidden").mkdir()
        (tmp_path / "s.db" / "inner.db").mkdir()
        (tmp_path / "gone").rmdir()
    options = ["--index", str(tmp_path / "backup.db"), "--metastore", "none"]
    for preview, added in ((["--dry-run"], "to add"), ([], "added")):
        assert main([*options, "restored", *preview, "--json"]) == 1
        entries = json.loads(capsys.readouterr().out)["entries"]
        found = {(e["action"], e["subject"]): e["detail"] for e in entries}
        assert found["repaired", "s.t"] == f"{added}: 2 partitions with 2 files"
        assert found["repaired", "s.same"] == "agrees with the store"
        assert re.search(r"does not exist.*unregister s\.gone", found["failed", "s.gone"])
        assert [subject for action, subject in found if action == "found"] == [f"file://{tmp_path}/s.db/new"]


def test_namespace_that_does_not_answer_does_not_stop_restored(tmp_path: Path) -> None:
    away = {"endpoint": "http://127.0.0.1:1", "access_key": "a", "secret_key": "b"}
    with connect(index=str(tmp_path / "i.db"), metastore=None, warehouse=str(tmp_path), storage=away) as catalog:
        catalog.index.namespaces.create(Namespace("away", location="s3a://bucket/away"), deliver=False)
        made(catalog, tmp_path, "t")
        found = {(entry.action, entry.subject) for entry in catalog.restored()}
    assert found == {("failed", "s3a://bucket/away"), ("repaired", "s.t")}


def test_numbers_are_not_given_twice(tmp_path: Path) -> None:
    with opened(tmp_path) as catalog:
        made(catalog, tmp_path, "t")
        write(catalog, "t", "first")
        catalog.backup(str(tmp_path / "backup.db"))
        for _ in range(3):
            write(catalog, "t", "more")
        made(catalog, tmp_path, "secret")
        write(catalog, "secret", "salary")
        secret, seen = catalog.load_table("s.secret"), catalog.load_table("s.t").version
    with opened(tmp_path, "backup.db") as catalog:
        table = catalog.load_table("s.t")
        with pytest.raises(IndexRestoredError, match="restored to an earlier state"):
            catalog.reads.changes(table.table_id, seen, seen)
        catalog.restored()
        made(catalog, tmp_path, "other")
        write(catalog, "other", "other")
        with pytest.raises(TableNotFoundError):
            catalog.reads.plan_files(secret.table_id, secret.version)
        for _ in range(5):
            write(catalog, "t", "new")
        now = catalog.load_table("s.t")
        assert now.version > VERSIONS
        with pytest.raises(IndexRestoredError, match="restored to an earlier state"):
            catalog.reads.changes(now.table_id, seen, now.version)
        with pytest.raises(IndexRestoredError, match="restored to an earlier state"):
            catalog.reads.plan_files(now.table_id, seen)
        with pytest.raises(IndexRestoredError, match="restored to an earlier state"):
            catalog.writes.table_at(now.table_id, seen)
        # A reader that had come as far as the backup goes on: 3 rows were written before the restore, 5 after it.
        assert catalog.reads.changes(now.table_id, table.version, now.version).read_all().num_rows == 8


def test_second_restore_of_a_backup_gives_new_numbers(tmp_path: Path) -> None:
    with opened(tmp_path) as catalog:
        made(catalog, tmp_path, "t")
        catalog.backup(str(tmp_path / "backup.db"))
    data, versions = (tmp_path / "backup.db").read_bytes(), []
    for _ in range(2):
        (tmp_path / "index.db").unlink()
        for rest in ("index.db-wal", "index.db-shm"):
            (tmp_path / rest).unlink(missing_ok=True)
        (tmp_path / "index.db").write_bytes(data)
        with opened(tmp_path) as catalog:
            catalog.restored()
            versions.append(catalog.load_table("s.t").version)
    assert versions == [VERSIONS, 2 * VERSIONS]


def test_backup_into_a_folder_without_rights_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    with opened(tmp_path) as catalog:
        monkeypatch.setattr(os, "open", refuse)
        with pytest.raises(InvalidInputError, match=f"you may not create files in the folder {tmp_path}"):
            catalog.backup(str(tmp_path / "backup.db"))


def test_backup_is_private_and_refused_over_a_file(tmp_path: Path) -> None:
    with opened(tmp_path) as catalog:
        made(catalog, tmp_path, "t")
        file = catalog.backup(str(tmp_path / "backup.db"))
        assert stat.S_IMODE(Path(file).stat().st_mode) == 0o600
        with pytest.raises(InvalidInputError, match="it exists, and a backup overwrites no file"):
            catalog.backup(file)
        with pytest.raises(InvalidInputError, match=r"the folder .*none does not exist\. Create it"):
            catalog.backup(str(tmp_path / "none" / "backup.db"))
    with opened(tmp_path, "backup.db") as catalog:
        catalog.backup(str(tmp_path / "again.db"))
        with pytest.raises(IndexRestoredError):
            write(catalog, "t", "x")
    with opened(tmp_path, "again.db") as catalog, pytest.raises(IndexRestoredError):
        write(catalog, "t", "x")


def test_copy_without_its_write_ahead_log_is_noticed(tmp_path: Path) -> None:
    with opened(tmp_path) as catalog:
        made(catalog, tmp_path, "t")
        write(catalog, "t", "old")
        catalog.index.incarnations.before_deleting()
    with opened(tmp_path) as catalog:
        overwrite(catalog)
        (tmp_path / "copy.db").write_bytes((tmp_path / "index.db").read_bytes())
        assert (tmp_path / "index.db-wal").stat().st_size
    with opened(tmp_path, "copy.db") as catalog, pytest.raises(IndexRestoredError):
        write(catalog, "t", "more")


def test_garbled_counter_keeps_files(tmp_path: Path) -> None:
    with opened(tmp_path) as catalog:
        made(catalog, tmp_path, "t")
        write(catalog, "t", "old")
        overwrite(catalog)
        (counter,) = tmp_path.glob(f"{COUNTER_FILE}*")
        counter.write_text("{}")
        with pytest.raises(StorageError, match="cannot be read"):
            catalog.vacuum("s.t", retention=0, allow_short_retention=True)


def test_steps_of_the_documentation_restore_an_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The commands of docs/operations.md, literally, in the folder of the index ``lake.db``."""
    monkeypatch.chdir(tmp_path)
    backup, _, restore, *_ = documented()
    with opened(tmp_path, "lake.db") as catalog:
        made(catalog, tmp_path, "t")
        write(catalog, "t", "old")
    for line in backup:
        assert main(shlex.split(line)[1:]) == 0
    with opened(tmp_path, "lake.db") as catalog:
        overwrite(catalog)
        with closing(sqlite3.connect("lake.db")) as other:
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        write(catalog, "t", "more", k=2)
        reality = rows(catalog, "t")
        log = (tmp_path / "lake.db-wal").read_bytes()
    # The processes were killed: SQLite would write this log over the restored file.
    (tmp_path / "lake.db-wal").write_bytes(log)
    for line in restore:
        command, *arguments = shlex.split(line)
        if command == "rm":
            assert arguments[0] == "-f"
            for file in arguments[1:]:
                Path(file).unlink(missing_ok=True)
        elif command == "cp":
            shutil.copy(*arguments)
        elif "drift" in arguments:
            # There is no metastore here to compare with.
            assert arguments == ["--index", "lake.db", "drift", "--check"]
        else:
            assert main(arguments) == 0, capsys.readouterr().err
    with opened(tmp_path, "lake.db") as catalog:
        assert rows(catalog, "t") == reality
        write(catalog, "t", "later")


def test_plain_append_costs_no_request_for_the_counter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path) as catalog:
        made(catalog, tmp_path, "t")
        write(catalog, "t", "first")
        write(catalog, "t", "second")
        asked: list[str] = []
        for name in ("read_file", "replace_file"):
            real = getattr(catalog.storage, name)

            def counted(place: object, *more: object, name: str = name, real: Callable[..., object] = real) -> object:
                asked.append(name)
                return real(place, *more)

            monkeypatch.setattr(catalog.storage, name, counted)
        write(catalog, "t", "third")
        assert asked == []
        overwrite(catalog)
        assert asked == ["read_file", "replace_file"]


def aged(folder: Path) -> None:
    """Have the counter on the store written an hour ago."""
    (counter,) = folder.glob(f"{COUNTER_FILE}*")
    said = json.loads(counter.read_text())
    counter.write_text(json.dumps({**said, "written_at_ms": said["written_at_ms"] - 3_600_000}))


def test_opening_an_index_writes_no_counter_and_the_first_change_does(tmp_path: Path) -> None:
    with opened(tmp_path) as catalog:
        made(catalog, tmp_path, "t")
        catalog.index.incarnations.before_deleting()
        before = catalog.index.incarnations.position()
    aged(tmp_path)
    with opened(tmp_path) as catalog:
        assert catalog.index.incarnations.position() == before
        write(catalog, "t", "first")
        assert catalog.index.incarnations.position() > before


def test_one_raise_of_the_counter_serves_all_who_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each clean-up raises the counter: a service that wrote it for one after another would take turns at the store."""
    callers, entered, all_wait = 4, itertools.count(1), threading.Event()

    class Counting:
        """A lock that reports when all callers are at it."""

        def __init__(self, lock: threading.RLock) -> None:  # type: ignore[valid-type]
            self._lock: Any = lock

        def __enter__(self) -> None:
            if next(entered) == callers:
                all_wait.set()
            self._lock.acquire()

        def __exit__(self, *_: object) -> None:
            self._lock.release()

    with opened(tmp_path) as catalog:
        made(catalog, tmp_path, "t")
        counter = catalog._context.counter
        puts: list[object] = []
        real = catalog.storage.replace_file

        def slow(place: object, data: bytes) -> None:
            assert all_wait.wait(30)
            puts.append(place)
            real(place, data)  # type: ignore[arg-type]

        monkeypatch.setattr(counter, "_lock", Counting(counter._lock))
        monkeypatch.setattr(catalog.storage, "replace_file", slow)
        with ThreadPoolExecutor(callers) as pool:
            for done in [pool.submit(catalog.index.incarnations.before_deleting) for _ in range(callers)]:
                done.result()
        assert len(puts) == 2, "the first one, and one for all who came while it was written"


def test_each_refusal_is_an_error_of_its_own(tmp_path: Path) -> None:
    """One that is raised again and again keeps the frames of all its tracebacks."""
    with opened(tmp_path) as catalog:
        made(catalog, tmp_path, "t")
        catalog.backup(str(tmp_path / "backup.db"))
    with opened(tmp_path, "backup.db") as catalog:
        refused = []
        for refusing in (
            catalog.index.incarnations.require_current,
            catalog.index.incarnations.require_current,
            catalog.index.incarnations.before_deleting,
        ):
            with pytest.raises(IndexRestoredError) as error:
                refusing()
            refused.append(error.value)
        assert len({id(error) for error in refused}) == 3


def test_warehouse_whose_bucket_is_gone_stops_no_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(tmp_path) as catalog:
        made(catalog, tmp_path, "t")
        catalog.index.incarnations.before_deleting()

    def missing(*_: object) -> None:
        raise LocationNotFoundError("The bucket 'gone' does not exist.")

    monkeypatch.setattr(Storage, "read_file", missing)
    with opened(tmp_path) as catalog:
        catalog._context.counter.forget()
        write(catalog, "t", "first")
        overwrite(catalog)
        assert rows(catalog, "t") == {"k=1": "new\n"}
        assert "cannot be kept" in caplog.text


def test_open_process_goes_on_with_the_restored_file(tmp_path: Path) -> None:
    """It had the deleted file open: what it committed there would be in no index that another process opens."""
    with opened(tmp_path) as catalog:
        made(catalog, tmp_path, "t")
        write(catalog, "t", "old")
        catalog.backup(str(tmp_path / "backup.db"))
        overwrite(catalog)
        for file in tmp_path.glob("index.db*"):
            file.unlink()
        shutil.copy(tmp_path / "backup.db", tmp_path / "index.db")
        with pytest.raises(IndexRestoredError, match="restored --dry-run"):
            write(catalog, "t", "lost", k=2)
        catalog.restored()
        write(catalog, "t", "later", k=2)
        with opened(tmp_path) as other:
            assert rows(other, "t") == rows(catalog, "t")
            assert "later" in str(rows(other, "t"))
