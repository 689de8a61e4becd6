"""Compares the partitions of a table on all three sides, page by page; the store's side comes from a repair dry run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

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
    waiting,
)
from catalog_ext.metastore.hive.mapping.conversion import from_hive_partition
from catalog_ext.metastore.hive.mapping.descriptors import Descriptors
from catalog_ext.metastore.hive.mapping.locations import same_location
from catalog_ext.metastore.hive.outbox.compare import compared, statistics_contradict
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.descriptors import PartitionDescriptor
from catalog_ext.repair.report import COMPARED_LATER, MOVING, REPAIR_AGAIN, UNKNOWN_RELOCATION
from catalog_ext.scan.equivalent_names import key_of
from catalog_ext.scan.observe import INCOMPLETE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from catalog_ext.drift.difference import IndexTimes
    from catalog_ext.metastore.hive.mapping.model import HivePartition, HiveTable
    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore
    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.json import JsonObject
    from catalog_ext.metastore.model.tables import Partition, Table
    from catalog_ext.scan.scratch import Scratch
    from catalog_ext.sync.pending import PendingMessages

ADD, DROP, CHANGE = "add", "drop", "change"
_AT_ONCE = 1000
_COLUMNS = "partition, key, action, files, bytes, newest_ms"
_UNSEEN = (MOVING, UNKNOWN_RELOCATION, COMPARED_LATER)
_AS_ITS_TABLE = "as its table"
_DROPPED = "the other side does not say when it was dropped"
_IN_PART = "the metastore names it, and does not give it when it is asked: it answers in part, or it is being dropped"


class StoreFinding(NamedTuple):
    """A difference between the store and the index in one partition.

    Attributes:
        action: ``add`` (the index lacks it), ``drop`` (the store lacks it) or ``change`` (it has other files).
        files: The number of differing files.
        bytes: The size of these files.
        newest_ms: The modification time of the partition's newest file; None if unknown.
    """

    partition: str
    key: str
    action: str
    files: int
    bytes: int
    newest_ms: int | None

    def words(self, index: str) -> str:
        """Return a text on the store's state; ``index`` is the text on the index's state."""
        if self.action == DROP:
            return MISSING
        words = files_words(self.files, self.bytes)
        return f"other files: {words} differ" if self.action == CHANGE else words


class StoreSide:
    """Looks up differences between store and index, which a repair dry run has found.

    Args:
        scratch: The dry run's scratch database.
        listed: Whether the store could be listed at all.
    """

    def __init__(self, scratch: Scratch, *, listed: bool = True) -> None:
        self._scratch = scratch
        self._listed = listed
        scratch.create_function("key_of", key_of)
        scratch.execute("CREATE INDEX listed_files_of_partition ON listed_files (name, modified_ms)")
        scratch.execute(
            f"CREATE TABLE store_side AS SELECT partition, key_of(partition) AS key, action, sum(files) AS files,"
            " sum(bytes) AS bytes, (SELECT max(modified_ms) FROM listed_files WHERE name = partition) AS newest_ms"
            f" FROM entries WHERE action IN ('{ADD}', '{DROP}', '{CHANGE}') GROUP BY partition, action"
        )
        scratch.execute("CREATE INDEX store_side_by_key ON store_side (key)")

    def take(self, names: Mapping[str, str]) -> dict[str, StoreFinding]:
        """Return the store's differences in the given partitions, and remove them from those that ``rest`` yields.

        Args:
            names: The partitions' names by key. If several partitions have equal values, the key's name selects one.

        Returns:
            The differences by key.
        """
        found: dict[str, StoreFinding] = {}
        query = f"SELECT {_COLUMNS} FROM store_side WHERE key IN ({{}})"
        for finding in map(StoreFinding._make, self._scratch.rows_of(query, names)):
            if finding.key not in found or finding.partition == names[finding.key]:
                found[finding.key] = finding
        self._scratch.delete("store_side", names)
        return found

    def hidden(self, names: Sequence[str]) -> set[str]:
        """Return the partitions whose listing failed."""
        if not self._listed:
            return set(names)
        query = "SELECT name FROM protected WHERE name IN ({})"
        return {name for (name,) in self._scratch.rows_of(query, names)}

    def rest(self) -> Iterator[StoreFinding]:
        """Yield the differences that ``take`` has not returned, by partition name."""
        return map(StoreFinding._make, self._scratch.rows(f"SELECT {_COLUMNS} FROM store_side ORDER BY partition"))

    def unseen(self, table: str) -> Iterator[Difference]:
        """Yield the store's paths that could not be compared."""
        for path, reason in self._scratch.rows("SELECT path, reason FROM entries WHERE action = 'skip' ORDER BY seq"):
            if reason in _UNSEEN or reason.startswith(INCOMPLETE) or reason.endswith(REPAIR_AGAIN):
                yield not_compared(table, reason, path)


