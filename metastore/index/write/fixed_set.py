"""The rows that a commit may remove: its transaction's fixed set.

``reserve`` refuses a replacing or deleting statement if anything that it claims changed after its base version. From
then on its claims stop every other transaction, but not a repair, the follower, an event or ``max-staleness``: these
register files that a Hive engine has written meanwhile, and that the statement has never seen. The commit keeps such
files as current rows of the new version. ``docs/spec/commit-protocol.md``, The fixed set, lists the outcome for each
statement.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from catalog_ext.metastore.commit.file_identity import indexed_file, is_same
from catalog_ext.metastore.errors import ConflictError
from catalog_ext.metastore.index.database.rows import FILE, PARTITION, file_of, partition_of
from catalog_ext.metastore.index.database.schema import files, partitions
from catalog_ext.metastore.index.database.sqlite_file import ALIVE
from catalog_ext.metastore.index.database.texts import name_hash
from catalog_ext.metastore.model.batches import batched

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from catalog_ext.metastore.commit.removals import Removal
    from catalog_ext.metastore.model.tables import DataFile, Partition, Table

_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class LatePartition:
    """A current partition that has changed since the transaction was reserved.

    Attributes:
        partition: Its current state.
        ended: Its files in the fixed set, which the commit removes.
        carried: Its files that were registered later, which stay.
        existed: Whether a partition of this name existed when the transaction was reserved.
    """

    partition: Partition
    ended: Sequence[DataFile]
    carried: Sequence[DataFile]
    existed: bool

    @property
    def stays(self) -> bool:
        """Whether the partition stays: it has later files, or was itself added later."""
        return bool(self.carried) or not self.existed


class FixedSet:
    """The rows that existed when a transaction was reserved.

    Args:
        connection: In a transaction that holds the lock of the table's row.
        table: The table.
        version: The transaction's base version: ``reserve`` has checked that the claimed rows had not changed since.
        checked: By partition, the files that the statement's check found on the store and that were not in the index.
            They belong to the set.
    """

    def __init__(
        self, connection: sa.Connection, table: Table, version: int, checked: Mapping[str, Sequence[Removal]]
    ) -> None:  # fmt: skip
        self._connection = connection
        self._table = table
        self._version = version
        self._checked = checked

    def late(self, living: Iterable[Partition]) -> dict[int, LatePartition]:
        """Return the current partitions that changed since ``reserve``, by number; no query if nothing has changed.

        Every change of a partition replaces its row, so a partition with an older row has no later file.
        """
        changed = {partition.partition_id: partition for partition in living if partition.begin_version > self._version}
        found: dict[int, LatePartition] = {}
        for numbers in batched(list(changed), _AT_ONCE):
            found |= self._compared({number: changed[number] for number in numbers})
        return found

    def changed(self) -> list[Partition]:
        """Return all current partitions of the table that have changed since ``reserve``."""
        p = partitions.c
        return self._partitions(p.begin_version > self._version, p.end_version == ALIVE)

    def _partitions(self, *conditions: sa.ColumnElement[bool]) -> list[Partition]:
        statement = sa.select(*PARTITION).where(partitions.c.table_id == self._table.table_id, *conditions)
        return [partition_of(row) for row in self._connection.execute(statement)]

    def _compared(self, late: Mapping[int, Partition]) -> dict[int, LatePartition]:
        names = {partition.name for partition in late.values()}
        named = partitions.c.name_hash.in_(sorted(map(name_hash, names)))
        then = self._partitions(named, *self._at(partitions))
        fixed = self._files_then({partition.partition_id: self._table.directory_of(partition) for partition in then})
        checked = {partition.name: self._table.directory_of(partition) for partition in then}
        for name in names & self._checked.keys():
            directory = checked.get(name) or self._table.directory(name)
            fixed.update((f"{directory}/{found.path}", found) for found in self._checked[name])
        ended: dict[int, list[DataFile]] = {}
        carried: dict[int, list[DataFile]] = {}
        for number, begin, file in self._living_files(list(late)):
            uri = f"{self._table.directory_of(late[number])}/{file.path}"
            known = fixed.get(uri)
            # Compare size, time and ETag too: Hive engines use file names again, so a file that was registered again
            # may be another file.
            is_known = known is not None and is_same(known, file.size, file.modified_ms, file.etag)
            is_fixed = begin <= self._version or is_known
            (ended if is_fixed else carried).setdefault(number, []).append(file)
        return {
            number: LatePartition(found, ended.get(number, ()), carried.get(number, ()), found.name in checked)
            for number, found in late.items()
        }

    def _files_then(self, directories: Mapping[int, str]) -> dict[str, Removal]:
        """Return, by URI, the files that partitions (given by number and directory) had at the base version."""
        f = files.c
        statement = sa.select(f.partition_id, *FILE).where(f.partition_id.in_(list(directories)), *self._at(files))
        then = [(directories[number], file_of(row)) for number, *row in self._connection.execute(statement)]
        return {f"{directory}/{file.path}": indexed_file(file.path, file) for directory, file in then}

    def _at(self, rows: sa.Table) -> tuple[sa.ColumnElement[bool], ...]:
        return (rows.c.begin_version <= self._version, rows.c.end_version > self._version)

    def _living_files(self, numbers: Sequence[int]) -> Iterator[tuple[int, int, DataFile]]:
        f = files.c
        statement = sa.select(f.partition_id, f.begin_version, *FILE).where(
            f.partition_id.in_(numbers), f.end_version == ALIVE
        )
        for number, begin, *row in self._connection.execute(statement.order_by(f.partition_id, f.file_id)).all():
            yield number, begin, file_of(row)


def require_one_place(table: Table, late: LatePartition, directory: str) -> None:
    """Check that a write's new files, in ``directory``, can be in one partition with the files that stay.

    Raises:
        ConflictError: The files that stay are in another directory, or have another format: one partition cannot have
            both.
    """
    place = table.directory_of(late.partition)
    if place == directory and late.partition.descriptor is None:
        return
    why = "are of another format than the table" if place == directory else f"lie in {place[:300]}"
    shown = late.partition.name[:200]
    raise ConflictError(
        f"While this statement replaced partition {shown!r} of table {table.identifier}, {len(late.carried)} files of "
        f"another engine were registered in it that {why}: they cannot stay beside the new ones. Nothing was written; "
        "read again (REFRESH TABLE where Spark has it cached) and retry.",
        {"table": str(table.identifier), "partition": shown},
    )
