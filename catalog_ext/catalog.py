"""The class ``Catalog``: composes the parts of a catalog, and forwards the public methods to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.catalog_table import TablesByName
from catalog_ext.conf.index_suggestions import log_new_index, nearest_index
from catalog_ext.conf.resolved import UNSET, MetastoreArgument, Settings, hive_site
from catalog_ext.context import Context
from catalog_ext.display import Displayed
from catalog_ext.drift.drift import Drift
from catalog_ext.drift.mending import DriftMending
from catalog_ext.drift.restored import Restoring
from catalog_ext.events.store_events import StoreEvents
from catalog_ext.forwarded import Forwarded
from catalog_ext.hms_events.follower import Follower
from catalog_ext.identity.home import open_at_home
from catalog_ext.identity.index_counter import IndexCounter
from catalog_ext.identity.known_metastore import KnownMetastore
from catalog_ext.metastore.index import Index
from catalog_ext.metastore.index.database.urls import missing_file
from catalog_ext.metastore_sync.connection import Embedded, MetastoreConnection
from catalog_ext.metastore_sync.outbox import OutboxCommands
from catalog_ext.metastore_sync.sync import MetastoreSync
from catalog_ext.partitions.commands import PartitionCommands
from catalog_ext.partitions.maintenance import PartitionMaintenance
from catalog_ext.repair.table_repair import TableRepair
from catalog_ext.sync.exporting import Exporting
from catalog_ext.sync.publishing import Publishing
from catalog_ext.tables.alter import TableAlterations
from catalog_ext.tables.creation import TableCreation
from catalog_ext.tables.datasets import Datasets
from catalog_ext.tables.freshness import Freshness
from catalog_ext.tables.hive_import import HiveImport
from catalog_ext.tables.import_tables import ImportTables
from catalog_ext.tables.namespaces import NamespaceManagement
from catalog_ext.tables.reads import TableReads
from catalog_ext.tables.removal import TableRemoval
from catalog_ext.tables.time_travel import TimeTravel
from catalog_ext.views.automatic import ViewRefresh
from catalog_ext.views.views import Views
from catalog_ext.writes.column_statistics import StatisticsCommand
from catalog_ext.writes.loading import Loading
from catalog_ext.writes.maintenance import WriteMaintenance
from catalog_ext.writes.metadata_tables import MetadataTables
from catalog_ext.writes.rollback import Rollbacks
from catalog_ext.writes.tags import Tags
from catalog_ext.writes.writes import Writes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from typing_extensions import Self

    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.storage.store import Storage


def connect(
    *, index: str | None = None, metastore: MetastoreArgument = UNSET, warehouse: str | None = None,
    storage: Mapping[str, object] | None = None, name: str = "lake",
) -> Catalog:  # fmt: skip
    """Open an index with its metastore and warehouse, and return the catalog; every argument has a default.

    Args:
        index: SQLAlchemy URL of the index database, or a path of a SQLite file; by default a SQLite file in
            ``.catalog-ext`` beside the warehouse, created and migrated as needed.
        metastore: ``thrift://host:9083`` (several with commas between them), ``embedded``, or None to use the index
            alone; by default the index's own, for a new index the one that hive-site.xml names, otherwise the embedded
            one.
        warehouse: The directory of managed tables; by default the index's own, for a new index ``./spark-warehouse``.
        storage: Settings for S3, by Hadoop's keys (``fs.s3a.endpoint``) or short names (``endpoint``).
        name: The catalog's name in SQL, which may stand in front of table names.

    Raises:
        InvalidConfigurationError: An argument is malformed, or the index belongs to another metastore or warehouse
            (``adopt``).
        MetastoreUnavailableError: A metastore at another address was given, and cannot be asked whether it is the
            index's own.
        IndexUnavailableError: The index database does not answer.
        IndexNotAtHeadError: The index has the schema of another release.
    """
    settings = Settings.resolve(
        name=name, index=index, metastore=metastore, warehouse=warehouse, storage=storage, site=hive_site(metastore)
    )  # fmt: skip
    catalog = Catalog(settings, settings.open_storage)
    catalog.look_whether_restored()
    return catalog


class Catalog(Displayed):
    """Registered tables, their index, and the metastore that is kept in sync with it. Threads may share a catalog.

    Table names are ``namespace.table``, with or without the catalog's name in front.

    Attributes:
        allowed: The locations that statements may name.
        views: Views and their partitions.
        alterations: Alterations and renames of tables.
        reads: Plans of reads.
        writes: Transactions that write to tables.
        loading: LOAD DATA.
        write_maintenance: Recovery, vacuum and expiry of versions.
        metadata_tables: The metadata tables of a table, such as ``history`` and ``files``.
        partition_commands: ADD, DROP, RENAME, SET LOCATION and EXCHANGE of partitions.
        partition_maintenance: Dropping partitions by a condition or by age, and changing partition columns.
        statistics: Results of ANALYZE.
        events: Handles notifications of stores about created and removed objects.
        follower: Imports changes that other engines make in the metastore.
    """

    def __init__(
        self, settings: Settings, storage: Callable[[], Storage], *,
        at_home: Callable[[Index, Settings], Settings] = open_at_home,
        embedded: Embedded = Embedded.AHEAD,
    ) -> None:  # fmt: skip
        missing = missing_file(settings.index)
        # Search before ``Index.open`` creates folders: if the path is mistyped, the log names the similar index.
        near = None if missing is None else nearest_index(missing)
        index = Index.open(settings.index)
        if missing is not None:
            log_new_index(missing, near)
        try:
            settings = at_home(index, settings)
            metastore = MetastoreConnection(settings, KnownMetastore(index), embedded)
        except BaseException:
            index.close()
            raise
        refresh = ViewRefresh(index, metastore, settings.name)
        sync = MetastoreSync(index, metastore, settings, before=refresh.refresh_stale)
        self._context = context = Context(settings, index, metastore, sync, storage)
        self.allowed = context.allowed
        self.views = Views(context, refresh)
        self._repair = TableRepair(context)
        self._creation = TableCreation(context)
        self._removal = TableRemoval(context)
        self._namespaces = NamespaceManagement(context, self.views, self._removal)
        self._hive_import = HiveImport(context, self._creation)
        self.alterations = TableAlterations(context, self._creation, self._repair)
        self.reads = TableReads(context, Freshness(context, self._repair))
        self.time_travel = TimeTravel(context)
        self.writes = Writes(context, self._creation)
        self.loading = Loading(context)
        self._publishing = Publishing(index, metastore, sync, settings.name)
        self.write_maintenance = WriteMaintenance(context)
        self.metadata_tables = MetadataTables(context)
        self.partition_commands = PartitionCommands(context)
        self.partition_maintenance = PartitionMaintenance(context, self.partition_commands, self.alterations)
        self.statistics = StatisticsCommand(context)
        self.events = StoreEvents(context, self._repair)
        self._drift = Drift(context, self._repair)
        self._mending = DriftMending(context, self._repair, self._publishing, self.alterations)
        self.follower = Follower(context, self._repair, self._hive_import, self._removal)

    @property
    def settings(self) -> Settings:
        """The resolved arguments."""
        return self._context.settings

    @property
    def index(self) -> Index:
        """The open index."""
        return self._context.index

    @property
    def metastore(self) -> MetastoreConnection:
        """The connection to the metastore; the catalog may have no metastore."""
        return self._context.metastore

    @property
    def storage(self) -> Storage:
        """The stores; created at the first use, because a Spark session's settings are known only when it runs."""
        return self._context.storage

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close connections, and stop the embedded metastore unless another process uses it.

        Messages that a starting embedded metastore has not received yet are delivered first.
        """
        try:
            self.follower.close()
            self._context.sync.close()
        finally:
            self._context.closed.set()
            try:
                self.metastore.close()
            finally:
                self.index.close()

    list_namespaces = Forwarded(lambda c: c._namespaces, NamespaceManagement.list_namespaces)
    load_namespace = Forwarded(lambda c: c._namespaces, NamespaceManagement.load_namespace)
    create_namespace = Forwarded(lambda c: c._namespaces, NamespaceManagement.create_namespace)
    alter_namespace = Forwarded(lambda c: c._namespaces, NamespaceManagement.alter_namespace)
    drop_namespace = Forwarded(lambda c: c._namespaces, NamespaceManagement.drop_namespace)
    identify = Forwarded(lambda c: c._context, Context.identify)
    list_tables = Forwarded(lambda c: c._namespaces, NamespaceManagement.list_tables)
    load_table = Forwarded(lambda c: c._context, Context.load_table)
    table = Forwarded(lambda c: TablesByName(c._context, c.reads, c.write_maintenance), TablesByName.table)
    find_table = Forwarded(lambda c: c._context, Context.find_table)
    check_free = Forwarded(lambda c: c._creation, TableCreation.check_free)
    register_table = Forwarded(lambda c: c._creation, TableCreation.register_table)
    create_table = Forwarded(lambda c: c._creation, TableCreation.create_table)
    complete_definition = Forwarded(lambda c: c._creation, TableCreation.complete_definition)
    alter_table_properties = Forwarded(lambda c: c.alterations, TableAlterations.alter_table_properties)
    import_table = Forwarded(lambda c: c._hive_import, HiveImport.import_table)
    import_tables = Forwarded(lambda c: ImportTables(c._context, c._hive_import), ImportTables.import_tables)
    unregister_table = Forwarded(lambda c: c._removal, TableRemoval.unregister_table)
    drop_table = Forwarded(lambda c: c._removal, TableRemoval.drop_table)
    repair_partitions = Forwarded(lambda c: c._repair, TableRepair.repair_partitions)
    predicate = Forwarded(lambda c: c.reads, TableReads.predicate)
    partitions = Forwarded(lambda c: c.reads, TableReads.partitions)
    files = Forwarded(lambda c: c.reads, TableReads.files)
    dataset = Forwarded(lambda c: Datasets(c._context), Datasets.dataset)
    history = Forwarded(lambda c: c.write_maintenance, WriteMaintenance.history)
    list_transactions = Forwarded(lambda c: c.write_maintenance, WriteMaintenance.list_transactions)
    recover = Forwarded(lambda c: c.write_maintenance, WriteMaintenance.recover)
    release_waiting = Forwarded(lambda c: c.write_maintenance, WriteMaintenance.release_waiting)
    discard_waiting = Forwarded(lambda c: c.write_maintenance, WriteMaintenance.discard_waiting)
    vacuum = Forwarded(lambda c: c.write_maintenance, WriteMaintenance.vacuum)
    rollback = Forwarded(lambda c: Rollbacks(c._context), Rollbacks.rollback)
    restore_partition = Forwarded(lambda c: Rollbacks(c._context), Rollbacks.restore_partition)
    tag = Forwarded(lambda c: Tags(c._context), Tags.tag)
    untag = Forwarded(lambda c: Tags(c._context), Tags.untag)
    tags = Forwarded(lambda c: Tags(c._context), Tags.tags)
    status = Forwarded(lambda c: c.write_maintenance, WriteMaintenance.status)
    deliver = Forwarded(lambda c: c._context.sync, MetastoreSync.deliver)
    publish = Forwarded(lambda c: c._publishing, Publishing.publish)
    export = Forwarded(lambda c: Exporting(c.index, c.settings), Exporting.export)
    export_statements = Forwarded(lambda c: Exporting(c.index, c.settings), Exporting.export_statements)
    drift = Forwarded(lambda c: c._drift, Drift.drift)
    mend_drift = Forwarded(lambda c: c._mending, DriftMending.mend_drift)
    look_whether_restored = Forwarded(lambda c: c._context.counter, IndexCounter.look_whether_restored)
    restored = Forwarded(lambda c: Restoring(c._context, c._repair), Restoring.restored)
    backup = Forwarded(lambda c: Restoring(c._context, c._repair), Restoring.backup)
    outbox = Forwarded(lambda c: OutboxCommands(c.index), OutboxCommands.outbox)
    keep_delivering = Forwarded(lambda c: c._context.sync, MetastoreSync.keep_delivering)

    def metastore_state(self, table: Table | None = None) -> str:
        """Describe the state of the metastore: ``none``, ``in sync``, or a text on pending or missing changes."""
        return self._context.sync.state(table)
