"""``catalog-ext follow`` and what ``catalog-ext status`` says of it; the service that follows in the background."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from catalog_ext.cli.main import main
from catalog_ext.hms_events.follower import BackgroundFollowing
from catalog_ext.identity.record import METASTORE
from catalog_ext.metastore.errors import MetastoreUnavailableError
from catalog_ext.metastore.hive.mapping.model import HiveDatabase
from catalog_ext.metastore.index import Index
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import Column
from catalog_ext.service.server import Service
from catalog_ext.sync import tables
from tests.kit.repair_cases import indexed, write
from tests.unit.hms_events.test_following import add, hive_table, open_catalog
from tests.unit.hms_events.test_following import catalog as catalog
from tests.unit.hms_events.test_following import root as root
from tests.unit.hms_events.test_following import server as server

if TYPE_CHECKING:
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from tests.kit.fakes_metastore_log import LoggingMetastore


@pytest.fixture
def index(catalog: Catalog, root: Path, tmp_path: Path) -> str:
    """An index whose table ``s.t`` is followed up to now."""
    catalog.close()
    return str(tmp_path / "index.db")


def run(index: str, *arguments: str) -> int:
    return main(["--index", index, *arguments])


def test_preview(
    index: str, server: LoggingMetastore, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says what the next follower does, reads each event once, and leaves all events to it."""
    write(root, "ds=b/one", "ds=a/two")
    add(server, root, "b")
    server.insert("s", "t", "ds=a")
    (tmp_path / "new").mkdir()
    server.create_table(hive_table(tmp_path / "new", "new"))
    server.rename_table("s", "t", "s", "u")
    for _ in range(2):
        assert run(index, "follow", "--dry-run", "--databases", "s") == 0
        reported = capsys.readouterr().out
        assert f"4 events, up to {server.newest} of {server.newest}" in reported
        assert "s.t: renamed" in reported
        assert "s.u: 1 added; 1 changed" in reported
        assert "s.new: imported" in reported
        assert "Nothing was changed: this is a preview." in reported
    with open_catalog(tmp_path) as catalog:
        assert catalog.list_tables("s") == ["t"]
        assert sorted(indexed(catalog)) == ["ds=a"]
    assert run(index, "follow", "--once", "--databases", "s") == 0
    with open_catalog(tmp_path) as catalog:
        assert sorted(catalog.list_tables("s")) == ["new", "u"]
        assert sorted(indexed(catalog, "s.u")) == ["ds=a", "ds=b"]


