"""``reserve``: detects conflicts under the lock of the table's row, before any file gets its final, visible name."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from catalog_ext.metastore.commit.claims import Claims, bound_predicate, covers, replaced_by, replaces, touched
from catalog_ext.metastore.commit.json import plan_to_dict
from catalog_ext.metastore.commit.partition_plans import ExchangePartitions, Rollback
from catalog_ext.metastore.commit.plan import CHECKED, CREATIONS
from catalog_ext.metastore.commit.transaction import NOT_READ, State
from catalog_ext.metastore.errors import ConflictError, InvalidInputError
from catalog_ext.metastore.index.database.prepared import Prepared, insert_rows, is_few, together
from catalog_ext.metastore.index.database.schema import partitions, transaction_claims, transactions
from catalog_ext.metastore.index.database.sqlite_file import ALIVE
from catalog_ext.metastore.index.database.texts import name_hash, storable
from catalog_ext.metastore.index.tables.dropped import check_location_free
from catalog_ext.metastore.index.tables.namespaces import namespace_number
from catalog_ext.metastore.index.write import transaction_rows as rows
from catalog_ext.metastore.index.write.claim_checks import PREDICATE_CLAIM, WITHOUT_WRITE, ClaimChecks, PlaceClaims
from catalog_ext.metastore.index.write.deletion_checks import require_loadable, require_replaceable, require_unneeded
from catalog_ext.metastore.index.write.partition_rows import by_values, lock_table, lock_tables, lock_with_transaction
from catalog_ext.metastore.index.write.reservation_checks import check_name, require_in_place, require_own_format
from catalog_ext.metastore.index.write.rollback_rows import require_kept
from catalog_ext.metastore.index.write.transaction_files import (
    ANY_STAGED,
    add_files,
    check_remembered,
    staged_names,
    staged_within,
)
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.json import to_json
from catalog_ext.metastore.model.typed_values import checked_values, claim_hash
from catalog_ext.metastore.predicates.tree import TRUE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from catalog_ext.metastore.commit.commit import Commit
    from catalog_ext.metastore.commit.plan import Creation
    from catalog_ext.metastore.commit.transaction import Transaction
    from catalog_ext.metastore.index.database.rows import TableRow
    from catalog_ext.metastore.index.write.transaction_rows import ApplicationVersion
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.model.values import Key, Value


_NO_TABLE = 0
"""The ``table_id`` of a claim on the name of a table that is being created."""

_RESERVE = Prepared(
    sa.update(transactions)
    .where(transactions.c.transaction_id == sa.bindparam("id"))
    .values(state=str(State.RESERVED), plan=sa.bindparam("checked"), reserved=1)
)


class Reservation:
    """The reservation of one transaction, under the lock of its table's row."""

    def __init__(self, connection: sa.Connection, commit: Commit) -> None:
        self._connection = connection
        assert isinstance(commit.plan.change, CHECKED), "what is reserved was checked"
        self._expected_records = commit.expected_records
        self._new_files = commit.all_files or ()
        self._id = commit.transaction_id
        self._transaction = commit.transaction
        self._plan = commit.plan
        self._row: Mapping[str, Any] = {}
        self._none_staged = False
        self._checks = ClaimChecks(connection, commit.transaction)
        self._none_recorded = False
        self._has_others = False

    def run(self) -> Transaction | ApplicationVersion:
        """Reserve the transaction and return it; if its streaming batch is committed already, return that batch."""
        if isinstance(self._plan.asked, CREATIONS):
            return self._reserve_name(self._plan.asked)
        locked = self._lock()
        if self._is_reserved():
            return rows.with_locations(self._connection, rows.from_row(self._row))
        return self._application() or self._reserve_partitions(locked)

    def _lock(self) -> TableRow:
        """Lock the table's row and return it; also read the transaction's row and the rows that the checks need."""
        if isinstance(self._plan.asked, ExchangePartitions):
            locked = lock_tables(self._connection, self._transaction)[0]
            self._row = rows.load_row(self._connection, self._id, lock=True)
            return locked
        more: list[tuple[Prepared, Mapping[str, Any]]] = [
            (WITHOUT_WRITE, {"table_id": self._transaction.table_id, "base": self._transaction.base_version})
        ]
        if self._new_files:
            more.append((ANY_STAGED, {"id": self._id}))
        locked, self._row, (versions, *first) = lock_with_transaction(self._connection, self._transaction, *more)
        self._checks.without_write = [row["version"] for row in versions]
        # Usually all files come with the commit, and none were recorded before: then the list need not be read.
        self._none_staged = first == [[]]
        return locked

    def _is_reserved(self) -> bool:
        """Return whether the transaction is already reserved or committed, as in a call repeated after a lost answer.

        Raises:
            TransactionStateError: The transaction is being undone, or was.
        """
        if self._row["state"] in (State.ABORTING, State.ABORTED):
            raise rows.wrong_state(self._row, "be reserved")
        return bool(self._row["state"] != State.OPEN)

    def _application(self) -> ApplicationVersion | None:
        app_id, app_version = self._row["app_id"], self._row["app_version"]
        if app_id is None:
            return None
        table_id = self._row["table_id"]
        known = rows.application(self._connection, table_id, app_id)
        # Without an ``app_version``, the transaction belongs to the application but is not a batch: it is made when a
        # stream ends, to add the files that are still held back.
        if known is not None and app_version is not None and known.app_version >= app_version:
            return known
        for other in self._batches_in_flight(table_id, app_id):
            does = "committing" if other.state is State.RESERVED else "undoing"
            raise ConflictError(
                f"The transaction {other.transaction_id} is {does} a batch of the application {app_id[:200]!r} to "
                f"table {self._row['table_name']}. Nothing was written; retry when it has ended.",
                {"table": self._row["table_name"], "transaction": other.transaction_id, "app_id": app_id[:200]},
            )
        return None

    def _batches_in_flight(self, table_id: int, app_id: str) -> Iterator[Transaction]:
        """Yield the application's batches that are being committed, or undone after they showed held back files."""
        t = transactions.c
        statement = sa.select(transactions).where(
            t.table_id == table_id,
            t.state.in_([str(State.RESERVED), str(State.ABORTING)]),
            t.app_id == app_id,
            t.transaction_id != self._id,
        )
        for row in self._connection.execute(statement).mappings():
            found = rows.from_row(dict(row))
            write = found.plan.write
            if found.state is State.RESERVED or (write is not None and write.due):
                yield found

    def _reserve_name(self, asked: Creation) -> Transaction:
        identifier = TableIdentifier.parse(self._transaction.table)
        namespace_number(self._connection, identifier.namespace, locks=True)
        self._row = rows.load_row(self._connection, self._id, lock=True)
        if self._is_reserved():
            return rows.with_locations(self._connection, rows.from_row(self._row))
        current = check_name(self._connection, self._row, asked)
        check_location_free(self._connection, identifier, asked.definition.location)
        self._names(asked.definition.keys)
        c = transaction_claims.c
        digest = name_hash(str(identifier))
        claimed = sa.select(c.transaction_id).where(c.table_id == _NO_TABLE, c.claim_hash == digest)
        other = self._connection.execute(claimed.limit(1)).scalar()
        if other is not None:
            raise ConflictError(
                f"The transaction {other} is creating the table {identifier}. Nothing was written; retry when it has "
                "ended.",
                {"table": str(identifier), "transaction": other},
            )
        if current is not None:
            replaced = lock_table(self._connection, current, str(identifier)).table
            require_replaceable(self._connection, self._plan, replaced)
            if self._row["base_version"] != NOT_READ:
                self._reserve_replaced(replaced)
        return self._finish([(digest, str(identifier))], _NO_TABLE)

    def _reserve_replaced(self, table: Table) -> None:
        """Claim the whole table that a REPLACE TABLE … AS SELECT reads and replaces."""
        mine = Claims(exclusive=True, names={}, covers=covers(TRUE, table))
        self._checks.require_free(table, table.version, mine, TRUE)
        self._claim([(PREDICATE_CLAIM, "")], table.table_id)

    def _names(self, keys: Sequence[Key]) -> dict[str, tuple[Value, ...]]:
        """Return the partitions that the transaction touches, sorted by name, with their values.

        Raises:
            InvalidPartitionNameError: A name does not consist of the table's partition columns, or no database can
                store it.
            InvalidValueError: A value does not fit its column's type.
            InvalidInputError: A file is staged twice.
            StagedFileMissingError: The index has another number of recorded files than the writer has staged.
        """
        shown = self._row["table_name"]
        staged: set[tuple[str, str]] = set()
        if not self._none_staged:
            self._collect(staged, staged_names(self._connection, self._id))
        if self._expected_records is not None:
            check_remembered(len(staged), self._expected_records, shown)
        self._has_others = bool(staged)
        if self._new_files:
            self._none_recorded = not staged
            self._collect(staged, ((file.partition, file.name) for file in self._new_files))
        touched_names = touched(self._plan, (partition for partition, _ in staged))
        return {name: checked_values(name, keys, shown) for name in sorted(touched_names)}

    def _collect(self, staged: set[tuple[str, str]], files: Iterable[tuple[str, str]]) -> None:
        """Add files, given by partition and name, to the set of staged files.

        Raises:
            InvalidInputError: A file is staged twice.
        """
        shown = self._row["table_name"]
        for partition, name in files:
            file = (partition, storable(name, "file"))
            if file in staged:
                raise InvalidInputError(
                    f"The write of table {shown} has staged the file {name[:200]!r} of partition {partition[:200]!r} "
                    "twice. Nothing was written; run the statement again.",
                    {"table": shown, "partition": partition[:200], "file": name[:200]},
                )
            staged.add(file)

    def _reserve_partitions(self, locked: TableRow) -> Transaction:
        table = locked.table
        if isinstance(self._plan.asked, Rollback):
            require_kept(self._connection, locked, self._plan.asked.version)
        base = self._row["base_version"]
        predicate = bound_predicate(self._plan, table)
        keys = table.definition.keys
        names = self._names(keys)
        digests = {claim_hash(values, keys): name for name, values in names.items()}
        mine = Claims(replaces(self._plan), digests, covers(predicate, table))
        # Claims suffice to check a write that only adds. A write that replaces also needs the history of the
        # partitions, which reaches back only to the oldest version.
        claims_from = locked.claims_from
        known_from = locked.oldest_version if mine.exclusive else claims_from
        if base < known_from and (names or predicate is not None):
            raise self._checks.expired(table, base, known_from)
        ended = self._checks.require_free(table, base, mine, predicate)
        if mine.exclusive:
            forgotten = range(base + 1, claims_from + 1)
            self._checks.require_unchanged(table, base, mine, predicate, {*ended, *forgotten})
        elif names and not self._plan.is_command and self._checks.repaired(table, base):
            for living in by_values(self._connection, table, list(names), partitions.c.end_version == ALIVE):
                if living.name in names:
                    require_in_place(self._plan, table, living)
        if table.has_descriptors and not self._plan.is_command:
            self._require_own_format(table, names)
        if isinstance(self._plan.asked, ExchangePartitions):
            self._reserve_source(self._plan.asked)
        else:
            require_unneeded(self._connection, self._id, self._plan, table, names)
        if self._plan.moves_user_files:
            require_loadable(self._connection, table, self._sources())
        # The command claims the directories that it chooses. A writer of a partition in such a directory then conflicts
        # with the claim.
        places = PlaceClaims(self._checks, self._plan, table).claims()
        self._claim(places, table.table_id, exclusive=1)
        claims = list(digests.items()) + ([] if predicate is None else [(PREDICATE_CLAIM, "")])
        return self._finish(claims, table.table_id)

    def _sources(self) -> Iterator[str]:
        """Yield the URIs of the files that LOAD DATA moves into the table."""
        recorded = () if self._none_staged else staged_within(self._connection, self._id)
        yield from (file.source for file in chain(recorded, self._new_files) if file.source is not None)

    def _require_own_format(self, table: Table, names: Mapping[str, object]) -> None:
        """Check that all existing partitions to which rows are added have the table's format and schema.

        Raises:
            PartitionDescriptorError: A partition has another format or schema than the table.
        """
        is_replaced = replaced_by(self._plan, table)
        for living in by_values(self._connection, table, list(names), partitions.c.end_version == ALIVE):
            if not is_replaced(living.name):
                require_own_format(table, living)

    def _reserve_source(self, asked: ExchangePartitions) -> None:
        """Check and claim, in an exchange's source table, the partitions that match the command's predicate."""
        row = lock_table(self._connection, asked.source_id, asked.source)
        source = row.table
        predicate = bound_predicate(self._plan, source)
        mine = Claims(exclusive=True, names={}, covers=covers(predicate, source))
        base = asked.source_version
        if base < row.oldest_version:
            raise self._checks.expired(source, base, row.oldest_version)
        ended = self._checks.require_free(source, base, mine, predicate)
        self._checks.require_unchanged(source, base, mine, predicate, {*ended, *range(base + 1, row.claims_from + 1)})
        require_unneeded(self._connection, self._id, self._plan, source, ())
        self._claim([(PREDICATE_CLAIM, "")], source.table_id)

    def _finish(self, claims: Sequence[tuple[str, str]], table_id: int) -> Transaction:
        kept = self._plan
        if kept.asks_locations:
            rows.keep_locations(self._connection, self._id, kept.locations)
            kept = replace(kept, locations={})
        few = self._none_recorded and is_few(claims)
        with together(self._connection) if few else nullcontext():
            if self._new_files:
                add_files(self._connection, self._id, self._new_files, none_before=self._none_recorded)
            self._claim(claims, table_id)
            _RESERVE.run(self._connection, {"id": self._id, "checked": to_json(plan_to_dict(kept))})
        plan = replace(self._plan) if self._has_others else self._plan
        return replace(rows.from_row(self._row), state=State.RESERVED, plan=plan, reserved=True)

    def _claim(self, claims: Sequence[tuple[str, str]], table_id: int, exclusive: int | None = None) -> None:
        if exclusive is None:
            exclusive = int(replaces(self._plan))
        columns = ("transaction_id", "claim_hash", "table_id", "name", "exclusive")
        named = [(self._id, digest, table_id, name, exclusive) for digest, name in claims]
        insert_rows(self._connection, transaction_claims, columns, named)
