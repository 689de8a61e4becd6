"""The one database transaction that makes all partitions of a write visible at one instant.

The changes are computed under the lock of the table's row. A commit removes only rows that existed when the transaction
was reserved (``fixed_set``). Files that were registered in the claimed partitions since then stay.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from catalog_ext.metastore.commit import rules
from catalog_ext.metastore.commit.json import outcome_to_dict
from catalog_ext.metastore.commit.partition_plans import Rollback
from catalog_ext.metastore.commit.plan import CHECKED, CREATIONS, Append, CheckedWrite
from catalog_ext.metastore.commit.removals import Removal
from catalog_ext.metastore.commit.transaction import State, WriteOutcome, transaction_id_in
from catalog_ext.metastore.index.database.prepared import Prepared, together
from catalog_ext.metastore.index.database.schema import (
    applications,
    files,
    partitions,
    transaction_claims,
    transactions,
)
from catalog_ext.metastore.index.database.sqlite_file import ALIVE
from catalog_ext.metastore.index.database.texts import name_hash
from catalog_ext.metastore.index.read.needed_files import users_within
from catalog_ext.metastore.index.tables import table_rows
from catalog_ext.metastore.index.tables.dropping import drop_within
from catalog_ext.metastore.index.tables.namespaces import namespace_number
from catalog_ext.metastore.index.write import deferred_deletes
from catalog_ext.metastore.index.write import transaction_rows as rows
from catalog_ext.metastore.index.write.applier import Applier
from catalog_ext.metastore.index.write.claim_checks import forget_claims
from catalog_ext.metastore.index.write.fixed_set import FixedSet
from catalog_ext.metastore.index.write.partition_commands import PartitionCommand
from catalog_ext.metastore.index.write.partition_rows import (
    lock_tables,
    lock_with_transaction,
    named_partitions,
    named_query,
)
from catalog_ext.metastore.index.write.removals import RecordedDeletions
from catalog_ext.metastore.index.write.reservation_checks import check_name
from catalog_ext.metastore.index.write.row_writes import RowWrite
from catalog_ext.metastore.index.write.transaction_files import FORGET_STAGED
from catalog_ext.metastore.index.write.version_record import COUNTS, record
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.json import to_json
from catalog_ext.metastore.runtime.users import user_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from catalog_ext.metastore.commit.commit import Commit
    from catalog_ext.metastore.commit.plan import Creation
    from catalog_ext.metastore.commit.transaction import Transaction
    from catalog_ext.metastore.index.database.rows import TableRow
    from catalog_ext.metastore.model.changes import Summary
    from catalog_ext.metastore.model.tables import Partition, Table, TableDefinition

    Delivers = Callable[[TableDefinition], bool]


_END = Prepared(
    sa.update(transactions)
    .where(transactions.c.transaction_id == sa.bindparam("id"))
    .values(
        state=sa.bindparam("to"),
        table_id=sa.bindparam("of_table"),
        version=sa.bindparam("as_version"),
        outcome=sa.bindparam("with_outcome"),
        ended_at_ms=sa.bindparam("at_ms"),
    )
)

_END_CLAIMS = Prepared(
    sa.update(transaction_claims)
    .where(
        transaction_claims.c.transaction_id == sa.bindparam("id"),
        transaction_claims.c.table_id == sa.bindparam("of_table"),
    )
    .values(version=sa.bindparam("as_version"))
)

_CLAIMS_CHECKED_EVERY = 64


class Applying:
    """The database transaction that commits a reserved transaction whose files have their final names."""

    def __init__(self, connection: sa.Connection, commit: Commit, deliver: bool | Delivers) -> None:
        self._connection = connection
        self._commit = commit
        self._transaction = commit.transaction
        self._plan = commit.plan
        self._id = commit.transaction_id
        self._deliver = deliver
        self._row: Mapping[str, Any] = {}
        self._now = 0
        self._named: Mapping[str, Partition | None] | None = None
        self._removals = RecordedDeletions(connection, self._id)
        self._source: Applier | None = None
        self._ends_everything = False

    def run(self) -> Transaction:
        """Commit the transaction and return it; if it was committed before, only return it."""
        creation = self._plan.asked if isinstance(self._plan.asked, CREATIONS) else None
        namespace_id, locked, source = self._lock()
        if self._is_committed():
            return rows.with_locations(self._connection, rows.from_row(self._row))
        delivers = self._delivers(self._definition(locked))
        left = self._commit.leftovers
        needed: Collection[str] = ()
        if creation:
            locked = self._create_table(creation, namespace_id, deliver=delivers)
            # Another table may have registered files that relocating overwrites of the replaced table left behind: do
            # not delete these. The replaced table's row is locked now, so no further table can register such files.
            needed = users_within(self._connection, {removal.path for removal in left}) if left else ()
        for removal in left:
            if removal.path not in needed:
                self._removals.add(removal)
        assert locked is not None, "a table is locked, or was made"
        applier = Applier(self._connection, locked.raised(), named=self._named)
        table = applier.table
        outcome = self._apply(applier, source)
        state = State.FINISHED if self._commit.is_staging_removed and self._removals.are_none else State.COMMITTED
        with together(self._connection) if not delivers and self._is_plain(applier) else nullcontext():
            if creation or any(getattr(applier, name) for name in COUNTS):
                applier.flush()
                outcome = self._record(applier, outcome, deliver=delivers)
                if self._ends_everything:
                    deferred_deletes.defer(self._connection, table, self._id, self._now, delivers=delivers)
            else:
                outcome = replace(outcome, version=table.version - 1)
            self._end(outcome, None if creation else table, state)
        return replace(
            self._transaction, state=state, reserved=True, table_id=outcome.table_id, version=outcome.version,
            outcome=outcome, ended_at_ms=self._now,
        )  # fmt: skip

    def _definition(self, locked: TableRow | None) -> TableDefinition:
        """Return the definition of the table, or of the table to be created."""
        if locked is not None:
            return locked.table.definition
        assert self._plan.definition is not None, "a table without a row is made"
        return self._plan.definition

    def _delivers(self, definition: TableDefinition) -> bool:
        """Return whether changes of a table with this definition are enqueued for the metastore."""
        return self._deliver if isinstance(self._deliver, bool) else self._deliver(definition)

    def _lock(self) -> tuple[int, TableRow | None, TableRow | None]:
        """Lock the rows that the commit needs; return the namespace's number, the table's row and the source's row.

        A creation locks the namespace, and there is no table row; only EXCHANGE PARTITION has a source table.
        """
        if isinstance(self._plan.asked, Append) and self._commit.all_files is not None:
            names = {file.partition for file in self._commit.all_files}
            query = named_query(self._transaction.table_id or 0, names)
            locked, self._row, (alive,) = lock_with_transaction(self._connection, self._transaction, query)
            self._named = {**dict.fromkeys(names), **{there.name: there for there in named_partitions(alive)}}
            return 0, locked, None
        if self._plan.definition is not None:
            namespace = TableIdentifier.parse(self._transaction.table).namespace
            namespace_id = namespace_number(self._connection, namespace, locks=True)
            self._row = rows.load_row(self._connection, self._id, lock=True)
            return namespace_id, None, None
        locked, source = lock_tables(self._connection, self._transaction)
        self._row = rows.load_row(self._connection, self._id, lock=True)
        return 0, locked, source

    def _is_plain(self, applier: Applier) -> bool:
        """Return whether the remaining work is only a few statements without a query, which can be sent together."""
        checks_claims = applier.version % _CLAIMS_CHECKED_EVERY == 0
        asks = self._row["app_id"] is not None or self._plan.asks_locations or checks_claims
        return isinstance(self._plan.asked, Append) and self._removals.are_none and not asks and applier.is_small

    def _is_committed(self) -> bool:
        self._now = self._row["now_ms"]
        if self._row["state"] in (State.COMMITTED, State.FINISHED):
            return True
        if self._row["state"] != State.RESERVED:
            raise rows.wrong_state(self._row, "be committed")
        return False

    def _create_table(self, creation: Creation, namespace_id: int, *, deliver: bool) -> TableRow:
        old = check_name(self._connection, self._row, creation, reserved=True)
        definition = creation.definition
        if old is not None:
            self._collect_replaced(
                drop_within(self._connection, definition.identifier, deliver=deliver, purge=False, by=self._id)
            )
        table = table_rows.create_within(self._connection, definition, namespace_id, deliver=deliver)
        return table_rows.load_row_by_id(self._connection, table.table_id)

    def _apply(self, applier: Applier, source: TableRow | None) -> WriteOutcome:
        change = self._plan.change
        if isinstance(change, CheckedWrite):
            write = RowWrite(self._commit, change, applier, self._removals)
            write.run()
            self._ends_everything = write.ends_everything
            return self._outcome(applier, write.rows, write.bytes, write.waiting)
        if not isinstance(change, CHECKED):
            raise rows.wrong_state(self._row, "be committed")
        command = PartitionCommand(self._commit, applier, source, self._removals)
        command.run(change)
        self._source = command.source
        return self._outcome(applier)

    def _outcome(self, applier: Applier, n_rows: int | None = 0, n_bytes: int = 0, waiting: int = 0) -> WriteOutcome:
        return WriteOutcome(
            transaction_id=self._id,
            table_id=applier.table.table_id,
            table=self._transaction.table,
            operation=self._transaction.operation,
            version=applier.version,
            **{name: getattr(applier, name) for name in COUNTS},
            rows=n_rows,
            bytes=n_bytes,
            waiting=waiting,
        )

    def _collect_replaced(self, old: Table) -> None:
        """Record a replaced table's files for deletion; for an external table only if the location stays the same.

        Files outside of the table's location stay, as in a DROP TABLE. Files of other engines also stay if they were
        registered after the check of the statement, which did not see them.
        """
        if rules.keeps_files(old, self._plan):
            return
        later = self._registered_later(old)
        p, f = partitions.c, files.c
        statement = (
            sa.select(p.name, p.location, f.partition_id, f.file_id, f.path, f.size)
            .select_from(partitions.join(files, f.partition_id == p.partition_id))
            .where(p.table_id == old.table_id, p.end_version == ALIVE, f.end_version == ALIVE)
        )
        for row in self._connection.execute(statement):
            directory = old.directory(row.name, row.location)
            if rules.goes_with_table(old, directory) and (row.partition_id, row.file_id) not in later:
                # No earlier step has listed the old partitions. The modification time is left out, so a file that was
                # only touched since is deleted too: otherwise a repair would register it in the new table.
                self._removals.add(Removal(f"{directory}/{row.path}", row.size))

    def _registered_later(self, old: Table) -> set[tuple[int, int]]:
        """Return the (partition, file) numbers of the replaced table's files that a repair registered after the check.

        Files of our own statements are left out: their commits came before the replacement, which sees their changes.
        """
        version = None if self._plan.write is None else self._plan.write.replaced_version
        if version is None:
            return set()
        fixed = FixedSet(self._connection, old, version, {})
        return {
            (number, file.file_id or 0)
            for number, late in fixed.late(fixed.changed()).items()
            for file in late.carried
            if transaction_id_in(file.path) is None
        }

    def _record(self, applier: Applier, outcome: WriteOutcome, *, deliver: bool) -> WriteOutcome:
        # Record the original writer, also when another process recovers the transaction.
        summary: Summary = {"transaction": self._id, "user": user_of(self._transaction.owner)}
        if isinstance(self._plan.asked, Rollback):
            summary = {**summary, "restored_from": self._plan.asked.version}
        operation = self._transaction.operation
        # A partition command's version names no transaction in the history, so that vacuum leaves alone the files that
        # the command removes from the index.
        writer = None if self._plan.is_command else self._id
        messages = 0
        if self._source is not None:
            # Record the source's version first, so that the metastore drops the partitions there before it adds them to
            # the target.
            delivers = self._delivers(self._source.table.definition)
            messages = record(self._source, operation, summary, deliver=delivers)
        messages += record(applier, operation, summary, deliver=deliver, transaction_id=writer)
        return replace(outcome, pending_deliveries=messages)

    def _end(self, outcome: WriteOutcome, table: Table | None, state: State) -> None:
        # Keep the file list of a command that moves files: a slow process of the command may still take a file away,
        # and recovery needs the list to put it back.
        if not self._plan.moves:
            FORGET_STAGED.run(self._connection, {"id": self._id})
        self._removals.flush()
        if table is not None:
            self._removals.spare(table)
        if state is State.FINISHED and self._plan.asks_locations:
            rows.forget_locations(self._connection, self._id)
        self._end_claims(outcome)
        self._note_application(outcome)
        _END.run(self._connection, {
            "id": self._id,
            "to": str(state),
            "of_table": outcome.table_id,
            "as_version": outcome.version,
            "with_outcome": to_json(outcome_to_dict(outcome)),
            "at_ms": self._now,
        })  # fmt: skip

    def _end_claims(self, outcome: WriteOutcome) -> None:
        if self._plan.definition is not None:
            mine = transaction_claims.c.transaction_id == self._id
            self._connection.execute(sa.delete(transaction_claims).where(mine))
            return
        ended = {outcome.table_id: outcome.version}
        if self._source is not None:
            ended[self._source.table.table_id] = self._source.version
        for table_id, version in ended.items():
            _END_CLAIMS.run(self._connection, {"id": self._id, "of_table": table_id, "as_version": version})
        if outcome.version % _CLAIMS_CHECKED_EVERY == 0:
            forget_claims(self._connection, outcome.table_id)

    def _note_application(self, outcome: WriteOutcome) -> None:
        app_id, app_version = self._row["app_id"], self._row["app_version"]
        if app_id is None or app_version is None:
            return
        key = {"table_id": outcome.table_id, "app_hash": name_hash(app_id)}
        values = {"app_version": app_version, "version": outcome.version, "transaction_id": self._id}
        a = applications.c
        updated = self._connection.execute(
            sa.update(applications).where(a.table_id == key["table_id"], a.app_hash == key["app_hash"]).values(**values)
        )
        if not updated.rowcount:
            self._connection.execute(sa.insert(applications), {**key, "app_id": app_id, **values})
