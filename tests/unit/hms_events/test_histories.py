"""Random histories of Hive engines, of ours, and of a follower that crashes: in the end all three sides say the same.

Our rows that were not deleted are there; what is missing in the metastore without a known drop
stays in the index.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from catalog_ext.hms_events import run as follow_run
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import (
    CatalogExtError,
    ConflictError,
    NotFoundError,
    StorageUnavailableError,
    TableLayoutError,
)
from catalog_ext.metastore.hive.mapping.locations import same_location
from catalog_ext.metastore.hive.mapping.model import HiveDatabase, HivePartition
from catalog_ext.metastore.hive.thrift.uris import unavailable
from catalog_ext.metastore.index.database.database import Database
from catalog_ext.metastore.index.database.schema import outbox
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.storage.store import Storage
from catalog_ext.metastore_sync.sync import DeliveryRetry
from catalog_ext.sync.pending import pending_for
from tests.kit.examples import examples
from tests.kit.fakes_metastore import serving
from tests.kit.fakes_metastore_log import LoggingMetastore
from tests.kit.index_cases import empty_index
from tests.kit.repair_cases import indexed, write
from tests.kit.writes import Crash, insert
from tests.unit.hms_events.test_following import hive_table, open_catalog

if TYPE_CHECKING:
    from collections.abc import Callable

    from catalog_ext.catalog import Catalog
    from catalog_ext.hms_events.suspects import FollowOutcome
    from catalog_ext.metastore.storage.entries import Entry
    from catalog_ext.metastore.storage.locations import Location

VALUES = "abc"
ROUNDS = 15
MAKE_ROOM = 3
"""The round before which Hive makes room for what is still refused."""


def summary(outcome: FollowOutcome) -> set[tuple[object, ...]]:
    """What a look has come to, by table."""
    return {
        (t.table, t.action, t.altered, t.error is None, t.added, t.dropped, t.changed)
        for t in outcome.tables if t.says_something
    }  # fmt: skip


class FlakyMetastore(LoggingMetastore):
    """Fails one of its next calls.

    Attributes:
        fails_in: Calls until one fails; None for never.
        carries_out: Whether that one is carried out, and only its answer is lost.
    """

    def __init__(self) -> None:
        super().__init__()
        self.fails_in: int | None = None
        self.carries_out = False

    def _reachable(self, method: str) -> None:
        super()._reachable(method)
        if self.fails_in is None:
            return
        self.fails_in -= 1
        if self.fails_in < 0:
            self.fails_in = None
            if not self.carries_out:
                raise unavailable([self.address], "no connection", request_sent=False)
            self.breaks_off = True

    def _answer(self) -> None:
        try:
            super()._answer()
        finally:
            self.breaks_off = False


class World:
    """A metastore that Hive engines change, and a catalog on it.

    Attributes:
        ours: Files of ours whose write was acknowledged, and that were not deleted, by partition.
        unreported: Partitions whose drop no event reports any more.
        unreported_table: Whether no event reports a table's drop or rename: then it stays beside the new one.
        kept: The content of the metastore when a copy of it was taken.
        denied: The partition whose directory cannot be listed for now.
    """

    def __init__(self, folder: Path, patched: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.server = FlakyMetastore()
        for name in ("default", "s"):
            self.server.create_database(HiveDatabase(name))
        patched.setattr("catalog_ext.conf.resolved.Settings.connect_metastore", serving(lambda _: self.server))
        (folder / "index.db").write_bytes(empty_index())
        self.catalog: Catalog = open_catalog(folder)
        self.root = folder / "t"
        self.ours: dict[str, set[str]] = defaultdict(set)
        self.unreported: set[str] = set()
        self.unreported_table = False
        self.kept: tuple[dict[Any, Any], dict[Any, Any]] | None = None
        self.denied: str | None = None
        self.numbers = itertools.count()
        self.read = 0
        listed = Storage.list_directory

        def guarded(storage: Storage, location: str | Location) -> list[Entry]:
            if self.denied is not None and str(location).rstrip("/").endswith(f"ds={self.denied}"):
                raise StorageUnavailableError("The store is away.")
            return listed(storage, location)

        patched.setattr(Storage, "list_directory", guarded)
        self.server.create_table(hive_table(self.root))
        self.hive_insert("a")
        self.catalog.import_table("s.t")
        self.look()

    def do(self, action: Callable[[World, str], None], value: str) -> None:
        """Act; what fails of the metastore's calls is one of ours."""
        fails_in = self.server.fails_in
        if action.__name__.startswith("hive_"):
            self.server.fails_in = None
            action(self, value)
            self.server.fails_in = fails_in
        else:
            action(self, value)

    # What a Hive engine does: it finds what it needs in the metastore, and puts files first.

    def name(self) -> str | None:
        return next((name for database, name in self.server._tables if database == "s"), None)

    def place(self, value: str) -> Path:
        found = self.server._partitions.get(("s", self.name() or ""), {}).get((value,))
        return (
            self.root / f"ds={value}" if found is None else Path("/" + found.location.removeprefix("file:").lstrip("/"))
        )

    def is_anothers(self, value: str) -> bool:
        """Whether another partition lies there, which has been renamed: who writes there writes to both."""
        held = self.server._partitions.get(("s", self.name() or ""), {})
        own = held.get((value,))
        place = f"file:{self.root}/ds={value}" if own is None else own.location
        return any(other != (value,) and same_location(there.location, place) for other, there in held.items())

    def elsewhere(self, value: str) -> Path | None:
        """Where Hive has a partition that a message of ours has in another directory: both stay until Hive renames."""
        name = self.name()
        there = self.server._partitions.get(("s", name or ""), {}).get((value,))
        if name is None or there is None or name not in self.catalog.list_tables("s") or not self.pending(name, value):
            return None
        table = self.catalog.load_table(f"s.{name}")
        place = self.catalog.index.partitions.located(table).get(f"ds={value}", table.directory(f"ds={value}"))
        return None if same_location(there.location, place) else self.place(value)

    def lose_elsewhere(self, value: str) -> None:
        """Hive has dropped what it has elsewhere: our own directory stays."""
        if (place := self.elsewhere(value)) is not None and place.exists():
            self.ours[value] -= {file.name for file in place.iterdir()}

    def make_room(self) -> None:
        """Do as the error says: rename in Hive what it has elsewhere."""
        for value in VALUES:
            name, place = self.name(), self.elsewhere(value)
            if name is None or place is None:
                continue
            to = f"{value}{next(self.numbers)}"
            self.server.rename_partition("s", name, f"ds={value}", (to,))
            lies_there = {file.name for file in place.iterdir()} if place.exists() else set()
            self.ours[to] = self.ours[value] & lies_there
            self.ours[value] -= lies_there

    def hive_insert(self, value: str) -> None:
        if (name := self.name()) is None or self.is_anothers(value):
            return
        place = self.place(value)
        write(place, f"hive{next(self.numbers)}")
        held = self.server._partitions["s", name].get((value,))
        if held is None:
            self.server.add_partitions("s", name, [HivePartition((value,), f"file:{place}", self.counted(place))])
        else:
            self.server.alter_partitions("s", name, [replace(held, parameters=self.counted(place))])
            self.server.insert("s", name, f"ds={value}")
        self.unreported.discard(value)

    def counted(self, place: Path) -> dict[str, str]:
        files = [f for f in place.iterdir() if not f.name.startswith(("_", "."))] if place.exists() else []
        size = sum(f.stat().st_size for f in files)
        return {
            "numFiles": str(len(files)),
            "totalSize": str(size),
            "transient_lastDdlTime": str(int(time.time()) + next(self.numbers)),
        }

    def hive_overwrite(self, value: str) -> None:
        if (name := self.name()) is None or (value,) not in self.server._partitions["s", name]:
            return
        for file in self.place(value).glob("[!_.]*"):
            file.unlink()
        self.ours[value].clear()
        self.hive_insert(value)

    def hive_add(self, value: str) -> None:
        if (name := self.name()) is not None and not self.is_anothers(value):
            place = self.place(value)
            if (value,) not in self.server._partitions["s", name]:
                self.server.add_partitions("s", name, [HivePartition((value,), f"file:{place}")])
            self.unreported.discard(value)

    def hive_drop(self, value: str) -> None:
        name = self.name()
        if name is not None and (value,) in self.server._partitions["s", name]:
            self.lose_elsewhere(value)
            if not self.pending(name, value):
                self.ours[value].clear()
            self.server.drop_partitions("s", name, [f"ds={value}"])

    def hive_drop_files(self, value: str) -> None:
        """Drop a partition with its files, as of a managed table."""
        name = self.name()
        if name is None or (value,) not in self.server._partitions["s", name]:
            return
        place = self.place(value)
        for file in place.glob("[!_.]*"):
            file.unlink()
            self.ours[value].discard(file.name)
        with contextlib.suppress(OSError):
            place.rmdir()
        self.hive_drop(value)

    def hive_move(self, value: str) -> None:
        """Give a partition another directory, with copies of its files and one more."""
        name = self.name()
        if name is None or (value,) not in self.server._partitions["s", name] or self.pending(name, value):
            return
        new = self.folder / f"elsewhere{next(self.numbers)}"
        write(new, f"moved{next(self.numbers)}")
        for file in self.place(value).glob("[!_.]*"):
            (new / file.name).write_bytes(file.read_bytes())
        held = self.server._partitions["s", name][value,]
        self.server.alter_partitions("s", name, [replace(held, location=f"file:{new}")])
        self.kept = None

    def hive_rename_partition(self, value: str) -> None:
        """Give a partition of an external table another value: it keeps its directory."""
        name, to = self.name(), VALUES[(VALUES.index(value) + 1) % len(VALUES)]
        held = self.server._partitions.get(("s", name or ""), {})
        if name is None or (value,) not in held or (to,) in held:
            return
        if self.pending(name, value) or self.pending(name, to):
            return
        self.server.rename_partition("s", name, f"ds={value}", (to,))
        self.ours[to] |= self.ours.pop(value, set())
        self.unreported.discard(to)
        self.kept = None

    def pending(self, name: str, value: str) -> bool:
        identifier = TableIdentifier("s", name)
        with contextlib.suppress(NotFoundError):
            found = pending_for(self.catalog.index, identifier, self.catalog.load_table(f"s.{name}"))
            return found.definition or found.names(f"ds={value}")
        return False

    def hive_recreate(self, _: str) -> None:
        if (name := self.name()) is not None:
            self.forget(name)
            self.server.drop_table("s", name)
            self.server.create_table(hive_table(self.root, name))

    def hive_drop_table(self, _: str) -> None:
        if (name := self.name()) is not None:
            self.forget(name)
            self.server.drop_table("s", name)

    def forget(self, name: str) -> None:
        """Rows go with the table, but for those of which the metastore is still to hear."""
        for value in VALUES:
            self.lose_elsewhere(value)
            if not self.pending(name, value):
                self.ours[value].clear()

    def hive_create(self, _: str) -> None:
        if self.name() is None:
            self.server.create_table(hive_table(self.root))

    def hive_rename(self, _: str) -> None:
        if (name := self.name()) is not None:
            self.server.rename_table("s", name, "s", "u" if name == "t" else "t")

    # What becomes of the metastore.

    def expire(self, _: str) -> None:
        """Unread events are gone."""
        for event in self.server.log:
            if event.event_id > self.cursor():
                self.unreported |= {hint.name[3:] for hint in event.partitions or () if hint.dropped}
                if event.dropped:
                    self.unreported_table = True
                    self.unreported |= set(VALUES)
        self.server.log.clear()

    def lose_log(self, _: str) -> None:
        """It begins again; the follower looks before it has as many events as before, or could not know."""
        if self.cursor() < 2:
            return
        self.expire("")
        self.server.newest = 1
        self.server.fails_in = None
        self.look()

    def keep_copy(self, _: str) -> None:
        self.kept = (copy.deepcopy(self.server._tables), copy.deepcopy(self.server._partitions))

    def set_back(self, _: str) -> None:
        """Its database is that of a copy again, and the log with it."""
        if self.kept is None or set(self.kept[0]) != set(self.server._tables) or self.cursor() < 2:
            return
        tables, partitions = copy.deepcopy(self.kept)
        self.expire("")
        self.server._tables.update(tables)
        self.server._partitions.clear()
        self.server._partitions.update(partitions)
        self.unreported |= set(VALUES)
        self.server.newest = 1
        self.server.fails_in = None
        self.look()

    def deny(self, value: str) -> None:
        """The directory of a partition cannot be listed from now on."""
        self.denied = value

    def allow(self, _: str) -> None:
        self.denied = None

    def fail(self, value: str) -> None:
        self.server.fails_in = 2 * VALUES.index(value)

    def break_off(self, value: str) -> None:
        self.server.fails_in, self.server.carries_out = 2 * VALUES.index(value), True

    # What we do.

    def cursor(self) -> int:
        return self.catalog.index.followed.load().event_id or 0

    def our_write(self, value: str, kind: WriteKind) -> None:
        tables = self.catalog.list_tables("s")
        if not tables:
            return
        if self.is_anothers(value):
            return
        # A write waits long for its store.
        denied, self.denied = self.denied, None
        name = f"s.{tables[0]}"
        before = self.files(name).get(f"ds={value}", set())
        with contextlib.suppress(ConflictError, NotFoundError, TableLayoutError):
            insert(self.catalog, f"ds={value}", kind=kind, table=name)
            if kind is WriteKind.OVERWRITE_PARTITIONS:
                self.ours[value].clear()
            self.ours[value] |= self.files(name)[f"ds={value}"] - before
            self.unreported.discard(value)
        self.denied = denied

    def files(self, table: str) -> dict[str, set[str]]:
        return {partition: set(files) for partition, files in indexed(self.catalog, table).items()}

    def append(self, value: str) -> None:
        self.our_write(value, WriteKind.APPEND)

    def overwrite(self, value: str) -> None:
        self.our_write(value, WriteKind.OVERWRITE_PARTITIONS)

    def held_append(self, value: str) -> None:
        """One whose message is not delivered yet."""
        self.server.down = True
        self.append(value)
        self.server.down = False

    def held_overwrite(self, value: str) -> None:
        self.server.down = True
        self.overwrite(value)
        self.server.down = False

    def drop(self, value: str) -> None:
        for name in self.catalog.list_tables("s"):
            with contextlib.suppress(ConflictError, NotFoundError):
                self.catalog.partition_maintenance.drop(f"s.{name}", {"ds": value})
                self.ours[value].clear()

    def held_drop(self, value: str) -> None:
        self.server.down = True
        self.drop(value)
        self.server.down = False

    def deliver(self, _: str) -> None:
        self.catalog.index.outbox.retry()
        self.catalog.deliver()

    def look(self, _: str = "") -> None:
        with contextlib.suppress(CatalogExtError):
            said = self.preview()
            outcome = self.catalog.follower.look(databases=["s"])
            if said is not None:
                assert said == summary(outcome)

    def preview(self) -> set[tuple[object, ...]] | None:
        """Return what a preview says, which writes nothing; None where the metastore fails now and then."""
        if self.server.fails_in is not None or self.denied is not None:
            return None

        def refused(*_: object, **__: object) -> object:
            raise AssertionError("a preview writes nothing")

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Database, "write", refused)
            patched.setattr(Database, "change", refused)
            return summary(self.catalog.follower.look(databases=["s"], dry_run=True))

    def crash(self, value: str) -> None:
        """The follower is gone before one of its writes to the index."""
        left = 2 + 2 * VALUES.index(value)
        write_ = Database.write

        def counted(database: Database, work: object, **options: object) -> object:
            nonlocal left
            left -= 1
            if left < 0:
                raise Crash
            return write_(database, work, **options)  # type: ignore[arg-type]

        with pytest.MonkeyPatch.context() as patched, contextlib.suppress(Crash):
            patched.setattr(Database, "write", counted)
            self.look()
        self.catalog.close()
        self.catalog = open_catalog(self.folder)
        # What it was delivering is another one's when its claim is over.
        freed = sa.update(outbox).values(claimed_by=None, next_attempt_at_ms=0)
        self.catalog.index._database.write(lambda connection: connection.execute(freed))

    def settle(self) -> None:
        self.server.fails_in = self.denied = None
        for number in range(ROUNDS):
            if number == MAKE_ROOM:
                self.make_room()
            self.deliver("")
            if self.catalog.follower.look(databases=["s"]).is_idle and not self.catalog.index.outbox.count():
                return

    def check(self) -> None:
        index = self.catalog.index
        said = {kept.table for kept in index.followed.suspects()}
        assert {f"{m.namespace}.{m.table}" for m in index.outbox.pending()} <= said
        there = {name for database, name in self.server._tables if database == "s"}
        ours = set(self.catalog.list_tables("s"))
        assert there <= ours
        assert {f"s.{name}" for name in ours - there} == said
        everywhere = [self.files(f"s.{name}") for name in ours]
        for value, kept in self.ours.items():
            assert kept <= {file for held in everywhere for file in held.get(f"ds={value}", ())}, "rows of ours"
        for name in there:
            table = self.catalog.load_table(f"s.{name}")
            held = self.files(f"s.{name}")
            located = index.partitions.located(table)
            theirs = {
                f"ds={p.values[0]}": p.location.replace("file:///", "file:/")
                for p in self.server._partitions["s", name].values()
            }
            assert set(theirs) <= set(held)
            assert {p[3:] for p in set(held) - set(theirs)} <= self.unreported
            places: set[str] = set()
            for partition, files in held.items():
                place = located.get(partition, f"{table.definition.location}/{partition}")
                assert not files or place not in places, "rows twice"
                places.add(place)
                # What the metastore has lost stays where it was.
                assert place.replace("file:///", "file:/") == theirs.get(partition, place.replace("file:///", "file:/"))
                folder = Path(place.removeprefix("file://"))
                visible = {f.name for f in folder.glob("[!_.]*")} if folder.exists() else set()
                # No event reports the end of what neither side has.
                is_nowhere = partition not in theirs and not folder.exists()
                assert files == visible or self.unreported_table or is_nowhere, partition


