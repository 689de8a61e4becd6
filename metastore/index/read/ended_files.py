"""The files that writes have replaced and that no kept version of a table needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from catalog_ext.metastore.index.database.schema import files, partition_ids, partitions, table_versions
from catalog_ext.metastore.index.database.texts import name_hash
from catalog_ext.metastore.model.batches import batched

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from catalog_ext.metastore.index.database.database import Database
    from catalog_ext.metastore.model.tables import Table


@dataclass(frozen=True, slots=True)
class EndedFile:
    """A file that no kept version needs: what ``vacuum`` deletes, unless somebody has written it again since.

    Attributes:
        uri: Where it is.
        size: Its bytes.
        modified_ms: When it was modified, in milliseconds since the epoch (UTC), as the index knows it.
        version: The version that replaced it.
        partition: The name of the partition that it was in.
    """

    uri: str
    size: int
    modified_ms: int
    version: int
    partition: str


_PAGE = 5000
_NAMES_AT_ONCE = 500


def ended_files(database: Database, table: Table, before_version: int) -> Iterator[list[EndedFile]]:
    """Yield, in pages, the files that writes have replaced and only versions below ``before_version`` need.

    What repair or DDL took out of the index is not among them: it is not ours to delete. Nor is a file that a kept
    version knows under any partition.
    """
    return _Ended(database, table, before_version).pages()


class _Ended:
    def __init__(self, database: Database, table: Table, before_version: int) -> None:
        self._database = database
        self._table = table
        self._before = before_version

    def pages(self) -> Iterator[list[EndedFile]]:
        moved = self._moved()
        after: tuple[int, int] = (0, 0)
        while True:
            page = self._page(*after)
            if not page:
                return
            after = (page[-1]["partition_id"], page[-1]["file_id"])
            needed = self._needed(page, moved)
            found = [
                EndedFile(uri, row["size"], row["modified_ms"], row["end_version"], row["name"])
                for row in page
                if (uri := f"{self._directory(row)}/{row['path']}") not in needed
            ]
            if found:
                yield found

    def _page(self, partition_id: int, file_id: int) -> Sequence[Mapping[str, Any]]:
        p, f, v = partitions.c, files.c, table_versions.c
        low, high = partition_ids(self._table.table_id)
        statement = (
            sa.select(
                f.partition_id, f.file_id, f.path, f.size, f.modified_ms, f.end_version, p.name, p.location,
            )
            .join(
                partitions,
                # The row that held when the file was last there: the partition may have moved since.
                sa.and_(
                    p.partition_id == f.partition_id, p.begin_version < f.end_version, p.end_version >= f.end_version
                ),
            )
            .join(table_versions, sa.and_(v.table_id == p.table_id, v.version == f.end_version))
            .where(
                f.partition_id >= max(low, partition_id), f.partition_id < high,
                sa.or_(f.partition_id > partition_id, f.file_id > file_id),
                f.end_version <= self._before, v.transaction_id.is_not(None),
            )
            .order_by(f.partition_id, f.file_id)
            .limit(_PAGE)
        )  # fmt: skip
        with self._database.reading() as connection:
            return [dict(row) for row in connection.execute(statement).mappings()]

    def _moved(self) -> dict[str, set[int]]:
        """Return the partitions with a location of their own in kept versions, by location."""
        p = partitions.c
        statement = sa.select(p.location, p.partition_id).where(
            p.table_id == self._table.table_id, p.end_version > self._before, p.location.is_not(None)
        )
        moved: dict[str, set[int]] = {}
        with self._database.reading() as connection:
            for location, partition_id in connection.execute(statement):
                moved.setdefault(location, set()).add(partition_id)
        return moved

    def _needed(self, page: Sequence[Mapping[str, Any]], moved: Mapping[str, set[int]]) -> set[str]:
        """Return the files in the page's directories that kept versions know."""
        directories = {self._directory(row) for row in page}
        root = f"{self._table.definition.location}/"
        # Another partition may lie there, whether by its name or by a location of its own.
        names = sorted(
            {row["name"] for row in page} | {d.removeprefix(root) for d in directories if d.startswith(root)}
        )
        ids = {partition_id for directory in directories for partition_id in moved.get(directory, ())}
        p = partitions.c
        needed: set[str] = set()
        with self._database.reading() as connection:
            for chunk in batched(names, _NAMES_AT_ONCE):
                same_name = sa.select(p.partition_id).where(
                    p.table_id == self._table.table_id,
                    p.name_hash.in_([name_hash(n) for n in chunk]),
                    p.end_version > self._before,
                )
                ids.update(connection.execute(same_name).scalars())
            for some in batched(sorted(ids), _NAMES_AT_ONCE):
                needed.update(self._kept_files(connection, some))
        return needed

    def _kept_files(self, connection: sa.Connection, partition_ids: Sequence[int]) -> Iterator[str]:
        p, f = partitions.c, files.c
        statement = (
            sa.select(p.name, p.location, f.path)
            .join(
                files,
                sa.and_(
                    f.partition_id == p.partition_id, f.begin_version < p.end_version, f.end_version > p.begin_version
                ),
            )
            .where(p.partition_id.in_(partition_ids), p.end_version > self._before, f.end_version > self._before)
        )
        for row in connection.execute(statement).mappings():
            yield f"{self._directory(dict(row))}/{row['path']}"

    def _directory(self, row: Mapping[str, Any]) -> str:
        root = self._table.definition.location
        location: str | None = row["location"]
        return location or (f"{root}/{row['name']}" if row["name"] else root)
