"""Partitions as the metastore has them, with the files that lie there, as changes of the index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.drift.planned import Mended, left_alone
from catalog_ext.metastore.errors import InvalidInputError, LocationNotAllowedError
from catalog_ext.metastore.hive.mapping.conversion import from_hive_partition, partition_values_of
from catalog_ext.metastore.hive.mapping.descriptors import Descriptors
from catalog_ext.metastore.hive.outbox.compare import found_by_values
from catalog_ext.metastore.model.changes import AddPartition, DropPartition
from catalog_ext.metastore.model.ignored_names import IgnoredNames
from catalog_ext.metastore.model.tables import DataFile
from catalog_ext.metastore.storage.locations import Location, canonical_location
from catalog_ext.scan.equivalent_names import key_of
from catalog_ext.scan.key_layout import Layout, Place
from catalog_ext.scan.location_listing import list_locations
from catalog_ext.scan.scratch import Scratch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog_ext.context import Context
    from catalog_ext.metastore.hive.mapping.model import HiveTable
    from catalog_ext.metastore.model.changes import Change
    from catalog_ext.metastore.model.descriptors import PartitionDescriptor
    from catalog_ext.metastore.model.tables import Table

_GONE = "the metastore does not have it any more"
_NOTHING = "nothing lies at {}, where the metastore has it"
_TWIN = "the index has its values under the name {!r}"


class AdoptedPartitions:
    """Takes over some partitions of a table.

    Attributes:
        left: What was left alone, and why.
    """

    def __init__(self, context: Context, table: Table, found: HiveTable) -> None:
        self._context = context
        self._table = table
        self._found = found
        self._name = str(table.identifier)
        self.left: list[Mended] = []
        self._require_allowed = context.allowed.for_many()
        self._descriptors: dict[str, PartitionDescriptor | None] = {}

    def changes(self, names: Sequence[str], *, moves: bool) -> list[Change]:
        """Return the changes by which the index has the partitions as the metastore has them now.

        Args:
            names: Partitions, by the index's names or those that they would have.
            moves: Whether the index has them elsewhere.

        Raises:
            StorageError: The scratch file cannot be written.
            MetastoreUnavailableError: The metastore does not answer.
        """
        places = self._places(names)
        scratch = Scratch()
        try:
            wanted = ((name, self._table.directory(name, place)) for name, place in places.items())
            list_locations(self._context.storage, wanted, scratch, IgnoredNames.of(self._table.definition.properties))
            failures = dict(scratch.rows("SELECT directory, reason FROM failures"))
            listed = {name for (name,) in scratch.rows("SELECT name FROM listed_partitions")}
            files: dict[str, list[DataFile]] = {}
            for name, path, size, modified_ms, etag in scratch.rows(
                "SELECT name, path, size, modified_ms, etag FROM listed_files ORDER BY name, path"
            ):
                files.setdefault(name, []).append(DataFile(path, size, modified_ms, etag=etag))
        finally:
            scratch.close()
        changes: list[Change] = []
        for name, place in places.items():
            directory = self._table.directory(name, place)
            if name in failures:
                self._leave(name, failures[name])
            elif name not in listed and self._context.storage.store_has_directories(directory):
                self._leave(name, _NOTHING.format(directory))
            else:
                changes += [DropPartition(name)] if moves else []
                own = self._descriptors.get(name)
                changes.append(AddPartition(name, tuple(files.get(name, ())), place, descriptor=own))
        return changes

    def _places(self, names: Sequence[str]) -> dict[str, str | None]:
        """Return the location of each partition that can be taken over; None is the default one."""
        values = [partition_values_of(self._found, name) for name in names]
        found = found_by_values(self._context.metastore.client(), self._found, values)
        given = {key_of(self._found.name_of(values)): partition for values, partition in found.items()}
        known = {key_of(p.name): p.name for p in self._context.index.living_partitions.of_values(self._table, names)}
        layout, descriptors = Layout(self._table.definition), Descriptors(self._found, self._table.definition)
        places: dict[str, str | None] = {}
        for name in names:
            if key_of(name) not in given:
                self._leave(name, _GONE)
                continue
            partition = given[key_of(name)]
            reading = descriptors.reading(partition)
            problem = reading.problem or self._obstacle(name, known, layout)
            if problem:
                self._leave(name, problem)
                continue
            default, location = from_hive_partition(self._found, partition)
            try:
                places[name] = self._place(name, default, location)
                self._descriptors[name] = reading.descriptor
            except (InvalidInputError, LocationNotAllowedError) as error:
                self._leave(name, error.message)
        return places

    def _place(self, name: str, default: str, location: str | None) -> str | None:
        if location is None and default == name:
            return None
        place = canonical_location(location or f"{self._found.location}/{default}")
        self._require_allowed(Location.parse(place))
        return None if place == self._table.directory(name) else place

    def _obstacle(self, name: str, known: dict[str, str], layout: Layout) -> str:
        verdict = layout.judge(name)
        if verdict.place is not Place.PARTITION:
            return verdict.reason or "it is no partition of the table"
        twin = known.get(key_of(name))
        return "" if twin is None or twin == name else _TWIN.format(twin)

    def _leave(self, name: str, why: str) -> None:
        self.left.append(left_alone(self._name, name, why))
