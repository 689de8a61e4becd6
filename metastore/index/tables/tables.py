"""Tables in the index, apart from their contents."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from catalog_ext.metastore.errors import TableAlreadyExistsError, TableNotFoundError
from catalog_ext.metastore.index.database.clock import database_now_ms, now_ms
from catalog_ext.metastore.index.database.failures import is_duplicate
from catalog_ext.metastore.index.database.migration import require_same, revision_column
from catalog_ext.metastore.index.database.prepared import Prepared
from catalog_ext.metastore.index.database.rows import definition_to_row, table_from_row
from catalog_ext.metastore.index.database.schema import (
    PARTITION_NUMBER_BITS,
    applications,
    dropped_tables,
    file_statistics,
    files,
    followed_tables,
    forgotten_transactions,
    namespaces,
    partition_descriptors,
    partition_sums,
    partitions,
    repairs,
    settlements,
    skipped_paths,
    table_versions,
    tables,
    transaction_claims,
    verifications,
    view_partition_dependencies,
    view_sources,
    views,
    waiting_files,
)
from catalog_ext.metastore.index.database.version_rows import insert_version
from catalog_ext.metastore.index.tables.dropped import (
    check_droppable,
    check_location_free,
    check_nothing_waits,
    overlap,
    overlaps,
)
from catalog_ext.metastore.index.tables.namespaces import lock_namespace, namespace_not_found
from catalog_ext.metastore.index.write.outbox import enqueue, forget_table
from catalog_ext.metastore.index.write.settling import require_settled
from catalog_ext.metastore.messages import CreateTable, DropTable
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.json import to_json
from catalog_ext.metastore.model.tables import TableType
from catalog_ext.metastore.runtime.local_paths import directory_identity
from catalog_ext.metastore.runtime.users import current_user

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog_ext.metastore.index.database.database import Database
    from catalog_ext.metastore.model.changes import Summary
    from catalog_ext.metastore.model.tables import Table, TableDefinition

_ROWS_AT_ONCE = 5000


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A commit in a table's history.

    Attributes:
        operation: What made it (``create``, ``repair``, ...).
        committed_at_ms: Milliseconds since the epoch, UTC.
        summary: Counts and circumstances, as the committer gave them.
    """

    version: int
    operation: str
    committed_at_ms: int
    summary: Summary


_SELECT = sa.select(tables, namespaces.c.name.label("namespace")).join(namespaces)
_BY_NAME = Prepared(
    _SELECT.where(namespaces.c.name == sa.bindparam("in_namespace"), tables.c.name == sa.bindparam("named"))
)


