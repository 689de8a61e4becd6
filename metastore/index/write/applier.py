"""Writes the rows of the version that one commit makes, in a transaction that the caller holds."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from catalog_ext.metastore.index.database.bulk import insert_rows, is_few
from catalog_ext.metastore.index.database.keys import KeyRows
from catalog_ext.metastore.index.database.prepared import Prepared
from catalog_ext.metastore.index.database.schema import (
    ALIVE,
    KEY_COLUMNS,
    PARTITION_NUMBER_BITS,
    file_statistics,
    files,
    partitions,
    tables,
)
from catalog_ext.metastore.index.database.texts import name_hash, storable
from catalog_ext.metastore.index.database.version_rows import insert_version, version_date
from catalog_ext.metastore.index.write.applied import (
    NamedPartitions,
    Published,
    Rewrite,
    Size,
    Sums,
    Twin,
    Volume,
    twin,
)
from catalog_ext.metastore.index.write.outbox import PartitionChanges, enqueue_changes, statistics_parameters
from catalog_ext.metastore.index.write.partition_descriptors import THE_TABLES, documents, number_of
from catalog_ext.metastore.index.write.partition_rows import give_to_metastore, has_untold, heirs
from catalog_ext.metastore.index.write.partition_sums import PartitionSums
from catalog_ext.metastore.messages import PublishedPartition
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.json import statistics_to_dict, to_json
from catalog_ext.metastore.model.partition_names import partition_values
from catalog_ext.metastore.model.tables import DataFile, consistent
from catalog_ext.metastore.runtime.users import current_user

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from catalog_ext.metastore.index.write.fixed_set import LatePartition
    from catalog_ext.metastore.model.changes import AddPartition, Summary
    from catalog_ext.metastore.model.descriptors import PartitionDescriptor
    from catalog_ext.metastore.model.tables import Table

logger = logging.getLogger(__name__)

_AT_ONCE = 500
_ROWS_HELD = 10_000
"""Rows of partitions that are changed by the thousand, as by a TRUNCATE, and held in memory before they are written."""
_FILES_AT_ONCE = 10_000
_FEW_NAMES = 1000
"""Of more, one look at all partitions costs less than to look for the values of each."""

_PARTITION_COLUMNS = (
    "partition_id", "begin_version", "end_version", "table_id", "name", "name_hash",
    *(f"k{i}" for i in range(1, KEY_COLUMNS + 1)),
    "location", "in_metastore", "n_files", "n_bytes", "n_rows", "created_at_ms", "descriptor_id",
)  # fmt: skip

_FILE_COLUMNS = (
    "partition_id", "file_id", "begin_version", "end_version", "path", "size", "modified_ms", "n_rows", "etag_hash",
)  # fmt: skip

COUNTS = ("partitions_added", "partitions_removed", "partitions_changed", "files_added", "files_removed")
"""What the history's summary counts of every commit."""

_STATISTICS_COLUMNS = ("partition_id", "file_id", "statistics")


