"""Changes the properties, columns, location, name and key types of tables in the index. No file is touched."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from catalog_ext.metastore.commit.transaction import State
from catalog_ext.metastore.errors import (
    ConflictError,
    InvalidValueError,
    PartitionDescriptorError,
    TableAlreadyExistsError,
    UnsupportedTypeChangeError,
)
from catalog_ext.metastore.index.database.clock import insert_version
from catalog_ext.metastore.index.database.column_types import ExactText
from catalog_ext.metastore.index.database.part import IndexPart
from catalog_ext.metastore.index.database.rows import definition_to_row, has_long_key, key_row
from catalog_ext.metastore.index.database.schema import (
    KEY_COLUMNS,
    partitions,
    tables,
    transaction_claims,
    transactions,
    verifications,
    waiting_files,
)
from catalog_ext.metastore.index.database.sqlite_file import ALIVE
from catalog_ext.metastore.index.tables.definition_history import write_definition
from catalog_ext.metastore.index.tables.dropped import check_location_free
from catalog_ext.metastore.index.tables.table_rows import load, lock, rename_within
from catalog_ext.metastore.index.write.outbox import enqueue, readdress
from catalog_ext.metastore.index.write.partition_descriptors import living_descriptors
from catalog_ext.metastore.index.write.partition_rows import lock_table
from catalog_ext.metastore.index.write.partition_sums import sum_anew
from catalog_ext.metastore.index.write.transaction_rows import IN_FLIGHT
from catalog_ext.metastore.index.write.version_holds import end_expired
from catalog_ext.metastore.messages import AlterTable, RenameTable
from catalog_ext.metastore.model.conversions import conversion_problem, widening_problem
from catalog_ext.metastore.model.json import to_json
from catalog_ext.metastore.model.properties import statistics_column
from catalog_ext.metastore.model.typed_values import checked_values
from catalog_ext.metastore.runtime.users import current_user

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from catalog_ext.metastore.model.identifiers import TableIdentifier
    from catalog_ext.metastore.model.json import JsonObject
    from catalog_ext.metastore.model.tables import Table, TableDefinition
    from catalog_ext.metastore.model.values import Key, Value


_AT_ONCE = 2000
_SHOWN = 5


class Retyping:
    """Changes the types of a table's partition columns, within a database transaction."""

    def __init__(self, connection: sa.Connection, table: Table, types: Mapping[str, str]) -> None:
        self._connection = connection
        self._row = lock_table(connection, table.table_id, str(table.identifier))
        self._before = self._row.table
        self._definition = _retyped(self._before.definition, types)

    def run(self, *, deliver: bool) -> Table:
        """Change the types and return the table at its new version; see ``Alterations.change_key_types``."""
        if self._definition == self._before.definition:
            return self._before
        self._require_quiet()
        self._require_no_tags()
        long_keys = self._encode(self._definition.keys)
        table_id, version = self._before.table_id, self._before.version + 1
        self._connection.execute(
            sa.update(tables)
            .where(tables.c.table_id == table_id)
            .values(
                **definition_to_row(self._definition), version=version, oldest_version=version, claims_from=version,
                has_long_keys=int(long_keys),
            )
        )  # fmt: skip
        sum_anew(self._connection, table_id, version, len(self._definition.keys))
        # Claims contain hashes of typed values, so claims of the old types are useless. No transaction is reserved now
        # (``_require_quiet``), so none of them is needed.
        self._connection.execute(sa.delete(transaction_claims).where(transaction_claims.c.table_id == table_id))
        described = {column.name: column.type for column in self._definition.partition_columns}
        summary = to_json({"types": described, "user": current_user()})
        insert_version(
            self._connection, table_id, version, "SET PARTITION COLUMNS", summary, first_file_id=self._row.next_file
        )
        if deliver:
            enqueue(self._connection, AlterTable(self._definition, retype=True), table_id)
        return replace(self._before, definition=self._definition, version=version)

    def _require_quiet(self) -> None:
        t = transactions.c
        reserved = sa.select(t.transaction_id).where(
            t.table_id == self._before.table_id, t.state == str(State.RESERVED)
        )
        found = self._connection.execute(reserved.limit(1)).scalar()
        if found is not None:
            raise ConflictError(
                f"The partition columns of table {self._before.identifier} cannot change while the transaction {found} "
                "writes to it. Try again later; CALL <catalog>.system.recover finishes what dead writers left.",
                {"table": str(self._before.identifier), "transaction": found},
            )

    def _require_no_tags(self) -> None:
        """Check that no tag keeps an earlier version: the encoded keys of its partitions are not converted."""
        held = end_expired(self._connection, self._before.table_id)
        if held:
            version, name = held[0]
            raise UnsupportedTypeChangeError(
                f"The types of the partition columns of table {self._before.identifier} cannot change while the tag "
                f"{name!r} holds version {version}: versions before the change cannot be read after it. Remove the "
                f"table's tags first, with CALL <catalog>.system.untag.",
                {"table": str(self._before.identifier), "tag": name, "version": str(version)},
            )

    def _encode(self, keys: Sequence[Key]) -> bool:
        """Encode the keys of all current partitions again; return whether a key is too long for its column."""
        p = partitions.c
        columns = [f"k{i}" for i in range(1, KEY_COLUMNS + 1)]
        statement = (
            sa.update(partitions)
            .where(p.partition_id == sa.bindparam("p"), p.begin_version == sa.bindparam("b"))
            .values({name: sa.bindparam(f"new_{name}") for name in columns})
        )
        shown = str(self._before.identifier)
        unfit_partitions: list[str] = []
        count, long_keys = 0, False

        def values_of(name: str) -> tuple[Value, ...] | None:
            nonlocal count
            try:
                return checked_values(name, keys, shown)
            except InvalidValueError:
                count += 1
                unfit_partitions.extend([name] if len(unfit_partitions) < _SHOWN else [])
                return None

        # Also check the partitions of files that a stream holds back, which it will add when the partitions are due.
        for name in self._connection.execute(self._waiting()).scalars():
            values_of(name)
        for page in self._pages():
            rows: list[dict[str, Any]] = []
            for partition_id, begin, name in page:
                values = values_of(name)
                if values is None:
                    continue
                long_keys = long_keys or has_long_key(values, keys)
                encoded = {f"new_{c}": k for c, k in zip(columns, key_row(values, keys), strict=True)}
                rows.append({"p": partition_id, "b": begin, **encoded})
            if rows and not count:
                self._connection.execute(statement, rows)
        if count:
            new_columns = ", ".join(f"{key.name} {str(key.type).upper()}" for key in keys)
            raise InvalidValueError(
                f"The partition columns of table {shown} cannot become {new_columns}: {count} of its partitions have "
                f"values that do not fit, such as {', '.join(repr(name[:200]) for name in unfit_partitions)}. Nothing "
                "was changed; drop or rename these first (what a stream keeps waiting: let it end).",
                {"table": shown, "partitions": str(count)},
            )
        return long_keys

    def _waiting(self) -> sa.Select[Any]:
        w = waiting_files.c
        return sa.select(w.name).where(w.table_id == self._before.table_id).distinct()

    def _pages(self) -> Iterator[Sequence[Any]]:
        p = partitions.c
        after = -1
        statement = sa.select(p.partition_id, p.begin_version, p.name).where(
            p.table_id == self._before.table_id, p.end_version == ALIVE
        )
        while True:
            page = self._connection.execute(
                statement.where(p.partition_id > after).order_by(p.partition_id).limit(_AT_ONCE)
            ).all()
            if not page:
                return
            yield page
            after = page[-1].partition_id