class Tables:
    """The tables of an index."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def all(self, namespace: str) -> list[str]:
        """Return the names of the namespace's tables, sorted.

        Raises:
            NamespaceNotFoundError: There is no such namespace.
        """
        return self.names(namespace, of_views=False)

    def names(self, namespace: str, *, of_views: bool) -> list[str]:
        """Return the names of the namespace's tables, or of its views, sorted, by one query.

        Raises:
            NamespaceNotFoundError: There is no such namespace.
        """
        statement = (
            sa.select(tables.c.table_type, tables.c.name)
            .select_from(namespaces.outerjoin(tables, tables.c.namespace_id == namespaces.c.namespace_id))
            .where(namespaces.c.name == namespace)
        )
        with self._database.reading() as connection:
            rows = connection.execute(statement).all()
        if not rows:
            raise namespace_not_found(namespace)
        return sorted(name for kind, name in rows if name is not None and (kind == TableType.VIEW) is of_views)

    def load(self, identifier: TableIdentifier) -> Table:
        """Return the table of this name at its newest version, by one query.

        Raises:
            TableNotFoundError: There is none.
        """
        with self._database.reading() as connection:
            return self._noted(load(connection, identifier))

    def load_by_id(self, table_id: int) -> Table:
        """Return the table of this number at its newest version.

        Raises:
            TableNotFoundError: There is none, or no longer.
        """
        with self._database.reading() as connection:
            return self._noted(table_from_row(load_row_by_id(connection, table_id)))

    def _noted(self, table: Table) -> Table:
        self._database.note_version(table.table_id, table.version)
        return table

    def create(self, definition: TableDefinition, *, deliver: bool) -> Table:
        """Return the table, now in the index, at version 0 and without partitions.

        Raises:
            NamespaceNotFoundError: Its namespace does not exist.
            TableAlreadyExistsError: Its name is taken.
        """
        identifier = definition.identifier

        def work(connection: sa.Connection) -> Table:
            namespace_id = lock_namespace(connection, identifier.namespace)
            return create_within(connection, definition, namespace_id, deliver=deliver)

        return self._database.write(work)

    def drop(
        self,
        identifier: TableIdentifier,
        *,
        deliver: bool,
        purge: bool = False,
        deletes: bool = False,
        keeps_files: bool = False,
    ) -> Table:
        """Return the table as it was; its name is free again, and its rows are removed.

        The name goes first and at once; the rows follow in batches, so that nobody waits long for a lock. With
        ``deletes`` the directory stays the table's until ``DroppedTables.note_deleted``.

        Raises:
            TableNotFoundError: There is none of this name.
            ConflictError, TableLayoutError: See ``dropped.check_droppable`` and ``dropped.check_nothing_waits``.
        """

        def work(connection: sa.Connection) -> Table:
            return drop_within(
                connection, identifier, deliver=deliver, purge=purge, deletes=deletes, keeps_files=keeps_files
            )

        table = self._database.write(work)
        self.remove_dropped_rows()
        return table

    def remove_dropped_rows(self) -> None:
        """Remove the rows of every table that has been dropped, also of one whose dropping was interrupted."""
        with self._database.reading() as connection:
            dropped = _DROPPED.scalars(connection)
        for table_id in dropped:
            while self._database.write(lambda connection, t=table_id: _remove_some(connection, t)):  # type: ignore[misc]
                pass

    def overlapping(self, location: str) -> list[TableIdentifier]:
        """Return the tables whose location is this one, in it or around it, sorted; links to this one are followed."""
        asked = overlap(location)
        with self._database.reading() as connection:
            rows = _overlapping(tuple(asked)).rows(connection, asked)
        return sorted(TableIdentifier(row["namespace"], row["name"]) for row in rows)

    def locations(self) -> list[tuple[int, str]]:
        """Return the number and the location of each table; views have none."""
        statement = sa.select(tables.c.table_id, tables.c.location).where(tables.c.location.is_not(None))
        with self._database.reading() as connection:
            return [(row.table_id, row.location) for row in connection.execute(statement)]

    def known_locations(self) -> list[str]:
        """Return the locations of namespaces and tables."""
        places = (sa.select(of.c.location).where(of.c.location.is_not(None)) for of in (namespaces, tables))
        with self._database.reading() as connection:
            return list(connection.execute(sa.union(*places)).scalars())

    def history(self, identifier: TableIdentifier) -> list[TableVersion]:
        """Return the table's commits, newest first; version 0 is its creation.

        Raises:
            TableNotFoundError: There is none of this name.
        """
        with self._database.reading() as connection:
            table_id = load(connection, identifier).table_id
            v = table_versions.c
            rows = connection.execute(
                sa.select(v.version, v.operation, v.committed_at_ms, v.summary)
                .where(v.table_id == table_id)
                .order_by(v.version.desc())
            ).all()
        return [TableVersion(version, operation, at, json.loads(summary)) for version, operation, at, summary in rows]


def load(connection: sa.Connection, identifier: TableIdentifier) -> Table:
    """Return the same as ``Tables.load``, within a transaction."""
    table = table_from_row(load_row(connection, identifier))
    if table.definition.table_type is TableType.VIEW:
        raise TableNotFoundError(f"{identifier} is a view and no table.", {"table": str(identifier)})
    return table


def load_row(connection: sa.Connection, identifier: TableIdentifier) -> Mapping[str, Any]:
    """Return the row of the table or view of this name, with the namespace's name as ``namespace``.

    Raises:
        TableNotFoundError: There is neither.
    """
    row = find_row(connection, identifier)
    if row is None:
        raise _not_found(str(identifier))
    return row


def find_row(connection: sa.Connection, identifier: TableIdentifier) -> Mapping[str, Any] | None:
    """Return the same as ``load_row``, or None where there is neither a table nor a view of this name."""
    named = {"in_namespace": identifier.namespace, "named": identifier.name}
    return _BY_NAME.row(connection, named)


def load_row_by_id(connection: sa.Connection, table_id: int) -> Mapping[str, Any]:
    """Return the row of the table, with the namespace's name as ``namespace`` and the database's time as ``now_ms``.

    Its ``revision`` is the one that the index is at, which was looked at.

    Raises:
        TableNotFoundError: There is none.
        IndexNotAtHeadError: The index has been migrated meanwhile.
    """
    row = _BY_ID.row(connection, {"table_id": table_id})
    if row is None:
        raise _not_found(f"with the id {table_id}")
    require_same(row["revision"])
    return row


def _by_id(dialect: str) -> sa.Select[Any]:
    now = database_now_ms(dialect).scalar_subquery().label("now_ms")
    return _SELECT.add_columns(now, revision_column().label("revision")).where(
        tables.c.table_id == sa.bindparam("table_id")
    )


_BY_ID = Prepared(_by_id)


def _not_found(which: str) -> TableNotFoundError:
    return TableNotFoundError(f"The table {which} does not exist in the index.", {"table": which})


def create_within(connection: sa.Connection, definition: TableDefinition, namespace_id: int, *, deliver: bool) -> Table:
    """Create a table within a transaction, in a namespace that is there.

    Raises:
        TableAlreadyExistsError: The name is taken.
        ConflictError: The files of a table that was dropped are still being deleted there.
    """
    check_location_free(connection, definition.identifier, definition.location)
    table_id = _insert(connection, definition, namespace_id)
    summary = to_json({"user": current_user()})
    insert_version(connection, {"table_id": table_id, "version": 0, "operation": "create", "summary": summary})
    if deliver:
        enqueue(connection, CreateTable(definition), table_id)
    return table_from_row(load_row_by_id(connection, table_id))


def _insert(connection: sa.Connection, definition: TableDefinition, namespace_id: int) -> int:
    zeros = dict.fromkeys(
        ("version", "total_partitions", "total_files", "total_bytes", "counted_rows", "uncounted_partitions",
         "next_partition_number", "next_file_id", "has_long_keys", "oldest_version", "claims_from",
         "floor_version", "has_descriptors"), 0,
    )  # fmt: skip
    # Of a table that is new, all statistics are its own, whatever the columns are taken from.
    columns = tuple(replace(column, statistics_after=None) for column in definition.columns)
    own = replace(definition, columns=columns)
    row = {**definition_to_row(own), **zeros, "namespace_id": namespace_id}
    try:
        key = connection.execute(_insert_statement(connection.dialect.name), row).inserted_primary_key
    except sa.exc.IntegrityError as error:
        if not is_duplicate(error):
            raise namespace_not_found(definition.identifier.namespace) from error
        raise TableAlreadyExistsError(
            f"The table (or view) {definition.identifier} exists already. Choose another name, or unregister it first.",
            {"table": str(definition.identifier)},
        ) from error
    return int(key[0]) if key is not None else 0


@cache
def _insert_statement(dialect: str) -> sa.Insert:
    return sa.insert(tables).values(created_at_ms=database_now_ms(dialect).scalar_subquery())


def drop_within(
    connection: sa.Connection, identifier: TableIdentifier, *, deliver: bool, purge: bool, deletes: bool = False,
    keeps_files: bool = False, by: str | None = None,
) -> Table:  # fmt: skip
    """Drop a table within a transaction; ``remove_dropped_rows`` has to be called after it.

    Raises:
        TableNotFoundError: There is none of this name.
        ConflictError, TableLayoutError: See ``dropped.check_droppable`` and ``dropped.check_nothing_waits``.
    """
    if deletes:
        # Whoever makes a table in the directory comes before this, or finds that it is being deleted.
        lock_namespace(connection, identifier.namespace)
    table = load(connection, identifier)
    # Whoever reserves moves of its files comes before this, or finds the table gone.
    connection.execute(sa.select(tables.c.table_id).where(tables.c.table_id == table.table_id).with_for_update())
    # Somebody may have renamed or moved it before the lock.
    table = load(connection, identifier)
    require_settled(table.table_id, table.floor)
    check_droppable(connection, table, deletes=deletes, by=by)
    if keeps_files:
        # After the lock: an epoch that keeps rows back has committed them before it, or finds the table gone.
        check_nothing_waits(connection, table)
    forget_within(connection, table, deletes=deletes)
    if deliver:
        enqueue(connection, DropTable(table.definition, purge), table.table_id)
    return table


def forget_within(connection: sa.Connection, table: Table, *, deletes: bool = False) -> None:
    """Free a table's or view's name within a transaction; ``remove_dropped_rows`` has to be called after it.

    Raises:
        TableNotFoundError: It is gone.
    """
    if not connection.execute(sa.delete(tables).where(tables.c.table_id == table.table_id)).rowcount:
        raise _not_found(str(table.identifier))
    _hand_over_forgotten(connection, table)
    row = {
        "table_id": table.table_id,
        "dropped_at_ms": now_ms(connection),
        "name": str(table.identifier) if deletes else None,
        "location": table.definition.location if deletes else None,
        "directory": directory_identity(table.definition.location) if deletes else None,
    }
    connection.execute(sa.insert(dropped_tables), row)
    forget_table(connection, table.table_id)


def _hand_over_forgotten(connection: sa.Connection, table: Table) -> None:
    """Give the ids of forgotten writes to another table over the directory, whose vacuum finds what they have left."""
    if not table.definition.location:
        return
    asked = overlap(table.definition.location)
    around = sa.select(tables.c.table_id).where(overlaps(tables.c.location, asked))
    heir = connection.execute(around.order_by(tables.c.table_id).limit(1), asked).scalar()
    if heir is not None:
        f = forgotten_transactions.c
        mine = sa.update(forgotten_transactions).where(f.table_id == table.table_id)
        connection.execute(mine.values(table_id=heir))


def _remove_some(connection: sa.Connection, table_id: int) -> bool:
    low = table_id << PARTITION_NUMBER_BITS
    high = low + (1 << PARTITION_NUMBER_BITS)
    for find_end, remove in _REMOVE_BY_PARTITION:
        end = find_end.scalar(connection, {"low": low, "high": high, "rows": _ROWS_AT_ONCE})
        if remove.changed(connection, {"low": low, "high": high if end is None else end + 1}):
            return True
    for remove in _REMOVE_BY_TABLE:
        remove.run(connection, {"table_id": table_id})
    return False


def _by_partition(rows: sa.Table) -> tuple[Prepared, Prepared]:
    """Return the query for the last of so many rows between two numbers of partitions, and what removes them."""
    ids = rows.c.partition_id
    between = (ids >= sa.bindparam("low"), ids < sa.bindparam("high"))
    some = sa.select(ids).where(*between).order_by(ids).limit(1).offset(sa.bindparam("rows"))
    return Prepared(some), Prepared(sa.delete(rows).where(*between))


def _by_table(rows: sa.Table, *also: sa.ColumnElement[bool]) -> Prepared:
    return Prepared(sa.delete(rows).where(rows.c.table_id == sa.bindparam("table_id"), *also))


_DROPPED = Prepared(sa.select(dropped_tables.c.table_id))
_REMOVE_BY_PARTITION = tuple(
    _by_partition(rows) for rows in (files, file_statistics, view_partition_dependencies, partitions)
)
_REMOVE_BY_TABLE = (
    *(_by_table(rows) for rows in (
        table_versions, partition_sums, applications, transaction_claims, waiting_files, forgotten_transactions,
        repairs, skipped_paths, verifications, views, view_sources, settlements, followed_tables, partition_descriptors,
    )),
    _by_table(dropped_tables, dropped_tables.c.location.is_(None)),
)  # fmt: skip


@cache
def _overlapping(asked: tuple[str, ...]) -> Prepared:
    return Prepared(
        sa.select(namespaces.c.name.label("namespace"), tables.c.name)
        .join(tables, tables.c.namespace_id == namespaces.c.namespace_id)
        .where(overlaps(tables.c.location, dict.fromkeys(asked)))
    )


def raise_version(connection: sa.Connection, table_id: int) -> Mapping[str, Any]:
    """Return the locked row of a table, at its next version.

    Raises:
        TableNotFoundError: The table is gone.
    """
    raised = sa.update(tables).where(tables.c.table_id == table_id).values(version=tables.c.version + 1)
    if not connection.execute(raised).rowcount:
        raise TableNotFoundError(f"The table with the id {table_id} does not exist in the index any more.")
    return load_row_by_id(connection, table_id)
