"""Writes the rows of the version that one commit makes, in a transaction that the caller holds.

A row of a partition or file *begins* at the version that adds it and *ends* at the version that removes it. A partition
without an end is *current*: it belongs to the table's newest version.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from catalog_ext.metastore.index.database.prepared import Prepared, insert_rows, is_few
from catalog_ext.metastore.index.database.rows import PARTITION_ROW, KeyRows, partition_to_row
from catalog_ext.metastore.index.database.schema import PARTITION_NUMBER_BITS, file_statistics, files, partitions
from catalog_ext.metastore.index.database.sqlite_file import ALIVE
from catalog_ext.metastore.index.database.texts import name_hash, storable
from catalog_ext.metastore.index.write.outbox import PartitionChanges
from catalog_ext.metastore.index.write.partition_descriptors import THE_TABLES, number_of
from catalog_ext.metastore.index.write.partition_rows import living_named
from catalog_ext.metastore.index.write.partition_sums import PartitionSums, Volume, emptied, holding
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.json import statistics_to_dict, to_json
from catalog_ext.metastore.model.tables import DataFile, Partition, consistent

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from catalog_ext.metastore.index.database.rows import TableRow
    from catalog_ext.metastore.index.write.fixed_set import LatePartition
    from catalog_ext.metastore.model.changes import AddPartition
    from catalog_ext.metastore.model.descriptors import PartitionDescriptor
    from catalog_ext.metastore.model.tables import Table

_AT_ONCE = 500
_ROWS_HELD = 10_000
"""The most changed partition rows that are held in memory before they are written, as in a TRUNCATE."""
_FILES_AT_ONCE = 10_000

_FILE_COLUMNS = (
    "partition_id", "file_id", "begin_version", "end_version", "path", "size", "modified_ms", "n_rows", "etag_hash",
)  # fmt: skip

_STATISTICS_COLUMNS = ("partition_id", "file_id", "statistics")


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A change of a current partition: it gets files, and with ``clear`` the files that it has are removed.

    Attributes:
        location: The new location; None if the partition stays where it is, or (with ``moved``) moves to its default
            location.
    """

    partition: Partition
    added: Sequence[DataFile] = ()
    clear: bool = False
    location: str | None = None
    moved: bool = False

    @property
    def is_ours(self) -> bool:
        """Whether the write replaces files of another format than the table's by files of the table's format."""
        return self.clear and not self.moved and self.partition.descriptor is not None


