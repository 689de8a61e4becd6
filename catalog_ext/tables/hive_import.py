"""Imports tables of the Hive Metastore into the index, with the partitions that the metastore has."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from catalog_ext.conf.keys import PARTITION_COLUMNS
from catalog_ext.conf.properties import checked_properties
from catalog_ext.context import Progress, RepairProgress
from catalog_ext.display import shown_progress
from catalog_ext.metastore.errors import (
    IncompleteListingError,
    LocationNotAllowedError,
    LocationNotFoundError,
    NamespaceAlreadyExistsError,
    NamespaceNotFoundError,
    StorageError,
    UnsupportedFormatError,
)
from catalog_ext.metastore.hive.mapping.conversion import from_hive, from_hive_database, from_hive_partition
from catalog_ext.metastore.hive.mapping.descriptors import Descriptors
from catalog_ext.metastore.index.write.registration_checks import DeletedFilesError
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.changes import AddPartition
from catalog_ext.metastore.model.descriptors import PartitionDescriptor
from catalog_ext.metastore.model.secrets import drop_secrets
from catalog_ext.metastore.model.tables import DataFile, Table
from catalog_ext.metastore.runtime.wording import counted
from catalog_ext.metastore.storage.locations import Location, canonical_location
from catalog_ext.repair.batches import partitions_to_leave
from catalog_ext.repair.in_flight_writes import InFlightWrites
from catalog_ext.scan.key_layout import Layout
from catalog_ext.scan.location_listing import list_locations
from catalog_ext.scan.observe import StoreObserver
from catalog_ext.scan.scratch import Scratch
from catalog_ext.tables.locations import check_location

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from catalog_ext.context import Context
    from catalog_ext.metastore.hive.mapping.model import HivePartition, HiveTable
    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore
    from catalog_ext.metastore.model.changes import Change
    from catalog_ext.metastore.model.identifiers import TableIdentifier
    from catalog_ext.metastore.model.tables import Namespace, TableDefinition
    from catalog_ext.tables.creation import TableCreation

logger = logging.getLogger(__name__)

_SHOWN = 5

_BATCH = 1000


class HiveImport:
    """Imports tables of the metastore."""

    def __init__(self, context: Context, creation: TableCreation) -> None:
        self._context = context
        self._creation = creation

    def import_table(
        self, table: str, properties: Mapping[str, str] | None = None, progress: Progress | None = None
    ) -> Table:
        """Import a table of the metastore into the index, with partitions and files. The metastore is not changed.

        Args:
            table: The table's name.
            properties: Settings of the table.
            progress: A callback for progress; None shows a bar in a notebook's cell.

        Raises:
            TableNotFoundError: The metastore has no table of that name.
            UnsupportedFormatError: catalog-ext does not support the table's kind or format, or a partition has a format
                that differs from the table's.
            TableAlreadyExistsError: The index already has a table of that name.
            MetastoreUnavailableError: The metastore does not answer.
        """
        identifier = self._context.identify(table)
        hive_table, definition = self.check_table(identifier, properties)
        client = self._context.metastore.client()
        self.ensure_namespace(client, identifier.namespace)
        # The import only warns of another index's mark. It must not mark the warehouse as this index's own, as the
        # creation of a managed table does, because the files were there before this index.
        self._context.marks.look(Location.parse(definition.location))
        created = self._context.index.tables.create(definition, deliver=False)
        scratch = Scratch()
        try:
            with shown_progress(progress, f"Importing {identifier}") as report_progress:
                partitions = self._allowed(_partitions(client, created.definition, hive_table))
                self._import_partitions(partitions, created, scratch, report_progress)
        except BaseException:
            # Drop the incomplete table, so that the import can be repeated.
            self._context.index.tables.drop(identifier, deliver=False)
            raise
        finally:
            scratch.close()
        return self._context.index.tables.load(identifier)

    def preview_table(self, identifier: TableIdentifier, *, is_free: bool = False) -> int:
        """Return how many partitions ``import_table`` would register. Nothing is changed, and no file is listed.

        Args:
            identifier: The table's name.
            is_free: As in ``check_table``.

        Raises:
            CatalogExtError: The import would be refused, for the reasons of ``import_table``.
        """
        hive_table, definition = self.check_table(identifier, is_free=is_free)
        found = _partitions(self._context.metastore.client(), definition, hive_table)
        return sum(1 for _ in self._allowed(found))

    def check_table(
        self, identifier: TableIdentifier, properties: Mapping[str, str] | None = None, *, is_free: bool = False
    ) -> tuple[HiveTable, TableDefinition]:
        """Return the metastore's table, and the definition that an import would register. No partition is read.

        Args:
            identifier: The table's name.
            properties: Properties that the registered table would get.
            is_free: Whether to ignore a table of this name in the index, because it is dropped before the import.

        Raises:
            TableNotFoundError, UnsupportedFormatError, TableAlreadyExistsError: As ``import_table``.
            MetastoreUnavailableError: The metastore does not answer.
        """
        if not is_free:
            self._creation.check_free(identifier, namespace_too=False)
        checked = checked_properties(properties or {})
        # Ask the metastore only after the other checks: otherwise an embedded metastore would be started for a table
        # that is refused.
        found = self._context.metastore.client().get_table(identifier.namespace, identifier.name)
        return found, self._definition(from_hive(found), checked)

    def _allowed(self, partitions: Iterable[_Found]) -> Iterator[_Found]:
        """Yield the partitions, after checking each location against the setting ``allowed-locations``.

        Raises:
            LocationNotAllowedError: A partition's location is not allowed.
        """
        require = self._context.allowed.for_many()
        for name, location, descriptor in partitions:
            if location is not None:
                require(Location.parse(location))
            yield name, location, descriptor

    def _definition(self, found: TableDefinition, properties: Mapping[str, str]) -> TableDefinition:
        """Return the definition to register, after checking its location."""
        definition = replace(
            found,
            location=canonical_location(found.location),
            options=_without_secrets(found, found.options),
            properties={**self._mode(), **_without_secrets(found, found.properties), **properties},
        )
        try:
            self._context.allowed.require(Location.parse(definition.location))
            check_location(self._context.storage, definition.location, may_be_empty=True)
        except (LocationNotFoundError, StorageError) as error:
            identifier = str(found.identifier)
            raise error.about(f"Table {identifier} was not imported", {"table": identifier}) from error
        return definition

    def _mode(self) -> dict[str, str]:
        """Return the table property for the catalog's option ``partition-columns``; empty if the option is not set."""
        text = self._context.settings.conf.get(PARTITION_COLUMNS.key)
        return {} if text is None else {PARTITION_COLUMNS.key: str(PARTITION_COLUMNS.value_of(text))}

    def ensure_namespace(self, client: HiveMetastore, name: str) -> None:
        """Create the namespace in the index for a database of the metastore, if it is missing.

        Raises:
            LocationNotAllowedError: The database's location is not allowed. A namespace's location would become allowed
                to every statement.
        """
        index = self._context.index
        try:
            index.namespaces.load(name)
        except NamespaceNotFoundError:
            database = self._without_chosen_location(from_hive_database(client.get_database(name)))
            self._require_allowed(database)
            with suppress(NamespaceAlreadyExistsError):  # another import has created it meanwhile
                index.namespaces.create(database, deliver=False)

    def _without_chosen_location(self, database: Namespace) -> Namespace:
        """Return a database without the location that the embedded metastore chose for it.

        The embedded metastore puts a database without a location into its own folder, which no statement may name. New
        tables of such a namespace go to the warehouse of the index, as before the namespace was published.
        """
        chosen = Location.parse((self._context.settings.embedded_folder / "warehouse").absolute().as_uri())
        if database.location is None or not chosen.contains(Location.parse(database.location)):
            return database
        return replace(database, location=None)

    def _require_allowed(self, database: Namespace) -> None:
        if database.location is None:
            return
        try:
            self._context.allowed.require(database.location, reads=False)
        except LocationNotAllowedError as error:
            raise error.about(f"Namespace {database.name} was not imported", {"namespace": database.name}) from error

    def _import_partitions(
        self, partitions: Iterator[_Found], table: Table, scratch: Scratch, progress: Progress
    ) -> None:
        storage, layout = self._context.storage, Layout(table.definition)
        listed_ms = self._context.index.now_ms()
        in_flight = InFlightWrites(self._context.index, table, scratch)
        in_flight.note_removals()
        StoreObserver(storage, table, layout, scratch, progress).observe(selective=False)
        _check_complete(table, scratch)
        _warn_of_skipped(table, scratch)
        numbers: dict[PartitionDescriptor | None, int] = {None: 0}
        for chunk in batched(partitions, _BATCH):
            # The 0 stands for the number of files, which the scratch table has as its last column and an import does
            # not need.
            rows = [(name, location, numbers.setdefault(own, len(numbers)), 0) for name, location, own in chunk]
            scratch.insert("indexed_partitions", rows)
        elsewhere = "(SELECT name FROM indexed_partitions WHERE location IS NOT NULL)"
        scratch.execute(f"DELETE FROM listed_files WHERE name IN {elsewhere}")
        located = scratch.rows("SELECT name, location FROM indexed_partitions WHERE location IS NOT NULL")
        list_locations(storage, located, scratch, layout.ignored)
        _check_complete(table, scratch)
        in_flight.leave_out()
        done = 0
        for changes in batched(_additions(scratch, list(numbers)), _BATCH):
            self._commit(table, changes, listed_ms)
            done += len(changes)
            progress(RepairProgress("applying", done, 0))

    def _commit(self, table: Table, changes: Sequence[Change], listed_ms: int) -> None:
        """Register partitions.

        If another statement deletes some of the files meanwhile, check the files again and repeat.

        Raises:
            ConflictError: A statement on another table is deleting some of the files, or has deleted them since they
                were listed.
        """
        index = self._context.index
        while True:
            try:
                index.commits.apply_changes(
                    table.table_id, changes, operation="import", deliver=False, listed_at_ms=listed_ms
                )
            except DeletedFilesError as error:
                listed_ms = index.now_ms()
                if partitions_to_leave(index, self._context.storage, table, changes, error):
                    raise
            else:
                return