class _MetastoreNames:
    """The partition names of a table in the metastore, on disk. ``take`` removes names that the index has too.

    Raises:
        CatalogExtError: The metastore does not answer.
    """

    def __init__(self, client: HiveMetastore, table: HiveTable, scratch: Scratch) -> None:
        self._scratch = scratch
        scratch.execute("CREATE TABLE named (key TEXT PRIMARY KEY, name TEXT) WITHOUT ROWID")
        names = client.partition_names(table.database, table.name)
        scratch.insert("named", ((key_of(name), name) for name in names))

    def take(self, keys: Sequence[str]) -> set[str]:
        """Return those of the keys that the metastore has, and remove them from the stored names."""
        taken = {key for (key,) in self._scratch.rows_of("SELECT key FROM named WHERE key IN ({})", keys)}
        self._scratch.delete("named", taken)
        return taken

    def rest(self) -> Iterator[str]:
        """Yield the remaining names, which only the metastore has."""
        return (name for (name,) in self._scratch.rows("SELECT name FROM named ORDER BY key"))


@dataclass(slots=True)
class _Pair:
    """A partition in the index and in the metastore.

    Attributes:
        name: The partition's name in the index; the metastore's name if the index lacks it.
        wanted: The partition as the index publishes it; None if the index lacks it.
        found: The metastore's partition; None if the metastore lacks it.
        readings: Texts on the format that the index and the metastore give the partition's files; None if equal.
        place: The explicit location of a partition that the index lacks; None for the default location.
    """

    name: str
    wanted: HivePartition | None
    found: HivePartition | None
    readings: tuple[str, str] | None = None
    place: str | None = None

    @property
    def moved(self) -> bool:
        """Whether the metastore has the partition at another location."""
        if self.wanted is None or self.found is None:
            return False
        return not same_location(self.found.location, self.wanted.location)

    @property
    def contradicts(self) -> bool:
        """Whether the statistics of both sides cannot describe the same files."""
        if self.wanted is None or self.found is None:
            return False
        return statistics_contradict(self.found, self.wanted.parameters)

    @property
    def differs(self) -> bool:
        """Whether the metastore's partition differs from the index's."""
        missing = self.wanted is None or self.found is None
        return missing or self.moved or self.contradicts or self.readings is not None


