"""The counter of an index: every copy that lacks a deletion or a move is behind, whatever became of the counter."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

import pytest

from catalog_ext.catalog import Catalog, connect
from catalog_ext.cli.main import main
from catalog_ext.conf.resolved import Settings
from catalog_ext.identity import counter_file, index_counter
from catalog_ext.identity.counter_file import COUNTER_FILE, CounterFile
from catalog_ext.metastore.commit.fault_points import RESTORE_POINTS, InjectedFault, armed
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import IndexRestoredError, StorageAccessDeniedError, StorageError
from catalog_ext.metastore.index.tables.incarnations import VERSIONS
from tests.unit.transactions.test_incarnations import copied, files, made, opened, overwrite, rows, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.slow


def counter_of(folder: Path) -> Path:
    (file,) = folder.glob(f"{COUNTER_FILE}*")
    return file


def is_behind(folder: Path, index: str = "backup.db") -> bool:
    with opened(folder, index) as catalog:
        try:
            catalog.index.incarnations.require_current()
        except IndexRestoredError:
            return True
    return False


def restored_index(folder: Path) -> None:
    """An index ``backup.db`` that does not know of the last overwrite."""
    with opened(folder) as catalog:
        made(catalog, folder, "t")
        write(catalog, "t", "old")
        with armed("apply.before", copied(folder)):
            overwrite(catalog)


def rename(catalog: Catalog) -> None:
    catalog.partition_commands.rename("s.t", {"k": "1"}, {"k": "2"})


@pytest.mark.parametrize("point", ["drop.before", "drop.aside"])
def test_copy_of_an_index_that_has_a_drop_to_finish_is_behind_after_it(tmp_path: Path, point: str) -> None:
    """The next table at the place of the dropped one may have rows by then."""
    with opened(tmp_path) as catalog:
        made(catalog, tmp_path, "t")
        write(catalog, "t", "old")
        with armed(point, copied(tmp_path)):
            catalog.drop_table("s.t")
    assert is_behind(tmp_path)


def test_copy_of_an_index_with_an_unfinished_rename_is_behind_after_undo(tmp_path: Path) -> None:
    def refused(point: str) -> None:
        copied(tmp_path)(point)
        raise StorageAccessDeniedError("refused for good")

    with opened(tmp_path) as catalog:
        made(catalog, tmp_path, "t")
        write(catalog, "t", "one")
        with armed("promote.after", refused), pytest.raises(StorageAccessDeniedError):
            rename(catalog)
        write(catalog, "t", "two", k=2)
        assert rows(catalog, "t") == {"k=1": "one\n", "k=2": "two\n"}
    with opened(tmp_path, "backup.db") as catalog, pytest.raises(IndexRestoredError):
        catalog.recover(older_than="0s")
    with opened(tmp_path, "backup.db") as catalog:
        catalog.restored()
        assert rows(catalog, "t") == {"k=1": "one\n", "k=2": "two\n"}


def test_two_copies_that_raise_the_counter_at_once_are_noticed(tmp_path: Path) -> None:
    with opened(tmp_path) as catalog:
        made(catalog, tmp_path, "t")
        write(catalog, "t", "old")
        catalog.index.incarnations.before_deleting()
        copied(tmp_path)("")
        with opened(tmp_path, "backup.db") as other:
            # Both have compared before either has written.
            for index in (catalog.index, other.index):
                index.incarnations.raise_counter()
            assert catalog.index.incarnations.position() == other.index.incarnations.position()
            for each in (catalog, other):
                file = CounterFile(each.index, lambda each=each: each.storage)
                place = file.place(each.index.properties.load())
                assert place is not None
                file.write(place)
            with pytest.raises(IndexRestoredError, match="a copy of it is in use"):
                catalog.index.incarnations.before_deleting()
            other.index.incarnations.before_deleting()


def test_counter_of_a_clock_that_was_ahead_is_written_again(tmp_path: Path) -> None:
    with opened(tmp_path) as catalog:
        made(catalog, tmp_path, "t")
        catalog.index.incarnations.before_deleting()
    file = counter_of(tmp_path)
    said = json.loads(file.read_text())
    file.write_text(json.dumps(said | {"written_at_ms": said["written_at_ms"] + 10**11}))
    with opened(tmp_path) as catalog:
        write(catalog, "t", "new")
    assert json.loads(file.read_text())["counter"] == said["counter"] + 1


def test_index_that_is_locked_is_opened_although_its_counter_is_old(tmp_path: Path) -> None:
    """Opening writes nothing: a standby takes no writes, and a busy index makes them wait."""
    with opened(tmp_path) as catalog:
        made(catalog, tmp_path, "t")
        catalog.index.incarnations.before_deleting()
    file = counter_of(tmp_path)
    file.write_text(json.dumps(json.loads(file.read_text()) | {"written_at_ms": 0}))
    with closing(sqlite3.connect(tmp_path / "index.db")) as other:
        other.execute("BEGIN IMMEDIATE")
        url = f"sqlite:///{tmp_path}/index.db?timeout=0.1"
        with connect(index=url, metastore=None, warehouse=str(tmp_path)) as catalog:
            assert catalog.list_tables("s")
    assert json.loads(file.read_text())["written_at_ms"] == 0


@pytest.mark.parametrize("content", [None, b"{}", b'{"incarnation": 1e999}', b"[]", b"\xed\xa0\x80"])
def test_lost_counter_keeps_files_until_it_is_written_anew(
    tmp_path: Path, content: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counter_file, "_PAUSES_S", (0.0,))
    with opened(tmp_path) as catalog:
        made(catalog, tmp_path, "t")
        write(catalog, "t", "old")
        overwrite(catalog)
        before = files(tmp_path)
    file = counter_of(tmp_path)
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)
    options = ["--index", str(tmp_path / "index.db"), "--warehouse", str(tmp_path), "--metastore", "none"]
    with opened(tmp_path) as catalog:
        write(catalog, "t", "appended", k=2)
        with pytest.raises(StorageError, match="adopt"):
            catalog.vacuum("s.t", retention=0, allow_short_retention=True)
        assert set(before) < set(files(tmp_path))
    if content is not None:
        file.unlink()
    assert main([*options[:4], "adopt"]) == 0
    with opened(tmp_path) as catalog:
        catalog.vacuum("s.t", retention=0, allow_short_retention=True)
        assert rows(catalog, "t") == {"k=1": "new\n", "k=2": "appended\n"}


@pytest.mark.parametrize("garbled", [True, False])
def test_restored_goes_on_without_the_counter(tmp_path: Path, garbled: bool) -> None:
    restored_index(tmp_path)
    if garbled:
        counter_of(tmp_path).write_text("{")
    else:
        counter_of(tmp_path).unlink()
    with opened(tmp_path, "backup.db") as catalog:
        # Incarnations that only the counter knew are left out.
        catalog.index.properties.add_missing({"index.counter.written": "true"})
        catalog.restored()
        assert catalog.load_table("s.t").version // VERSIONS == 1000
        assert rows(catalog, "t") == {"k=1": "new\n"}
        write(catalog, "t", "more", k=2)


@pytest.mark.parametrize("point", RESTORE_POINTS)
def test_restored_that_was_interrupted_leaves_the_index_behind(tmp_path: Path, point: str) -> None:
    restored_index(tmp_path)
    with opened(tmp_path, "backup.db") as catalog, armed(point, "error"), pytest.raises(InjectedFault):
        catalog.restored()
    with opened(tmp_path, "backup.db") as catalog:
        vacuum = partial(catalog.vacuum, "s.t")
        for refused in (partial(write, catalog, "t", "no"), catalog.index.incarnations.before_deleting, vacuum):
            with pytest.raises(IndexRestoredError, match="has not ended"):
                refused()
        catalog.restored()
        write(catalog, "t", "more", k=2)
        assert rows(catalog, "t") == {"k=1": "new\n", "k=2": "more\n"}
    assert is_behind(tmp_path, "index.db")


def test_index_that_is_behind_stays_so_in_another_warehouse(tmp_path: Path) -> None:
    restored_index(tmp_path)
    (tmp_path / "other").mkdir()
    options = ["--index", str(tmp_path / "backup.db"), "--warehouse", str(tmp_path / "other")]
    assert main([*options, "adopt"]) == 0
    with connect(index=str(tmp_path / "backup.db"), metastore=None) as catalog:
        with pytest.raises(IndexRestoredError):
            catalog.recover(older_than="0s")
        catalog.restored()
        assert rows(catalog, "t") == {"k=1": "new\n"}
        write(catalog, "t", "more", k=2)
    assert not is_behind(tmp_path, "index.db")


def test_first_query_of_a_session_that_only_reads_warns(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Spark session makes its catalog before its stores are known, so that it asks at its first query, once."""
    restored_index(tmp_path)
    settings = Settings.resolve(index=str(tmp_path / "backup.db"), metastore=None, warehouse=str(tmp_path))
    with Catalog(settings, settings.open_storage) as catalog:
        asked: list[str] = []
        real: Callable[..., bytes | None] = catalog.storage.read_file

        def counted(place: object, *more: object) -> bytes | None:
            asked.append(str(place))
            return real(place, *more)

        monkeypatch.setattr(catalog.storage, "read_file", counted)
        table = catalog.load_table("s.t")
        for _ in range(3):
            assert catalog.reads.plan_files(table.table_id, table.version).read_all().num_rows == 1
        assert len(asked) == 1
        assert caplog.text.count("is planned as it was") == 3
        with opened(tmp_path, "backup.db") as other:
            other.restored()
        monkeypatch.setattr(index_counter, "_QUERIES_ASK_AGAIN_S", 0.0)
        assert catalog.reads.plan_files(table.table_id, catalog.load_table("s.t").version).read_all().num_rows == 1
        assert caplog.text.count("is planned as it was") == 3


