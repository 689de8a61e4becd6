"""Compares a table with the metastore, by names, locations and sizes of partitions, if no event says what changed.

A difference only makes a partition suspect; a listing of the store then decides whether it changed. A partition that
the metastore lacks counts as dropped only if an earlier comparison has seen it there.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from catalog_ext.hms_events.suspects import SuspectPartition
from catalog_ext.metastore.errors import MassDropError
from catalog_ext.metastore.hive.mapping.conversion import values_or_none
from catalog_ext.metastore.hive.mapping.descriptors import Descriptors
from catalog_ext.metastore.hive.mapping.locations import comparable_location, same_location
from catalog_ext.metastore.hive.mapping.statistics_parameters import BYTES, DDL_TIME, FILES
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.partition_names import partition_values
from catalog_ext.repair.options import DropLimit
from catalog_ext.scan.equivalent_names import key_of
from catalog_ext.scan.key_layout import Layout, Place

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from catalog_ext.context import Context
    from catalog_ext.hms_events.suspects import TableOutcome
    from catalog_ext.metastore.hive.mapping.descriptors import Reading
    from catalog_ext.metastore.hive.mapping.model import HivePartition, HiveTable
    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore
    from catalog_ext.metastore.index.tables.followed import PublishedStatistics
    from catalog_ext.metastore.model.tables import Partition, Table
    from catalog_ext.sync.pending import PendingMessages

logger = logging.getLogger(__name__)

_When: TypeAlias = "tuple[PublishedStatistics, int]"
"""The statistics that the index has published of partitions, with times; and the time of the oldest version that is
kept."""

_AT_ONCE = 1000
_REMEMBERED = 100_000
_CLOCKS_S = 3600
"""The most seconds by which the metastore's clock may be behind the index's."""
_WAITED_S = 3600
"""The most seconds between a commit and its delivery to the metastore."""
_MOST_MISCOUNTED = 10_000
"""The most partitions whose statistics are corrected after one comparison; the next comparison continues."""
_MOST_MISSING = 1000
"""The most missing partitions that are stored; with more, the next comparison knows nothing about earlier ones."""


class Checked:
    """Remembers the partitions that were checked although the metastore's statistics differ from the index's.

    The metastore's statistics may be wrong, or older than the last change. Such a partition is checked once, and not by
    every comparison.
    """

    def __init__(self) -> None:
        self._states: dict[tuple[int, int], tuple[tuple[int, int], str, int]] = {}

    def copy(self) -> Checked:
        """Return a copy, so that a preview does not change the original."""
        made = Checked()
        made._states = dict(self._states)
        return made

    def is_new(self, table: Table, mine: Partition, sizes: tuple[int, int], changed: str) -> bool:
        """Return whether this difference is new since the last comparison, and remember it."""
        key, state = (table.table_id, mine.partition_id), (sizes, changed, mine.begin_version)
        if self._states.get(key) == state:
            return False
        if len(self._states) >= _REMEMBERED:
            self._states.clear()
        self._states[key] = state
        return True


class FollowedComparison:
    """The comparison of tables with the metastore, by one run of the follower.

    Args:
        context: The catalog's context.
        client: The metastore.
        sizes_decide: Whether partitions with equal statistics are skipped, as in periodic comparisons. After a gap in
            the log it is False: then every partition without statistics is checked.
        drops: Whether a partition that an earlier comparison has seen, and the metastore lacks now, counts as dropped.
            It does not if the metastore may have been restored to an older state.
        checked: The results of earlier comparisons.
        since_s: The time when the metastore was last known to be in sync, by the index's clock; None for never. A
            delivery since that time may have overwritten the trace of an engine's change.

    Attributes:
        miscounted: Partitions whose statistics in the metastore are wrong for good, by name, with these statistics: the
            engine that changed their files did not count them.
    """

    def __init__(
        self, context: Context, client: HiveMetastore, *, sizes_decide: bool, drops: bool,
        checked: Checked | None = None, since_s: int | None = None,
    ) -> None:  # fmt: skip
        self._checked = checked or Checked()
        self._context = context
        self._client = client
        self._sizes_decide = sizes_decide
        self._drops = drops
        self._since_s = since_s
        self.miscounted: dict[str, tuple[int, int]] = {}

    def partitions(
        self,
        theirs: HiveTable,
        ours: Table,
        outcome: TableOutcome,
        pending: PendingMessages,
        *,
        made_anew: bool = False,
    ) -> tuple[dict[str, SuspectPartition], frozenset[str] | None]:
        """Return the suspect partitions, by the metastore's names, and the index's partitions that the metastore lacks.

        Args:
            theirs: The metastore's table.
            ours: The index's table.
            outcome: Gets the partitions that stay although they are missing.
            pending: The outbox messages of the table that are not delivered yet.
            made_anew: Whether the table was dropped and created again, so that its partitions were dropped too.

        The names are held in memory, because the metastore sends them at once; everything else is read in pages.

        Raises:
            MetastoreError: The metastore does not answer.
        """
        self.miscounted.clear()
        if not ours.definition.partition_columns:
            differs = made_anew or self._table_differs(theirs, ours)
            return {"": SuspectPartition()} if differs else {}, frozenset()
        names = list(self._client.partition_names(theirs.database, theirs.name))
        suspects, places = self._suspects(theirs, ours, names, made_anew=made_anew)
        dropped, unseen = self._missing(theirs, ours, set(names), places, outcome, pending, made_anew=made_anew)
        return suspects | dropped, unseen

    def _suspects(
        self, theirs: HiveTable, ours: Table, names: Sequence[str], *, made_anew: bool
    ) -> tuple[dict[str, SuspectPartition], set[str]]:
        """Return the metastore's partitions that differ from the index's, and their locations.

        In a table that was dropped and created again all partitions are suspect: an engine may have written to their
        directories, and later deliveries of the index may have overwritten the statistics that would show it.
        """
        suspects: dict[str, SuspectPartition] = {}
        places: set[str] = set()
        followed = self._context.index.followed
        oldest = followed.oldest_version_s(ours)
        descriptors, own = Descriptors(theirs, ours.definition), self._context.index.descriptors.of_table(ours)
        layout = Layout(ours.definition)

        def is_same(mine: Partition, there: HivePartition, reading: Reading, when: _When) -> bool:
            # Compare formats too: without statistics a new format is the only sign of a change.
            known = None if mine.descriptor is None else own.get(mine.descriptor)
            as_known = reading.problem is None and not reading.differs_from(known)
            return as_known and self._is_same(ours, mine, there, when)

        for chunk in batched(names, _AT_ONCE):
            found = self._client.partitions_by_names(theirs.database, theirs.name, chunk)
            mine = self._by_values(theirs, self._context.index.living_partitions.of_values(ours, chunk))
            when = (followed.published_statistics(ours, chunk), oldest)
            for partition in found:
                held, reading = mine.get(partition.values, ()), descriptors.reading(partition)
                if made_anew or not any(is_same(each, partition, reading, when) for each in held):
                    suspects[name := theirs.name_of(partition.values)] = SuspectPartition()
                    if reading.problem is None and layout.judge(name).place is Place.PARTITION:
                        places.add(comparable_location(partition.location))
        return suspects, places

    def _table_differs(self, theirs: HiveTable, ours: Table) -> bool:
        if not self._sizes_decide:
            return True
        sizes = _sizes(theirs.parameters)
        if sizes is None:
            return False
        held = self._context.index.living_partitions.of_values(ours, [""])
        if sizes != (ours.totals.files, ours.totals.bytes):
            return not held or any(self._is_to_look_at(ours, each, theirs.parameters, sizes) for each in held)
        followed = self._context.index.followed
        when = (followed.published_statistics(ours, [""]), followed.oldest_version_s(ours))
        return any(self._is_changed(ours, each, theirs.parameters, sizes, when) for each in held)

    def _is_same(self, table: Table, mine: Partition, there: HivePartition, when: _When) -> bool:
        if not same_location(table.directory_of(mine), there.location):
            return False
        sizes = _sizes(there.parameters)
        if sizes is None:
            return self._sizes_decide
        if sizes == (mine.files, mine.bytes):
            return not self._is_changed(table, mine, there.parameters, sizes, when)
        return not self._is_to_look_at(table, mine, there.parameters, sizes)

    def _is_to_look_at(
        self, table: Table, mine: Partition, parameters: Mapping[str, str], sizes: tuple[int, int]
    ) -> bool:
        """Return whether a partition whose statistics differ must be checked; note final statistics in ``miscounted``.

        Statistics are final if they are the same after a check, or an hour old: a Hive engine moves files first and
        counts them afterwards.
        """
        is_new = self._checked.is_new(table, mine, sizes, "")
        changed = parameters.get(DDL_TIME, "")
        is_old = changed.isdecimal() and int(changed) < time.time() - _CLOCKS_S
        if (is_old or not is_new) and len(self.miscounted) < _MOST_MISCOUNTED:
            self.miscounted[mine.name] = sizes
        return is_new

    def _is_changed(
        self, table: Table, mine: Partition, parameters: Mapping[str, str], sizes: tuple[int, int], when: _When
    ) -> bool:
        """Return whether an engine changed a partition later but not its size, for example by a repeated job."""
        changed = parameters.get(DDL_TIME, "")
        if not changed.isdecimal():
            return False
        states, oldest = when
        published = states.get(partition_values(mine.name), set())
        # A delivery of the index sets its commit time as the DDL time. A version whose commit time has expired is older
        # than all versions with a stored time.
        latest = max((at for _, _, at in published), default=oldest)
        # Hive counts all files in the directory, the index only its own. If the index delivered last, its statistics
        # may hide Hive's change.
        hides = self._since_s is not None and published and latest >= self._since_s - _WAITED_S
        if not hides and ((*sizes, int(changed)) in published or int(changed) < latest - _CLOCKS_S):
            return False
        return self._checked.is_new(table, mine, sizes, changed)

    def _by_values(self, theirs: HiveTable, partitions: Sequence[Partition]) -> dict[tuple[str, ...], list[Partition]]:
        found: dict[tuple[str, ...], list[Partition]] = {}
        for partition in partitions:
            values = values_or_none(theirs, partition.name)
            if values is not None:
                found.setdefault(values, []).append(partition)
        return found

    def _missing(
        self, theirs: HiveTable, ours: Table, names: set[str], places: set[str], outcome: TableOutcome,
        pending: PendingMessages, *, made_anew: bool,
    ) -> tuple[dict[str, SuspectPartition], frozenset[str] | None]:  # fmt: skip
        """Return the suspects among partitions that the metastore lacks, and the names of those without a drop.

        After a gap in the log all missing partitions are suspect, otherwise only dropped ones. The second value is None
        if there are too many names. ``places`` are the locations of partitions that the metastore has added.
        """
        index = self._context.index
        missing: dict[str, str] = {}
        renamed: set[str] = set()
        total = 0
        for page in index.publications.pages(ours):
            total += len(page)
            for partition in page:
                values = values_or_none(theirs, partition.name)
                if values is not None and (name := theirs.name_of(values)) not in names:
                    missing[name] = partition.name
                    place = partition.location
                    if place is not None and comparable_location(place) in places:
                        # Renamed: a new partition has its directory. Both names would count its rows twice.
                        renamed.add(name)
        if made_anew:
            return dict.fromkeys(missing, SuspectPartition(dropped=True)), frozenset()
        seen = self._seen(ours, list(missing.values())) if self._drops else set()
        dropped = {name for name, mine in missing.items() if mine in seen and name not in renamed}
        unseen = [mine for name, mine in missing.items() if name not in dropped and name not in renamed]
        if (refusal := self._mass_drop(ours, len(dropped), total)) is not None:
            # Drop none of the partitions, because so many need a user's confirmation, but import the other changes. The
            # next comparison finds the same partitions missing.
            outcome.action, outcome.error = "refused", refusal.message
            logger.warning("%s", refusal.message)
            dropped.clear()
        waiting = pending.among(map(key_of, unseen)) if pending.any else ()
        for name in unseen:
            if key_of(name) in waiting:
                # A pending message will add the partition to the metastore.
                continue
            outcome.skip(f"{name[:200]}: the metastore does not have it, and no drop of it is known")
        kept = frozenset(unseen) if len(unseen) <= _MOST_MISSING else None
        dropped |= renamed
        # After a gap check all missing partitions: an engine may have written to them before they disappeared.
        suspect_names = dropped if self._sizes_decide else missing
        return {name: SuspectPartition(dropped=name in dropped) for name in suspect_names}, kept

    def _seen(self, ours: Table, names: Sequence[str]) -> set[str]:
        """Return those of the named partitions that an earlier comparison has seen in the metastore."""
        seen = self._context.index.followed.seen(ours.table_id)
        if seen is None or seen.missing is None or not names:
            return set()
        then = self._context.index.partitions.existing(replace(ours, version=seen.version), names)
        return then - seen.missing

    def _mass_drop(self, ours: Table, count: int, total: int) -> MassDropError | None:
        """Return the error if more partitions would be dropped than the table's limit for one run; else None."""
        limit = DropLimit.of(ours, self._context.settings.conf)
        if limit.allows(count, total):
            return None
        table = str(ours.identifier)
        return MassDropError(
            f"The metastore does not have {count:,} of the {total:,} partitions of table {table} any more, which "
            f"is more than the {limit.percent} % that may go at once. They stay in the index. If they are gone for "
            "good, drop them in the index, too, or raise the table's property repair.mass-drop-percent; if not, "
            f"catalog-ext publish {table} brings them back in the metastore.",
            {"table": table, "partitions": str(count), "registered": str(total)},
        )


def _sizes(parameters: Mapping[str, str]) -> tuple[int, int] | None:
    files, size = parameters.get(FILES, ""), parameters.get(BYTES, "")
    return (int(files), int(size)) if files.isdecimal() and size.isdecimal() else None
