"""``commit_transaction``: one database transaction that makes all partitions of a write visible at one instant.

The changes are computed from what is alive now in the claimed partitions, under the lock of the table's row.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from catalog_ext.metastore.commit.claims import bound_predicate, covers
from catalog_ext.metastore.commit.json import outcome_to_dict
from catalog_ext.metastore.commit.plan import (
    Append,
    CheckedAdd,
    CheckedDrop,
    CheckedExchange,
    CheckedRelocate,
    CheckedRename,
    CheckedWrite,
    Create,
    CreateOrReplace,
    Overwrite,
    Replace,
)
from catalog_ext.metastore.commit.rules import own_location
from catalog_ext.metastore.commit.transaction import State, WriteOutcome
from catalog_ext.metastore.index.database.bulk import chunks
from catalog_ext.metastore.index.database.clock import now_ms
from catalog_ext.metastore.index.database.schema import (
    ALIVE,
    applications,
    files,
    partitions,
    transaction_claims,
    transaction_files,
    transactions,
    waiting_files,
)
from catalog_ext.metastore.index.tables import tables
from catalog_ext.metastore.index.write import reservations
from catalog_ext.metastore.index.write import transactions as rows
from catalog_ext.metastore.index.write.apply_changes import COUNTS, Applier, Rewrite
from catalog_ext.metastore.index.write.claims import forget_claims
from catalog_ext.metastore.index.write.partition_commands import PartitionCommand
from catalog_ext.metastore.index.write.partition_rows import by_values, lock_tables, matching
from catalog_ext.metastore.model.changes import AddPartition
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.json import name_hash, table_from_row, to_json
from catalog_ext.metastore.model.partition_names import metastore_obstacle, partition_values
from catalog_ext.metastore.model.tables import DataFile, TableType
from catalog_ext.metastore.model.typed_values import claim_hash, typed_values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from catalog_ext.metastore.commit.plan import Creation
    from catalog_ext.metastore.commit.transaction import Transaction
    from catalog_ext.metastore.index.database.database import Database
    from catalog_ext.metastore.model.tables import Table, TableDefinition

    Row = Mapping[str, Any]

_CLAIMS_CHECKED_EVERY = 64
_AT_ONCE = 500
_REMOVALS_AT_ONCE = 20 * rows.FILES_PER_DOCUMENT


def commit(
    database: Database, transaction_id: str, *, deliver: bool, modified: Mapping[tuple[str, str], int],
    deliver_source: bool = False,
) -> Transaction:  # fmt: skip
    """The transaction, committed now or before.

    Args:
        database: Holds the index.
        transaction_id: A reserved transaction, whose files have their final names.
        deliver: Whether the metastore is to be told.
        modified: Modification times (milliseconds since the epoch, UTC) by partition and file name, as the store shows
            them; the time of the commit stands in for those that are not there.
        deliver_source: Whether the metastore is to be told of the table that an exchange takes partitions from.

    Raises:
        TransactionNotFoundError: There is no such transaction.
        TransactionStateError: It is not reserved: it was not yet, or was undone.
        TableNotFoundError: The table is gone.
        TableAlreadyExistsError: The name of the table to be created was taken meanwhile.
    """
    done = database.write(
        lambda connection: _Committing(connection, transaction_id, modified).run(
            deliver=deliver, deliver_source=deliver_source
        )
    )
    if done.plan.definition is not None:
        tables.remove_dropped_rows(database)
    return done


def _name(row: Row) -> str:
    name: str = row["name"]
    return name


class _Committing:
    def __init__(self, connection: sa.Connection, transaction_id: str, modified: Mapping[tuple[str, str], int]) -> None:
        self._connection = connection
        self._row = rows.load_row(connection, transaction_id)
        self._transaction = rows.from_row(self._row)
        self._plan = self._transaction.plan
        self._write = self._plan.write or CheckedWrite(Append())
        self._id = transaction_id
        self._modified = modified
        self._now = now_ms()
        self._rows_written = 0
        self._bytes_written = 0
        self._removals: list[str] = []
        self._waiting = 0
        self._source: Applier | None = None

    def run(self, *, deliver: bool, deliver_source: bool) -> Transaction:
        creation = self._plan.asked if isinstance(self._plan.asked, Create | Replace | CreateOrReplace) else None
        locked, source = ({}, None) if creation else lock_tables(self._connection, self._row, self._plan)
        namespace_id = (
            reservations.lock_namespace(self._connection, TableIdentifier.parse(self._row["table_name"]).namespace)
            if creation
            else 0
        )
        if self._is_committed():
            return rows.from_row(self._row)
        if creation:
            locked = self._create_table(creation, namespace_id, deliver=deliver)
        locked = {**locked, "version": locked["version"] + 1}
        table = table_from_row(locked)
        applier = Applier(self._connection, table, table.version, locked, now=self._now)
        outcome = self._apply(applier, source)
        if creation or self._changes_something(applier):
            applier.flush()
            outcome = self._record(applier, outcome, deliver=deliver, deliver_source=deliver_source)
        else:
            outcome = replace(outcome, version=table.version - 1)
        self._end(outcome)
        return rows.from_row(rows.load_row(self._connection, self._id))

    def _is_committed(self) -> bool:
        self._row = rows.load_row(self._connection, self._id, lock=True)
        if self._row["state"] in (State.COMMITTED, State.FINISHED):
            return True
        if self._row["state"] != State.RESERVED:
            raise rows.wrong_state(self._row, "be committed")
        return False

    def _create_table(self, creation: Creation, namespace_id: int, *, deliver: bool) -> Row:
        old = reservations.check_name(self._connection, self._row, creation)
        definition = creation.definition
        if old is not None:
            self._collect_replaced(
                tables.drop_within(self._connection, definition.identifier, deliver=deliver, purge=False), definition
            )
        table = tables.create_within(self._connection, definition, namespace_id, deliver=deliver)
        return tables.load_row_by_id(self._connection, table.table_id)

    def _apply(self, applier: Applier, source: Row | None) -> WriteOutcome:
        match self._plan.change:
            case CheckedWrite() as write:
                self._apply_write(applier, write)
            case CheckedAdd() | CheckedDrop() | CheckedRename() | CheckedRelocate() | CheckedExchange() as checked:
                command = PartitionCommand(
                    self._connection, self._transaction, applier, source, self._remove, self._with_metastore,
                    self._modified,
                )  # fmt: skip
                command.run(checked)
                self._source = command.source
            case _:
                raise rows.wrong_state(self._row, "be committed")
        return self._outcome(applier)

    def _apply_write(self, applier: Applier, write: CheckedWrite) -> None:
        added = self._added_files(applier.table)
        living = self._living(applier, added)
        adds, rewrites, drops = self._classified(applier.table, added, living)
        if not isinstance(write.asked, Append):
            self._collect_removals(applier.table, [*(r.row for r in rewrites if r.clear), *drops])
        with_metastore = list(self._with_metastore(applier.table, adds, drops))
        applier.drop(drops)
        applier.rewrite(rewrites)
        for add in with_metastore:
            applier.add(add)

    def _outcome(self, applier: Applier) -> WriteOutcome:
        return WriteOutcome(
            transaction_id=self._id,
            table_id=applier.table.table_id,
            table=self._transaction.table,
            operation=self._transaction.operation,
            version=applier.version,
            **{name: getattr(applier, name) for name in COUNTS},
            rows=self._rows_written,
            bytes=self._bytes_written,
            waiting=self._waiting,
        )

    @staticmethod
    def _changes_something(applier: Applier) -> bool:
        return any(getattr(applier, name) for name in COUNTS)

    def _added_files(self, table: Table) -> dict[str, list[DataFile]]:
        added: dict[str, list[DataFile]] = {}
        kept_back: dict[str, list[Any]] = {}
        held = set(self._write.waiting)
        for value in rows.staged_within(self._connection, self._id):
            self._rows_written += value["rows"] or 0
            self._bytes_written += value["size"]
            if value["partition"] in held:
                kept_back.setdefault(value["partition"], []).append(value)
            else:
                added.setdefault(value["partition"], []).append(self._data_file(value))
        self._waiting = len(kept_back)
        self._keep_back(table.table_id, kept_back)
        for name in self._write.due:
            for value in self._take_waiting(table.table_id, name):
                added.setdefault(name, []).append(self._data_file(value))
        return added

    def _data_file(self, value: Row) -> DataFile:
        modified = self._modified.get((value["partition"], value["name"]), self._now)
        return DataFile(value["name"], value["size"], modified, value["rows"], value["statistics"] or None)

    def _keep_back(self, table_id: int, kept_back: Mapping[str, Sequence[Any]]) -> None:
        documents = [
            {
                "table_id": table_id,
                "name_hash": name_hash(name),
                "transaction_id": self._id,
                "number": number,
                "name": name,
                "since_ms": self._now,
                "n_files": len(chunk),
                "payload": to_json(chunk),
            }
            for name, values in kept_back.items()
            for number, chunk in enumerate(chunks(values, rows.FILES_PER_DOCUMENT))
        ]
        if documents:
            self._connection.execute(sa.insert(waiting_files), documents)

    def _take_waiting(self, table_id: int, name: str) -> list[Any]:
        """Takes out the files of a partition that earlier batches of the same application left waiting."""
        w, t = waiting_files.c, transactions.c
        of_partition = (w.table_id == table_id, w.name_hash == name_hash(name))
        statement = (
            sa.select(w.transaction_id, w.payload)
            .join(transactions, t.transaction_id == w.transaction_id)
            .where(*of_partition, t.app_id == self._row["app_id"])
            .order_by(w.since_ms, w.transaction_id, w.number)
        )
        found = self._connection.execute(statement).all()
        taken = {row.transaction_id for row in found}
        self._connection.execute(sa.delete(waiting_files).where(*of_partition, w.transaction_id.in_(sorted(taken))))
        return [value for row in found for value in json.loads(row.payload)]

    def _living(self, applier: Applier, added: Row) -> list[Row]:
        """The rows of the partitions that the write touches, by name."""
        if self._plan.definition is not None:
            return []
        named = sorted({*added, *(() if self._write.static_partition is None else (self._write.static_partition,))})
        if isinstance(self._write.asked, Append):
            return sorted(applier.alive(named).values(), key=_name)
        table = applier.table
        alive = partitions.c.end_version == ALIVE
        found = {row["partition_id"]: row for row in by_values(self._connection, table, named, alive)}
        predicate = bound_predicate(self._plan, table)
        if predicate is not None:
            found.update((row["partition_id"], row) for row in matching(self._connection, table, predicate))
        return sorted(found.values(), key=_name)

    def _classified(
        self, table: Table, added: Mapping[str, list[DataFile]], living: Sequence[Row]
    ) -> tuple[list[AddPartition], list[Rewrite], list[Row]]:
        """What is to be added, rewritten (or appended to) and dropped."""
        is_replaced = self._replacement(table)
        stays_registered = self._stay_registered(table, added)
        alive = {row["name"] for row in living}
        rewrites: list[Rewrite] = []
        drops: list[Row] = []
        kept = False
        for row in living:
            name = row["name"]
            coming = added.get(name, [])
            overwrites = is_replaced(name)
            if coming and not (overwrites and self._plan.relocate):
                reservations.require_in_place(self._plan, table, row)
            keep = overwrites and stays_registered(name)
            kept = kept or keep
            if not overwrites:
                coming = [*coming, *self._found_for_living(row)]
                if coming:
                    rewrites.append(Rewrite(row, coming))
            elif coming or keep:
                if coming or row["n_files"] or self._plan.relocate:
                    location = self._location(table, name) if self._plan.relocate else None
                    rewrites.append(Rewrite(row, coming, clear=True, location=location))
            else:
                drops.append(row)
        new = [name for name in added if name not in alive]
        keep = self._write.static_partition
        if keep is not None and keep not in added and keep not in alive and not kept:
            new.append(keep)
        adds = [
            AddPartition(name, (*added.get(name, ()), *self._found(name)), self._location(table, name)) for name in new
        ]
        return adds, rewrites, drops

    def _replacement(self, table: Table) -> Callable[[str], bool]:
        """Says whether the write replaces what a partition of this name holds; otherwise it only adds to it."""
        if isinstance(self._write.asked, Append):
            return lambda _: False
        is_covered = covers(bound_predicate(self._plan, table), table)
        return is_covered or (lambda _: True)

    def _stay_registered(self, table: Table, added: Row) -> Any:  # noqa: ANN401 -- a function of a name
        """Says whether a partition that gets no files by its name stays registered, empty."""
        keys = table.definition.keys
        if not keys or (isinstance(self._write.asked, Overwrite) and self._write.asked.keep_emptied):
            return lambda _: True
        keep = self._write.static_partition
        if keep is None or keep in added:
            return lambda _: False
        digest = claim_hash(typed_values(keep, keys), keys)
        return lambda name: claim_hash(typed_values(name, keys), keys) == digest

    def _location(self, table: Table, name: str) -> str | None:
        """Where the write's files of a partition are, when that is not below the table's own location."""
        return own_location(table, name, self._plan.directory(name))

    def _found(self, name: str) -> list[DataFile]:
        if not isinstance(self._write.asked, Append):
            return []
        return list(self._write.found.get(name, ()))

    def _found_for_living(self, row: Row) -> list[DataFile]:
        """Visible files for a partition that was new at ``check`` and is there now, as by a repair that found them."""
        found = self._found(row["name"])
        if not found:
            return []
        f = files.c
        statement = sa.select(f.path).where(f.partition_id == row["partition_id"], f.end_version == ALIVE)
        present = set(self._connection.execute(statement).scalars())
        return [file for file in found if file.path not in present]

    def _with_metastore(
        self, table: Table, adds: Sequence[AddPartition], leaving: Sequence[Row]
    ) -> Iterator[AddPartition]:
        """The partitions, kept from the metastore where another one has the same values there in another spelling."""
        gone = {row["name"] for row in leaving}
        names = [add.name for add in adds if add.name]
        alive = partitions.c.end_version == ALIVE
        held = {
            partition_values(row["name"])
            for row in by_values(self._connection, table, names, alive)
            if row["in_metastore"] and row["name"] not in gone
        }
        for add in adds:
            values = partition_values(add.name)
            yield replace(add, in_metastore=values not in held and not metastore_obstacle(add.name))

    def _collect_removals(self, table: Table, ended: Sequence[Row]) -> None:
        """The files that end where they are, and those that the index never knew; moved partitions keep theirs."""
        if self._plan.relocate:
            return
        by_id = {row["partition_id"]: table.directory(row["name"], row["location"]) for row in ended}
        f = files.c
        for chunk in chunks(list(by_id), _AT_ONCE):
            statement = sa.select(f.partition_id, f.path).where(f.partition_id.in_(chunk), f.end_version == ALIVE)
            for partition_id, path in self._connection.execute(statement).all():
                self._remove(f"{by_id[partition_id]}/{path}")
        at = {row["name"]: by_id[row["partition_id"]] for row in ended}
        for name, paths in self._write.unknown.items():
            folder = at.get(name) or table.directory(name)
            for path in paths:
                self._remove(f"{folder}/{path}")

    def _collect_replaced(self, old: Table, new: TableDefinition) -> None:
        """The files of a table that is replaced; those of an external one only where the new one takes its place."""
        if old.definition.table_type is TableType.EXTERNAL and old.definition.location != new.location:
            return
        p, f = partitions.c, files.c
        statement = (
            sa.select(p.name, p.location, f.path)
            .select_from(partitions.join(files, f.partition_id == p.partition_id))
            .where(p.table_id == old.table_id, p.end_version == ALIVE, f.end_version == ALIVE)
        )
        for row in self._connection.execute(statement).mappings():
            self._remove(f"{old.directory(row['name'], row['location'])}/{row['path']}")

    def _remove(self, uri: str) -> None:
        self._removals.append(uri)
        if len(self._removals) == _REMOVALS_AT_ONCE:
            self._write_removals()

    def _write_removals(self) -> None:
        if self._removals:
            documents = ((len(chunk), to_json(chunk)) for chunk in chunks(self._removals, rows.FILES_PER_DOCUMENT))
            rows.add_documents(self._connection, self._id, documents, removal=True)
            self._removals = []

    def _record(self, applier: Applier, outcome: WriteOutcome, *, deliver: bool, deliver_source: bool) -> WriteOutcome:
        summary = {"transaction": self._id, "rows": outcome.rows, "bytes": outcome.bytes}
        operation = self._transaction.operation
        # The version of a partition command is nobody's write: vacuum leaves what it has taken out of the index alone.
        writer = None if self._plan.is_command else self._id
        # What leaves the source goes first.
        messages = 0 if self._source is None else self._source.record(operation, summary, deliver=deliver_source)
        messages += applier.record(operation, summary, deliver=deliver, transaction_id=writer)
        return replace(outcome, pending_deliveries=messages)

    def _end(self, outcome: WriteOutcome) -> None:
        t = transaction_files.c
        self._connection.execute(sa.delete(transaction_files).where(t.transaction_id == self._id, t.removal == 0))
        self._write_removals()
        self._end_claims(outcome)
        self._note_application(outcome)
        self._connection.execute(
            sa.update(transactions)
            .where(transactions.c.transaction_id == self._id)
            .values(
                state=str(State.COMMITTED),
                table_id=outcome.table_id,
                version=outcome.version,
                outcome=to_json(outcome_to_dict(outcome)),
                ended_at_ms=self._now,
            )
        )

    def _end_claims(self, outcome: WriteOutcome) -> None:
        mine = transaction_claims.c.transaction_id == self._id
        if self._plan.definition is not None:
            self._connection.execute(sa.delete(transaction_claims).where(mine))
            return
        if self._source is not None:
            of_source = sa.update(transaction_claims).where(
                mine, transaction_claims.c.table_id == self._source.table.table_id
            )
            self._connection.execute(of_source.values(version=self._source.version))
            mine = sa.and_(mine, transaction_claims.c.table_id == outcome.table_id)
        self._connection.execute(sa.update(transaction_claims).where(mine).values(version=outcome.version))
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
