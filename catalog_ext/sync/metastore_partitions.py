"""Reads the metastore's state of some partitions, for a change of the index.

The metastore decides which partitions exist, their locations and formats; the store decides which files they have.
Partitions with an undelivered outbox message stay unchanged: the message will overwrite the metastore's state.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import InvalidInputError, LocationNotAllowedError
from catalog_ext.metastore.hive.mapping.conversion import from_hive_partition, hive_partition_name, values_of_hive
from catalog_ext.metastore.hive.mapping.descriptors import Descriptors
from catalog_ext.metastore.hive.mapping.locations import same_location
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.partition_names import partition_values
from catalog_ext.metastore.storage.locations import Location, canonical_location
from catalog_ext.repair.options import MetastoreState
from catalog_ext.scan.equivalent_names import key_of
from catalog_ext.scan.key_layout import Layout, Place
from catalog_ext.sync.pending import pending_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from catalog_ext.context import Context
    from catalog_ext.metastore.hive.mapping.descriptors import Reading
    from catalog_ext.metastore.hive.mapping.model import HivePartition, HiveTable
    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore
    from catalog_ext.metastore.model.descriptors import PartitionDescriptor
    from catalog_ext.metastore.model.tables import Partition, Table
    from catalog_ext.sync.pending import PendingMessages

NOT_A_PARTITION = "it is no partition of the table"
_AT_ONCE = 1000
_ALTERED = "an alteration of ours has not reached the metastore yet, and may be of its columns too"
_IN_TWO_DIRECTORIES = (
    "a Hive engine has it in another directory than the index, and the metastore keeps it there: catalog-ext outbox "
    "says how to settle that"
)
_RENAMED = (
    "a Hive engine has renamed it to a partition that the index has in another directory: catalog-ext outbox says how "
    "to settle that"
)


@dataclass(slots=True)
class MetastorePartitions:
    """The metastore's state of some partitions.

    Attributes:
        pending: The outbox messages of the table that are not delivered yet.
        waiting: The keys (``key_of``) of partitions with an undelivered message.
        unmoved: Those keys of ``waiting`` whose messages do not change a partition's location in the metastore.
        places: The locations of the partitions that the index should have, by the index's names; None: below the
            table's location.
        gone: The partitions of the index that are dropped, because they were dropped in the metastore.
        lost: The partitions in ``places`` that the metastore lacks, although no event reports a drop.
        descriptors: New descriptors (format, settings) of partitions that the index must read differently.
        left: The partitions that are not imported, by the given names, with the reasons.
        later: The partitions that can be judged only after a message has been delivered, by the given names, with the
            reasons.
    """

    pending: PendingMessages
    waiting: set[str] = field(default_factory=set)
    unmoved: set[str] = field(default_factory=set)
    places: dict[str, str | None] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)
    descriptors: dict[str, PartitionDescriptor | None] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)
    later: dict[str, str] = field(default_factory=dict)

    def is_pending(self, name: str) -> bool:
        """Return whether an undelivered outbox message is about a partition."""
        return key_of(name) in self.waiting

    def state(self, *, must_lie: bool = False) -> MetastoreState:
        """Return the state for a repair; with ``must_lie``, partitions that the metastore lacks are omitted."""
        lost: frozenset[str] = frozenset() if must_lie else frozenset(self.lost)
        places = {name: place for name, place in self.places.items() if not must_lie or name not in self.lost}
        return MetastoreState(places, frozenset(self.gone), self.descriptors, lost, must_lie)


class MetastoreObserver:
    """Reads partitions of one table from the metastore.

    Args:
        context: The catalog's context.
        client: The metastore.
        hive: The metastore's table.
        table: The index's table, at the version that is changed.
    """

    def __init__(self, context: Context, client: HiveMetastore, hive: HiveTable, table: Table) -> None:
        self._context = context
        self._client = client
        self._hive = hive
        self._table = table
        self._layout = Layout(table.definition)
        self._own = context.index.descriptors.of_table(table)
        self._require_allowed = context.allowed.for_many()

    def observe(self, names: Mapping[str, bool]) -> MetastorePartitions:
        """Return the metastore's state of partitions.

        The index is read first, then the outbox, then the metastore, so that no earlier read is newer than a later one.

        Args:
            names: The partitions by name; True if a partition that the metastore lacks is known to be dropped.

        Raises:
            MetastoreError: The metastore does not answer, or a message for it cannot be read.
        """
        index = self._context.index
        verdicts = {name: self._layout.judge(name) for name in names}
        usable = [name for name, verdict in verdicts.items() if verdict.place is Place.PARTITION]
        ours = _by_values(index.living_partitions.of_values(self._table, usable))
        pending = pending_for(index, self._table.identifier, self._table)
        keys = [key_of(name) for name in usable]
        found = MetastorePartitions(pending, pending.among(keys), pending.unmoved(keys))
        hive = self._hive
        theirs = {values_of_hive(p): p for p in self._client.partitions_by_names(hive.database, hive.name, usable)}
        descriptors = Descriptors(hive, self._table.definition)
        for name, verdict in verdicts.items():
            if verdict.place is not Place.PARTITION:
                found.left[name] = verdict.reason or NOT_A_PARTITION
                continue
            values = partition_values(name)
            mine, there = ours.get(values, []), theirs.get(values)
            if there is None:
                _note_missing(found, mine, is_dropped=names[name])
            else:
                self._note(found, name, mine, there, descriptors.reading(there))
        if found.gone and pending.any:
            self._spare_taken_places(found, {name: ours.get(partition_values(name), []) for name in usable})
        return found

    def _spare_taken_places(self, found: MetastorePartitions, ours: Mapping[str, Sequence[Partition]]) -> None:
        """Do not drop partitions whose directories the metastore has under names that cannot be imported yet.

        A Hive engine has renamed such a partition, and a writer of this index has created a partition of the new name
        before the follower imported that. Until a user resolves it, the index keeps the rows under their old name.
        """
        taken = [place for names in batched(found.pending.unmoved_names(), _AT_ONCE) for place in self._places(names)]
        for name, held in ours.items() if taken else ():
            going = [self._table.directory_of(partition) for partition in held if partition.name in found.gone]
            if any(same_location(directory, place) for directory in going for place in taken):
                found.gone -= {partition.name for partition in held}
                found.later[name] = _RENAMED

    def _places(self, names: Sequence[str]) -> Iterator[str]:
        """Yield the locations that the metastore gives to these partitions, unless the index has them there as well."""
        hive = self._hive
        own = _by_values(self._context.index.living_partitions.of_values(self._table, names))
        known = [name for name in names if self._layout.judge(name).place is Place.PARTITION]
        asked = [hive_partition_name(hive, name) for name in known]
        for there in self._client.partitions_by_names(hive.database, hive.name, asked):
            mine = own.get(values_of_hive(there), ())
            if not any(self._lies_at(partition, there) for partition in mine):
                yield there.location

    def _lies_at(self, partition: Partition, there: HivePartition) -> bool:
        return same_location(self._table.directory_of(partition), there.location)

    def _note(
        self, found: MetastorePartitions, name: str, mine: Sequence[Partition], there: HivePartition, reading: Reading
    ) -> None:
        """Record a partition that the metastore has."""
        if found.pending.definition and reading.difference is not None:
            found.later[name] = _ALTERED
            return
        if key_of(name) in found.unmoved and not any(self._lies_at(partition, there) for partition in mine):
            found.later[name] = _IN_TWO_DIRECTORIES
            return
        if reading.problem is not None:
            found.left[name] = reading.problem
            return
        try:
            here = self._place(found, mine, there)
        except (InvalidInputError, LocationNotAllowedError) as error:
            found.left[name] = error.message
            return
        if here is None and not mine and found.pending.whole:
            # No message names this partition: a Hive engine has created it in a table that a pending message will
            # create or replace.
            found.later[name] = _ALTERED
        known = next((p for p in mine if p.name == here), None)
        descriptor = None if known is None or known.descriptor is None else self._own.get(known.descriptor)
        if here is not None and reading.differs_from(descriptor, is_known=known is not None):
            found.descriptors[here] = reading.descriptor

    def _place(self, found: MetastorePartitions, mine: Sequence[Partition], there: HivePartition) -> str | None:
        """Record the location of a partition that the metastore has.

        If an outbox message about the partition is pending, the index's location is kept.

        Returns:
            The partition's name in the index; None if a message about it is pending.

        Raises:
            LocationNotAllowedError: The location is not allowed in this service.
        """
        known = next((p for p in mine if self._lies_at(p, there)), None)
        known = known or next((p for p in mine if p.in_metastore), None)
        name, location = from_hive_partition(self._hive, there)
        location = None if location is None else canonical_location(location)
        if location is not None:
            self._require_allowed(Location.parse(location))
        if known is None:
            if found.is_pending(name):
                return None
            found.places[name] = location
            return name
        is_pending = found.is_pending(known.name)
        stays = is_pending or self._lies_at(known, there)
        found.places[known.name] = known.location if stays else canonical_location(there.location)
        return None if is_pending else known.name


def _note_missing(found: MetastorePartitions, mine: Sequence[Partition], *, is_dropped: bool) -> None:
    """Record a partition that the metastore lacks: dropped if a drop was reported, otherwise as one that stays."""
    held = {p.name: p.location for p in mine if p.in_metastore}
    if not held:
        return
    comes_back = found.pending.remakes or found.is_pending(next(iter(held)))
    if is_dropped and not comes_back:
        found.gone.update(held)
        return
    # The partition stays, or a pending message will add it to the metastore again. Keep it among those whose files are
    # compared, because Hive may have written rows to its location before.
    found.places.update(held)
    if not comes_back:
        found.lost.update(held)


def _by_values(partitions: Sequence[Partition]) -> dict[tuple[str | None, ...], list[Partition]]:
    """Return partitions by their values as texts: for the metastore, ``01`` and ``1`` are different values."""
    found: dict[tuple[str | None, ...], list[Partition]] = {}
    for partition in partitions:
        found.setdefault(partition_values(partition.name), []).append(partition)
    return found
