"""Finds the files that relocating overwrites and rollbacks have replaced.

A relocating overwrite writes a partition's new files into a new directory. The old files stay for readers of older
versions.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import sqlalchemy as sa

from catalog_ext.metastore.commit.transaction import transaction_id_in
from catalog_ext.metastore.index.database.part import IndexPart
from catalog_ext.metastore.index.database.prepared import Prepared
from catalog_ext.metastore.index.database.schema import (
    files,
    partition_ids,
    partitions,
    transactions,
)
from catalog_ext.metastore.index.database.texts import name_hash
from catalog_ext.metastore.index.write.deferred_deletes import complete
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.tables import TableType

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from catalog_ext.metastore.index.database.database import Database
    from catalog_ext.metastore.model.tables import Table


@dataclass(frozen=True, slots=True)
class EndedFile:
    """A file that a relocating overwrite replaced, without deleting it.

    Attributes:
        uri: The file.
        size: Its size in bytes.
        modified_ms: Its modification time in the index, in milliseconds since the epoch (UTC).
        etag: The hash of the object's ETag, if the index has one.
        version: The version of the overwrite.
        partition: The name of the partition that had the file.
        named_again: Whether a readable version, from the overwrite's on, has the file again: then it must not be
            deleted.
        held_at: The newest held version that has the file; None without one. The file must not be deleted.
        was_named_again: Whether a version from the overwrite's on had the file again, readable or not.
    """

    uri: str
    size: int
    modified_ms: int
    etag: int | None
    version: int
    partition: str
    named_again: bool = False
    held_at: int | None = None
    was_named_again: bool = False


class _Stay(NamedTuple):
    """A partition lies in ``directory`` in the versions from ``begin`` up to, but not including, ``end``."""

    directory: str
    begin: int
    end: int


_PAGE = 5000
_NAMES_AT_ONCE = 500


class EndedFiles(IndexPart):
    """Finds files that relocating overwrites have replaced."""

    def pages(
        self, table: Table, before_version: int, *, named_again: bool = False, held: Collection[int] = ()
    ) -> Iterator[list[EndedFile]]:
        """Yield, in pages, the files that relocating overwrites up to ``before_version`` replaced.

        The index may have several entries for a path; the latest decides. A file that SET LOCATION, ADD PARTITION or a
        repair registered again belongs to that partition, and later changes of the partition (DROP PARTITION, an
        expiry, a repair) decide whether the file stays. Files that an in-place overwrite replaced are left out: its
        clean-up deleted them, and a file at such a path was brought back on purpose. Files of other programs are left
        out, too, if a rollback has dropped their partition from an external table: as after a DROP PARTITION, they
        belong to the user.

        ``before_version`` is the oldest version that is kept. With ``named_again``, replaced files that a kept version
        has again are yielded too, marked by ``EndedFile.named_again``. Files that one of the versions ``held`` has are
        yielded with ``EndedFile.held_at``, also if a later version had them again.
        """
        versions = {version for version in self.relocations(table.table_id) if version <= before_version}
        if not versions:
            return iter(())
        complete(self._database, table_id=table.table_id)
        return _Ended(
            self._database, table, before_version, versions, with_named=named_again, held=held,
            rollbacks=self._rollbacks(table),
        ).pages()  # fmt: skip

    def _rollbacks(self, table: Table) -> set[int]:
        """Return the versions of an external table that rollbacks have made; none for other tables."""
        if table.definition.table_type is not TableType.EXTERNAL:
            return set()
        with self._database.reading() as connection:
            return set(_ROLLBACKS.scalars(connection, {"table_id": table.table_id}))

    def relocations(self, table_id: int) -> set[int]:
        """Return the versions of a table that relocating overwrites have made."""
        with self._database.reading() as connection:
            return set(_RELOCATIONS.scalars(connection, {"table_id": table_id}))


class _Ended:
    def __init__(
        self, database: Database, table: Table, before_version: int, versions: Collection[int], *, with_named: bool,
        held: Collection[int], rollbacks: Collection[int],
    ) -> None:  # fmt: skip
        self._database = database
        self._table = table
        self._before = before_version
        self._versions = versions
        self._with_named = with_named
        self._held = sorted(held)
        self._rollbacks = rollbacks

    def pages(self) -> Iterator[list[EndedFile]]:
        located = self._located()
        after: tuple[int, int] = (0, 0)
        while True:
            page = self._page(*after)
            if not page:
                return
            after = (page[-1]["partition_id"], page[-1]["file_id"])
            replaced: dict[str, Mapping[str, Any]] = {}
            for row in sorted(page, key=lambda row: row["end_version"]):
                if row["end_version"] in self._versions and not self._is_users(row):
                    replaced[f"{self._directory(row)}/{row['path']}"] = row
            ends, held = self._last_ends(list(replaced.values()), located)
            # A vacuum may remove rows between the two queries. Their files are already deleted, or belong to the user:
            # skip them.
            found = [
                self._ended_file(uri, row, ends[uri], held.get(uri)) for uri, row in replaced.items() if uri in ends
            ]
            if wanted := [file for file in found if file is not None]:
                yield wanted

    def _is_users(self, row: Mapping[str, Any]) -> bool:
        """Return whether another program wrote the file, and a rollback dropped its partition (``rollbacks``)."""
        is_dropped = row["end_version"] in self._rollbacks and not row["stays"]
        return is_dropped and transaction_id_in(row["path"]) is None

    def _ended_file(self, uri: str, row: Mapping[str, Any], last_end: int, held_at: int | None) -> EndedFile | None:
        """Return a replaced file that no later version has, or (``named_again``) that a kept version has; else None.

        ``last_end`` is the version that last removed the path from a partition. If it is the version of the overwrite,
        no later version has the file.
        """
        is_leftover = last_end == row["end_version"]
        named_again = not is_leftover and self._with_named and last_end > self._before
        if not is_leftover and not named_again and held_at is None:
            return None
        return EndedFile(
            uri, row["size"], row["modified_ms"], row["etag_hash"], row["end_version"], row["name"],
            named_again=named_again, held_at=held_at, was_named_again=not is_leftover,
        )  # fmt: skip

    def _page(self, partition_id: int, file_id: int) -> Sequence[Mapping[str, Any]]:
        p, f = partitions.c, files.c
        low, high = partition_ids(self._table.table_id)
        later = partitions.alias().c
        stays = sa.exists().where(later.partition_id == f.partition_id, later.begin_version == f.end_version)
        statement = (
            sa.select(
                f.partition_id, f.file_id, f.path, f.size, f.modified_ms, f.etag_hash, f.end_version, p.name,
                p.location, (stays if self._rollbacks else sa.true()).label("stays"),
            )
            .join(
                partitions,
                # Join the partition row that was valid when the file was last there: the partition may have moved
                # since.
                sa.and_(
                    p.partition_id == f.partition_id, p.begin_version < f.end_version, p.end_version >= f.end_version
                ),
            )
            .where(
                f.partition_id >= max(low, partition_id), f.partition_id < high,
                sa.or_(f.partition_id > partition_id, f.file_id > file_id),
                f.end_version.between(min(self._versions), max(self._versions)),
            )
            .order_by(f.partition_id, f.file_id)
            .limit(_PAGE)
        )  # fmt: skip
        with self._database.reading() as connection:
            return [dict(row) for row in connection.execute(statement).mappings()]

    def _located(self) -> dict[str, set[int]]:
        """Return the numbers of the partitions that have or had their own location, by location."""
        p = partitions.c
        statement = sa.select(p.location, p.partition_id).where(
            p.table_id == self._table.table_id, p.location.is_not(None)
        )
        located: dict[str, set[int]] = {}
        with self._database.reading() as connection:
            for location, partition_id in connection.execute(statement):
                located.setdefault(location, set()).add(partition_id)
        return located

    def _last_ends(
        self, page: Sequence[Mapping[str, Any]], located: Mapping[str, set[int]]
    ) -> tuple[dict[str, int], dict[str, int]]:
        """Return, for each file in the page's directories, the version that last removed it from a partition.

        The version is ``ALIVE`` if a partition of the newest version still has the file. The second result has the
        newest held version of each file that a held version has.
        """
        directories = {self._directory(row) for row in page}
        root = f"{self._table.definition.location}/"
        # Include other partitions that lie in the same directories, by their name or by their own location.
        names = sorted(
            {row["name"] for row in page} | {d.removeprefix(root) for d in directories if d.startswith(root)}
        )
        ids = {partition_id for directory in directories for partition_id in located.get(directory, ())}
        # Select by path. Otherwise each page would read every file of its partitions, and a partition may have 100,000
        # files.
        paths = sorted({row["path"] for row in page})
        p = partitions.c
        ends: dict[str, int] = {}
        held: dict[str, int] = {}
        with self._database.reading() as connection:
            for chunk in batched(names, _NAMES_AT_ONCE):
                same_name = sa.select(p.partition_id).where(
                    p.table_id == self._table.table_id, p.name_hash.in_([name_hash(n) for n in chunk])
                )
                ids.update(connection.execute(same_name).scalars())
            for some in batched(sorted(ids), _NAMES_AT_ONCE):
                for uri, begin, end in self._lives(connection, some, paths):
                    ends[uri] = max(end, ends.get(uri, 0))
                    at = bisect_left(self._held, end) - 1
                    if at >= 0 and self._held[at] >= begin:
                        held[uri] = max(self._held[at], held.get(uri, 0))
        return ends, held

    def _lives(
        self, connection: sa.Connection, ids: Sequence[int], paths: Sequence[str]
    ) -> Iterator[tuple[str, int, int]]:
        """Yield each URI at which a partition had a file with one of the paths, and the versions from and to when."""
        stays: dict[int, list[_Stay]] = {}
        p, f = partitions.c, files.c
        of_partitions = (
            sa.select(p.partition_id, p.name, p.location, p.begin_version, p.end_version)
            .where(p.partition_id.in_(ids))
            .order_by(p.partition_id, p.begin_version)
        )
        for row in connection.execute(of_partitions).mappings():
            found, stay = stays.setdefault(row["partition_id"], []), self._stay(dict(row))
            if found and (found[-1].directory, found[-1].end) == (stay.directory, stay.begin):
                # Merge the two intervals: if a partition's row is replaced in the same directory, as by an append, its
                # files stay.
                found[-1] = found[-1]._replace(end=stay.end)
            else:
                found.append(stay)
        of_files = sa.select(f.partition_id, f.path, f.begin_version, f.end_version).where(
            f.partition_id.in_(ids), f.path.in_(paths)
        )
        for file in connection.execute(of_files):
            for stay in stays.get(file.partition_id, ()):
                if file.begin_version < stay.end and file.end_version > stay.begin:
                    uri = f"{stay.directory}/{file.path}"
                    yield uri, max(stay.begin, file.begin_version), min(stay.end, file.end_version)

    def _stay(self, row: Mapping[str, Any]) -> _Stay:
        return _Stay(self._directory(row), row["begin_version"], row["end_version"])

    def _directory(self, row: Mapping[str, Any]) -> str:
        return self._table.directory(row["name"], row["location"])


_ROLLBACKS = Prepared(
    sa.select(transactions.c.version).where(
        transactions.c.table_id == sa.bindparam("table_id"),
        transactions.c.version.is_not(None),
        transactions.c.plan.like('%"kind":"rollback"%'),
    )
)
_RELOCATIONS = Prepared(
    sa.select(transactions.c.version).where(
        transactions.c.table_id == sa.bindparam("table_id"),
        transactions.c.version.is_not(None),
        transactions.c.plan.like('%"relocate":true%'),
    )
)
"""The query of ``relocations``. It is compiled once, since every append that creates a partition runs it."""
