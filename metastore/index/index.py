"""The class ``Index``: opens, closes and migrates the index database; its attributes are readers and writers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import IndexDatabaseError
from catalog_ext.metastore.index.database import migration
from catalog_ext.metastore.index.database.clock import now_ms
from catalog_ext.metastore.index.database.database import open_database
from catalog_ext.metastore.index.database.urls import public_url
from catalog_ext.metastore.index.read import state
from catalog_ext.metastore.index.read.ended_files import EndedFiles
from catalog_ext.metastore.index.read.history import Changes, History
from catalog_ext.metastore.index.read.metadata_groups import MetadataGroups
from catalog_ext.metastore.index.read.metadata_rows import MetadataRows
from catalog_ext.metastore.index.read.needed_files import NeededFiles
from catalog_ext.metastore.index.read.overviews import Overviews
from catalog_ext.metastore.index.read.partition_groups import PartitionGroups
from catalog_ext.metastore.index.read.partition_history import PartitionHistory
from catalog_ext.metastore.index.read.partitions import Partitions
from catalog_ext.metastore.index.read.planned_files import PlannedFiles
from catalog_ext.metastore.index.read.planner_statistics import PlannerStatistics
from catalog_ext.metastore.index.read.version_differences import VersionDifferences
from catalog_ext.metastore.index.read.version_lookup import VersionLookup
from catalog_ext.metastore.index.tables.alter_table import Alterations
from catalog_ext.metastore.index.tables.definition_history import DefinitionHistory
from catalog_ext.metastore.index.tables.dropped import DroppedTables
from catalog_ext.metastore.index.tables.followed import FollowedMetastore
from catalog_ext.metastore.index.tables.incarnations import Incarnations, Properties
from catalog_ext.metastore.index.tables.namespaces import Namespaces
from catalog_ext.metastore.index.tables.tables import Tables
from catalog_ext.metastore.index.tables.views import IndexedViews
from catalog_ext.metastore.index.write.commits import Commits
from catalog_ext.metastore.index.write.deferred_deletes import complete
from catalog_ext.metastore.index.write.deletion_checks import Deletions
from catalog_ext.metastore.index.write.expire_versions import ForgottenTransactions, Versions
from catalog_ext.metastore.index.write.file_statistics import FileStatistics
from catalog_ext.metastore.index.write.outbox import Outbox
from catalog_ext.metastore.index.write.partition_descriptors import PartitionDescriptors
from catalog_ext.metastore.index.write.partition_rows import LivingPartitions
from catalog_ext.metastore.index.write.publishing import Publications
from catalog_ext.metastore.index.write.repairs import Repairs, Verifications
from catalog_ext.metastore.index.write.restoration import Restoration
from catalog_ext.metastore.index.write.transaction_files import TransactionFiles
from catalog_ext.metastore.index.write.transactions import IndexedTransactions
from catalog_ext.metastore.index.write.version_holds import VersionHolds
from catalog_ext.metastore.index.write.waiting_files import WaitingLists

if TYPE_CHECKING:
    from typing_extensions import Self

    from catalog_ext.metastore.index.database.database import Database, PoolState
    from catalog_ext.metastore.index.read.state import IndexState


class Index:
    """An open index, for use by several threads; call ``close``, or use it as a context manager.

    Each attribute is a reader or writer of one kind of row. Every method of them raises ``IndexUnavailableError`` if
    the database is unreachable or locked, ``ConflictError`` if another transaction was first, and
    ``IndexDatabaseError`` if the database refuses a statement. A method that changes a table, or enqueues messages
    about a table, raises ``TableNotFoundError`` if the table no longer exists.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        # Tables, views, namespaces, and the properties of the index.
        self.properties = Properties(database)
        self.incarnations = Incarnations(database)
        self.restoration = Restoration(database)
        self.namespaces = Namespaces(database)
        self.tables = Tables(database)
        self.alterations = Alterations(database)
        self.dropped_tables = DroppedTables(database)
        self.views = IndexedViews(database)
        self.followed = FollowedMetastore(database)
        # Readers of a table's partitions and files at a given version.
        self.partitions = Partitions(database)
        self.files = PlannedFiles(database)
        self.partition_groups = PartitionGroups(database)
        self.metadata_rows = MetadataRows(database)
        self.metadata_groups = MetadataGroups(database)
        self.descriptors = PartitionDescriptors(database)
        self.changes = Changes(database)
        self.history = History(database)
        self.partition_history = PartitionHistory(database)
        self.version_lookup = VersionLookup(database)
        self.version_differences = VersionDifferences(database)
        self.definition_history = DefinitionHistory(database)
        self.overviews = Overviews(database)
        # Readers and writers for a table's newest version.
        self.planner_statistics = PlannerStatistics(database)
        self.living_partitions = LivingPartitions(database)
        self.file_statistics = FileStatistics(database)
        self.verifications = Verifications(database)
        self.repairs = Repairs(database)
        self.commits = Commits(database, self.planner_statistics)
        self.transactions = IndexedTransactions(database)
        self.transaction_files = TransactionFiles(database)
        self.waiting_files = WaitingLists(database)
        self.forgotten_transactions = ForgottenTransactions(database)
        self.needed_files = NeededFiles(database)
        self.ended_files = EndedFiles(database)
        self.deletions = Deletions(database)
        self.versions = Versions(database)
        self.version_holds = VersionHolds(database)
        # The messages for the metastore that are not delivered yet, and the means to enqueue a table's state again.
        self.outbox = Outbox(database)
        self.publications = Publications(database)

    @classmethod
    def open(cls, url: str, *, migrate: bool | None = None) -> Index:
        """Open the index at a URL.

        Args:
            url: A SQLAlchemy URL, or the path of a SQLite file.
            migrate: Whether to migrate the database to this release's schema. None migrates SQLite only, and creates a
                missing file.

        Raises:
            InvalidConfigurationError: The URL is not that of a supported database.
            EnvironmentSetupError: The database's driver is not installed.
            IndexNotAtHeadError: The database's schema is older or newer than this release's.
        """
        database = open_database(url)
        try:
            at_head = migration.is_at_head(database)
            if not at_head and (migrate or (migrate is None and database.dialect == "sqlite")):
                migration.migrate(database)
            elif not at_head:
                migration.require_head(database)
        except BaseException:
            database.close()
            raise
        return cls(database)

    @classmethod
    def connect(cls, url: str) -> Index:
        """Return the index at a URL without checking its schema: for calls of ``migrate`` and ``current_revision``."""
        return cls(open_database(url))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections to the database."""
        self._database.close()

    @property
    def url(self) -> str:
        """The URL for messages, with ``***`` as the password."""
        return self._database.shown

    @property
    def public_url(self) -> str:
        """The URL without user, password and options, for files that every reader of the store can see."""
        return public_url(self._database.url)

    def state(self) -> IndexState:
        """Return the unfinished transactions, the pending messages and the size of the index, by one query.

        Raises:
            IndexNotAtHeadError: The database's schema is older or newer than this release's.
        """
        try:
            return state.load(self._database)
        except IndexDatabaseError:
            # A database with an older schema fails with a message about a missing table or column: raise the clearer
            # error.
            migration.require_head(self._database)
            raise

    @property
    def pool(self) -> PoolState:
        """The state of the connection pool."""
        return self._database.pool

    @property
    def query_count(self) -> int:
        """The number of SQL statements sent since the index was opened."""
        return self._database.query_count

    def now_ms(self) -> int:
        """Return the database's time, by which leases expire, in milliseconds since the epoch, UTC."""
        with self._database.reading() as connection:
            return now_ms(connection)

    def migrate(self, revision: str = "head") -> tuple[str | None, str | None]:
        """Migrate the database to a schema revision; return the revisions before and after.

        Raises:
            IndexNotAtHeadError: The database is newer than this release, or the revision is unknown.
        """
        if revision != "head" and migration.current_revision(self._database) == migration.head_revision():
            complete(self._database)
        return migration.migrate(self._database, revision)

    def current_revision(self) -> str | None:
        """Return the schema revision of the database; None if it contains no index."""
        return migration.current_revision(self._database)

    def head_revision(self) -> str:
        """Return the newest schema revision, which this release needs."""
        return migration.head_revision()
