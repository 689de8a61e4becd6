"""Finds the files that current partitions of any table need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from catalog_ext.metastore.index.database.part import IndexPart
from catalog_ext.metastore.index.database.schema import (
    files,
    namespaces,
    partitions,
    tables,
)
from catalog_ext.metastore.index.database.sqlite_file import ALIVE
from catalog_ext.metastore.index.database.texts import name_hash
from catalog_ext.metastore.index.read.spellings import by_name, other_spellings
from catalog_ext.metastore.model.batches import batched

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping


_AT_ONCE = 500
_MOST_LOCATIONS = 10_000
"""The most locations that are sent as parameters of one statement: every database accepts so many."""


@dataclass(frozen=True, slots=True)
class FileUser:
    """A current partition (in its table's newest version) that has a certain file.

    Attributes:
        table: ``namespace.name`` of its table.
        partition: Its name; empty for an unpartitioned table.
        version: The version of the table that added the file.
    """

    table: str
    partition: str
    version: int


class NeededFiles(IndexPart):
    """Finds the files that current partitions of any table need."""

    def users(self, uris: Collection[str], besides: Collection[int] = ()) -> dict[str, FileUser]:
        """Return which of the files (URIs) current partitions need, each with one partition that has it.

        Partitions with the numbers ``besides`` are ignored; see ``users_within``.
        """
        with self._database.reading() as connection:
            return users_within(connection, uris, besides)


def users_within(
    connection: sa.Connection, uris: Collection[str], besides: Collection[int] = (), *, besides_table: int | None = None
) -> dict[str, FileUser]:
    """Return which of the given files (URIs) a table's newest version has, each with one partition that has it.

    A partition's files lie in its directory: its own location, or the table's location and the partition's name. All
    tables of the index are searched, since two tables may use the same directory, and a partition may lie in another
    table's directory, also by a symbolic link or a mount.

    The partitions with the numbers ``besides``, and those of the table ``besides_table``, are ignored.
    """
    found: dict[str, FileUser] = {}
    if not uris:
        return found
    places = {uri.rpartition("/")[0] for uri in uris}
    wanted = by_name(places, other_spellings(connection, places))
    named = {row.table_id: row for row in connection.execute(_TABLES) if row.table_id != besides_table}
    roots = {number: row.location for number, row in named.items()}
    there = (each for each in _partitions_at(connection, wanted, roots) if each[0] not in besides)
    for some in batched(there, _AT_ONCE):
        for directory, path, number, partition, version in _files(connection, dict(some)):
            for uri in (f"{place}/{path}" for place in wanted[directory]):
                if uri in uris and number in named:
                    table = named[number]
                    found[uri] = FileUser(f"{table.namespace}.{table.name}", partition, version)
    return found


_TABLES = sa.select(
    tables.c.table_id, tables.c.name, tables.c.location, namespaces.c.name.label("namespace")
).join(namespaces, namespaces.c.namespace_id == tables.c.namespace_id)  # fmt: skip


def _partitions_at(
    connection: sa.Connection, directories: Collection[str], roots: Mapping[int, str]
) -> Iterator[tuple[int, str]]:
    """Yield the number and directory of each current partition that lies in one of the directories."""
    p = partitions.c
    of_root: dict[str, list[int]] = {}
    for number, root in roots.items():
        of_root.setdefault(root, []).append(number)
    own = sa.select(p.partition_id, p.location).where(p.location.is_not(None), p.end_version == ALIVE)
    if len(directories) <= _MOST_LOCATIONS:
        own = own.where(p.location.in_(sorted(directories)))
    yield from [(row.partition_id, row.location) for row in connection.execute(own) if row.location in directories]
    for number, names in _default_names(directories, of_root).items():
        for chunk in batched(sorted(names), _AT_ONCE):
            usual = sa.select(p.partition_id, p.name).where(
                p.table_id == number, p.location.is_(None), p.end_version == ALIVE,
                p.name_hash.in_([name_hash(name) for name in chunk]),
            )  # fmt: skip
            for row in connection.execute(usual).all():
                if row.name in names:
                    yield row.partition_id, names[row.name]


def _default_names(directories: Collection[str], of_root: Mapping[str, Collection[int]]) -> dict[int, dict[str, str]]:
    """Return, by table number, the partition names that belong to the directories if these are default directories.

    A default directory is ``<table location>/<partition name>``. ``of_root`` gives the tables at each location. The
    result maps each name to its directory.
    """
    names: dict[int, dict[str, str]] = {}
    for directory in directories:
        above = directory
        while above:
            for number in of_root.get(above, ()):
                names.setdefault(number, {})[directory[len(above) + 1 :]] = directory
            above = above.rpartition("/")[0]
    return names


def _files(connection: sa.Connection, directories: Mapping[int, str]) -> Iterator[tuple[str, str, int, str, int]]:
    """Yield the current files of partitions: directory, path in it, table's number, partition's name, and version."""
    p, f = partitions.c, files.c
    statement = (
        sa.select(p.partition_id, p.table_id, p.name, f.path, f.begin_version)
        .join(files, f.partition_id == p.partition_id)
        .where(p.partition_id.in_(list(directories)), p.end_version == ALIVE, f.end_version == ALIVE)
    )
    for row in connection.execute(statement).all():
        yield directories[row.partition_id], row.path, row.table_id, row.name, row.begin_version
