"""Checks the requests of writers, and begins their transactions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from catalog_ext.conf import write_keys
from catalog_ext.conf.properties import check_not_bucketed, check_one_directory
from catalog_ext.metastore.commit.plan import asked_write
from catalog_ext.metastore.commit.transaction import BeginWrite, PlannedFormat, new_transaction_id
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import (
    InvalidInputError,
    OperationNotSupportedError,
    TableNotFoundError,
)
from catalog_ext.metastore.index.database.texts import is_storable
from catalog_ext.metastore.index.write.transactions import replaced_meanwhile
from catalog_ext.metastore.model.tables import TableType
from catalog_ext.metastore.predicates.conditions import NO_CLAUSES, PartitionClauses, bound_to
from catalog_ext.metastore.predicates.tree import constant_of
from catalog_ext.tables.locations import warn_of_other_index, warn_of_overlap
from catalog_ext.tables.lookups import require_matches
from catalog_ext.tables.partition_strategy import check_reachable
from catalog_ext.writes.writer_options import (
    check_lines_of_rows,
    check_options_of_write,
    options_of_new_table,
    table_of_stream,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog_ext.context import Context
    from catalog_ext.metastore.commit.plan import AskedWrite
    from catalog_ext.metastore.commit.transaction import BegunWrite, WriteOutcome
    from catalog_ext.metastore.model.identifiers import TableIdentifier
    from catalog_ext.metastore.model.tables import Table, TableDefinition
    from catalog_ext.metastore.predicates.tree import Predicate
    from catalog_ext.metastore.transactions.write_protocol import Transactions
    from catalog_ext.tables.creation import TableCreation

_LONGEST_OPERATION = 64


@dataclass(frozen=True, slots=True)
class Batch:
    """The attributes of a write besides its kind.

    Attributes:
        operation: The word for the history: ``INSERT``, ``CTAS``, ``STREAMING`` …
        owner: The process, for messages.
        app_id: The application whose batches are committed at most once, with ``app_version``; both or neither.
        options: The write's own options.
        session: The catalog's settings in its session, by key.
        transaction_id: Chosen by the writer, so that a repeated begin is one transaction; None for a new id.
        planned: The table's format and options when the write was planned; None for the present ones, and for a write
            that creates its table.
    """

    operation: str
    owner: str
    app_id: str | None = None
    app_version: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    session: Mapping[str, str] = field(default_factory=dict)
    transaction_id: str | None = None
    planned: PlannedFormat | None = None

    def __post_init__(self) -> None:
        if len(self.operation) > _LONGEST_OPERATION or not all(
            is_storable(t) for t in (self.operation, self.app_id or "")
        ):
            raise InvalidInputError(
                f"The operation and the option {write_keys.TXN_APP_ID.key!r} of a write are text that a database can "
                f"keep, without NUL, and the former has at most {_LONGEST_OPERATION} characters."
            )
        if (self.app_id is None) is not (self.app_version is None):
            raise InvalidInputError(
                f"The options {write_keys.TXN_APP_ID.key!r} and {write_keys.TXN_VERSION.key!r} are given together, or "
                "neither is."
            )

    def request(self, asked: AskedWrite, table: Table | None, options: Mapping[str, str]) -> BeginWrite:
        """Return the request that begins the write, with its resolved options."""
        return BeginWrite(
            asked, self.operation, self.owner, table=table, app_id=self.app_id, app_version=self.app_version,
            options=options, transaction_id=self.transaction_id or new_transaction_id(),
        )  # fmt: skip


class Writes:
    """Begins writes to the tables of a catalog.

    Args:
        creation: Checks the definitions of tables that a write creates.
    """

    def __init__(self, context: Context, creation: TableCreation) -> None:
        self._context = context
        self._creation = creation

    @property
    def transactions(self) -> Transactions:
        """The commit protocol, for the steps of a write after its begin."""
        return self._context.transactions

    def begin(
        self, kind: WriteKind, table_id: int, version: int, batch: Batch, *, predicate: Predicate | None = None,
        clauses: PartitionClauses = NO_CLAUSES,
    ) -> tuple[BegunWrite, Table]:  # fmt: skip
        """Begin a write to an existing table.

        ``version`` is the version that the statement read; an append reads nothing, and uses the newest version. The
        unbound predicate selects the partitions to overwrite; None for all. ``clauses`` are the PARTITION clauses of
        the statement, from which the writer has made the rows' keys and the predicate.

        Raises:
            TableNotFoundError: The table was dropped.
            ConflictError: The table's format has changed since the write was planned.
            InvalidPredicateError, InvalidValueError: The predicate does not fit the table's partition columns.
            InvalidPartitionSpecError: A clause does not fit the partition columns.
            OperationNotSupportedError: The table is bucketed, or its location has wildcards.
            InvalidConfigurationError: An option has an invalid value, or files written with it would be misread with
                the table's options.
        """
        table = self.table_at(table_id, None if kind is WriteKind.APPEND else version)
        check_not_bucketed(table.definition)
        check_one_directory(table.definition, "A write")
        bound_to(table, predicate)
        adopting = table_of_stream(self._context, table, batch.operation, batch.options)
        if adopting is not None:
            # The table has just got the stream's options, so it differs from the table with which the write was
            # planned. Drop ``planned``, or the write would be refused as planned for another format.
            table, batch = adopting, replace(batch, planned=None)
        check_options_of_write(table.definition, batch.options)
        check_reachable(self._context.storage, table.definition, table.definition.location, write=True)
        settings = self._settings(batch.options, batch.session, table.definition.properties)
        adds_others = write_keys.REPLACE_WHERE_MISMATCH.read(settings) == "add"
        request = replace(
            batch.request(asked_write(kind, predicate=predicate, adds_others=adds_others), table, settings),
            touches=clauses.bound(table, None if adds_others else predicate),
            planned=batch.planned or PlannedFormat(table.definition.format, table.definition.options),
        )
        return self.transactions.begin(request), table

    def begin_creation(
        self, kind: WriteKind, definition: TableDefinition, location: str | None, batch: Batch, *,
        read: tuple[int, int] | None = None,
    ) -> tuple[BegunWrite, TableDefinition]:  # fmt: skip
        """Begin a write that creates or replaces a table.

        The table is created at ``location``, and the definition's own location is ignored; None for the namespace's or
        the warehouse's default. The batch's options of the format become the table's. If the rows come from the table
        that is replaced, ``read`` is its number and the lowest version that was read.

        Raises:
            ConflictError: The table in ``read`` does not exist any more.
            TableAlreadyExistsError: The write creates a table, and the index or the metastore has the name already.
            TableNotFoundError: The write replaces a table that does not exist.
            OperationNotSupportedError: The replaced table is bucketed or has wildcards in its location; or the new
                location has wildcards.
            NamespaceNotFoundError, InvalidInputError: As in ``Catalog.create_table``.
        """
        context, identifier = self._context, definition.identifier
        there = self._replaced(kind, identifier, read)
        definition = replace(definition, options=options_of_new_table(definition, batch.options))
        whole = self._creation.complete_definition(definition, location)
        check_lines_of_rows(whole, batch.options)
        check_one_directory(whole, "CREATE TABLE ... AS SELECT")
        check_reachable(context.storage, whole, whole.location, write=True)
        if there is None:
            context.sync.check_free(whole)
        others = [o for o in context.index.tables.overlapping(whole.location) if o != identifier]
        warn_of_overlap(whole, others)
        warn_of_other_index(context.marks, whole)
        settings = self._settings(batch.options, batch.session, whole.properties)
        request = batch.request(asked_write(kind, definition=whole), there, settings)
        return self.transactions.begin(replace(request, reads_replaced=read is not None)), whole

    def _replaced(self, kind: WriteKind, identifier: TableIdentifier, read: tuple[int, int] | None) -> Table | None:
        """Return the table that a creation replaces, at the version that its rows were read from; None for a new table.

        Raises:
            CatalogExtError: The creation is refused, for the reasons of ``begin_creation``.
        """
        there = self._context.find_table(identifier)
        if kind is WriteKind.REPLACE and there is None:
            raise TableNotFoundError(f"Table {identifier} does not exist.", {"table": str(identifier)})
        if read is not None:
            there = _as_read(there, read, identifier)
        if there is not None:
            check_not_bucketed(there.definition)
            check_one_directory(there.definition, "CREATE OR REPLACE TABLE")
        if kind is WriteKind.CREATE or there is None:
            self._creation.check_free(identifier)
        return there

    def release(
        self, table_id: int, app_id: str, owner: str, options: Mapping[str, str], session: Mapping[str, str]
    ) -> WriteOutcome | None:
        """Commit the waiting files of a stream, because its query has ended; return None if no files wait.

        ``app_id`` is the query's id, under which its epochs were committed; options and session are those of the
        epochs.

        Raises:
            TableNotFoundError: The table was dropped.
            ConflictError: Another process is committing an epoch of the query.
        """
        table = self._context.index.tables.load_by_id(table_id)
        return self.transactions.waiting.release(
            table, app_id, owner, self._settings(options, session, table.definition.properties)
        )

    def delete(
        self, table_id: int, version: int, predicate: Predicate | None, *, truncate: bool,
        clauses: PartitionClauses = NO_CLAUSES,
    ) -> WriteOutcome:  # fmt: skip
        """Delete the partitions that satisfy a predicate, or with ``truncate`` their files.

        ``version`` is the version that the statement read; the predicate is unbound, None for all. Each PARTITION
        clause must match a partition, except a TRUNCATE clause that omits a partition column.

        Raises:
            TableNotFoundError: The table was dropped.
            OperationNotSupportedError: The table's location has wildcards; or the statement truncates an external table
                without ``external.table.purge``, or deletes all of it.
            InvalidPredicateError, InvalidValueError: The predicate does not fit the table's partition columns.
            InvalidPartitionSpecError: A clause does not fit the partition columns.
            PartitionNotFoundError: A clause matches no partition.
            ConflictError: Another process changed one of the partitions meanwhile.
        """
        table = self.table_at(table_id, version)
        check_one_directory(table.definition, "TRUNCATE TABLE" if truncate else "DELETE FROM")
        chosen = clauses.narrow(table, predicate)
        require_matches(self._context.index, table, clauses, full_only=truncate)
        bound = bound_to(table, chosen)
        if truncate:
            _check_owns_files(table.definition, f"TRUNCATE TABLE{'' if chosen is None else ' ... PARTITION'}")
        elif constant_of(bound):
            _check_owns_files(table.definition, "DELETE FROM without a condition")
        options = self._settings({}, clauses.session.settings, table.definition.properties)
        return self.transactions.delete(table, chosen, truncate, options)

    def table_at(self, table_id: int, version: int | None) -> Table:
        """Return the current table at the version that a statement has read; None for the newest.

        Raises:
            TableNotFoundError: The table was dropped, or is a view.
            IndexRestoredError: The version is newer than the table, or belongs to an incarnation that was given up.
        """
        # Load the table again: a write uses the table's current properties.
        table = self._context.index.tables.load_by_id(table_id)
        if table.definition.table_type is TableType.VIEW:
            raise TableNotFoundError(
                f"{table.identifier} is a view, and cannot be written.", {"table": str(table.identifier)}
            )
        if version not in (None, table.version):
            self._context.index.incarnations.require_version(table_id, version)
        return table if version is None else replace(table, version=version)

    def _settings(
        self, options: Mapping[str, str], session: Mapping[str, str], properties: Mapping[str, str]
    ) -> dict[str, str]:
        return write_keys.transaction_options(options, session, properties, self._context.settings.conf)


def _check_owns_files(definition: TableDefinition, command: str) -> None:
    """Refuse to delete files of an external table, as Hive and Spark do.

    Raises:
        OperationNotSupportedError: The table is external.
    """
    purge = write_keys.EXTERNAL_TABLE_PURGE
    if definition.table_type is TableType.EXTERNAL and not purge.read(definition.properties):
        raise OperationNotSupportedError(
            f"{command} is not for external tables, and {definition.identifier} is one: others own its files. "
            "DELETE FROM ... WHERE deletes those of the partitions that it names; the table property "
            f"'{purge.key}'='true' lets DELETE and TRUNCATE have all of them.",
            {"table": str(definition.identifier)},
        )


def _as_read(there: Table | None, read: tuple[int, int], identifier: TableIdentifier) -> Table:
    """Return the table that a creation replaces, at the version from which the statement's rows were read."""
    table_id, version = read
    if there is None or there.table_id != table_id:
        raise replaced_meanwhile(str(identifier))
    return replace(there, version=version)
