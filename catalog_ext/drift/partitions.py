"""Compares the partitions of the index with those of the metastore, and says of each what the store has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.drift.difference import (
    MISSING,
    NOT_KNOWN,
    ChangeTime,
    Difference,
    DriftKind,
    NewerSide,
    changed_in_metastore,
    changed_in_store,
    files_words,
    index_words,
    later,
    not_compared,
    statistics_words,
)
from catalog_ext.drift.store_side import CHANGE, DROP, store_words
from catalog_ext.metastore.hive.mapping.conversion import from_hive_partition
from catalog_ext.metastore.hive.mapping.descriptors import Descriptors, Reading
from catalog_ext.metastore.hive.outbox.compare import ComparedPartition, compared, statistics_contradict
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.descriptors import PartitionDescriptor
from catalog_ext.scan.equivalent_names import key_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from catalog_ext.drift.difference import IndexTimes
    from catalog_ext.drift.store_side import StoreFinding, StoreSide
    from catalog_ext.metastore.hive.mapping.model import HivePartition, HiveTable
    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore
    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.json import JsonObject
    from catalog_ext.metastore.model.tables import Partition, Table
    from catalog_ext.scan.scratch import Scratch
    from catalog_ext.sync.pending import PendingMessages

AT_ONCE = 1000
_AS_ITS_TABLE = "as its table"
_DROPPED = "the other side does not say when it was dropped"
_IN_PART = "the metastore names it, and does not give it when it is asked: it answers in part, or it is being dropped"


_Readings = tuple[str, str]
"""How a partition is read, in words: by the index, and by the metastore."""
_IN_QUERY = 500


class PartitionComparison:
    """The partitions of one table on the three sides.

    Args:
        index: The index.
        table: The table at the version with which the store was compared.
        store: What that comparison has found.
        pending: What the outbox has to deliver.
        times: When versions of the table were committed.
    """

    def __init__(
        self, index: Index, table: Table, store: StoreSide, pending: PendingMessages, times: IndexTimes
    ) -> None:
        self._index = index
        self._table = table
        self._name = str(table.identifier)
        self._store = store
        self._pending = pending
        self._times = times

    def with_metastore(self, client: HiveMetastore, found: HiveTable, named: MetastoreNames) -> Iterator[Difference]:
        """Yield in what the metastore's partitions differ from the index's.

        Raises:
            CatalogExtError: The metastore does not answer; what was yielded before stands.
        """
        descriptors = Descriptors(found, self._table.definition)
        for page in filter(None, self._index.publications.pages(self._table)):
            both = compared(client, found, page)
            there = named.take([key_of(each.name) for each in both])
            if any(each.found is None and key_of(each.name) in there for each in both):
                # Those that it names are asked for once more: an answer in part is no answer.
                both = compared(client, found, page)
            said = {each.name: each.descriptor for each in page}
            readings = {
                c.name: _otherwise(descriptors.reading(c.found), said[c.name]) for c in both if c.found is not None
            }
            differ = [c for c in both if not _in_step(c) or readings.get(c.name)]
            if differ:
                yield from self._of_index(differ, there, readings)
        for names in batched(named.rest(), AT_ONCE):
            yield from self._of_metastore_alone(client, found, names, descriptors)

    def with_store_alone(self, *, metastore_compared: bool) -> Iterator[Difference]:
        """Yield in what the store differs of partitions in which the metastore agrees with the index.

        Args:
            metastore_compared: Whether it does; otherwise it has no say.
        """
        for some in batched(self._store.rest(), AT_ONCE):
            partitions = self._partitions([f.partition for f in some])
            changed_at = self._times.of_partitions(list(partitions.values()))
            for finding in some:
                partition = partitions.get(finding.partition)
                kind = DriftKind.FILES if finding.action == CHANGE else DriftKind.PARTITION
                has = index_words(partition)
                newest = changed_in_store(finding.newest_ms)
                if finding.action == DROP:
                    verdict = NewerSide(None, _missing_evidence(changed_at.get(finding.partition)))
                elif partition is None:
                    verdict = self._times.after_all(newest)
                else:
                    verdict = later(changed_at.get(finding.partition), newest)
                yield Difference(
                    self._name, kind, finding.partition, store_words(finding, has), has,
                    has if metastore_compared else None, *verdict,
                )  # fmt: skip

    def _partitions(self, names: Sequence[str]) -> Mapping[str, Partition]:
        return {p.name: p for p in self._index.living_partitions.of_values(self._table, names)}

    def _changed(self, names: Sequence[str]) -> dict[str, Difference]:
        """Return those of the partitions that a later version has changed: of these nothing else is said."""
        changed = self._index.living_partitions.changed_after(self._table, names)
        why = "version {} of the table changed it meanwhile: compare again"
        return {name: not_compared(self._name, why.format(version), name) for name, version in changed.items()}

    def _of_index(
        self, differ: Sequence[ComparedPartition], there: set[str], readings: Mapping[str, _Readings | None]
    ) -> Iterator[Difference]:
        names = [each.name for each in differ]
        changed = self._changed(names)
        keys = {key_of(name): name for name in names if name not in changed}
        pending, found = self._pending.among(list(keys)), self._store.take(keys)
        partitions, hidden = self._partitions(names), self._store.hidden(names)
        changed_at = self._times.of_partitions(list(partitions.values()))
        for each in differ:
            key = key_of(each.name)
            if each.name in changed:
                yield changed[each.name]
                continue
            if each.found is None and key in there:
                yield not_compared(self._name, _IN_PART, each.name)
                continue
            partition = _Partition(
                self._name, each, partitions.get(each.name), found.get(key), changed_at.get(each.name),
                pending=key in pending, hidden=each.name in hidden,
            )  # fmt: skip
            yield from partition.differences(self._pending.why, readings.get(each.name))

    def _of_metastore_alone(
        self, client: HiveMetastore, table: HiveTable, names: Sequence[str], descriptors: Descriptors
    ) -> Iterator[Difference]:
        answer = client.partitions_by_names(table.database, table.name, names)
        given = {from_hive_partition(table, partition): partition for partition in answer}
        # What the index keeps from the metastore, the twin of other values, it has all the same.
        kept = {key_of(name) for name in self._partitions([name for name, _ in given])}
        by_name = {name: (location, p) for (name, location), p in given.items() if key_of(name) not in kept}
        answered = {key_of(name) for name, _ in given}
        keys = {key_of(name): name for name in by_name}
        changed, pending = self._changed(list(by_name)), self._pending.among(list(keys))
        found, hidden = self._store.take(keys), self._store.hidden(list(by_name))
        for key, name in sorted(keys.items()):
            location, partition = by_name[name]
            if name in changed:
                yield changed[name]
                continue
            store = self._store_of(found.get(key), location, hidden=name in hidden)
            has = statistics_words(partition.parameters) + (f" at {location}" if location else "")
            verdict = self._times.after_all(changed_in_metastore(partition.parameters))
            if key in pending:
                verdict = NewerSide(None, self._pending.why)
            yield Difference(
                self._name, DriftKind.PARTITION, name, store, MISSING, has, *verdict, pending=key in pending
            )
            problem = descriptors.reading(partition).problem
            if problem is not None:
                yield descriptor_difference(self._name, name, partition, (MISSING, problem))
        for name in names:
            if key_of(name) not in answered:
                yield not_compared(self._name, _IN_PART, name)

    def _store_of(self, finding: StoreFinding | None, location: str | None, *, hidden: bool) -> str | None:
        if finding is not None:
            return files_words(finding.files, finding.bytes)
        # At a place of its own nothing was listed.
        return NOT_KNOWN if hidden else None if location else MISSING


def _in_step(both: ComparedPartition) -> bool:
    found = both.found
    return found is not None and not both.moved and not statistics_contradict(found, both.wanted.parameters)


def _missing_evidence(changed_at: ChangeTime | None) -> str:
    return _DROPPED if changed_at is None else f"{changed_at}; {_DROPPED}"


def _otherwise(reading: Reading, said: JsonObject | None) -> _Readings | None:
    """Return how the two sides read a partition, where they do not read it alike."""
    known = PartitionDescriptor.from_dict(said) if said else None
    here = _AS_ITS_TABLE if known is None else f"{known.format}, by a descriptor of its own"
    if reading.problem is not None:
        return here, f"not read: {reading.problem}"
    return (here, reading.difference or _AS_ITS_TABLE) if reading.differs_from(known) else None


def descriptor_difference(
    table: str, name: str, partition: HivePartition, readings: _Readings, *, pending: bool = False
) -> Difference:
    """Return that the metastore has another descriptor of a partition than the index."""
    changed_at = changed_in_metastore(partition.parameters)
    verdict = NewerSide(None, str(changed_at or ""))
    return Difference(table, DriftKind.PARTITION_DESCRIPTOR, name, None, *readings, *verdict, pending=pending)


class _Partition:
    """One partition of the index that differs, or whose table has it otherwise in the metastore."""

    def __init__(
        self, table: str, both: ComparedPartition, partition: Partition | None, finding: StoreFinding | None,
        changed_at: ChangeTime | None, *, pending: bool, hidden: bool,
    ) -> None:  # fmt: skip
        self._table = table
        self._both = both
        self._finding = finding
        self._changed_at = changed_at
        self._pending = pending
        self._index = index_words(partition) if partition else statistics_words(both.wanted.parameters)
        self._store = NOT_KNOWN if hidden else store_words(finding, self._index)

    def differences(self, why_pending: str, readings: _Readings | None) -> Iterator[Difference]:
        """Yield in what it differs.

        Args:
            why_pending: What is said where a delivery is pending.
            readings: How the two sides read it, where they do not read it alike.
        """
        name, found, finding = self._both.name, self._both.found, self._finding
        if found is None:
            verdict = NewerSide(None, why_pending if self._pending else _missing_evidence(self._changed_at))
            yield self._make(DriftKind.PARTITION, self._store, MISSING, verdict, pending=self._pending)
            return
        at_metastore = changed_in_metastore(found.parameters)
        said = NewerSide(None, why_pending) if self._pending else later(self._changed_at, at_metastore)
        has = statistics_words(found.parameters)
        if self._both.moved:
            yield Difference(
                self._table, DriftKind.PARTITION_LOCATION, name, None, self._both.wanted.location, found.location,
                *said, pending=self._pending,
            )  # fmt: skip
        if statistics_contradict(found, self._both.wanted.parameters):
            yield self._make(DriftKind.STATISTICS, self._store, has, said, pending=self._pending)
        if readings is not None:
            yield descriptor_difference(self._table, name, found, readings, pending=self._pending)
        if finding is not None and finding.action == DROP:
            yield self._make(
                DriftKind.PARTITION, self._store, has, NewerSide(None, _missing_evidence(self._changed_at))
            )
        elif finding is not None:
            newest = later(self._changed_at, changed_in_store(finding.newest_ms))
            yield self._make(DriftKind.FILES, self._store, has, newest)

    def _make(
        self, kind: DriftKind, store: str, metastore: str, verdict: NewerSide, *, pending: bool = False
    ) -> Difference:
        return Difference(self._table, kind, self._both.name, store, self._index, metastore, *verdict, pending=pending)


class MetastoreNames:
    """The names of a table's partitions in the metastore, kept in the scratch file until the index's are compared.

    Raises:
        CatalogExtError: The metastore does not answer.
    """

    def __init__(self, client: HiveMetastore, table: HiveTable, scratch: Scratch) -> None:
        self._scratch = scratch
        scratch.execute("CREATE TABLE named (key TEXT PRIMARY KEY, name TEXT) WITHOUT ROWID")
        names = client.partition_names(table.database, table.name)
        scratch.insert("named", ((key_of(name), name) for name in names))

    def take(self, keys: Sequence[str]) -> set[str]:
        """Return those of the keys that are named, and forget them."""
        taken: set[str] = set()
        for some in batched(keys, _IN_QUERY):
            marks = ",".join("?" * len(some))
            rows = self._scratch.rows(f"SELECT key FROM named WHERE key IN ({marks})", tuple(some))
            taken.update(key for (key,) in rows)
            self._scratch.execute(f"DELETE FROM named WHERE key IN ({marks})", tuple(some))
        return taken

    def rest(self) -> Iterator[str]:
        """Yield the names that were not taken."""
        return (name for (name,) in self._scratch.rows("SELECT name FROM named ORDER BY key"))