def test_once(
    index: str, server: LoggingMetastore, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(root, "ds=b/one", "ds=a/two")
    add(server, root, "b")
    server.insert("s", "t", "ds=a")
    assert run(index, "follow", "--once") == 0
    reported = capsys.readouterr().out
    assert f"2 events, up to {server.newest} of {server.newest}" in reported
    assert "s.t: 1 added; 1 changed" in reported
    with open_catalog(tmp_path) as catalog:
        assert sorted(indexed(catalog)) == ["ds=a", "ds=b"]
    assert run(index, "follow", "--once") == 0
    assert "0 events" in capsys.readouterr().out


def test_what_is_refused_is_said_and_in_status(
    index: str, server: LoggingMetastore, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    view = hive_table(root.parent / "acid", "acid")
    server.create_table(view)
    server._tables["s", "acid"] = type(view)(
        view.database, view.name, view.table_type, view.location, view.columns, view.partition_columns, view.storage,
        {"transactional": "true"},
    )  # fmt: skip
    assert run(index, "follow", "--once", "--json", "--databases", "s") == 0, "the index never had it"
    (line,) = capsys.readouterr().out.splitlines()
    (table,) = json.loads(line)["tables"]
    assert (table["table"], table["action"]) == ("s.acid", "refused")
    assert run(index, "status", "--json") == 0
    entries = {entry["kind"]: entry for entry in json.loads(capsys.readouterr().out)["entries"]}
    assert (entries["suspect"]["table"], entries["suspect"]["state"]) == ("s.acid", "refused")
    assert (entries["follower"]["state"], entries["follower"]["id"]) == ("stopped", str(server.newest))
    assert f"up to event {server.newest} of {server.newest}, 0 behind" in entries["follower"]["detail"]


def test_exit_code_is_1_while_a_table_is_not_in_sync(
    index: str, server: LoggingMetastore, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """For cron: a run is not good because an earlier one has met the trouble first."""
    server._tables["s", "t"] = replace(server.get_table("s", "t"), columns=(Column("x", "date"),))
    server.emit("ALTER_TABLE", "s", "t", definition=True, columns=True)
    assert run(index, "follow", "--once") == 1
    assert "s.t: refused: " in capsys.readouterr().out
    assert run(index, "follow", "--once") == 1
    reported = capsys.readouterr()
    assert "0 events" in reported.out
    assert reported.err.startswith("s.t is still refused: ")


def test_a_database_that_is_not_there_is_an_error_where_the_look_ends(
    index: str, server: LoggingMetastore, capsys: pytest.CaptureFixture[str]
) -> None:
    server.create_database(HiveDatabase("sales"))
    assert run(index, "follow", "--once", "--databases", "s,salse") == 2
    reported = capsys.readouterr()
    assert "no database salse" in reported.err
    assert "Did you mean sales? " in reported.err
    assert reported.out == "", "nothing was looked at"
    assert run(index, "follow", "--once", "--databases", "*") == 0


@pytest.mark.parametrize("by", ["option", "setting"])
def test_missing_database_may_appear_later_with_continuous_following(
    index: str, server: LoggingMetastore, root: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str], by: str,
) -> None:  # fmt: skip
    server.create_database(HiveDatabase("sales"))
    pauses = 0

    def sleep(_: float) -> None:
        nonlocal pauses
        pauses += 1
        if pauses == 2:
            write(root.parent / "new", "ds=a/one")
            server.create_database(HiveDatabase("sale"))
            server.create_table(replace(hive_table(root.parent / "new", "new"), database="sale"))
        if pauses == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr("catalog_ext.cli.follow.time.sleep", sleep)
    monkeypatch.setattr("catalog_ext.cli.follow.signal.signal", lambda *_: None)
    if by == "setting":
        monkeypatch.setenv("CATALOG_EXT_FOLLOW_DATABASES", "sale")
    assert run(index, "follow", *(["--databases", "sale"] if by == "option" else [])) == 0
    reported = capsys.readouterr()
    assert reported.err.count("warning: The metastore has no database sale yet") == 1
    assert "Did you mean sales? " in reported.err
    assert "sale.new: imported" in reported.out


def test_a_second_one_says_that_another_follows(
    index: str, server: LoggingMetastore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_catalog(tmp_path) as other:
        other.follower.look()
        assert run(index, "follow", "--once") == 4
    assert "another process follows" in capsys.readouterr().out


def test_names_that_are_none_are_refused(index: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(index, "follow", "--once", "--databases", "a b") == 2
    assert "give names of databases" in capsys.readouterr().err
    assert run(index, "--metastore", "none", "follow", "--once") == 2
    assert "no metastore to follow. The index belongs to the metastore thrift" in capsys.readouterr().err
    with Index.open(index) as opened:
        opened.properties.replace({}, removed=[METASTORE])
    for command, purpose in ((("follow", "--once"), "to follow"), (("publish", "--all"), "to publish to")):
        assert run(index, "--metastore", "none", *command) == 2
        error = capsys.readouterr().err
        assert f"no metastore {purpose}. The index has none. To give it one for good: catalog-ext --index" in error
        assert "--metastore thrift://host:9083 adopt." in error


def test_it_goes_on_until_it_is_interrupted_and_tries_again(
    index: str, server: LoggingMetastore, root: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        server.down = len(pauses) in (2, 3)
        if len(pauses) == 1:
            write(root, "ds=a/two")
            server.insert("s", "t", "ds=a")
        if len(pauses) == 5:
            raise KeyboardInterrupt

    monkeypatch.setattr("catalog_ext.cli.follow.time.sleep", sleep)
    monkeypatch.setattr("catalog_ext.cli.follow.signal.signal", lambda *_: None)
    assert run(index, "follow") == 0
    read = capsys.readouterr()
    assert "s.t: 1 changed" in read.out
    assert read.err.count("warning: ") == 1, "a trouble is reported once"
    reported = [line[20:] for line in read.err.splitlines()]
    assert reported[0] == "following thrift://fake:9083, every 1 s; Ctrl-C ends it"
    assert reported[1].startswith("in sync up to event")
    assert reported[-2:] == [
        "the metastore answers again, and is followed", "ended; the next follower goes on from here"
    ]  # fmt: skip
    assert all(line[:4].isdecimal() for line in read.err.splitlines()), "each line has a time"
    assert pauses == [1.0, 1.0, 2.0, 4.0, 1.0]


def test_one_that_has_waited_says_that_it_follows(
    index: str, server: LoggingMetastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    other = open_catalog(tmp_path)
    other.follower.look()

    def sleep(_: float) -> None:
        if "this process follows from now on" in capsys.readouterr().err:
            raise KeyboardInterrupt
        other.close()

    monkeypatch.setattr("catalog_ext.cli.follow.time.sleep", sleep)
    monkeypatch.setattr("catalog_ext.cli.follow.signal.signal", lambda *_: None)
    assert run(index, "follow") == 0


def test_a_view_that_is_not_taken_is_said_and_in_status(
    index: str, server: LoggingMetastore, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = hive_table(root.parent / "v", "v")
    view = replace(table, table_type="VIRTUAL_VIEW", location="")
    server.create_table(table)
    server._tables["s", "v"] = view
    assert run(index, "follow", "--once", "--databases", "s") == 0, "the index never had it"
    read = capsys.readouterr()
    assert "s.v: refused: " in read.out
    assert "it is a view" in read.out
    assert "s.v" not in read.err, "once is enough"
    assert run(index, "follow", "--once", "--databases", "s") == 0
    capsys.readouterr()
    assert run(index, "status", "--json") == 0
    entries = {entry["kind"]: entry for entry in json.loads(capsys.readouterr().out)["entries"]}
    assert entries["suspect"]["table"] == "s.v"
    assert "it is a view" in entries["suspect"]["detail"]


@pytest.mark.slow
def test_a_service_follows_in_the_background(
    catalog: Catalog, server: LoggingMetastore, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog.close()
    monkeypatch.setenv("CATALOG_EXT_FOLLOW_INTERVAL", "10ms")
    monkeypatch.setenv("CATALOG_EXT_FOLLOW", "true")
    write(root, "ds=a/two")
    server.insert("s", "t", "ds=a")
    with open_catalog(tmp_path) as served:
        with Service(served):
            until = time.monotonic() + 20
            while len(indexed(served)["ds=a"]) < 2 and time.monotonic() < until:
                threading.Event().wait(0.01)
        assert indexed(served) == {"ds=a": {"one": 1, "two": 1}}


def test_trouble_in_the_background_is_reported_once_and_retried(
    catalog: Catalog, server: LoggingMetastore, root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    now = 0.0
    following = BackgroundFollowing(catalog.follower, 1.0, clock=lambda: now)
    server.down = True
    for now in range(10):  # noqa: B007 -- the clock reads it
        following()
    assert server.calls["newest_event_id"] == 1 + 3, "after 2 s, 4 s and 8 s"
    assert len([r for r in caplog.records if "not followed for now" in r.getMessage()]) == 1
    with pytest.raises(MetastoreUnavailableError):
        catalog.follower.look()
    assert [e.state for e in catalog.status() if e.kind == "follower"] == ["failed"]
    server.down, now = False, 100.0
    following()
    assert [e.state for e in catalog.status() if e.kind == "follower"] == ["in sync"]


def test_status_names_tables_that_were_not_taken(
    index: str, server: LoggingMetastore, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A table that plain Spark made: the follower takes new ones only of databases that it is given."""
    server.create_table(hive_table(root, "fresh"))
    assert run(index, "follow", "--once") == 0
    capsys.readouterr()
    assert run(index, "status") == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "not taken" in out
    assert "1 table: fresh; catalog-ext import 's.*' takes them, or the setting follow.databases" in out
    assert run(index, "status", "s.t", "--json") == 0
    assert "not taken" not in capsys.readouterr().out
    assert run(index, "import", "s.*") == 0
    capsys.readouterr()
    assert run(index, "status", "--json") == 0
    assert "not taken" not in capsys.readouterr().out


def test_status_leaves_out_tables_whose_drop_is_pending(
    catalog: Catalog, server: LoggingMetastore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many messages the outbox has."""
    monkeypatch.setattr(tables, "_PENDING", 1)
    catalog.follower.look()
    for name in ("a", "b"):
        made = replace(catalog.load_table("s.t").definition, identifier=TableIdentifier("s", name))
        catalog.index.tables.create(made, deliver=True)
        server.create_table(hive_table(root, name))
        catalog.index.tables.drop(made.identifier, deliver=True)
    assert [e.detail for e in catalog.status() if e.kind == "not taken"] == []


def test_status_of_a_metastore_that_is_down_says_what_is_not_known(
    index: str, server: LoggingMetastore, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(index, "follow", "--once") == 0
    server.down = True
    capsys.readouterr()
    assert run(index, "status", "--json") == 0
    entries = json.loads(capsys.readouterr().out)["entries"]
    (unknown,) = [each for each in entries if each["kind"] == "not taken"]
    assert (unknown["state"], "no connection" in unknown["detail"]) == ("not known", True)


def test_a_service_imports_new_tables_of_the_databases_it_is_given(
    catalog: Catalog, server: LoggingMetastore, root: Path, tmp_path: Path
) -> None:
    following = BackgroundFollowing(catalog.follower, 1.0, frozenset({"s"}))
    following()
    write(tmp_path / "fresh", "ds=a/one")
    server.create_table(hive_table(tmp_path / "fresh", "fresh"))
    following()
    assert catalog.list_tables("s") == ["fresh", "t"]


def test_databases_of_a_service_go_with_follow(index: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(index, "serve", "--databases", "s") == 2
    assert "--databases goes with --follow" in capsys.readouterr().err
    assert run(index, "serve", "--follow", "--databases", "a b") == 2
