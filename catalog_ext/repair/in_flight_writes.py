"""Removes files of in-flight writes (writes that have not ended) from a repair, so that they are not registered.

A listing can show five kinds of paths that the index at the compared version does not have: files of a write that has
not committed yet (or committed after the version), files that a committed write is about to delete, directories that
such a write has created or is about to remove, files that a partition command is moving, and files of old versions that
a relocating overwrite has replaced. Files that are about to be deleted are recognized by path, also if the deleting
write belongs to another table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.file_identity import is_same
from catalog_ext.metastore.commit.partition_expiry import Expiry
from catalog_ext.metastore.commit.removals import Removal
from catalog_ext.metastore.commit.transaction import State, transaction_id_in
from catalog_ext.metastore.index.write.transaction_rows import IN_FLIGHT
from catalog_ext.metastore.model.tables import TableType
from catalog_ext.metastore.transactions.deletion_gate import replaced_by_relocations
from catalog_ext.metastore.transactions.moves import Moves
from catalog_ext.repair.report import MOVING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.scan.scratch import Scratch


_REPLACED = "an overwrite has replaced it by relocating its partition; vacuum removes it"
# ``Removal.is_still`` in SQL: a file is the deleted one if size, time and ETag are equal, as far as the index knows
# them.
_IS_STILL = (
    "(r.size IS NULL OR f.size = r.size)"
    " AND (r.modified_ms IS NULL OR f.modified_ms = r.modified_ms OR f.modified_ms / 1000 = r.modified_ms / 1000"
    " AND 0 IN (f.modified_ms % 1000, r.modified_ms % 1000))"
    " AND (r.etag IS NULL OR f.etag IS NULL OR f.etag = r.etag)"
)
_MAKES_DIRECTORIES = (State.RESERVED, State.ABORTING)


class InFlightWrites:
    """Removes files of in-flight writes to the table from a repair.

    Args:
        index: The index, which has the transactions.
        table: The table, at the version that the repair compares with.
        scratch: The repair's scratch database.
    """

    def __init__(self, index: Index, table: Table, scratch: Scratch) -> None:
        self._index = index
        self._table = table
        self._scratch = scratch
        self._moves: Moves | None = None

    def note_removals(self) -> None:
        """Record the pending deletions of committed writes, and running moves. Call it before the store is listed.

        If it ran after the listing, a write could finish in between and remove its list of deletions, although the
        listing has seen the files.
        """
        self._moves = Moves(self._index, self._table.table_id)
        root = f"{self._table.definition.location}/"
        located: Collection[str] | None = None
        for transaction in self._index.transactions.all(states=(State.COMMITTED,)):
            is_own = transaction.table_id == self._table.table_id
            if is_own and transaction.version is not None and transaction.version > self._table.version:
                # This write committed after the compared version. In that version its files exist and are registered.
                continue
            # Include other tables, which may share directories, and earlier registrations of this table under another
            # id.
            if not (is_own or transaction.plan.may_delete_near(self._table.definition.location)):
                continue
            if located is None:
                located = set(self._index.partitions.located(self._table).values())
            for removal in self._index.deletions.of(transaction.transaction_id):
                uri = removal.path
                inside = uri.startswith(root)
                if inside or uri.rpartition("/")[0] in located:
                    row = (uri, removal.size, removal.modified_ms, removal.etag)
                    self._scratch.insert("pending_removals", [row])
                if inside:
                    self._note_in_flight(uri[len(root) :].rpartition("/")[0])

    def leave_out(self) -> None:
        """Remove in-flight files from the listing. Call it after store and index were read.

        Leftovers of aborted writes are reported.
        """
        self._leave_out_pending_removals()
        in_flight = self._index.transactions.all(states=IN_FLIGHT)
        self._leave_out_moving()
        states = self._index.transactions.uncommitted_ids(self._table.table_id, self._table.version)
        if states:
            self._leave_out_files(states)
            # A CREATE OR REPLACE has no table id before its commit, so find its transactions by the table's location.
            here = {t.transaction_id for t in in_flight if t.plan.location == self._table.definition.location}
            self._note_made_directories({number: state for number, state in states.items() if number in here})
        self._leave_out_in_flight_partitions()

    def _leave_out_in_flight_partitions(self) -> None:
        self._scratch.execute(
            "DELETE FROM listed_partitions WHERE name IN (SELECT name FROM in_flight_partitions)"
            " AND name NOT IN (SELECT name FROM indexed_partitions) AND name NOT IN (SELECT name FROM listed_files)"
        )

    def leave_out_replaced(self, named: Collection[str] = ()) -> None:
        """Remove files that relocating overwrites have replaced from the files that would be registered.

        Call it after the files were compared. The removed files are reported; vacuum deletes them later.

        Args:
            named: Partitions that the metastore has: all files at their locations belong to them, also replaced ones.
        """
        scratch = self._scratch
        scratch.insert("metastore_partitions", ((name,) for name in named))
        if not scratch.count(
            "SELECT EXISTS (SELECT 1 FROM differing_files WHERE side = 1) OR EXISTS (SELECT 1 FROM listed_files f"
            " WHERE NOT EXISTS (SELECT 1 FROM indexed_partitions i WHERE i.name = f.name))"
        ):
            return
        replaced = ((r.path, r.size, r.modified_ms, r.etag) for r in replaced_by_relocations(self._index, self._table))
        scratch.insert("replaced", replaced)
        if not scratch.count("SELECT count(*) FROM replaced"):
            return
        # A relocating overwrite replaces files at default locations only, so look at those of unregistered partitions
        # and of partitions without an explicit location.
        there = (
            "SELECT f.rowid FROM {} f"
            " JOIN replaced r ON r.uri = ? || iif(f.name = '', '', '/' || f.name) || '/' || f.path"
            f" AND {_IS_STILL}"
            " WHERE f.name NOT IN (SELECT name FROM metastore_partitions)"
        )
        root = (self._table.definition.location,)
        in_listed = (
            f"rowid IN ({there.format('listed_files')}) AND NOT EXISTS"
            " (SELECT 1 FROM indexed_partitions i WHERE i.name = listed_files.name)"
        )
        in_differing = f"side = 1 AND rowid IN ({there.format('differing_files')})"
        for table, which in (("listed_files", in_listed), ("differing_files", in_differing)):
            scratch.execute(
                "INSERT OR IGNORE INTO skipped SELECT iif(name = '', path, name || '/' || path), name, 1, size, ?"
                f" FROM {table} WHERE {which}",
                (_REPLACED, *root),
            )
            scratch.execute(f"INSERT OR IGNORE INTO in_flight_partitions SELECT name FROM {table} WHERE {which}", root)
            scratch.execute(f"DELETE FROM {table} WHERE {which}", root)
        self._leave_out_in_flight_partitions()

    def _leave_out_pending_removals(self) -> None:
        if not self._scratch.count("SELECT count(*) FROM pending_removals"):
            return
        # Compare size, time and ETag besides the path: a new file may have the name of a file that is to be deleted.
        pending = (
            "SELECT f.rowid, f.path, f.size, f.modified_ms, f.etag, l.size, l.modified_ms, l.etag FROM listed_files f"
            " LEFT JOIN indexed_partitions i USING (name)"
            " JOIN pending_removals l"
            " ON l.uri = coalesce(i.location, ? || iif(f.name = '', '', '/' || f.name)) || '/' || f.path"
            " WHERE NOT EXISTS (SELECT 1 FROM indexed_files x WHERE x.name = f.name AND x.path = f.path)"
        )
        for rowid, path, size, modified_ms, etag, *was in self._scratch.rows(
            pending, (self._table.definition.location,)
        ):
            if is_same(Removal(path, *was), size, modified_ms, etag):
                self._scratch.insert("leaving", [(rowid,)])
        self._scratch.execute("DELETE FROM listed_files WHERE rowid IN (SELECT listed_rowid FROM leaving)")

    def _leave_out_moving(self) -> None:
        """Exclude partitions whose files a partition command moves or has moved from the comparison; report them."""
        assert self._moves is not None, "noted before the listing"
        moving = self._moves.partitions(self._table)
        if not moving:
            return
        self._scratch.insert("protected", ((name,) for name in moving))
        self._scratch.insert("skipped", ((name, name, None, None, MOVING) for name in moving))
        self._scratch.leave_out("SELECT name FROM protected")

    def _leave_out_files(self, states: dict[str, State]) -> None:
        def carried(path: str) -> str | None:
            found = transaction_id_in(path)
            return found if found in states else None

        scratch = self._scratch
        scratch.create_function("carried", carried)
        # Keep files that the index has. A stream's epoch may have committed some of its files, while its other files
        # wait for the due time of their partitions.
        scratch.execute(
            "INSERT INTO in_flight_files SELECT f.rowid, f.name, f.path, f.size, carried(f.path) FROM listed_files f"
            " WHERE carried(f.path) IS NOT NULL AND NOT EXISTS"
            " (SELECT 1 FROM indexed_files i WHERE i.name = f.name AND i.path = f.path)"
        )
        scratch.execute("DELETE FROM listed_files WHERE rowid IN (SELECT listed_rowid FROM in_flight_files)")
        scratch.execute("INSERT OR IGNORE INTO in_flight_partitions SELECT DISTINCT name FROM in_flight_files")
        for name, path, size, transaction in scratch.rows(
            "SELECT name, path, size, id FROM in_flight_files ORDER BY name, path"
        ):
            if states[transaction] is State.ABORTED:
                reason = f"leftover of write {transaction}, which was aborted; vacuum removes it"
                row = (f"{name}/{path}" if name else path, name, 1, size, reason)
                scratch.insert("skipped", [row])

    def _note_made_directories(self, states: dict[str, State]) -> None:
        empty = (
            "SELECT EXISTS (SELECT 1 FROM listed_partitions WHERE name NOT IN (SELECT name FROM indexed_partitions)"
            " AND name NOT IN (SELECT name FROM listed_files))"
        )
        if not self._scratch.count(empty):
            return
        for transaction_id, state in states.items():
            if state in _MAKES_DIRECTORIES:
                for file in self._index.transaction_files.staged_files(transaction_id):
                    self._note_in_flight(file.partition)

    def _note_in_flight(self, name: str) -> None:
        self._scratch.insert("in_flight_partitions", [(name,)])


def leave_out_expired(scratch: Scratch, table: Table, now_ms: Callable[[], int]) -> None:
    """Remove unregistered partitions that have expired from the listing, and report them.

    Args:
        scratch: The repair's scratch database.
        table: The table.
        now_ms: Returns the database's time; called only if partitions can expire.

    Raises:
        InvalidInputError: The table's retention is not a duration, or its partitions have no times.
    """
    definition = table.definition
    if definition.table_type is not TableType.EXTERNAL or not definition.partition_columns:
        return
    expiry = Expiry.of(definition)
    if expiry is None:
        return
    new = "SELECT name FROM listed_partitions WHERE name NOT IN (SELECT name FROM indexed_partitions)"
    now = now_ms()
    reason = expiry.reason(now)
    found = [name for (name,) in scratch.rows(new) if expiry.expired(name, now)]
    scratch.insert("expired", ((name,) for name in found))
    scratch.execute(
        "INSERT OR IGNORE INTO skipped SELECT e.name, e.name, count(f.path), coalesce(sum(f.size), 0), ?"
        " FROM expired e LEFT JOIN listed_files f USING (name) GROUP BY e.name",
        (f"not registered again, {reason}",),
    )
    scratch.leave_out("SELECT name FROM expired", "listed")