def _without_secrets(found: TableDefinition, settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings without secrets, which must not be stored in the index."""
    kept = drop_secrets(settings)
    if len(kept) < len(settings):
        names = ", ".join(sorted(settings.keys() - kept.keys()))
        logger.warning(
            "Table %s has secrets in the metastore, which are not taken over (%s): give them to the catalog's storage",
            found.identifier,
            names,
        )
    return kept


def _warn_of_skipped(table: Table, scratch: Scratch) -> None:
    """Log directories below the table's location that are not partitions, such as UNION ALL's HIVE_UNION_SUBDIR_1."""
    count = scratch.count("SELECT count(*) FROM skipped")
    if count:
        first = scratch.rows("SELECT path, reason FROM skipped ORDER BY path LIMIT ?", (_SHOWN,))
        logger.warning(
            "Table %s is imported without %s below %s, which a preview of its repair lists: %s%s.",
            table.identifier, counted(count, "path"), table.definition.location,
            "; ".join(f"{path[:160]!r}: {reason}" for path, reason in first), "; …" if count > _SHOWN else "",
        )  # fmt: skip


def _check_complete(table: Table, scratch: Scratch) -> None:
    failure = next(scratch.rows("SELECT directory, reason FROM failures LIMIT 1"), None)
    if failure is not None:
        raise IncompleteListingError(
            f"Table {table.identifier} was not imported: {failure[0]!r} cannot be listed: {failure[1]}",
            {"table": str(table.identifier)},
        )


_Found = tuple[str, str | None, PartitionDescriptor | None]
"""A partition of the metastore: name, location, and descriptor (format and settings). A location or descriptor of None
means that of the table."""


def _partitions(client: HiveMetastore, definition: TableDefinition, hive_table: HiveTable) -> Iterator[_Found]:
    """Yield all partitions of the metastore's table."""
    if not definition.partition_columns:
        yield "", None, None
        return
    descriptors = Descriptors(hive_table, definition)
    for partition in client.partitions(hive_table.database, hive_table.name):
        reading = descriptors.reading(partition)
        if reading.problem is not None:
            raise _unreadable_partition(hive_table, partition, reading.problem)
        name, location = from_hive_partition(hive_table, partition)
        yield name, None if location is None else canonical_location(location), reading.descriptor


def _unreadable_partition(table: HiveTable, partition: HivePartition, problem: str) -> UnsupportedFormatError:
    name = table.name_of(partition.values)
    return UnsupportedFormatError(
        f"The metastore's table {table} cannot be imported: of its partition {name[:200]!r} {problem}. Write that "
        "partition anew by the engine that has made it, in a form that is read.",
        {"table": str(table), "partition": name[:200]},
    )


def _additions(scratch: Scratch, descriptors: Sequence[PartitionDescriptor | None]) -> Iterator[AddPartition]:
    query = (
        "SELECT i.name, i.location, i.files, f.path, f.size, f.modified_ms, f.etag FROM indexed_partitions i"
        " LEFT JOIN listed_files f ON f.name = i.name ORDER BY i.name"
    )
    scratch.execute("CREATE INDEX listed_files_by_name ON listed_files (name)")
    for (name, location, number), rows in groupby(scratch.rows(query), key=lambda row: row[:3]):
        files = tuple(
            DataFile(path, size, modified, etag=etag) for *_, path, size, modified, etag in rows if path is not None
        )
        yield AddPartition(name, files, location, descriptor=descriptors[number])