def _retyped(definition: TableDefinition, types: Mapping[str, str]) -> TableDefinition:
    columns = tuple(replace(c, type=types.get(c.name, c.type)) for c in definition.partition_columns)
    return replace(definition, partition_columns=columns)


class Alterations(IndexPart):
    """Changes the definitions and names of tables."""

    def alter(
        self, identifier: TableIdentifier, change: Callable[[TableDefinition], TableDefinition], *,
        check: Callable[[Table], None] | None = None, removed: Sequence[str] = (),
        settings: Callable[[TableDefinition], Mapping[str, str]] | None = None, deliver: bool,
    ) -> Table:  # fmt: skip
        """Change a table's definition and return the table.

        A change of columns, partition columns, format, options or location makes a version without files, and earlier
        versions keep their definition (``DefinitionHistory``). Other changes make no version. Alterations of one table
        are serialized: ``change`` gets the definition that the previous alteration left. If the location changes, the
        partitions stay where they are.

        Args:
            identifier: The table.
            change: Returns the new definition of the same identifier; called again if the transaction is retried.
            check: Gets the table under its lock, and raises if the table must not be changed.
            removed: The properties that ``change`` removes, for the message to the metastore.
            settings: Returns the SerDe settings that change with the new definition, for the message to the metastore.
            deliver: Whether to enqueue a message for the metastore.

        Raises:
            TableNotFoundError: There is no table of this name.
            ConflictError: The format or location changes during an open write, or the new location is being deleted.
            PartitionDescriptorError: A partition with a descriptor of its own could not be read with the new columns.
        """

        def work(connection: sa.Connection) -> Table:
            table = _locked(connection, identifier)
            if check is not None:
                check(table)
            before, after = table.definition, _with_own_statistics(table, change(table.definition))
            _prepare(connection, table, after)
            kept = _kept_descriptors(connection, table, after) if before.columns != after.columns else ()
            altered = write_definition(connection, table, after)
            if deliver:
                after = altered.definition
                rebuild = (before.columns, before.location) != (after.columns, after.location)
                message = AlterTable(
                    after, tuple(removed), rebuild, previous_location=before.location if rebuild else None, kept=kept,
                    settings=settings(after) if settings else {},
                )  # fmt: skip
                enqueue(connection, message, table.table_id)
            return altered

        return self._database.write(work)

    def rename(self, identifier: TableIdentifier, to: TableIdentifier, *, deliver: bool) -> Table:
        """Rename the table in the index, perhaps into another namespace, and return it.

        With ``deliver`` a message renames the metastore's table. Without, the metastore has the new name already:
        pending messages about partitions are then changed to the new name.

        Raises:
            TableNotFoundError: There is no table of this name.
            NamespaceNotFoundError: The new name's namespace does not exist.
            TableAlreadyExistsError: A table or view has the new name already.
        """

        def work(connection: sa.Connection) -> Table:
            table = _locked(connection, identifier)
            taken = TableAlreadyExistsError(
                f"Table {identifier} cannot be renamed: the table {to} exists already. Choose another name.",
                {"table": str(to)},
            )
            renamed = rename_within(connection, table, to, taken)
            if deliver:
                enqueue(connection, RenameTable(renamed.definition, identifier), table.table_id)
            else:
                readdress(connection, table.table_id, to)
            return renamed

        return self._database.write(work)

    def change_key_types(self, table: Table, types: Mapping[str, str], *, deliver: bool) -> Table:
        """Change types of partition columns, and return the table at its new version.

        Older versions become unreadable, since their keys are not encoded again.

        ``types`` are canonical types by column name, in the table's spelling.

        Raises:
            TableNotFoundError: The table is gone.
            InvalidValueError: Values of current partitions do not fit; the message lists some. Nothing is changed.
            ConflictError: Another statement is writing to the table.
        """
        return self._database.write(lambda connection: Retyping(connection, table, types).run(deliver=deliver))