@dataclass(slots=True)
class Applier:
    """Applies the changes of one commit.

    Args:
        connection: In a transaction.
        table: As loaded after its row was locked.
        version: The version that the commit makes.
        row: The table's row.
        now: The time of the database, in milliseconds since the epoch.
        named: What ``alive`` is asked for, where that is known.
    """

    connection: sa.Connection
    table: Table
    version: int
    row: Mapping[str, Any]
    now: int
    named: NamedPartitions | None = None
    sums: Sums = field(init=False)
    partitions_added: int = 0
    partitions_removed: int = 0
    partitions_changed: int = 0
    files_added: int = 0
    files_removed: int = 0
    come: Volume = field(default_factory=Volume)
    gone: Volume = field(default_factory=Volume)
    published: Published = field(default_factory=Published)
    kept_back: list[str] = field(default_factory=list)
    carried: list[str] = field(default_factory=list)
    _next_partition: int = 0
    _next_file: int = 0
    _statistics_rows: list[tuple[Any, ...]] = field(default_factory=list)
    _partition_rows: list[tuple[Any, ...]] = field(default_factory=list)
    _file_rows: list[tuple[Any, ...]] = field(default_factory=list)
    _hashes: dict[str, str] = field(default_factory=dict)
    _descriptors: dict[PartitionDescriptor, int] = field(default_factory=dict)
    _key_rows: KeyRows = field(init=False)

    def __post_init__(self) -> None:
        self.sums = Sums(PartitionSums(len(self.table.definition.keys)))
        self._key_rows = KeyRows(self.table.definition.keys, str(self.table.identifier))
        self._next_partition = self.row["next_partition_number"]
        self._next_file = self.row["next_file_id"]

    @property
    def is_small(self) -> bool:
        """Whether ``flush`` and ``record`` send a few statements, and ask nothing, where nothing is delivered."""
        few = all(map(is_few, (self._partition_rows, self._file_rows, self._statistics_rows)))
        return few and self.sums.parts.are_few and not self.published.dropped

    def flush(self) -> None:
        """Write the rows that were gathered, and the table's own."""
        self._flush_partitions()
        self._flush_files()
        self.sums.parts.write(self.connection, self.table.table_id, self.version)
        self._update_table()
        self._hand_over()

    def _hand_over(self) -> None:
        """Give the metastore the twins of what it loses: it has one partition of equal values, the index may have more.

        One message moves it from the one directory to the other.
        """
        dropped = self.published.dropped
        if not dropped or not self.table.definition.keys:
            return
        told = {partition_values(name) for name, *_ in (*self.published.added, *self.published.altered)}
        gone = [name for name in dropped if partition_values(name) not in told]
        if len(gone) > _FEW_NAMES and not has_untold(self.connection, self.table):
            return
        inherited = heirs(self.connection, self.table, gone)
        new = [row["partition_id"] for row in inherited.values() if not row["in_metastore"]]
        give_to_metastore(self.connection, new)
        self.published.altered.extend(map(twin, inherited.values()))
        dropped[:] = [name for name in dropped if partition_values(name) not in inherited]

    def _flush_partitions(self) -> None:
        insert_rows(self.connection, partitions, _PARTITION_COLUMNS, self._partition_rows)
        self._partition_rows = []

    def _flush_files(self) -> None:
        insert_rows(self.connection, files, _FILE_COLUMNS, self._file_rows)
        insert_rows(self.connection, file_statistics, _STATISTICS_COLUMNS, self._statistics_rows)
        self._file_rows, self._statistics_rows = [], []

    def alive(self, names: Sequence[str]) -> dict[str, Mapping[str, Any]]:
        """Return the rows of the living partitions of these names."""
        if self.named is not None and self.named.hashes.keys() == set(names):
            self._hashes.update(self.named.hashes)
            return dict(self.named.rows)
        found: dict[str, Mapping[str, Any]] = {}
        for chunk in batched(names, _AT_ONCE):
            some = NamedPartitions.of(chunk)
            self._hashes.update(some.hashes)
            query, asked = some.query(self.table.table_id)
            found |= some.found(query.rows(self.connection, asked)).rows
        return found

    def _hash(self, name: str) -> str:
        return self._hashes.pop(name, None) or name_hash(name)

    def drop(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """End living partitions, given by their rows, and their files."""
        for chunk in batched([row["partition_id"] for row in rows], _AT_ONCE):
            self._end(_END_PARTITIONS, chunk)
            self._end(_END_FILES, chunk)
        self.partitions_removed += len(rows)
        for row in rows:
            self.sums.add(row["k1"], row["n_files"], row["n_bytes"], row["n_rows"], -1)
            self.files_removed += row["n_files"]
            self.gone.add(row["n_bytes"], row["n_rows"])
            if row["in_metastore"]:
                self.published.dropped.append(row["name"])

    def rows_beside(self, rows: Sequence[Mapping[str, Any]]) -> int:
        """Return how many rows the table's living partitions and files have, but for partitions that are given."""
        given = len(rows) + sum(row["n_files"] for row in rows)
        return int(self.row["total_partitions"] + self.row["total_files"] - given)

    def end_everything(self, but: Sequence[Mapping[str, Any]]) -> None:
        """Count out all living partitions but some, given by their rows; a deferred delete ends their rows."""
        before = self.row
        n_files = before["total_files"] - sum(row["n_files"] for row in but)
        n_bytes = before["total_bytes"] - sum(row["n_bytes"] for row in but)
        n_rows = before["counted_rows"] - sum(row["n_rows"] or 0 for row in but)
        uncounted = before["uncounted_partitions"] - sum(row["n_rows"] is None for row in but)
        n_partitions = before["total_partitions"] - len(but)
        self.partitions_removed += n_partitions
        self.files_removed += n_files
        self.gone.add(n_bytes, None if uncounted else n_rows)
        self.sums.end_everything(n_partitions, n_files, n_bytes, n_rows, uncounted)
        for row in but:
            # What was counted out by itself was counted out with all.
            self.sums.parts.add(row["k1"], row["n_files"], row["n_bytes"], row["n_rows"], 1)

    def rewrite(self, changes: Sequence[Rewrite]) -> None:
        """Add to living partitions, or replace all that they hold, without reading it."""
        self.partitions_changed += len(changes)
        for chunk in batched(changes, _AT_ONCE):
            self._end(_END_PARTITIONS, [c.row["partition_id"] for c in chunk])
            cleared = [c.row["partition_id"] for c in chunk if c.clear and c.row["n_files"]]
            if cleared:
                self._end(_END_FILES, cleared)
            for change in chunk:
                self._rewrite_one(change)
            if len(self._partition_rows) >= _ROWS_HELD:
                self._flush_partitions()

    def _rewrite_one(self, change: Rewrite) -> None:
        row = change.row
        self.sums.add(row["k1"], row["n_files"], row["n_bytes"], row["n_rows"], -1)
        held = Size() if change.clear else Size(row["n_files"], row["n_bytes"], row["n_rows"])
        self.files_removed += row["n_files"] - held.files
        if change.clear:
            self.gone.add(row["n_bytes"], row["n_rows"])
        moved: dict[str, str | None] = {} if change.location is None else {
            "location": storable(change.location, "location's")
        }  # fmt: skip
        if change.moved and change.location is None:
            moved = {"location": None}
        own = {"descriptor_id": None} if change.is_ours else {}
        self._begin({**row, **moved, **own}, held.plus(change.added), self.published.altered, reset=change.is_ours)
        self._add_files(row["partition_id"], change.added)

    def hold(
        self, row: Mapping[str, Any], kept: Sequence[DataFile], added: Sequence[DataFile], location: str | None
    ) -> None:
        """Begin a partition, given by its ended row, with files that it keeps and others that it gets.

        Args:
            row: The row that has ended, or is about to.
            kept: Files that stay.
            added: Files that come.
            location: Where the partition moves to; None when it stays where it is.
        """
        self.partitions_changed += 1
        self.sums.add(row["k1"], row["n_files"], row["n_bytes"], row["n_rows"], -1)
        if len(kept) < row["n_files"]:
            held = Size().plus(kept)
            known = row["n_rows"] is not None and held.rows is not None
            self.gone.add(row["n_bytes"] - held.bytes, row["n_rows"] - held.rows if known else None)
        moved = {} if location is None else {"location": storable(location, "location's")}
        self._begin({**row, **moved}, Size().plus([*kept, *added]), self.published.altered)
        self._add_files(row["partition_id"], added)

    def carry(self, late: Sequence[tuple[LatePartition, Sequence[DataFile]]], *, anew: bool = False) -> None:
        """End the fixed files of partitions that have changed since ``reserve``; what came later stays, and files come.

        Args:
            late: The partitions, each with the files that come.
            anew: Whether the rows of all of them begin with this version, also where nothing ends and nothing comes:
                a deferred delete ends all rows that began before.
        """
        self.carried.extend(partition.row["name"] for partition, _ in late)
        for chunk in batched([(p, added) for p, added in late if anew or p.ended or added], _AT_ONCE):
            self.end_partitions([partition.row["partition_id"] for partition, _ in chunk])
            self.end_files([(p.row["partition_id"], file.file_id) for p, _ in chunk for file in p.ended])
            for partition, added in chunk:
                kept = [DataFile(*file[1:5], etag=file.etag) for file in partition.carried]
                self.hold(partition.row, kept, added, None)
            if len(self._partition_rows) >= _ROWS_HELD:
                self._flush_partitions()

    def describe(
        self, row: Mapping[str, Any], held: Sequence[DataFile], location: str | None,
        descriptor: PartitionDescriptor | None,
    ) -> None:  # fmt: skip
        """Begin a partition, given by its ended row, that is read otherwise; ``held`` are its files, which all begin.

        Args:
            row: The row that has ended, or is about to.
            held: What it holds.
            location: Where the partition moves to; None when it stays where it is.
            descriptor: How it is read; None: as its table.
        """
        own = {"descriptor_id": None if descriptor is None else self._descriptor(descriptor)}
        moved = {} if location is None else {"location": storable(location, "location's")}
        self.partitions_changed += 1
        self.sums.add(row["k1"], row["n_files"], row["n_bytes"], row["n_rows"], -1)
        self.gone.add(row["n_bytes"], row["n_rows"])
        self._begin({**row, **moved, **own}, Size().plus(held), self.published.altered, reset=descriptor is None)
        self._add_files(row["partition_id"], held)

    def rename(
        self, row: Mapping[str, Any], name: str, added: Sequence[DataFile], *, location: str | None, in_metastore: bool
    ) -> None:
        """Give a living partition another name and location; its files stay its own, and more are added.

        Raises:
            InvalidPartitionNameError, InvalidValueError: As ``add``.
        """
        self._end(_END_PARTITIONS, [row["partition_id"]])
        self.sums.add(row["k1"], row["n_files"], row["n_bytes"], row["n_rows"], -1)
        if row["in_metastore"]:
            self.published.dropped.append(row["name"])
        renamed = {
            **row,
            **self._named(name),
            "location": None if location is None else storable(location, "location's"),
            "in_metastore": int(in_metastore),
        }
        self._begin(renamed, Size(row["n_files"], row["n_bytes"], row["n_rows"]).plus(added), self.published.added)
        self._add_files(row["partition_id"], added)
        self.partitions_changed += 1

    def _named(self, name: str) -> dict[str, Any]:
        """Return what of a partition's row comes from its name."""
        encoded = {f"k{i}": k for i, k in enumerate(self._key_rows.of(name), start=1)}
        return {"name": name, "name_hash": self._hash(name), **encoded}

    def end_partitions(self, partition_ids: Sequence[int]) -> None:
        """End the rows of living partitions; their files stay."""
        self._end(_END_PARTITIONS, partition_ids)

    def end_files(self, ended: Sequence[tuple[int, int]]) -> None:
        """End files, given by their partitions' numbers and their own."""
        if not ended:
            return
        statement = (
            sa.update(files)
            .where(files.c.partition_id == sa.bindparam("p"), files.c.file_id == sa.bindparam("f"))
            .values(end_version=self.version)
        )
        self.connection.execute(statement, [{"p": p, "f": f} for p, f in ended])
        self.files_removed += len(ended)

    def _end(self, statement: Prepared, partition_ids: Sequence[int]) -> None:
        statement.run(self.connection, {"ended": list(partition_ids), "version": self.version})

    def add(self, changes: Iterable[AddPartition]) -> None:
        """Begin partitions.

        Raises:
            InvalidPartitionNameError: A name does not have the table's partition columns.
            InvalidValueError: A value does not fit its column's type.
        """
        table_id, life = self.table.table_id, (self.version, ALIVE)
        first = table_id << PARTITION_NUMBER_BITS
        n_added = 0
        # Loads of millions of partitions come through here.
        for change in changes:
            name = change.name
            encoded, digest = self._key_rows.of(name), self._hash(name)
            location = None if change.location is None else storable(change.location, "location's")
            partition_id = first + self._next_partition
            self._next_partition += 1
            n_added += 1
            n_files = len(change.files)
            n_bytes, n_rows = self._add_files(partition_id, change.files)
            descriptor = None if change.descriptor is None else self._descriptor(change.descriptor)
            self._partition_rows.append((
                partition_id, *life, table_id, name, digest, *encoded, location, int(change.in_metastore),
                n_files, n_bytes, n_rows, self.now, descriptor,
            ))  # fmt: skip
            self.sums.add(encoded[0], n_files, n_bytes, n_rows, 1)
            if change.in_metastore:
                self.published.added.append((name, location, n_files, n_bytes, n_rows, descriptor))
            else:
                self.kept_back.append(name)
        self.partitions_added += n_added

    def _descriptor(self, descriptor: PartitionDescriptor) -> int:
        number = self._descriptors.get(descriptor)
        if number is None:
            number = self._descriptors[descriptor] = number_of(self.connection, self.table.table_id, descriptor)
        return number

    def _begin(self, row: Mapping[str, Any], size: Size, published: list[Twin], *, reset: bool = False) -> None:
        begun = {
            **row, "begin_version": self.version, "end_version": ALIVE,
            "n_files": size.files, "n_bytes": size.bytes, "n_rows": size.rows,
        }  # fmt: skip
        self._partition_rows.append(tuple(begun[c] for c in _PARTITION_COLUMNS))
        self.sums.add(row["k1"], size.files, size.bytes, size.rows, 1)
        if row["in_metastore"]:
            published.append((*twin(begun)[:-1], THE_TABLES) if reset else twin(begun))

    def _published(self, twins: Sequence[Twin], at_ms: int) -> list[PublishedPartition]:
        numbers = {twin[-1] for twin in twins} - {None}
        said = documents(self.connection, self.table.table_id, numbers) if numbers else {}
        return [
            PublishedPartition(
                name,
                self.table.directory(name, location),
                statistics_parameters(n_files, n_bytes, n_rows, at_ms),
                None if descriptor is None else said[descriptor],
            )
            for name, location, n_files, n_bytes, n_rows, descriptor in twins
        ]

    def _add_files(self, partition_id: int, added: Sequence[DataFile]) -> tuple[int, int | None]:
        """Begin files of a partition; return their bytes and rows."""
        begin, number, rows = self.version, self._next_file, self._file_rows
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
        self._next_file = number
        self.files_added += len(added)
        counted = n_rows if known else None
        self.come.add(n_bytes, counted)
        if len(rows) >= _FILES_AT_ONCE:
            self._flush_files()
        return n_bytes, counted

    def _update_table(self) -> None:
        sums, row = self.sums, self.row
        # The row is locked: what it had is what it has.
        _UPDATE_TABLE.run(
            self.connection,
            {
                "id": self.table.table_id,
                "new_version": self.version,
                "partitions": sums.partitions,
                "files": sums.files,
                "bytes": sums.bytes,
                "rows": sums.rows,
                "uncounted": sums.uncounted,
                "next_partition": self._next_partition,
                "next_file": self._next_file,
                "long_keys": 1 if self._key_rows.has_long_keys else row["has_long_keys"],
                "described": 1 if self._descriptors else row["has_descriptors"],
            },
        )

    def record(self, operation: str, summary: Summary, *, deliver: bool, transaction_id: str | None = None) -> int:
        """Write the version into the history; return the number of messages for the metastore.

        Args:
            operation: What made the version.
            summary: Kept in the history, beside what came and went, and whose doing it is.
            deliver: Whether to enqueue the changes for the metastore.
            transaction_id: Of a write.
        """
        counts = {
            **{name: getattr(self, name) for name in COUNTS},
            "rows": self.come.rows,
            "bytes": self.come.bytes,
            "rows_removed": self.gone.rows,
            "bytes_removed": self.gone.bytes,
            "user": current_user(),
        }
        if self.carried:
            counts["partitions_carried"] = len(self.carried)
            self._log_carried(operation)
        row = {
            "table_id": self.table.table_id,
            "version": self.version,
            "operation": operation,
            "summary": to_json({**counts, **summary}),
            "transaction_id": transaction_id,
            "first_file_id": self.row["next_file_id"],
        }
        insert_version(self.connection, row)
        if deliver and transaction_id is not None and self.kept_back:
            logger.warning(
                "Hive engines do not see %d new partitions of table %s, the first %r: the metastore cannot hold them, "
                "or has another directory of the same values. INSERT OVERWRITE of such a partition brings both "
                "together.",
                len(self.kept_back),
                self.table.identifier,
                self.kept_back[0],
            )
        if not deliver:
            return 0
        told = self.published
        # By the version's own date the follower knows our delivery again: `now` is of before the rows were written.
        at = version_date(self.connection, self.table.table_id, self.version) if told.added or told.altered else 0
        documents = PartitionChanges(self._published(told.added, at), self._published(told.altered, at), told.dropped)
        return enqueue_changes(self.connection, self.table, documents)

    def _log_carried(self, operation: str) -> None:
        logger.warning(
            "The %s of table %s keeps files in %d partitions, the first %r: another engine wrote them, and a repair or "
            "the follower registered them, after the statement was checked. They are in the table.",
            operation,
            self.table.identifier,
            len(self.carried),
            self.carried[0],
        )


def _update_table() -> sa.Update:
    t = tables.c
    return (
        sa.update(tables)
        .where(t.table_id == sa.bindparam("id"))
        .values(
            version=sa.bindparam("new_version"),
            total_partitions=t.total_partitions + sa.bindparam("partitions"),
            total_files=t.total_files + sa.bindparam("files"),
            total_bytes=t.total_bytes + sa.bindparam("bytes"),
            counted_rows=t.counted_rows + sa.bindparam("rows"),
            uncounted_partitions=t.uncounted_partitions + sa.bindparam("uncounted"),
            next_partition_number=sa.bindparam("next_partition"),
            next_file_id=sa.bindparam("next_file"),
            has_long_keys=sa.bindparam("long_keys"),
            has_descriptors=sa.bindparam("described"),
        )
    )


_UPDATE_TABLE = Prepared(_update_table())


def _end(rows: sa.Table) -> Prepared:
    ended = (rows.c.partition_id.in_(sa.bindparam("ended", expanding=True)), rows.c.end_version == ALIVE)
    return Prepared(sa.update(rows).where(*ended).values(end_version=sa.bindparam("version")))


_END_PARTITIONS, _END_FILES = _end(partitions), _end(files)
