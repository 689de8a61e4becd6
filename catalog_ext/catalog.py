"""The catalog: everything that the command line, the service and Python programs do, without Spark."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Any, Self

from catalog_ext.conf import keys, write_keys
from catalog_ext.conf.resolved import UNSET, MetastoreArgument, Settings
from catalog_ext.conf.setting import seconds_of
from catalog_ext.metastore.errors import (
    InvalidInputError,
    LocationNotFoundError,
    NamespaceNotEmptyError,
    StorageError,
    TableAlreadyExistsError,
    TableNotFoundError,
)
from catalog_ext.metastore.index import Index
from catalog_ext.metastore.index.write.transactions import UNFINISHED
from catalog_ext.metastore.model.identifiers import TableIdentifier, validate_identifier
from catalog_ext.metastore.model.tables import (
    PARTITION_MODE_PROPERTY,
    Namespace,
    PartitionMode,
    Table,
    TableDefinition,
    TableType,
)
from catalog_ext.metastore.predicates.parser import parse_predicate, spec_predicate
from catalog_ext.metastore.predicates.tree import Predicate, bind
from catalog_ext.metastore.storage.locations import Location, canonical_location
from catalog_ext.metastore_sync.connection import MetastoreLink
from catalog_ext.metastore_sync.sync import Following
from catalog_ext.partitions.commands import PartitionCommands
from catalog_ext.partitions.maintenance import PartitionMaintenance
from catalog_ext.repair.repair import Repair, RepairMode, RepairOptions
from catalog_ext.repair.report import RepairReport
from catalog_ext.scan.observe import Progress, RepairProgress
from catalog_ext.scan.scratch import Spool
from catalog_ext.tables.alter import TableDdl
from catalog_ext.tables.hive_import import adopt_table
from catalog_ext.tables.partition_strategy import check_reachable, check_registered, placed
from catalog_ext.tables.registration import (
    Registration,
    check_columns,
    check_format,
    check_keys,
    check_not_transactional,
    check_partition_commit,
    check_storable,
    checked_map,
    checked_properties,
    warn_of_overlap,
)
from catalog_ext.views.views import Views
from catalog_ext.writes.column_statistics import StatisticsKeeper
from catalog_ext.writes.status import StatusEntry, status_entries
from catalog_ext.writes.writes import Writing

if TYPE_CHECKING:
    from types import TracebackType

    import pyarrow as pa

    from catalog_ext.metastore.commit.transaction import Transaction
    from catalog_ext.metastore.hive.outbox.delivery import DeliveryReport
    from catalog_ext.metastore.index.tables.tables import TableVersion
    from catalog_ext.metastore.storage.store import Storage
    from catalog_ext.metastore.transactions.reports import RecoveryReport, VacuumReport

logger = logging.getLogger(__name__)

Where = str | Mapping[str, str | None] | None
"""A condition in SQL, or a (maybe partial) partition spec; None for everything."""


def connect(
    *, index: str | None = None, metastore: MetastoreArgument = UNSET, warehouse: str | None = None,
    storage: Mapping[str, Any] | None = None, name: str = "lake",
) -> Catalog:  # fmt: skip
    """The catalog over this index, metastore and warehouse; every argument has a default.

    Args:
        index: SQLAlchemy URL of the index database, or a path of a SQLite file; by default a SQLite file in
            ``.catalog-ext`` beside the warehouse, made and migrated as needed.
        metastore: ``thrift://host:9083`` (several with commas between them), ``embedded``, or None to work on the index
            alone; by default the one that hive-site.xml names, otherwise the embedded one.
        warehouse: Where managed tables go; by default ``spark-warehouse`` in the working directory.
        storage: Settings for S3, by Hadoop's keys (``fs.s3a.endpoint``) or short names (``endpoint``).
        name: The catalog's name in SQL, which may stand in front of table names.

    Raises:
        InvalidConfigurationError: An argument is not of its form.
        IndexUnavailableError: The index database does not answer.
        IndexNotAtHeadError: Its schema is of another release.
    """
    from catalog_ext.metastore.hive.thrift.hive_site import configured_uris

    configured = configured_uris() if metastore is UNSET else None
    settings = Settings.resolve(
        name=name,
        index=index,
        metastore=metastore,
        warehouse=warehouse,
        storage=storage,
        configured_metastore=configured,
    )
    return Catalog(settings, settings.open_storage)


def _no_progress(_: RepairProgress) -> None:
    return


class Catalog:
    """Registered tables, their index, and the metastore that follows it. Safe to use from several threads.

    Table names are ``namespace.table``, with or without the catalog's name in front.
    """

    def __init__(self, settings: Settings, storage: Callable[[], Storage]) -> None:
        self.settings = settings
        self._make_storage = storage
        self.index = Index.open(settings.index)
        try:
            self.metastore = MetastoreLink(settings)
        except BaseException:
            self.index.close()
            raise
        self.views = Views(self)
        self.following = Following(self.index, self.metastore, settings, self.views.refresh_stale)

    @cached_property
    def storage(self) -> Storage:
        """The stores; made on the first use, because a Spark session's settings are not known before it runs."""
        return self._make_storage()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give up connections, and the embedded metastore unless another process uses it.

        What an embedded metastore could not take while it was starting is delivered before that.
        """
        try:
            self.following.close()
        finally:
            self._close_connections()

    def _close_connections(self) -> None:
        try:
            self.metastore.close()
        finally:
            self.index.close()

    # Namespaces

    def list_namespaces(self) -> list[str]:
        """The names of all namespaces, sorted."""
        return self.index.list_namespaces()

    def load_namespace(self, name: str) -> Namespace:
        """The namespace.

        Raises:
            NamespaceNotFoundError: There is none of that name.
        """
        return self.index.load_namespace(validate_identifier(name, "namespace"))

    def create_namespace(
        self,
        name: str,
        *,
        location: str | None = None,
        comment: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> Namespace:
        """Make a namespace, here and in the metastore.

        Raises:
            NamespaceAlreadyExistsError: One of that name is there.
            InvalidInputError: The name or the location is not valid.
        """
        namespace = Namespace(
            validate_identifier(name, "namespace"),
            canonical_location(location) if location else None,
            comment,
            checked_map(properties or {}, "properties"),
        )
        created = self.index.create_namespace(namespace, deliver=self.metastore.enabled)
        self.following.follow()
        return created

    def alter_namespace(self, name: str, set_: Mapping[str, str], remove: Sequence[str] = ()) -> Namespace:
        """Set and remove properties of a namespace; ``comment`` and ``location`` (of tables to come) are among them.

        Raises:
            NamespaceNotFoundError: There is none of that name.
            InvalidInputError: The location is not valid.
        """
        checked = checked_map(set_, "properties")
        if "location" in checked:
            checked["location"] = canonical_location(checked["location"])
        altered = self.index.alter_namespace(
            validate_identifier(name, "namespace"), checked, remove, deliver=self.metastore.enabled
        )
        self.following.follow()
        return altered

    def drop_namespace(self, name: str, *, cascade: bool = False) -> None:
        """Drop a namespace; with ``cascade`` its tables first, the managed ones with their files.

        Raises:
            NamespaceNotFoundError: There is none of that name.
            NamespaceNotEmptyError: It has tables, and ``cascade`` was not said.
        """
        lower = validate_identifier(name, "namespace")
        tables = self.index.list_tables(lower)
        if tables and not cascade:
            raise NamespaceNotEmptyError(
                f"The namespace {lower!r} has {len(tables)} tables ({', '.join(tables[:3])}"
                f"{', …' if len(tables) > 3 else ''}). Drop or unregister them first, or say CASCADE.",
                {"namespace": lower},
            )
        for view in self.views.list_names(lower) if cascade else ():
            self.views.drop(f"{lower}.{view}")
        for table in tables:
            self.drop_table(f"{lower}.{table}")
        self.index.drop_namespace(lower, deliver=self.metastore.enabled)
        self.following.follow()

    # Tables

    def identify(self, table: str) -> TableIdentifier:
        """The identifier that the text names.

        Raises:
            InvalidIdentifierError: It names none.
        """
        return TableIdentifier.parse(table, self.settings.name)

    def list_tables(self, namespace: str) -> list[str]:
        """The names of a namespace's tables, sorted.

        Raises:
            NamespaceNotFoundError: There is none of that name.
        """
        return self.index.list_tables(validate_identifier(namespace, "namespace"))

    def load_table(self, table: str) -> Table:
        """The table at its newest version.

        Raises:
            TableNotFoundError: There is none of that name.
        """
        return self.index.load_table(self.identify(table))

    def register_table(
        self, table: str, *, location: str, format: str = "parquet",
        partition_columns: Mapping[str, str] | None = None, schema: str | None = None,
        options: Mapping[str, str] | None = None, properties: Mapping[str, str] | None = None,
        comment: str | None = None,
    ) -> Table:  # fmt: skip
        """Register what lies at a location as an external table; ``repair_partitions`` then indexes its partitions.

        Args:
            table: Its name.
            location: The directory above the ``key=value`` directories.
            format: ``parquet``, ``orc``, ``csv``, ``json`` or ``text``.
            partition_columns: Names and types of the keys, in the order of the directories; None finds the keys in the
                paths, as STRING.
            schema: The columns as DDL (``id BIGINT, fare DECIMAL(10,2)``); None reads them from a sample of files.
            options: Spark's reader options of the format.
            properties: Settings of the table.
            comment: For people.

        Raises:
            TableAlreadyExistsError: The name is taken, here or in the metastore by a table at another location.
            NamespaceNotFoundError: Its namespace is not there.
            LocationNotFoundError: The location is not there or is a file.
            StorageError: The location cannot be read.
            TableLayoutError: Its directories are not what the partition columns promise, or disagree on the keys.
            InvalidInputError: Another argument is wrong.
        """
        identifier = self.identify(table)
        self.check_free(identifier)
        registration = Registration(
            identifier, location, format, partition_columns, schema, options or {}, properties or {}, comment
        )
        definition = registration.define(self.storage, keys.SAMPLE_FILES.read(properties or {}, self.settings.conf))
        definition = check_registered(definition)
        check_partition_commit(definition)
        self.following.check_free(definition)
        return self._create(definition)

    def create_table(self, definition: TableDefinition, location: str | None = None) -> Table:
        """Create a table by its definition, as ``CREATE TABLE`` does; a managed one gets its directory.

        Args:
            definition: The table; its own ``location`` is not looked at.
            location: Where it lies; None for the namespace's or the warehouse's default.

        Raises:
            TableAlreadyExistsError, NamespaceNotFoundError: As in ``register_table``.
            InvalidInputError: The definition is not valid, or the managed table's location holds files.
        """
        self.check_free(definition.identifier)
        whole = self.complete_definition(definition, location)
        self.following.check_free(whole)
        return self._create(whole)

    def complete_definition(self, definition: TableDefinition, location: str | None = None) -> TableDefinition:
        """The checked definition of a table that is to be created, with its location and its defaults.

        Args:
            definition: The table; its own ``location`` is not looked at.
            location: Where it lies; None for the namespace's or the warehouse's default.

        Raises:
            NamespaceNotFoundError: Its namespace is not there.
            InvalidInputError: The definition is not valid.
        """
        identifier = definition.identifier
        file_format = check_format(definition.format, str(identifier))
        definition, place = placed(definition, location, lambda: self._default_location(identifier))
        check_keys(definition.partition_columns, str(identifier))
        check_columns((*definition.columns, *definition.partition_columns))
        check_reachable(self.storage, definition, place)
        properties = {PARTITION_MODE_PROPERTY: str(PartitionMode.DECLARED), **checked_properties(definition.properties)}
        whole = replace(definition, format=file_format, location=str(place), properties=properties)
        check_not_transactional(str(identifier), whole.properties)
        check_storable(whole)
        check_partition_commit(whole)
        return whole

    def alter_table_properties(self, table: str, set_: Mapping[str, str], remove: Sequence[str] = ()) -> Table:
        """Set and remove properties of a table.

        Raises:
            TableNotFoundError: There is none of that name.
            InvalidConfigurationError: A value is none that its key may have.
        """
        return self.ddl.alter(table, set_=set_, remove=remove)

    @cached_property
    def ddl(self) -> TableDdl:
        """Alterations and renames of tables."""
        return TableDdl(self)

    def import_table(
        self, table: str, properties: Mapping[str, str] | None = None, progress: Progress | None = None
    ) -> Table:
        """Take a table of the metastore into the index, with its partitions and their files; nothing changes there.

        Raises:
            TableNotFoundError: The metastore has none of that name.
            UnsupportedFormatError: It is of a kind or format that catalog-ext does not read.
            TableAlreadyExistsError: The name is taken here.
            MetastoreUnavailableError: The metastore does not answer.
        """
        identifier = self.identify(table)
        self.check_free(identifier, namespace_too=False)
        return adopt_table(self, identifier, checked_properties(properties or {}), progress or _no_progress)

    def unregister_table(self, table: str) -> Table:
        """Forget a table; its files and the metastore's table stay.

        Raises:
            TableNotFoundError: There is none of that name.
        """
        there = self.load_table(table)
        with self.writes.engine.dropping(there):
            return self.index.drop_table(there.identifier, deliver=False)

    def drop_table(self, table: str, *, purge: bool = False) -> Table:
        """Drop a table, here and in the metastore; the files of a managed one are deleted, an external one's stay.

        Args:
            table: Its name.
            purge: Said with ``DROP TABLE … PURGE``; there is no trash, so that it changes nothing for a managed table.

        Raises:
            TableNotFoundError: There is none of that name.
            StorageError: The table is gone, and its files could not all be deleted.
        """
        there = self.load_table(table)
        deliver = self.following.takes(there.definition)
        with self.writes.engine.dropping(there):
            dropped = self.index.drop_table(there.identifier, deliver=deliver, purge=purge)
        self.following.follow()
        if dropped.definition.table_type is TableType.MANAGED:
            self.storage.delete_tree(dropped.definition.location)
        return dropped

    # Partitions

    def predicate(self, table: Table, where: Where) -> Predicate | None:
        """The bound predicate of a condition or partition spec over the table's partition columns.

        Raises:
            InvalidPredicateError: It is no condition, or names no partition column of the table.
            InvalidValueError: A value does not fit its column's type.
        """
        if where is None:
            return None
        unbound = parse_predicate(where) if isinstance(where, str) else spec_predicate(where)
        return bind(unbound, table.definition.keys, str(table.identifier))

    def repair_partitions(
        self, table: str, *, mode: str = "sync", where: Where = None, dry_run: bool = False, strict: bool = False,
        progress: Progress | None = None,
    ) -> RepairReport:  # fmt: skip
        """Bring the index, and after it the metastore, in step with what lies on the store.

        Args:
            table: Its name.
            mode: ``add`` registers what is new, ``drop`` removes what is gone, ``sync`` does both and refreshes files.
            where: Limits the repair, and what is listed, to partitions that satisfy a condition or match a spec.
            dry_run: Preview: report what would be done and change nothing.
            strict: Change nothing and raise if any path would be skipped.
            progress: Is called while it runs, from this thread.

        Raises:
            TableNotFoundError: There is none of that name.
            InvalidPredicateError, InvalidValueError: ``where`` is not valid for the table.
            LocationNotFoundError: The table's location is not there.
            StorageError: The table's location cannot be listed; what lies below a part that cannot is skipped.
            RepairRefusedError: ``strict``, and something would be skipped.
        """
        if not dry_run:
            # What dead writers have promoted is theirs to finish: then it is there, and nothing is left to find.
            self.recover(table)
        target = self.load_table(table)
        report_progress = progress or _no_progress
        words = (
            where
            if isinstance(where, str) or where is None
            else ", ".join(f"{k}={'NULL' if v is None else v}" for k, v in where.items())
        )
        options = RepairOptions(
            RepairMode.parse(mode),
            self.predicate(target, where),
            words,
            dry_run,
            strict,
            self.following.takes(target.definition),
            keys.BATCH_PARTITIONS.read(target.definition.properties, self.settings.conf),
        )
        spool = Spool()
        try:
            version = Repair(self.index, self.storage, target, options, report_progress).run(spool)
        except (StorageError, LocationNotFoundError) as error:
            spool.close()
            raise error.about(f"Table {target.identifier} cannot be repaired", {"table": table}) from error
        except BaseException:
            spool.close()
            raise
        report_progress(RepairProgress("delivering", 0, 0))
        delivery = self.following.follow() if not dry_run else None
        return RepairReport(
            spool, table=str(target.identifier), mode=str(options.mode), where=words, dry_run=dry_run, version=version,
            pending_deliveries=delivery.pending if delivery else 0, delivery_error=delivery.error if delivery else None,
        )  # fmt: skip

    def partitions(self, table: str, where: Where = None) -> pa.Table:
        """The registered partitions, by their typed values, NULL first; columns as ``partitions/list`` has them."""
        target = self.load_table(table)
        return self.index.list_partitions(target, self.predicate(target, where)).read_all()

    def files(self, table: str, where: Where = None) -> pa.Table:
        """The registered files; columns as ``tables/plan`` has them (``docs/spec/service.md``)."""
        target = self.load_table(table)
        return self.index.plan_files(target, self.predicate(target, where)).read_all()

    # Writes

    @cached_property
    def writes(self) -> Writing:
        """Transactions that write to tables."""
        return Writing(self)

    @cached_property
    def partition_commands(self) -> PartitionCommands:
        """ADD, DROP, RENAME, SET LOCATION and EXCHANGE of partitions."""
        return PartitionCommands(self)

    @cached_property
    def partition_maintenance(self) -> PartitionMaintenance:
        """Dropping partitions by a condition or by age, and changing partition columns."""
        return PartitionMaintenance(self)

    @cached_property
    def statistics(self) -> StatisticsKeeper:
        """What ANALYZE has found."""
        return StatisticsKeeper(self)

    def history(self, table: str) -> list[TableVersion]:
        """The table's commits, newest first.

        Raises:
            TableNotFoundError: There is none of that name.
        """
        return self.index.history(self.identify(table))

    def list_transactions(self, table: str) -> list[Transaction]:
        """The table's transactions that `vacuum` has not forgotten, newest first.

        Raises:
            TableNotFoundError: There is none of that name.
        """
        return self.index.list_transactions(self.load_table(table).table_id)

    def recover(
        self, table: str | None = None, *, older_than: str | float | None = None, dry_run: bool = False
    ) -> RecoveryReport:
        """Finish or undo the writes whose owners are gone; one that had begun to show its files is finished.

        Args:
            table: Its name, which may be that of a table that was to be created, or was dropped; None for all.
            older_than: Seconds, or text such as ``10m``, since the last sign of life; ``0s`` where the owners are known
                to be dead. None takes writes whose lease is over.
            dry_run: Preview: report what would be done and change nothing.

        Raises:
            TableNotFoundError: There is none of that name, and no unfinished write to one.
            InvalidInputError: ``older_than`` is no duration.
        """
        age = seconds_of(older_than, "older_than")
        return self.writes.engine.recover(None if table is None else self._recoverable(table), age, dry_run=dry_run)

    def _recoverable(self, table: str) -> Table | str:
        identifier = self.identify(table)
        there = self.find_table(identifier)
        if there is not None:
            return there
        if any(t.table == str(identifier) for t in self.index.list_transactions(states=UNFINISHED)):
            return str(identifier)
        return self.index.load_table(identifier)

    def vacuum(self, table: str, *, retention: str | float | None = None, dry_run: bool = False) -> VacuumReport:
        """Remove files and versions that nothing needs any more, and what aborted writes may have left.

        Args:
            table: Its name.
            retention: Seconds, or text such as ``7d``: younger ones stay. None is the table's ``vacuum.retention``.
            dry_run: Preview: report what would be removed and change nothing.

        Raises:
            TableNotFoundError: There is none of that name.
            InvalidInputError: ``retention`` is no duration.
            StorageError: The store does not let itself be looked at; what was removed stays removed.
        """
        there = self.load_table(table)
        age = seconds_of(retention, "retention")
        if age is None:
            age = write_keys.VACUUM_RETENTION.read(there.definition.properties, self.settings.conf)
        return self.writes.engine.vacuum(there, age, dry_run=dry_run)

    def status(self, table: str | None = None) -> list[StatusEntry]:
        """What is under way: unfinished writes, partitions that wait, and changes for the metastore.

        Args:
            table: Its name; None for all tables.

        Raises:
            TableNotFoundError: There is none of that name.
        """
        return list(status_entries(self.index, None if table is None else self.load_table(table)))

    # The metastore

    def deliver(self, timeout_s: float | None = None) -> DeliveryReport:
        """Give the metastore what it has not taken yet, for at most so many seconds (``repair.metastore-timeout``)."""
        return self.following.deliver(timeout_s)

    def keep_delivering(self) -> None:
        """Deliver now and then, until the catalog is closed, what this and other processes left pending."""
        self.following.keep_delivering()

    def metastore_state(self, table: Table | None = None) -> str:
        """Whether the metastore has everything: ``none``, ``in step``, what is pending and why, or why it has not."""
        return self.following.state(table.definition if table is not None else None)

    # Registration's checks

    def find_table(self, identifier: TableIdentifier) -> Table | None:
        """The table at its newest version, or None."""
        try:
            return self.index.load_table(identifier)
        except TableNotFoundError:
            return None

    def check_free(self, identifier: TableIdentifier, *, namespace_too: bool = True) -> None:
        """Return if no table or view has the name here, and unless told otherwise if its namespace is there.

        Raises:
            TableAlreadyExistsError: The name is taken.
            NamespaceNotFoundError: The namespace is not there.
        """
        if namespace_too:
            self.index.load_namespace(identifier.namespace)
        there = self.find_table(identifier)
        if there is None:
            self.views.check_free(identifier)
            return
        raise TableAlreadyExistsError(
            f"Table {identifier} exists already, at {there.definition.location}. Unregister it first, or choose "
            "another name.",
            {"table": str(identifier)},
        )

    def _create(self, definition: TableDefinition) -> Table:
        warn_of_overlap(definition, self.index.overlapping_tables(definition.location))
        if definition.table_type is TableType.MANAGED:
            self._prepare_directory(definition)
        created = self.index.create_table(definition, deliver=self.following.takes(definition))
        self.following.follow()
        return created

    def _default_location(self, identifier: TableIdentifier) -> str:
        namespace = self.index.load_namespace(identifier.namespace)
        base = Location.parse(namespace.location or f"{self.settings.warehouse}/{namespace.name}.db")
        # A table that was renamed still lies at the place of its first name.
        names = (identifier.name if n == 1 else f"{identifier.name}__{n}" for n in count(1))
        return next(place for place in (str(base.join(name)) for name in names) if not self._taken(place, identifier))

    def _taken(self, location: str, identifier: TableIdentifier) -> bool:
        others = (self.find_table(o) for o in self.index.overlapping_tables(location) if o != identifier)
        return any(o is not None and o.definition.location == location for o in others)

    def _prepare_directory(self, definition: TableDefinition) -> None:
        if self.storage.stat(definition.location) is not None and self._contents(definition):
            raise InvalidInputError(
                f"The managed table {definition.identifier} cannot be created at {definition.location}: the location "
                "is not empty. "
                "Register it as an external table, or choose another location.",
                {"table": str(definition.identifier), "location": definition.location},
            )
        if self.storage.store_has_directories(definition.location):
            self.storage.create_directory(definition.location)

    def _contents(self, definition: TableDefinition) -> list[str]:
        """What lies in a table's location, but for what a write that would have created the table has staged there."""
        staging = write_keys.STAGING_DIR.read(definition.properties, self.settings.conf)
        names = (entry.location.name for entry in self.storage.list_directory(definition.location))
        return [name for name in names if name != staging]
