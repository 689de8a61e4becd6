"""Brings partitions in step that somebody may have changed in the metastore.

The metastore says which partitions there are and where they lie, the store which files they have. An event says only
which of them to look at, and that a partition that is missing was dropped by somebody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.following.pending import pending_for
from catalog_ext.metastore.errors import InvalidInputError, InvalidPartitionNameError, LocationNotAllowedError
from catalog_ext.metastore.hive.events import Statistics
from catalog_ext.metastore.hive.mapping.conversion import from_hive_partition, values_of_hive
from catalog_ext.metastore.hive.mapping.descriptors import Descriptors
from catalog_ext.metastore.hive.mapping.locations import same_location
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.partition_names import partition_values
from catalog_ext.metastore.storage.locations import Location, canonical_location
from catalog_ext.repair.options import MetastoreState
from catalog_ext.repair.report import is_open
from catalog_ext.scan.key_layout import Layout, Place

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from catalog_ext.context import Context
    from catalog_ext.following.doubts import PartitionDoubt
    from catalog_ext.following.outcomes import TableOutcome
    from catalog_ext.following.pending import PendingMessages
    from catalog_ext.metastore.hive.mapping.model import HivePartition, HiveTable
    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore
    from catalog_ext.metastore.model.descriptors import PartitionDescriptor
    from catalog_ext.metastore.model.tables import Partition, Table
    from catalog_ext.repair.table_repair import TableRepair

_AT_ONCE = 1000
_ATTEMPTS = 3
_OURS_IS_PENDING = "an alteration of ours has yet to reach the metastore, and may be of its columns too"
WHY = "the metastore's events"
"""What the history says of a repair that following has made."""


class PartitionFollowing:
    """Looks at partitions of a table that are in doubt."""

    def __init__(self, context: Context, repair: TableRepair) -> None:
        self._context = context
        self._repair = repair

    def bring_in_step(
        self, client: HiveMetastore, hive: HiveTable, table: Table, doubts: Mapping[str, PartitionDoubt],
        outcome: TableOutcome,
    ) -> dict[str, PartitionDoubt]:  # fmt: skip
        """Look at partitions, and commit what differs; return those that have to be looked at again.

        Raises:
            StorageError: A place cannot be listed.
            MetastoreError: The metastore does not answer.
        """
        left: dict[str, PartitionDoubt] = {}
        for chunk in batched(list(doubts), _AT_ONCE):
            pending = {name: doubts[name] for name in chunk}
            reason: str | None = None
            for _ in range(_ATTEMPTS):
                # What is read first is never newer than what is read later: the index, the outbox, the metastore.
                table = self._context.index.tables.load_by_id(table.table_id)
                pending, reason = self._look(client, hive, table, pending, outcome)
                if not pending:
                    break
            outcome.error = reason or outcome.error
            left |= pending
        return left

    def _look(
        self, client: HiveMetastore, hive: HiveTable, table: Table, doubts: dict[str, PartitionDoubt],
        outcome: TableOutcome,
    ) -> tuple[dict[str, PartitionDoubt], str | None]:  # fmt: skip
        """Return what has to be looked at again, and why."""
        layout = Layout(table.definition)
        usable: dict[str, PartitionDoubt] = {}
        for name, doubt in doubts.items():
            verdict = layout.judge(name) if name else None
            if verdict is None or verdict.place is Place.PARTITION:
                usable[name] = doubt
            else:
                outcome.skip(f"{name[:200]}: {verdict.reason or 'it is no partition of ours'}")
        foreign = self._without_ours(table, usable)
        if not foreign:
            return {}, None
        told, later = self._told(client, hive, table, foreign, outcome)
        if not told.names:
            return later, _OURS_IS_PENDING if later else None
        outcome.looked_at += len(told.places)
        report = self._repair.look_at(table, told.names, why=WHY, metastore_state=told)
        outcome.version = report.version
        for action in ("added", "dropped", "changed"):
            done = {entry.partition for entry in getattr(report, action)}
            setattr(outcome, action, getattr(outcome, action) + len(done))
        again: dict[str, str] = {}
        for entry in report.skipped:
            if is_open(entry.reason):
                again.setdefault(entry.partition or entry.path, entry.reason)
            else:
                outcome.skip(f"{entry.path}: {entry.reason}")
        if again:
            return {**_named(foreign, again), **later}, next(iter(again.values()))
        return later, _OURS_IS_PENDING if later else None

    def _without_ours(self, table: Table, doubts: dict[str, PartitionDoubt]) -> dict[str, PartitionDoubt]:
        """Return those of which an event tells that is no delivery of ours."""
        candidates = [name for name, doubt in doubts.items() if doubt.written is not None and not doubt.dropped]
        if not candidates:
            return doubts
        told = self._context.index.followed.published_statistics(table, candidates)
        ours = {values: {Statistics(*map(str, each)) for each in states} for values, states in told.items()}
        return {
            name: doubt
            for name, doubt in doubts.items()
            if doubt.dropped or doubt.written is None or doubt.written - ours.get(partition_values(name), set())
        }

    def _told(
        self, client: HiveMetastore, hive: HiveTable, table: Table, doubts: Mapping[str, PartitionDoubt],
        outcome: TableOutcome,
    ) -> tuple[MetastoreState, dict[str, PartitionDoubt]]:  # fmt: skip
        """Return what the metastore has of the partitions, but for those about which our own change decides.

        Those come beside it that differ from a table that the metastore has yet to hear of: it may change them too.
        """
        if not table.definition.partition_columns:
            return MetastoreState({"": None}), {}
        names = list(doubts)
        ours = _by_values(self._context.index.living_partitions.of_values(table, names))
        pending = pending_for(self._context.index, table.identifier, table)
        theirs = {values_of_hive(p): p for p in client.partitions_by_names(hive.database, hive.name, names)}
        places: dict[str, str | None] = {}
        gone: set[str] = set()
        lost: set[str] = set()
        descriptors, own = Descriptors(hive, table.definition), self._context.index.descriptors.of_table(table)
        read: dict[str, PartitionDescriptor | None] = {}
        later: dict[str, PartitionDoubt] = {}
        require_allowed = self._context.allowed.for_many()
        for name, doubt in doubts.items():
            values = partition_values(name)
            mine, there = ours.get(values, []), theirs.get(values)
            if there is None:
                gone |= self._dropped(mine, doubt, pending, places, lost)
                continue
            reading = descriptors.reading(there)
            if pending.definition and reading.difference is not None:
                later[name] = doubt
                continue
            if reading.problem is not None:
                outcome.skip(f"{name[:200]}: {reading.problem}")
                continue
            try:
                here = self._place(hive, table, mine, there, pending, places, require_allowed)
            except (InvalidInputError, LocationNotAllowedError) as error:
                # The other partitions of the table are followed all the same.
                outcome.skip(f"{name[:200]}: {error.message}")
                continue
            if here is not None and reading.differs_from(_descriptor(here, mine, own), is_known=_knows(here, mine)):
                read[here] = reading.descriptor
        for name in sorted(lost):
            outcome.skip(f"{name[:200]}: the metastore does not have it, and nobody is known to have dropped it")
        return MetastoreState(places, frozenset(gone), read, frozenset(lost)), later

    def _dropped(
        self, mine: Sequence[Partition], doubt: PartitionDoubt, pending: PendingMessages, places: dict[str, str | None],
        lost: set[str],
    ) -> set[str]:  # fmt: skip
        """Return what goes of the partitions that the metastore has not; places get those that stay.

        Of these ``lost`` gets those that no change of ours brings back.
        """
        held = {p.name: p.location for p in mine if p.in_metastore}
        if not held:
            return set()
        name = next(iter(held))
        comes_back = pending.names(name) or pending.definition
        if doubt.dropped and not comes_back:
            return set(held)
        # It stays, or a change of ours brings it back, with all that lies there: Hive's rows, if it wrote some before.
        places.update(held)
        if not comes_back:
            lost.update(held)
        return set()

    def _place(
        self, hive: HiveTable, table: Table, mine: Sequence[Partition], there: HivePartition, pending: PendingMessages,
        places: dict[str, str | None], require_allowed: Callable[[Location], None],
    ) -> str | None:  # fmt: skip
        """Say where the metastore has a partition; where a change of ours is on its way, where we have it.

        Returns:
            Its name here, unless a change of ours to it is on its way.

        Raises:
            LocationNotAllowedError: The service does not serve the place.
        """
        known = next((p for p in mine if same_location(table.directory_of(p), there.location)), None)
        known = known or next((p for p in mine if p.in_metastore), None)
        name, location = from_hive_partition(hive, there)
        location = None if location is None else canonical_location(location)
        if location is not None:
            require_allowed(Location.parse(location))
        if known is None:
            if not pending.names(name):
                places[name] = location
                return name
            return None
        if pending.names(known.name) or same_location(table.directory_of(known), there.location):
            places[known.name] = known.location
        else:
            places[known.name] = canonical_location(there.location)
        return None if pending.names(known.name) else known.name


def _named(doubts: dict[str, PartitionDoubt], names: Collection[str]) -> dict[str, PartitionDoubt]:
    """Return those of some names of ours; all of them where one is not among them: who knows what it is about."""
    try:
        values = {partition_values(name) for name in names}
    except InvalidPartitionNameError:
        return doubts
    found = {name: doubt for name, doubt in doubts.items() if partition_values(name) in values}
    return found if len(found) == len(values) else doubts


def _descriptor(
    name: str, mine: Sequence[Partition], own: Mapping[int, PartitionDescriptor]
) -> PartitionDescriptor | None:
    number = next((p.descriptor for p in mine if p.name == name), None)
    return None if number is None else own.get(number)


def _knows(name: str, mine: Sequence[Partition]) -> bool:
    return any(p.name == name for p in mine)


def _by_values(partitions: Sequence[Partition]) -> dict[tuple[str | None, ...], list[Partition]]:
    """Return partitions by their values as they are spelled: ``01`` is another one to the metastore than ``1``."""
    found: dict[tuple[str | None, ...], list[Partition]] = {}
    for partition in partitions:
        found.setdefault(partition_values(partition.name), []).append(partition)
    return found