def test_first_query_does_not_wait_for_another_that_asks_the_store(tmp_path: Path) -> None:
    restored_index(tmp_path)
    settings = Settings.resolve(index=str(tmp_path / "backup.db"), metastore=None, warehouse=str(tmp_path))
    with Catalog(settings, settings.open_storage) as catalog:
        asks, answers = threading.Event(), threading.Event()
        real = catalog.storage.read_file

        def slow(place: str, limit: int) -> bytes | None:
            asks.set()
            answers.wait(10)
            return real(place, limit)

        catalog.storage.read_file = slow  # type: ignore[method-assign]
        table = catalog.load_table("s.t")
        first = threading.Thread(target=lambda: catalog.reads.plan_files(table.table_id, table.version).read_all())
        first.start()
        assert asks.wait(10)
        began = time.monotonic()
        assert catalog.reads.plan_files(table.table_id, table.version).read_all().num_rows == 1
        assert time.monotonic() - began < 5
        answers.set()
        first.join(10)


def test_doctor_and_preview_say_that_an_index_was_restored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    restored_index(tmp_path)
    options = ["--index", str(tmp_path / "backup.db"), "--metastore", "none"]

    def found() -> dict[str, str]:
        main([*options, "doctor", "--quick", "--json"])
        checks = json.loads(capsys.readouterr().out)["checks"]
        (check,) = (check for check in checks if check["check"] == "not restored")
        return dict(check)

    def preview() -> tuple[str, str]:
        main([*options, "restored", "--dry-run", "--json"])
        entry = json.loads(capsys.readouterr().out)["entries"][0]
        return entry["action"], entry["detail"]

    def refused() -> list[str]:
        assert main([*options, "vacuum", "--all", "--dry-run", "--json"]) == 0
        removals = json.loads(capsys.readouterr().out)["removals"]
        return [each["reason"] for each in removals if each["action"] == "refused"]

    assert found()["state"] == "wrong"
    assert refused()[0].startswith("the run would be refused: ")
    assert "restored --dry-run" in found()["found"]
    assert preview()[0] == "behind"
    main([*options, "restored"])
    capsys.readouterr()
    assert (found()["state"], found()["found"][:17]) == ("ok", "at the counter 1.")
    assert refused() == []
    assert preview()[0] == "current"
    counter_of(tmp_path).unlink()
    assert (found()["state"], preview()[0]) == ("wrong", "unknown")