def _with_own_statistics(table: Table, after: TableDefinition) -> TableDefinition:
    """Return the new definition; each column whose name belonged to another column before gets a mark.

    Statistics are stored by column name, and those of existing files, perhaps millions, are not rewritten. The mark
    (``statistics_after``) is the table's version: only statistics of files that later versions added describe the new
    column.
    """
    known = {column.name.lower(): column for column in table.definition.columns}
    columns, foreign = [], set()
    for column in after.columns:
        there = known.get(column.name.lower())
        if there is not None and widening_problem(after.format, there.data_type, column.data_type) is None:
            columns.append(replace(column, statistics_after=there.statistics_after))
        else:
            foreign.add(column.name.lower())
            columns.append(replace(column, statistics_after=table.version))
    properties = {
        name: value for name, value in after.properties.items() if statistics_column(name).lower() not in foreign
    }
    return replace(after, columns=tuple(columns), properties=properties)


def _kept_descriptors(connection: sa.Connection, table: Table, after: TableDefinition) -> tuple[JsonObject, ...]:
    """Return the descriptors of current partitions, which stay unchanged while the table's columns change.

    A descriptor is the format and schema of a partition that differs from its table.

    Raises:
        PartitionDescriptorError: A partition with one of these descriptors could not be read with the new columns.
    """
    found = living_descriptors(connection, table)
    new = {column.name.lower(): column for column in after.columns}
    for descriptor in found:
        for position, (before, own) in enumerate(zip(table.definition.columns, descriptor.columns, strict=False)):
            there = new.get(before.name.lower())
            same = position < len(after.columns) and after.columns[position].name.lower() == before.name.lower()
            problem = (
                f"its column {before.name!r} would have another place or name"
                if there is None or not same
                else conversion_problem(own.data_type, there.data_type)
            )
            if problem:
                raise PartitionDescriptorError(
                    f"The columns of table {table.identifier} cannot change so: it has partitions that are not read as "
                    f"the table ({descriptor.format}), and of these {problem}. Nothing was changed. INSERT OVERWRITE "
                    "these partitions before, which gives them the table's format.",
                    {"table": str(table.identifier)},
                )
        if len(descriptor.columns) > len(table.definition.columns) and len(after.columns) > len(
            table.definition.columns
        ):
            raise PartitionDescriptorError(
                f"Columns cannot be added to table {table.identifier}: it has partitions that are not read as the "
                f"table ({descriptor.format}), and have more columns already. Nothing was changed. INSERT OVERWRITE "
                "these partitions before, which gives them the table's format.",
                {"table": str(table.identifier)},
            )
    return tuple(descriptor.to_dict() for descriptor in found)