ACTIONS = (
    World.hive_insert, World.hive_overwrite, World.hive_add, World.hive_drop, World.hive_recreate,
    World.hive_drop_table, World.hive_create, World.hive_rename, World.expire, World.lose_log, World.fail,
    World.break_off, World.append, World.overwrite, World.held_append, World.drop, World.held_drop, World.deliver,
    World.look, World.look, World.look, World.crash, World.hive_drop_files, World.hive_move,
    World.hive_rename_partition, World.keep_copy, World.set_back, World.held_overwrite, World.deny, World.allow,
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=examples(100))
# No event reports Hive's INSERT any more, and our append has sent the metastore its own files alone.
@example([(World.hive_insert, "a"), (World.expire, "a"), (World.append, "a")])
# What Hive has inserted before it dropped the partition is there again once our append has brought that back.
@example([(World.hive_insert, "a"), (World.hive_drop, "a"), (World.hive_rename, "a"), (World.append, "a")])
@example([(World.hive_insert, "a"), (World.hive_drop, "a"), (World.held_append, "a"), (World.look, "a")])
# The same, and the log has lost that it was dropped.
@example([(World.hive_insert, "a"), (World.hive_drop, "a"), (World.lose_log, "a")])
@example([(World.hive_insert, "a"), (World.hive_drop, "a"), (World.lose_log, "a"), (World.append, "a")])
# One that was renamed keeps its directory; and the log has lost that, or it gets its first name back.
@example([(World.hive_rename_partition, "a"), (World.lose_log, "a")])
@example(
    [
        (World.hive_rename_partition, "a"),
        (World.look, "a"),
        (World.hive_rename_partition, "b"),
        (World.hive_rename_partition, "c"),
    ]
)
# What could not be listed is not forgotten by what comes then.
@example(
    [
        (World.append, "b"),
        (World.hive_insert, "b"),
        (World.hive_drop, "b"),
        (World.deny, "b"),
        (World.lose_log, "b"),
        (World.hive_insert, "a"),
        (World.look, "a"),
    ]
)
@example(
    [
        (World.hive_rename, "a"), (World.append, "a"), (World.hive_insert, "a"), (World.hive_drop_table, "a"),
        (World.hive_create, "a"),
    ]
)  # fmt: skip
# The end of the table is left, as we have written to it; it is made again, and gets another name.
@example(
    [
        (World.hive_drop_table, "a"), (World.append, "b"), (World.look, "a"), (World.hive_create, "a"),
        (World.hive_rename, "a"),
    ]
)  # fmt: skip
# The follower is gone while it delivers.
@example([(World.hive_insert, "b"), (World.held_append, "c"), (World.hive_rename, "a"), (World.crash, "c")])
@given(st.lists(st.tuples(st.sampled_from(ACTIONS), st.sampled_from(VALUES)), max_size=14))
def test_all_sides_converge(
    tmp_path_factory: pytest.TempPathFactory, history: list[tuple[Callable[[World, str], None], str]]
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("catalog_ext.metastore.hive.identity.CONFIRM_AFTER_S", 0.0)
        patched.setattr("catalog_ext.hms_events.log._SETTLE_S", 0.0)
        patched.setattr(follow_run, "_FIRST_PAUSE_MS", 0)
        patched.setattr(DeliveryRetry, "schedule", lambda *_: None)
        world = World(tmp_path_factory.mktemp("world"), patched)
        try:
            for action, value in history:
                world.do(action, value)
            world.settle()
            world.check()
        finally:
            world.catalog.close()


def test_a_partition_that_hive_and_we_make_at_once_keeps_both_sides_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hive renames ``ds=a`` to ``ds=b``, which keeps its directory; before a look we write the first rows of ``ds=b``.

    The delivery leaves Hive's partition where it is, and the index keeps its rows under the old name, until Hive has
    renamed it as the error says.
    """
    monkeypatch.setattr("catalog_ext.metastore.hive.identity.CONFIRM_AFTER_S", 0.0)
    monkeypatch.setattr("catalog_ext.hms_events.log._SETTLE_S", 0.0)
    monkeypatch.setattr(follow_run, "_FIRST_PAUSE_MS", 0)
    world = World(tmp_path, monkeypatch)
    try:
        world.do(World.append, "a")
        world.do(World.hive_rename_partition, "a")
        insert(world.catalog, "ds=b", kind=WriteKind.APPEND, table="s.t")
        own = world.files("s.t")["ds=b"]
        for _ in range(2):
            world.deliver("")
            outcome = world.catalog.follower.look(databases=["s"])
        assert "another directory than the index" in str(outcome.tables[0].error)
        held = world.files("s.t")
        assert world.ours["b"] <= held["ds=a"]
        assert held["ds=b"] == own
        assert world.place("b").name == "ds=a", "Hive's partition stays where Hive has it"
        (pending,) = world.catalog.index.outbox.pending()
        assert pending.set_aside
        assert "where a Hive engine has put it" in (pending.last_error or "")
        (found,) = (each for each in world.catalog.drift("s.t") if each.kind == "partition location")
        assert (found.subject, found.pending) == ("ds=b", True)
        assert "where a Hive engine has put it" in found.evidence
        world.ours["b"] |= own
        world.settle()
        world.check()
        (renamed,) = set(world.files("s.t")) - {"ds=b"}
        assert renamed.startswith("ds=b")
        assert world.files("s.t") == {"ds=b": own, renamed: held["ds=a"]}
    finally:
        world.catalog.close()