def test_doctor_says_that_an_index_without_a_warehouse_has_no_counter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with connect(index="own.db", metastore=None) as catalog:
        made(catalog, tmp_path, "t")
    main(["--index", "own.db", "--metastore", "none", "doctor", "--quick", "--json"])
    checks = json.loads(capsys.readouterr().out)["checks"]
    (check,) = (check for check in checks if check["check"] == "not restored")
    assert (check["state"], "--warehouse LOCATION adopt" in check["found"]) == ("skipped", True)


def test_process_that_has_seen_later_versions_notices_a_failover(tmp_path: Path) -> None:
    """No append raises the counter, so that it says nothing of a database that lost the last ones."""
    with opened(tmp_path) as catalog:
        made(catalog, tmp_path, "t")
        write(catalog, "t", "old")
        copied(tmp_path)("")
        for text in ("lost", "lost too"):
            write(catalog, "t", text)
        seen = catalog.load_table("s.t")
        with (
            closing(sqlite3.connect(tmp_path / "backup.db")) as there,
            closing(sqlite3.connect(tmp_path / "index.db")) as here,
        ):
            there.backup(here)
        with pytest.raises(IndexRestoredError):
            write(catalog, "t", "refused")
        assert catalog.index.incarnations.behind is not None
        assert is_behind(tmp_path, "index.db"), "other processes refuse changes, too"
        catalog.restored()
        assert rows(catalog, "t") == {"k=1": "lost\nlost too\nold\n"}
        for _ in range(3):
            write(catalog, "t", "more")
        now = catalog.load_table("s.t")
        with pytest.raises(IndexRestoredError, match="restored to an earlier state"):
            catalog.reads.changes(now.table_id, seen.version, now.version)


