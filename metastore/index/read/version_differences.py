"""Compares two versions of a table, partition by partition and file by file, for a rollback."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from catalog_ext.metastore.errors import TableLayoutError
from catalog_ext.metastore.index.database.part import IndexPart
from catalog_ext.metastore.index.database.rows import FILE, file_of
from catalog_ext.metastore.index.database.schema import files, partitions, version_holds
from catalog_ext.metastore.index.database.sqlite_file import ALIVE
from catalog_ext.metastore.index.database.texts import name_hash
from catalog_ext.metastore.index.read.marked_rows import IN_FORCE
from catalog_ext.metastore.index.write.deferred_deletes import complete
from catalog_ext.metastore.index.write.partition_rows import matching
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.predicates.tree import TRUE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from catalog_ext.metastore.commit.removals import Removal
    from catalog_ext.metastore.model.tables import DataFile, Partition, Table
    from catalog_ext.metastore.predicates.tree import Predicate

_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class VersionDifference:
    """The difference between a partition's present and earlier state.

    Attributes:
        name: The partition's name.
        present: Its state in the table's version; None if it does not exist there.
        then: Its state in the earlier version; None if it did not exist there.
        kept: The files that both states have, in the same directory.
        ended: The files that only the present state has.
        restored: The files that only the earlier state has.
    """

    name: str
    present: Partition | None
    then: Partition | None
    kept: tuple[DataFile, ...] = ()
    ended: tuple[DataFile, ...] = ()
    restored: tuple[DataFile, ...] = ()


class VersionDifferences(IndexPart):
    """Compares versions of a table."""

    def between(self, table: Table, version: int, predicate: Predicate | None) -> list[VersionDifference]:
        """Return the partitions that differ between the table's version and an earlier one, ordered by name.

        ``predicate``: bound; true for the partitions to compare, None for all.
        """
        # Rows that a deferred delete has not given their end yet would count as present.
        complete(self._database, table_id=table.table_id)
        with self._database.reading() as connection:
            return list(differences_within(connection, table, version, predicate))

    def directories(self, table: Table, version: int, predicate: Predicate | None) -> set[str]:
        """Return the directories from which a rollback of the table to an earlier version may restore files."""
        complete(self._database, table_id=table.table_id)
        p = partitions.c
        ended = sa.and_(p.begin_version <= version, p.end_version > version, p.end_version < ALIVE)
        with self._database.reading() as connection:
            return {table.directory_of(then) for then in matching(connection, table, predicate or TRUE, ended)}

    def require_untagged(self, table: Table, deleted: Mapping[str, Sequence[Removal]]) -> None:
        """Check that no tagged version has one of the files that a rollback deletes, given by partition.

        Raises:
            TableLayoutError: A tagged version has one of them.
        """
        with self._database.reading() as connection:
            require_untagged(connection, table, deleted)

    def last_change(self, table: Table, predicate: Predicate) -> int | None:
        """Return the last version that added, changed or dropped a partition that satisfies a bound predicate.

        None if the index knows no such partition.
        """
        complete(self._database, table_id=table.table_id)
        upto = partitions.c.begin_version <= table.version
        with self._database.reading() as connection:
            found = list(matching(connection, table, predicate, upto))
        changes = (p.end_version if p.end_version <= table.version else p.begin_version for p in found)
        return max(changes, default=None)


def require_untagged(connection: sa.Connection, table: Table, deleted: Mapping[str, Sequence[Removal]]) -> None:
    """Check that no tagged version has one of the files that a rollback deletes, given by partition.

    Raises:
        TableLayoutError: A tagged version has one of them.
    """
    h, p, f = version_holds.c, partitions.c, files.c
    tags = connection.execute(sa.select(h.version, h.name).where(h.table_id == table.table_id, IN_FORCE)).all()
    if not tags:
        return
    paths = {name: {removal.path for removal in removals} for name, removals in deleted.items()}
    for names in batched(sorted(paths), _AT_ONCE):
        lives = (
            sa.select(p.name, f.path, f.begin_version, f.end_version)
            .join_from(partitions, files, f.partition_id == p.partition_id)
            .where(p.table_id == table.table_id, p.name_hash.in_([name_hash(name) for name in names]))
        )
        for name, path, begin, end in connection.execute(lives):
            tag = next((tag for tag in tags if begin <= tag.version < end), None)
            if tag is not None and path in paths.get(name, ()):
                raise TableLayoutError(
                    f"Partition {name[:200]!r} of table {table.identifier} cannot be rolled back: its directory would "
                    f"lose the file {path[:300]!r} of version {tag.version}, which the tag {tag.name!r} holds. Nothing "
                    "was changed. Remove the tag with CALL <catalog>.system.untag, or leave the partition out by "
                    "'where'.",
                    {"table": str(table.identifier), "partition": name[:200], "tag": tag.name},
                )


def differences_within(
    connection: sa.Connection, table: Table, version: int, predicate: Predicate | None
) -> Iterator[VersionDifference]:
    """Yield the differences of ``VersionDifferences.between``; no deferred delete of the table is pending."""
    p, base = partitions.c, table.version
    # A partition that has the same row in both versions has not changed between them.
    since = sa.and_(p.begin_version > version, p.begin_version <= base, p.end_version > base)
    until = sa.and_(p.begin_version <= version, p.end_version > version, p.end_version <= base)
    present = {found.name: found for found in matching(connection, table, predicate or TRUE, since)}
    then = {found.name: found for found in matching(connection, table, predicate or TRUE, until)}
    for names in batched(sorted({*present, *then}), _AT_ONCE):
        new = _files_at(connection, base, [present[name].partition_id for name in names if name in present])
        old = _files_at(connection, version, [then[name].partition_id for name in names if name in then])
        for name in names:
            found = _difference(table, name, present.get(name), then.get(name), new, old)
            if found is not None:
                yield found


def _difference(
    table: Table, name: str, present: Partition | None, then: Partition | None,
    new: Mapping[int, Sequence[DataFile]], old: Mapping[int, Sequence[DataFile]],
) -> VersionDifference | None:  # fmt: skip
    """Return a partition's difference; None if only its row was replaced."""
    ours = () if present is None else new.get(present.partition_id, ())
    theirs = () if then is None else old.get(then.partition_id, ())
    if present is None or then is None:
        return VersionDifference(name, present, then, ended=tuple(ours), restored=tuple(theirs))
    if table.directory_of(present) != table.directory_of(then):
        return VersionDifference(name, present, then, ended=tuple(ours), restored=tuple(theirs))
    is_one = present.partition_id == then.partition_id
    there = {file.path: file for file in ours}
    kept = {file.path for file in theirs if file.path in there and _is_one_file(there[file.path], file, is_one=is_one)}
    ended = tuple(file for file in ours if file.path not in kept)
    restored = tuple(file for file in theirs if file.path not in kept)
    if not (ended or restored) and present.descriptor == then.descriptor:
        return None
    return VersionDifference(name, present, then, tuple(f for f in ours if f.path in kept), ended, restored)


def _is_one_file(present: DataFile, then: DataFile, *, is_one: bool) -> bool:
    """Return whether two rows with one path are about the same file; ``is_one``: they belong to one partition number.

    A partition that was dropped and added again has other rows for its files, which may be unchanged.
    """
    if is_one and present.file_id == then.file_id:
        return True
    return (present.size, present.modified_ms, present.etag) == (then.size, then.modified_ms, then.etag)


def _files_at(connection: sa.Connection, version: int, numbers: Collection[int]) -> dict[int, list[DataFile]]:
    """Return the files that partitions had in a version, by partition, ordered by file number."""
    f = files.c
    found: dict[int, list[DataFile]] = {}
    for some in batched(sorted(numbers), _AT_ONCE):
        statement = sa.select(f.partition_id, *FILE).where(
            f.partition_id.in_(some), f.begin_version <= version, f.end_version > version
        )
        for number, *row in connection.execute(statement.order_by(f.partition_id, f.file_id)).all():
            found.setdefault(number, []).append(file_of(row))
    return found
