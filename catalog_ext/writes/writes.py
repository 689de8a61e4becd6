"""The catalog's side of writes: what is asked for is checked here, the transactions themselves are the engine's."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from catalog_ext.conf import write_keys
from catalog_ext.metastore.commit.plan import BeginWrite, WriteKind
from catalog_ext.metastore.errors import InvalidInputError, OperationNotSupportedError, TableNotFoundError
from catalog_ext.metastore.model.tables import TableType
from catalog_ext.metastore.predicates.json import predicate_from_json
from catalog_ext.metastore.predicates.tree import bind
from catalog_ext.metastore.transactions.write_protocol import Transactions
from catalog_ext.scan.observe import storable
from catalog_ext.tables.partition_strategy import check_reachable
from catalog_ext.tables.registration import warn_of_overlap

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from catalog_ext.catalog import Catalog
    from catalog_ext.metastore.commit.plan import BegunWrite, WriteOutcome
    from catalog_ext.metastore.model.tables import Table, TableDefinition

_LONGEST_OPERATION = 64
_OF_TRANSACTION = (write_keys.TRANSACTION_LEASE, write_keys.STAGING_DIR, write_keys.OVERWRITE_MODE)
"""Settings that a transaction takes over when it begins."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What a writer says of its write besides what it does.

    Attributes:
        operation: The word for the history: ``INSERT``, ``CTAS``, ``STREAMING`` …
        owner: Names the process, for people.
        app_id: The application whose batches are committed at most once, with ``app_version``; both or none.
        options: The write's own options.
        session: What its session gives to the catalog, by key.
    """

    operation: str
    owner: str
    app_id: str | None = None
    app_version: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    session: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.operation) > _LONGEST_OPERATION or not all(
            storable(t) for t in (self.operation, self.app_id or "")
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


class Writing:
    """Writes to the tables of a catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    @cached_property
    def engine(self) -> Transactions:
        """The engine; made on the first use, like the stores that it works on."""
        conf = self._catalog.settings.conf
        return Transactions(
            self._catalog.index,
            self._catalog.storage,
            threads=write_keys.COMMIT_THREADS.read(conf),
            unknown_timeout_s=write_keys.COMMIT_UNKNOWN_TIMEOUT.read(conf),
            deliver=self._catalog.following.takes,
            follow=self._catalog.following.follow,
        )

    def begin(
        self, kind: WriteKind, table_id: int, version: int, batch: Batch, *, predicate: object = None,
        keep_emptied: bool = False,
    ) -> tuple[BegunWrite, Table]:  # fmt: skip
        """Begin a write to a table that is there.

        Args:
            kind: What it does; none that creates a table.
            table_id: The table's number.
            version: The version that the statement read.
            batch: What else is known of it.
            predicate: The contract's JSON predicate of an overwrite, None for all.
            keep_emptied: Whether partitions that an overwrite leaves without files stay registered.

        Raises:
            TableNotFoundError: The table is gone.
            InvalidPredicateError, InvalidValueError: The predicate is none over the table's partition columns.
            InvalidConfigurationError: An option is none that its key may have.
        """
        table = self.table_at(table_id, version)
        _check_predicate(table, predicate)
        check_reachable(self._catalog.storage, table.definition, table.definition.location, write=True)
        settings = self._settings(batch.options, batch.session, table.definition.properties)
        request = BeginWrite(
            kind, batch.operation, batch.owner, table=table, predicate=predicate, keep_emptied=keep_emptied,
            app_id=batch.app_id, app_version=batch.app_version, options=settings,
        )  # fmt: skip
        return self.engine.begin(request), table

    def begin_creation(
        self, kind: WriteKind, definition: TableDefinition, location: str | None, batch: Batch
    ) -> tuple[BegunWrite, TableDefinition]:
        """Begin a write that creates or replaces a table.

        Args:
            kind: ``CREATE``, ``REPLACE`` or ``CREATE_OR_REPLACE``.
            definition: The table; its own ``location`` is not looked at.
            location: Where it lies; None for the namespace's or the warehouse's default.
            batch: What else is known of it.

        Raises:
            TableAlreadyExistsError: It is to be created, and the name is taken here or in the metastore.
            TableNotFoundError: It is to be replaced, and is not there.
            NamespaceNotFoundError, InvalidInputError: As in ``Catalog.create_table``.
        """
        catalog, identifier = self._catalog, definition.identifier
        there = catalog.find_table(identifier)
        if kind is WriteKind.REPLACE and there is None:
            raise TableNotFoundError(f"Table {identifier} does not exist.", {"table": str(identifier)})
        if kind is WriteKind.CREATE or there is None:
            catalog.check_free(identifier)
        whole = catalog.complete_definition(definition, location)
        check_reachable(catalog.storage, whole, whole.location, write=True)
        if there is None:
            catalog.following.check_free(whole)
        others = [o for o in catalog.index.overlapping_tables(whole.location) if o != identifier]
        warn_of_overlap(whole, others)
        request = BeginWrite(
            kind, batch.operation, batch.owner, table=there, definition=whole, app_id=batch.app_id,
            app_version=batch.app_version, options=self._settings(batch.options, batch.session, whole.properties),
        )  # fmt: skip
        return self.engine.begin(request), whole

    def release(
        self, table_id: int, app_id: str, owner: str, options: Mapping[str, str], session: Mapping[str, str]
    ) -> WriteOutcome | None:
        """Commit what the epochs of a stream have kept back, because its query has ended; None if nothing waits.

        Args:
            table_id: The table's number.
            app_id: The query's id, under which its epochs were committed.
            owner: Names the process, for people.
            options: As the epochs had them.
            session: As the epochs had it.

        Raises:
            TableNotFoundError: The table is gone.
            ConflictError: Somebody else is committing an epoch of the query.
        """
        table = self._catalog.index.load_table_by_id(table_id)
        settings = self._settings(options, session, table.definition.properties)
        return self.engine.release(table, app_id, owner, settings)

    def delete(self, table_id: int, version: int, predicate: object, *, truncate: bool) -> WriteOutcome:
        """Delete the partitions that a predicate is true for, or with ``truncate`` their files.

        Raises:
            TableNotFoundError: The table is gone.
            OperationNotSupportedError: An external table without ``external.table.purge`` is to be truncated.
            InvalidPredicateError, InvalidValueError: The predicate is none over the table's partition columns.
            ConflictError: Somebody else changed one of them meanwhile.
        """
        table = self.table_at(table_id, version)
        if truncate:
            _check_truncation(
                table.definition, "TRUNCATE TABLE" if predicate is None else "TRUNCATE TABLE ... PARTITION"
            )
        _check_predicate(table, predicate)
        return self.engine.delete(table, predicate, truncate)

    def metadata(self, table_id: int, name: str, condition: object = None) -> pa.RecordBatchReader:
        """A metadata table: ``partitions``, ``files``, ``history``, ``transactions`` or ``repairs``.

        Args:
            table_id: The table's number.
            name: Which one.
            condition: A JSON predicate over the partition columns, for ``partitions`` and ``files``; None for all.

        Raises:
            InvalidInputError: There is no metadata table of that name, or it takes no condition.
            InvalidPredicateError, InvalidValueError: The condition is none over the table's partition columns.
        """
        index = self._catalog.index
        by_partition = {"partitions": index.partition_rows, "files": index.file_rows}
        whole = {"history": index.history_rows, "transactions": index.transaction_rows, "repairs": index.repair_rows}
        if name not in by_partition and name not in whole:
            known = ", ".join((*by_partition, *whole))
            raise InvalidInputError(f"There is no metadata table {name[:60]!r}. There are: {known}.")
        table = index.load_table_by_id(table_id)
        if name in whole:
            if condition is not None:
                raise InvalidInputError(f"The metadata table '{name}' has no partition columns and takes no predicate.")
            return whole[name](table)
        predicate = None
        if condition is not None:
            predicate = bind(predicate_from_json(condition), table.definition.keys, str(table.identifier))
        return by_partition[name](table, predicate)

    def table_at(self, table_id: int, version: int) -> Table:
        """The table as it is now, at the version that a statement has read."""
        # Loaded anew: what is written goes by the table's properties of today.
        table = self._catalog.index.load_table_by_id(table_id)
        if table.definition.table_type is TableType.VIEW:
            raise TableNotFoundError(
                f"{table.identifier} is a view, which nobody writes.", {"table": str(table.identifier)}
            )
        return replace(table, version=version)

    def _settings(
        self, options: Mapping[str, str], session: Mapping[str, str], properties: Mapping[str, str]
    ) -> dict[str, str]:
        # Spark's options have names without regard to case.
        options = {key.lower(): text for key, text in options.items()}
        found: dict[str, str] = dict(options)
        for setting in _OF_TRANSACTION:
            text = setting.text(options, session, properties, self._catalog.settings.conf)
            if text is not None:
                setting.value_of(text)
                found[setting.key] = text
        return found


def _check_truncation(definition: TableDefinition, command: str) -> None:
    """Return unless the files are somebody else's, as Hive and Spark see those of an external table."""
    purge = write_keys.EXTERNAL_TABLE_PURGE
    if definition.table_type is TableType.EXTERNAL and not purge.read(definition.properties):
        raise OperationNotSupportedError(
            f"{command} is not for external tables, and {definition.identifier} is one. DELETE FROM deletes its "
            f"partitions; the table property '{purge.key}'='true' lets TRUNCATE empty them.",
            {"table": str(definition.identifier)},
        )


def _check_predicate(table: Table, predicate: Any) -> None:  # noqa: ANN401 -- a JSON value
    if predicate is not None:
        bind(predicate_from_json(predicate), table.definition.keys, str(table.identifier))
