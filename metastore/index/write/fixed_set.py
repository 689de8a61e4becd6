"""The rows that a commit may end: its transaction's fixed set.

``reserve`` refuses a statement that replaces or deletes where anything that it claims has changed after its base
version. From then on its claims stop every other transaction, but not a repair, the follower, an event or
``max-staleness``: these register files that a Hive engine has written meanwhile, which the statement has never looked
at. The commit carries such files over as living rows of the new version. ``docs/spec/commit-protocol.md``, The fixed
set, says what becomes of them, statement by statement.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import sqlalchemy as sa

from catalog_ext.metastore.commit.file_identity import indexed_file, is_same
from catalog_ext.metastore.errors import ConflictError
from catalog_ext.metastore.index.database.schema import ALIVE, files, partitions
from catalog_ext.metastore.index.database.texts import name_hash
from catalog_ext.metastore.model.batches import batched

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from catalog_ext.metastore.commit.removals import Removal
    from catalog_ext.metastore.model.tables import Table

    Row = Mapping[str, Any]

_AT_ONCE = 500


class FileRow(NamedTuple):
    """A living file of a partition, with its number there."""

    file_id: int
    path: str
    size: int
    modified_ms: int
    n_rows: int | None
    etag: int | None


@dataclass(frozen=True, slots=True)
class LatePartition:
    """A living partition that has changed since its transaction was reserved.

    Attributes:
        row: Its row.
        ended: Its files in the fixed set, which the commit ends.
        carried: Its files that came later, which stay.
        existed: Whether a partition of the name was there when the transaction was reserved.
    """

    row: Row
    ended: Sequence[FileRow]
    carried: Sequence[FileRow]
    existed: bool

    @property
    def stays(self) -> bool:
        """Whether the statement does not drop it: it holds what came later, or is itself what came."""
        return bool(self.carried) or not self.existed


class FixedSet:
    """The rows that existed when a transaction was reserved.

    Args:
        connection: In a transaction that holds the lock of the table's row.
        table: The table.
        version: The transaction's base version: ``reserve`` has made sure that what it claims was the same then.
        looked_at: By partition, the files that its check has found and the index did not know. They are in the set.
    """

    def __init__(
        self, connection: sa.Connection, table: Table, version: int, looked_at: Mapping[str, Sequence[Removal]]
    ) -> None:  # fmt: skip
        self._connection = connection
        self._table = table
        self._version = version
        self._looked_at = looked_at

    def late(self, living: Iterable[Row]) -> dict[int, LatePartition]:
        """Return those of the living partitions that have changed, by number; nothing is asked where none has.

        Every change of a partition begins its row anew, so that an unchanged row has no later file.
        """
        rows = {row["partition_id"]: row for row in living if row["begin_version"] > self._version}
        found: dict[int, LatePartition] = {}
        for numbers in batched(list(rows), _AT_ONCE):
            found |= self._compared({number: rows[number] for number in numbers})
        return found

    def changed(self) -> list[Row]:
        """Return the rows of all living partitions of the table that have changed."""
        p = partitions.c
        statement = sa.select(partitions).where(
            p.table_id == self._table.table_id, p.begin_version > self._version, p.end_version == ALIVE
        )
        rows: Sequence[Any] = self._connection.execute(statement).mappings().all()
        return list(rows)

    def _compared(self, rows: Mapping[int, Row]) -> dict[int, LatePartition]:
        names = {row["name"] for row in rows.values()}
        then = list(self._partitions_then(names))
        existed = {row["name"] for row in then}
        fixed = self._files_then({row["partition_id"]: self._directory(row) for row in then})
        checked = {row["name"]: self._directory(row) for row in then}
        for name in names & self._looked_at.keys():
            directory = checked.get(name) or self._table.directory(name)
            fixed.update((f"{directory}/{found.path}", found) for found in self._looked_at[name])
        ended: dict[int, list[FileRow]] = {}
        carried: dict[int, list[FileRow]] = {}
        for number, begin, file in self._living_files(list(rows)):
            uri = f"{self._directory(rows[number])}/{file.path}"
            is_fixed = begin <= self._version or _is_same(file, fixed.get(uri))
            (ended if is_fixed else carried).setdefault(number, []).append(file)
        return {
            number: LatePartition(row, ended.get(number, ()), carried.get(number, ()), row["name"] in existed)
            for number, row in rows.items()
        }

    def _partitions_then(self, names: Iterable[str]) -> Sequence[Row]:
        p = partitions.c
        statement = sa.select(p.partition_id, p.name, p.location).where(
            p.table_id == self._table.table_id, p.name_hash.in_(sorted(map(name_hash, names))), *self._at(partitions)
        )
        rows: Sequence[Any] = self._connection.execute(statement).mappings().all()
        return rows

    def _files_then(self, directories: Mapping[int, str]) -> dict[str, Removal]:
        """Return the files that partitions had, by URI; given are their numbers and directories."""
        f = files.c
        statement = sa.select(f.partition_id, f.path, f.size, f.modified_ms, f.etag_hash).where(
            f.partition_id.in_(list(directories)), *self._at(files)
        )
        return {
            f"{directories[number]}/{path}": indexed_file(path, *is_as)
            for number, path, *is_as in self._connection.execute(statement)
        }

    def _at(self, rows: sa.Table) -> tuple[sa.ColumnElement[bool], ...]:
        return (rows.c.begin_version <= self._version, rows.c.end_version > self._version)

    def _living_files(self, numbers: Sequence[int]) -> Iterator[tuple[int, int, FileRow]]:
        f = files.c
        statement = sa.select(
            f.partition_id, f.begin_version, f.file_id, f.path, f.size, f.modified_ms, f.n_rows, f.etag_hash
        ).where(f.partition_id.in_(numbers), f.end_version == ALIVE)  # fmt: skip
        for number, begin, *file in self._connection.execute(statement.order_by(f.partition_id, f.file_id)).all():
            yield number, begin, FileRow(*file)

    def _directory(self, row: Row) -> str:
        return self._table.directory(row["name"], row["location"])


def _is_same(file: FileRow, then: Removal | None) -> bool:
    """Return whether a file that was registered again is the one that was there: a Hive engine gives names again."""
    if then is None:
        return False
    return is_same(then, file.size, file.modified_ms, file.etag)


def require_one_place(table: Table, late: LatePartition, directory: str) -> None:
    """Return if a write can put its files beside those that are carried over.

    Args:
        table: The table.
        late: A partition that keeps files.
        directory: Where the write's files of the partition are.

    Raises:
        ConflictError: They are in another directory, or of another format: one partition cannot hold both.
    """
    row = late.row
    place = table.directory(row["name"], row["location"])
    if place == directory and row["descriptor_id"] is None:
        return
    why = "are of another format than the table" if place == directory else f"lie in {place[:300]}"
    shown = row["name"][:200]
    raise ConflictError(
        f"While this statement replaced partition {shown!r} of table {table.identifier}, {len(late.carried)} files of "
        f"another engine were registered in it that {why}: they cannot stay beside the new ones. Nothing was written; "
        "read again (REFRESH TABLE where Spark has it cached) and retry.",
        {"table": str(table.identifier), "partition": shown},
    )
