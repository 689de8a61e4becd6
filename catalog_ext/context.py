"""The objects that the parts of a catalog share, so that no part needs the catalog itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from threading import Event
from typing import TYPE_CHECKING

from catalog_ext.conf import write_keys
from catalog_ext.conf.resolved import private_paths
from catalog_ext.conf.service_keys import allowed_locations
from catalog_ext.identity.index_counter import IndexCounter
from catalog_ext.identity.warehouse_mark import WarehouseMarks
from catalog_ext.metastore.errors import InvalidInputError
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.storage.allowed_locations import AllowedLocations
from catalog_ext.metastore.transactions.write_protocol import Transactions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_ext.conf.resolved import Settings
    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.storage.store import Storage
    from catalog_ext.metastore_sync.connection import MetastoreConnection
    from catalog_ext.metastore_sync.sync import MetastoreSync


# Give no estimate in the first second and the first half percent, whose speed says little about the rest.
_LEAST_S = 1.0
_LEAST_SHARE = 0.005


class TimeLeft:
    """Estimates the remaining time of a call that began at its creation, by the average speed so far."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()

    def after(self, done: float, total: float | None) -> float | None:
        """Return the remaining seconds; None if there is too little data for an estimate.

        Args:
            done: The finished amount.
            total: The expected total; None if unknown. If ``done`` is above it, the total was wrong, and there is no
                estimate.
        """
        elapsed_s = time.monotonic() - self._began_s
        if not total or not total * _LEAST_SHARE <= done <= total or elapsed_s < _LEAST_S:
            return None
        return elapsed_s * (total - done) / done


@dataclass(frozen=True, slots=True)
class RepairProgress:
    """The progress of a repair, a registration or an import.

    Attributes:
        phase: ``listing``, ``comparing``, ``verifying``, ``applying`` or ``delivering``.
        partitions: Partitions listed or applied so far.
        files: Files listed, applied or verified so far.
        total: The number of partitions that will be applied, if known.
        left_s: Estimated seconds until the phase ends; None if unknown. The estimate of ``applying`` uses ``total``;
            that of ``listing`` uses the registered partitions, or on a local disk the directories directly below the
            table's.
    """

    phase: str
    partitions: int
    files: int
    total: int | None = None
    left_s: float | None = None


Progress = Callable[[RepairProgress], None]
"""A callback for the progress of a long call, called on the thread of that call."""


def no_progress(_: RepairProgress) -> None:
    """A callback that ignores the progress."""


@dataclass(frozen=True)
class Context:
    """The objects that the parts of one catalog share.

    Attributes:
        settings: The resolved arguments of the catalog.
        index: The open index.
        metastore: The connection to the metastore; the catalog may have no metastore.
        sync: Delivers changes of the index to the metastore.
        open_storage: Creates the stores.
        closed: Set when the catalog is closed.
    """

    settings: Settings
    index: Index
    metastore: MetastoreConnection
    sync: MetastoreSync
    open_storage: Callable[[], Storage]
    closed: Event = field(default_factory=Event)

    def __post_init__(self) -> None:
        """Make the change counter the index's guard, which checks before each change whether the index was restored."""
        self.index.incarnations.watch(self.counter)

    def require_open(self) -> None:
        """Check that the catalog is open.

        Raises:
            InvalidInputError: The catalog is closed.
        """
        if self.closed.is_set():
            raise InvalidInputError("This catalog is closed. Open another one: catalog_ext.connect(…).")

    @property
    def open_index(self) -> Index:
        """The index, if the catalog is open.

        Raises:
            InvalidInputError: The catalog is closed.
        """
        self.require_open()
        return self.index

    @cached_property
    def storage(self) -> Storage:
        """The stores.

        They are created at the first use, because a Spark session's settings are known only when it runs.
        """
        return self.open_storage()

    @cached_property
    def allowed(self) -> AllowedLocations:
        """The locations that statements may name."""
        settings = self.settings
        return AllowedLocations(
            allowed_locations(settings.conf, standing=False), self._known_locations, private_paths(settings)
        )

    def _known_locations(self) -> Iterator[str]:
        """Yield the locations of the warehouse, namespaces and tables; local ones only if the warehouse is local."""
        warehouse = self.settings.warehouse
        yield warehouse
        for place in self.index.tables.known_locations():
            if warehouse.startswith("file:") or not place.startswith("file:"):
                yield place

    @cached_property
    def transactions(self) -> Transactions:
        """The commit protocol of writes; created at the first use, like the stores that it uses."""
        conf = self.settings.conf
        return Transactions(
            self.index, self.storage, threads=write_keys.COMMIT_THREADS.read(conf),
            unknown_timeout_s=write_keys.COMMIT_UNKNOWN_TIMEOUT.read(conf), deliver=self.metastore.accepts,
            publish=self.sync.publish, metastore=self.metastore.client if self.metastore.enabled else None,
        )  # fmt: skip

    @cached_property
    def marks(self) -> WarehouseMarks:
        """The warehouse marks, by which another index on the same files is detected."""
        return WarehouseMarks(self.index, lambda: self.storage, self.settings.warehouse)

    @cached_property
    def counter(self) -> IndexCounter:
        """The index's change counter in its warehouse, by which a restored index is detected."""
        return IndexCounter(self.index, lambda: self.storage)

    def identify(self, table: str) -> TableIdentifier:
        """Parse a table name into an identifier.

        Raises:
            InvalidIdentifierError: The text is not a table name.
        """
        return TableIdentifier.parse(table, self.settings.name)

    def load_table(self, table: str) -> Table:
        """Return the table at its newest version.

        Raises:
            TableNotFoundError: The table does not exist.
        """
        return self.index.tables.load(self.identify(table))

    def find_table(self, identifier: TableIdentifier) -> Table | None:
        """Return the table at its newest version, or None."""
        return self.index.tables.find(identifier)