class PartitionComparison:
    """The comparison of one table's partitions on the three sides.

    Args:
        index: The index.
        table: The table at the version with which the store was compared.
        store: The differences between store and index.
        pending: The undelivered outbox messages.
        times: The commit times of the table's versions.
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

    def with_metastore(self, client: HiveMetastore, found: HiveTable, scratch: Scratch) -> Iterator[Difference]:
        """Yield the differences between the metastore's partitions and the index's.

        Raises:
            CatalogExtError: The metastore does not answer; differences yielded before are valid.
        """
        named = _MetastoreNames(client, found, scratch)
        descriptors = Descriptors(found, self._table.definition)
        for page in filter(None, self._index.publications.pages(self._table)):
            both = compared(client, found, page)
            there = named.take([key_of(each.name) for each in both])
            if any(each.found is None and key_of(each.name) in there for each in both):
                # The metastore lists the names of partitions that it did not return, so the answer was incomplete: ask
                # again.
                both = compared(client, found, page)
            said = {each.name: each.descriptor for each in page}
            pairs = [_Pair(c.name, c.wanted, c.found, _readings(descriptors, c.found, said[c.name])) for c in both]
            yield from self._differences([pair for pair in pairs if pair.differs], there)
        for names in batched(named.rest(), _AT_ONCE):
            yield from self._differences(self._unknown(client, found, names, descriptors), set(map(key_of, names)))

    def _unknown(
        self, client: HiveMetastore, table: HiveTable, names: Sequence[str], descriptors: Descriptors
    ) -> list[_Pair]:
        """Return the partitions that only the metastore has, then the names for which it returned no partition."""
        answer = client.partitions_by_names(table.database, table.name, names)
        given = {from_hive_partition(table, partition): partition for partition in answer}
        # If the index has a partition with equal values under another name, it publishes only one of them. Such a
        # partition is no difference.
        kept = {key_of(name) for name in self._partitions([name for name, _ in given])}
        pairs: dict[str, _Pair] = {}
        for (name, place), partition in given.items():
            if key_of(name) not in kept:
                problem = descriptors.reading(partition).problem
                readings = None if problem is None else (MISSING, problem)
                pairs[key_of(name)] = _Pair(name, None, partition, readings, place)
        answered = {key_of(name) for name, _ in given}
        rest = [_Pair(name, None, None) for name in names if key_of(name) not in answered]
        return [*(pair for _, pair in sorted(pairs.items())), *rest]

    def with_store_alone(self, *, metastore_compared: bool) -> Iterator[Difference]:
        """Yield differences between store and index for the partitions in which the metastore equals the index.

        Args:
            metastore_compared: Whether the metastore was compared. If not, the differences leave its state open.
        """
        for some in batched(self._store.rest(), _AT_ONCE):
            partitions = self._partitions([f.partition for f in some])
            changed_at = self._times.of_partitions(list(partitions.values()))
            for finding in some:
                name = finding.partition
                has = index_words(partitions.get(name))
                words = finding.words(has), has, has if metastore_compared else None
                yield self._of_store(finding, name, partitions.get(name), words, changed_at.get(name))

    def _partitions(self, names: Sequence[str]) -> Mapping[str, Partition]:
        return {p.name: p for p in self._index.living_partitions.of_values(self._table, names)}

    def _differences(self, pairs: Sequence[_Pair], there: Collection[str]) -> Iterator[Difference]:
        """Yield the differences of pairs that differ; ``there`` are the keys of partitions that the metastore has."""
        if not pairs:
            return
        names = [each.name for each in pairs]
        changed = self._index.living_partitions.changed_after(self._table, names)
        keys = {key_of(name): name for name in names if name not in changed}
        pending, found = self._pending.among(list(keys)), self._store.take(keys)
        partitions, hidden = self._partitions(names), self._store.hidden(names)
        changed_at = self._times.of_partitions(list(partitions.values()))
        for pair in pairs:
            key, name = key_of(pair.name), pair.name
            if name in changed:
                why = f"version {changed[name]} of the table changed it meanwhile: compare again"
                yield not_compared(self._name, why, name)
                continue
            if pair.found is None and key in there:
                yield not_compared(self._name, _IN_PART, name)
                continue
            finding, partition, at = found.get(key), partitions.get(name), changed_at.get(name)
            index = _index_words(pair, partition)
            store: str | None = index if finding is None else finding.words(index)
            store = NOT_KNOWN if name in hidden else store
            if pair.wanted is None and finding is None and name not in hidden:
                # The store was not listed at the partition's explicit location, so its state is unknown there.
                store = None if pair.place else MISSING
            for difference in self._of_metastore(pair, store, index, at):
                yield waiting(difference, self._pending) if key in pending else difference
            if finding is not None and pair.wanted is not None and pair.found is not None:
                words = store, index, statistics_words(pair.found.parameters)
                yield self._of_store(finding, name, partition, words, at)

    def _of_metastore(
        self, pair: _Pair, store: str | None, index: str, changed_at: ChangeTime | None
    ) -> Iterator[Difference]:
        """Yield the differences between a partition in the metastore and in the index."""
        table, name, found, wanted = self._name, pair.name, pair.found, pair.wanted
        if found is None:
            why = _missing_evidence(changed_at)
            yield Difference(table, DriftKind.PARTITION, name, store, index, MISSING, None, why)
            return
        at_metastore, has = changed_in_metastore(found.parameters), statistics_words(found.parameters)
        if wanted is None:
            has += f" at {pair.place}" if pair.place else ""
            newer = self._times.after_all(at_metastore)
            yield Difference(table, DriftKind.PARTITION, name, store, MISSING, has, *newer)
        elif pair.moved:
            newer = later(changed_at, at_metastore)
            places = wanted.location, found.location
            yield Difference(table, DriftKind.PARTITION_LOCATION, name, None, *places, *newer)
        if pair.contradicts:
            newer = later(changed_at, at_metastore)
            yield Difference(table, DriftKind.STATISTICS, name, store, index, has, *newer)
        if pair.readings is not None:
            evidence = str(at_metastore or "")
            yield Difference(table, DriftKind.PARTITION_DESCRIPTOR, name, None, *pair.readings, None, evidence)

    def _of_store(
        self, finding: StoreFinding, name: str, partition: Partition | None, words: tuple[str | None, str, str | None],
        changed_at: ChangeTime | None,
    ) -> Difference:  # fmt: skip
        """Return the difference between store and index; ``words`` are texts on store, index and metastore."""
        newest = changed_in_store(finding.newest_ms)
        is_known = finding.action == CHANGE or (finding.action == ADD and partition is not None)
        if finding.action == DROP:
            newer = NewerSide(None, _missing_evidence(changed_at))
        else:
            newer = self._times.after_all(newest) if partition is None else later(changed_at, newest)
        kind = DriftKind.FILES if is_known else DriftKind.PARTITION
        return Difference(self._name, kind, name, *words, *newer)


def _index_words(pair: _Pair, partition: Partition | None) -> str:
    if partition is None and pair.wanted is not None:
        return statistics_words(pair.wanted.parameters)
    return index_words(partition)


def _missing_evidence(changed_at: ChangeTime | None) -> str:
    return _DROPPED if changed_at is None else f"{changed_at}; {_DROPPED}"


def _readings(descriptors: Descriptors, found: HivePartition | None, said: JsonObject | None) -> tuple[str, str] | None:
    """Return texts on the formats that the index and the metastore give a partition's files; None if they are equal."""
    if found is None:
        return None
    reading = descriptors.reading(found)
    known = PartitionDescriptor.from_dict(said) if said else None
    here = _AS_ITS_TABLE if known is None else f"{known.format}, by a descriptor of its own"
    if reading.problem is not None:
        return here, f"not read: {reading.problem}"
    return (here, reading.difference or _AS_ITS_TABLE) if reading.differs_from(known) else None