def test_version_that_another_thread_has_loaded_before_is_no_alarm(tmp_path: Path) -> None:
    with opened(tmp_path) as catalog:
        made(catalog, tmp_path, "t")
        before = catalog.load_table("s.t")
        write(catalog, "t", "one")
        catalog.load_table("s.t")
        catalog.index.tables._noted(before)
        assert catalog.index.incarnations.behind is None
        write(catalog, "t", "two")


@pytest.mark.parametrize("point", ["begin.after", "promote.before", "promote.after", "apply.before", "publish.before"])
def test_appends_that_were_forgotten_without_notice_are_found_by_a_repair(tmp_path: Path, point: str) -> None:
    """No process that has seen them is left, and the counter did not rise: the index cannot know of them."""
    with opened(tmp_path) as catalog:
        made(catalog, tmp_path, "t")
        write(catalog, "t", "old")
        with armed(point, copied(tmp_path)):
            write(catalog, "t", "in flight")
        write(catalog, "t", "forgotten", k=2)
        reality = rows(catalog, "t")
    assert not is_behind(tmp_path)
    with opened(tmp_path, "backup.db") as catalog:
        catalog.recover(older_than="0s")
        catalog.vacuum("s.t", retention=0, allow_short_retention=True)
        write(catalog, "t", "new", WriteKind.OVERWRITE_PARTITIONS, 3)
        catalog.repair_partitions("s.t")
        assert rows(catalog, "t") == reality | {"k=3": "new\n"}
        catalog.vacuum("s.t", retention=0, allow_short_retention=True)
        assert rows(catalog, "t") == reality | {"k=3": "new\n"}


def test_counter_that_another_process_is_replacing_is_not_lost(tmp_path: Path) -> None:
    """HDFS has no rename over a file: it is missing for a moment."""
    with opened(tmp_path) as catalog:
        made(catalog, tmp_path, "t")
        catalog.index.incarnations.before_deleting()
        file = counter_of(tmp_path)
        content = file.read_bytes()
        file.unlink()
        replaced = threading.Timer(0.1, lambda: file.write_bytes(content))
        replaced.start()
        catalog.index.incarnations.before_deleting()
        replaced.join()