def _locked(connection: sa.Connection, identifier: TableIdentifier) -> Table:
    """Lock the table's row until the end of the transaction, and return the table."""
    lock(connection, load(connection, identifier).table_id)
    return load(connection, identifier)


def _check_not_written(connection: sa.Connection, table: Table, definition_part: str) -> None:
    in_flight = sa.select(transactions.c.transaction_id).where(
        transactions.c.table_id == table.table_id, transactions.c.state.in_([str(s) for s in IN_FLIGHT])
    )
    if connection.execute(in_flight.limit(1)).scalar() is not None:
        raise ConflictError(
            f"The {definition_part} of table {table.identifier} cannot change while a write to it is open. Try again "
            "later. CALL <catalog>.system.status shows the writer; CALL <catalog>.system.recover finishes what a dead "
            "writer left.",
            {"table": str(table.identifier)},
        )


def _pin_partitions(connection: sa.Connection, table: Table) -> None:
    """Store the present default directory of each partition as its own location, before the table's location changes.

    The partitions stay where they are, as in the metastore, whose partitions always have their own location.
    """
    if not table.definition.partition_columns:
        return
    place = sa.literal(f"{table.definition.location.rstrip('/')}/", ExactText()).concat(partitions.c.name)
    at_default = sa.and_(partitions.c.table_id == table.table_id, partitions.c.location.is_(None))
    connection.execute(sa.update(partitions).where(at_default).values(location=place))


def _prepare(connection: sa.Connection, table: Table, after: TableDefinition) -> None:
    """Check that the table may get another location or format, and prepare its rows for that.

    Raises:
        ConflictError: A write to the table is open, or files of a dropped table are being deleted at the new location.
    """
    before = table.definition
    reading = (before.format, before.options) != (after.format, after.options)
    if reading or after.location != before.location:
        _check_not_written(connection, table, "format" if reading else "location")
        # Forget past comparisons with the store: with another location or format, a repair may find files that were
        # missing, or that could not be read.
        connection.execute(sa.delete(verifications).where(verifications.c.table_id == table.table_id))
    if after.location != before.location:
        check_location_free(connection, table.identifier, after.location)
        _pin_partitions(connection, table)