@dataclass(slots=True)
class Applier:
    """Applies the changes of one commit.

    Args:
        connection: A connection in a transaction.
        row: The table's locked row, at the version that the commit makes.
        named: The current partitions by name, if the caller has looked up all names already; None as the value for a
            name without a partition.
    """

    connection: sa.Connection
    row: TableRow
    named: Mapping[str, Partition | None] | None = None
    table: Table = field(init=False)
    sums: PartitionSums = field(init=False)
    partitions_added: int = 0
    partitions_removed: int = 0
    partitions_changed: int = 0
    files_added: int = 0
    files_removed: int = 0
    come: Volume = field(default_factory=Volume)
    gone: Volume = field(default_factory=Volume)
    published: PartitionChanges = field(default_factory=PartitionChanges)
    kept_back: list[str] = field(default_factory=list)
    carried: list[str] = field(default_factory=list)
    next_partition: int = 0
    next_file: int = 0
    _statistics_rows: list[tuple[Any, ...]] = field(default_factory=list)
    _partition_rows: list[tuple[Any, ...]] = field(default_factory=list)
    _file_rows: list[tuple[Any, ...]] = field(default_factory=list)
    _descriptors: dict[PartitionDescriptor, int] = field(default_factory=dict)
    _key_rows: KeyRows = field(init=False)

    def __post_init__(self) -> None:
        self.table = self.row.table
        self.sums = PartitionSums(len(self.table.definition.keys))
        self._key_rows = KeyRows(self.table.definition.keys, str(self.table.identifier))
        self.next_partition = self.row.next_partition
        self.next_file = self.row.next_file

    @property
    def version(self) -> int:
        """The version that the commit makes."""
        return self.table.version

    @property
    def now(self) -> int:
        """The database's time when the table's row was read, in milliseconds since the epoch, UTC."""
        return self.row.now_ms

    @property
    def has_long_keys(self) -> bool:
        """Whether some partitions, old or new, have keys that are too long for the key columns ``k1`` to ``k8``."""
        return self._key_rows.has_long_keys or self.row.has_long_keys

    @property
    def is_described(self) -> bool:
        """Whether any partition has, or had, a descriptor of its own (another format or schema than the table)."""
        return bool(self._descriptors) or self.table.has_descriptors

    @property
    def is_small(self) -> bool:
        """Whether ``flush`` and ``record`` send only a few statements and no query, if nothing is delivered."""
        few = all(map(is_few, (self._partition_rows, self._file_rows, self._statistics_rows)))
        return few and self.sums.are_few and not self.published.dropped

    def flush(self) -> None:
        """Write the collected rows of partitions and files; the caller then calls ``version_record.record``."""
        self._flush_partitions()
        self._flush_files()
        self.sums.write(self.connection, self.table.table_id, self.version)

    def _flush_partitions(self) -> None:
        insert_rows(self.connection, partitions, PARTITION_ROW, self._partition_rows)
        self._partition_rows = []

    def _flush_files(self) -> None:
        insert_rows(self.connection, files, _FILE_COLUMNS, self._file_rows)
        insert_rows(self.connection, file_statistics, _STATISTICS_COLUMNS, self._statistics_rows)
        self._file_rows, self._statistics_rows = [], []

    def alive(self, names: Sequence[str]) -> dict[str, Partition]:
        """Return the table's current partitions (in its newest version) with these names, by name."""
        if self.named is not None and self.named.keys() == set(names):
            return {name: there for name, there in self.named.items() if there is not None}
        chunks = batched(names, _AT_ONCE)
        found = (there for some in chunks for there in living_named(self.connection, self.table, some))
        return {there.name: there for there in found}

    def drop(self, ended: Sequence[Partition]) -> None:
        """Remove current partitions and their files from the table."""
        for chunk in batched([partition.partition_id for partition in ended], _AT_ONCE):
            self.end_partitions(chunk)
            self._end(_END_FILES, chunk)
        self.partitions_removed += len(ended)
        for partition in ended:
            self.sums.add(partition, -1)
            self.files_removed += partition.files
            self.gone.add(partition.bytes, partition.rows)
            if partition.in_metastore:
                self.published.dropped.append(partition.name)
            else:
                self.published.ended_apart.append(partition.name)

    def rows_beside(self, given: Sequence[Partition]) -> int:
        """Return the number of index rows for current partitions and files, without those of the given partitions."""
        beside = len(given) + sum(partition.files for partition in given)
        return self.table.totals.partitions + self.table.totals.files - beside

    def end_everything(self, but: Sequence[Partition]) -> None:
        """Subtract all current partitions, except ``but``, from the table's sums and add them to the commit's counts.

        Their rows are not changed here; a deferred delete sets their end version later.
        """
        row, before = self.row, self.table.totals
        self.sums.end_everything(
            (before.partitions, before.files, before.bytes, row.counted_rows, row.uncounted_partitions)
        )
        for kept in but:
            # The partitions ``but`` were counted by their own changes, and again with the totals: add them back once.
            self.sums.add(kept, 1)
        uncounted = row.uncounted_partitions - sum(kept.rows is None for kept in but)
        n_rows = row.counted_rows - sum(kept.rows or 0 for kept in but)
        self.partitions_removed += before.partitions - len(but)
        self.files_removed += before.files - sum(kept.files for kept in but)
        self.gone.add(before.bytes - sum(kept.bytes for kept in but), None if uncounted else n_rows)

    def rewrite(self, changes: Sequence[Rewrite]) -> None:
        """Add files to current partitions, or replace all their files, without reading the existing files' rows."""
        self.partitions_changed += len(changes)
        for chunk in batched(changes, _AT_ONCE):
            self.end_partitions([c.partition.partition_id for c in chunk])
            cleared = [c.partition.partition_id for c in chunk if c.clear and c.partition.files]
            if cleared:
                self._end(_END_FILES, cleared)
            for change in chunk:
                self._rewrite_one(change)
            if len(self._partition_rows) >= _ROWS_HELD:
                self._flush_partitions()

    def _rewrite_one(self, change: Rewrite) -> None:
        before = change.partition
        self.sums.add(before, -1)
        begun = before
        if change.clear:
            begun = emptied(before)
            self.files_removed += before.files
            self.gone.add(before.bytes, before.rows)
        if change.moved or change.location is not None:
            begun = self._moved(begun, change.location)
        if change.is_ours:
            begun = begun._replace(descriptor=None)
        self._begin(holding(begun, change.added), self.published.altered, reset=change.is_ours)
        self._add_files(before.partition_id, change.added)

    def hold(
        self, before: Partition, kept: Sequence[DataFile], added: Sequence[DataFile], location: str | None, *,
        reset: bool = False,
    ) -> None:  # fmt: skip
        """Replace a partition's row by one for the files that it keeps and the files that are added.

        Args:
            before: The partition whose row has ended, or is about to end.
            kept: Files that stay.
            added: New files.
            location: The new location; None if the partition stays where it is.
            reset: Whether the metastore must read the partition like its table from now on.
        """
        self.partitions_changed += 1
        self.sums.add(before, -1)
        held = holding(emptied(before), kept)
        if held.files < before.files:
            known = before.rows is not None and held.rows is not None
            self.gone.add(before.bytes - held.bytes, (before.rows or 0) - (held.rows or 0) if known else None)
        begun = held if location is None else self._moved(held, location)
        self._begin(holding(begun, added), self.published.altered, reset=reset)
        self._add_files(before.partition_id, added)

    def carry(self, late: Sequence[tuple[LatePartition, Sequence[DataFile]]], *, anew: bool = False) -> None:
        """Remove the fixed set's files from partitions that changed since ``reserve``, and add new; later files stay.

        The fixed set is the set of files that the statement saw (see ``fixed_set``). With ``anew``, the rows of all
        these partitions are replaced, also if nothing changes: a deferred delete ends all rows that began before this
        version.
        """
        self.carried.extend(late_one.partition.name for late_one, _ in late)
        for chunk in batched([(p, added) for p, added in late if anew or p.ended or added], _AT_ONCE):
            self.end_partitions([late_one.partition.partition_id for late_one, _ in chunk])
            self.end_files([(p.partition.partition_id, file) for p, _ in chunk for file in p.ended])
            for late_one, added in chunk:
                self.hold(late_one.partition, late_one.carried, added, None)
            if len(self._partition_rows) >= _ROWS_HELD:
                self._flush_partitions()

    def describe(
        self, before: Partition, held: Sequence[DataFile], location: str | None,
        descriptor: PartitionDescriptor | None,
    ) -> None:  # fmt: skip
        """Replace a partition's row and all its files' rows, because it is read by another descriptor from now on.

        ``descriptor`` is None if it is read as its table.
        """
        own = None if descriptor is None else self._descriptor(descriptor)
        self.hold(before._replace(descriptor=own), (), held, location, reset=descriptor is None)

    def rename(
        self, before: Partition, name: str, added: Sequence[DataFile], *, location: str | None, in_metastore: bool
    ) -> None:
        """Give a current partition another name and location; it keeps its files, and more are added.

        Raises:
            InvalidPartitionNameError: The name does not consist of the table's partition columns.
            InvalidValueError: A value does not fit its column's type.
        """
        self.end_partitions([before.partition_id])
        self.sums.add(before, -1)
        if before.in_metastore:
            self.published.dropped.append(before.name)
        renamed = before._replace(name=name, keys=self._key_rows.of(name), in_metastore=in_metastore)
        self._begin(holding(_at(renamed, location), added), self.published.added)
        self._add_files(before.partition_id, added)
        self.partitions_changed += 1

    def end_partitions(self, partition_ids: Sequence[int]) -> None:
        """Set the end version of current partitions' rows; the rows of their files are not changed."""
        self._end(_END_PARTITIONS, partition_ids)

    def end_files(self, ended: Sequence[tuple[int, DataFile]]) -> None:
        """Set the end version of files, each given with its partition's number."""
        if not ended:
            return
        statement = (
            sa.update(files)
            .where(files.c.partition_id == sa.bindparam("p"), files.c.file_id == sa.bindparam("f"))
            .values(end_version=self.version)
        )
        self.connection.execute(statement, [{"p": p, "f": f.file_id} for p, f in ended])
        self.files_removed += len(ended)

    def _end(self, statement: Prepared, partition_ids: Sequence[int]) -> None:
        statement.run(self.connection, {"ended": list(partition_ids), "version": self.version})

    def add(self, changes: Iterable[AddPartition]) -> None:
        """Add new partitions with their files.

        Raises:
            InvalidPartitionNameError: A name does not consist of the table's partition columns.
            InvalidValueError: A value does not fit its column's type.
        """
        table_id = self.table.table_id
        first = table_id << PARTITION_NUMBER_BITS
        n_added = 0
        # Loads of millions of partitions run through this loop, so it is written for speed.
        for change in changes:
            name = change.name
            keys = self._key_rows.of(name)
            location = None if change.location is None else storable(change.location, "location's")
            partition_id = first + self.next_partition
            self.next_partition += 1
            n_added += 1
            n_bytes, n_rows = self._add_files(partition_id, change.files)
            descriptor = None if change.descriptor is None else self._descriptor(change.descriptor)
            added = Partition(
                partition_id, name, location, self.version, ALIVE, change.in_metastore, len(change.files), n_bytes,
                n_rows, descriptor, self.now, keys,
            )  # fmt: skip
            self._partition_rows.append(partition_to_row(added, table_id, name_hash(name)))
            self.sums.add(added, 1)
            if change.in_metastore:
                self.published.added.append(added)
            else:
                self.kept_back.append(name)
        self.partitions_added += n_added

    def _descriptor(self, descriptor: PartitionDescriptor) -> int:
        number = self._descriptors.get(descriptor)
        if number is None:
            number = self._descriptors[descriptor] = number_of(self.connection, self.table.table_id, descriptor)
        return number

    def _moved(self, partition: Partition, location: str | None) -> Partition:
        """Return the partition at another location, and record that the metastore's partition must move there too."""
        self.published.moved.add(partition.name)
        return _at(partition, location)

    def _begin(self, partition: Partition, published: list[Partition], *, reset: bool = False) -> None:
        begun = partition._replace(begin_version=self.version, end_version=ALIVE)
        self._partition_rows.append(partition_to_row(begun, self.table.table_id, name_hash(begun.name)))
        self.sums.add(begun, 1)
        if begun.in_metastore:
            published.append(begun._replace(descriptor=THE_TABLES) if reset else begun)

    def _add_files(self, partition_id: int, added: Sequence[DataFile]) -> tuple[int, int | None]:
        """Add rows for new files of a partition; return the files' bytes and rows (None if a row count is unknown)."""
        begin, number, rows = self.version, self.next_file, self._file_rows
        n_bytes, n_rows, known = 0, 0, True
        for file in added:
            rows.append((
                partition_id, number, begin, ALIVE, storable(file.path, "file"), file.size, file.modified_ms, file.rows,
                file.etag,
            ))  # fmt: skip
            if file.statistics:
                statistics = to_json(statistics_to_dict(consistent(file.statistics, file.rows)))
                self._statistics_rows.append((partition_id, number, statistics))
            number += 1
            n_bytes += file.size
            if file.rows is None:
                known = False
            else:
                n_rows += file.rows
        self.next_file = number
        self.files_added += len(added)
        counted = n_rows if known else None
        self.come.add(n_bytes, counted)
        if len(rows) >= _FILES_AT_ONCE:
            self._flush_files()
        return n_bytes, counted


def _at(partition: Partition, location: str | None) -> Partition:
    """Return the partition at another location; None stands for the default location."""
    return partition._replace(location=None if location is None else storable(location, "location's"))


def _end(rows: sa.Table) -> Prepared:
    ended = (rows.c.partition_id.in_(sa.bindparam("ended", expanding=True)), rows.c.end_version == ALIVE)
    return Prepared(sa.update(rows).where(*ended).values(end_version=sa.bindparam("version")))


_END_PARTITIONS, _END_FILES = _end(partitions), _end(files)
