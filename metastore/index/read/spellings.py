"""Finds other names of the same directory: files are compared by name, and a directory may have several names.

A local directory gets further names by symbolic links, by mounts, and on case-insensitive file systems. On HDFS a name
node may have several addresses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from catalog_ext.metastore.index.database.prepared import Prepared
from catalog_ext.metastore.index.database.schema import partitions, tables
from catalog_ext.metastore.index.database.sqlite_file import ALIVE
from catalog_ext.metastore.runtime.local_paths import PhysicalPaths

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from catalog_ext.metastore.model.tables import Table

_LOCAL, _HDFS = "file://", "hdfs://"
_SCHEMES = (_LOCAL, _HDFS)
_DEFAULT_PORT = 8020


def _known_places() -> sa.CompoundSelect[tuple[int, str]]:
    """Return the query of the locations of tables, and of current partitions outside of their tables' directories."""
    p, t = partitions.c, tables.c
    low: sa.BindParameter[str] = sa.bindparam("low")
    high: sa.BindParameter[str] = sa.bindparam("high")
    inside = sa.and_(p.location >= t.location + "/", p.location < t.location + "0")
    outside = sa.select(p.table_id, p.location).join(tables, t.table_id == p.table_id)
    return sa.union_all(
        sa.select(t.table_id, t.location).where(t.location >= low, t.location < high),
        outside.where(p.location >= low, p.location < high, p.end_version == ALIVE, ~inside),
    )


_PLACES = Prepared(_known_places())


def scheme_with_names(location: str) -> str | None:
    """Return ``file://`` or ``hdfs://`` if the location is in such a store; None for stores without alternative names.

    The location is canonical. Only in these stores may a directory have several names.
    """
    return next((scheme for scheme in _SCHEMES if location.startswith(scheme)), None)


def other_spellings(connection: sa.Connection, directories: Collection[str]) -> dict[str, set[str]]:
    """Return the other names of some directories (canonical URIs), for a caller that needs them only once."""
    return Spellings(connection).of(directories)


def by_name(directories: Collection[str], others: Mapping[str, Collection[str]]) -> dict[str, set[str]]:
    """Return, for each name of a directory, the given directories with this name.

    The directories are canonical URIs, and ``others`` their other names, as `Spellings.of` returns them.
    """
    named = {directory: {directory} for directory in directories}
    for directory, spelled in others.items():
        for name in spelled:
            named.setdefault(name, set()).add(directory)
    return named


class Spellings:
    """The names by which tables of an index know directories; the index is queried once, file systems as needed.

    Symbolic links inside of a table's directory are not searched, since each partition's directory would have to be
    read.
    """

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection
        self._known: dict[str, _KnownPlaces] = {}

    def of(self, directories: Collection[str]) -> dict[str, set[str]]:
        """Return the other names of some directories, given by canonical URIs."""
        found: dict[str, set[str]] = {}
        for scheme in _SCHEMES:
            asked = [directory for directory in directories if directory.startswith(scheme)]
            if not asked:
                continue
            known = self._known.get(scheme)
            if known is None:
                places = {place for _, place in _places(self._connection, scheme)}
                known = self._known[scheme] = _KnownPlaces(places)
            found |= {directory: spelled for directory in asked if (spelled := known.spellings(directory))}
        return found


def has_linked_neighbour(connection: sa.Connection, table: Table) -> bool:
    """Return whether another table or its partition lies at, in or around the table's directory by another name."""
    location = table.definition.location
    scheme = scheme_with_names(location)
    if scheme is None:
        return False
    keys = PlaceKeys()
    mine = keys.of(location)
    others = {keys.of(place) for number, place in _places(connection, scheme) if number != table.table_id}
    return any(above in others for above, _ in _around(mine)) or any(key.startswith(f"{mine}/") for key in others)


def _places(connection: sa.Connection, scheme: str) -> Iterator[tuple[int, str]]:
    """Yield the locations of tables, and of partitions outside of their tables, each with the table's number."""
    # "0" is the character after "/": the range contains exactly the locations that begin with the scheme.
    asked = {"low": scheme, "high": f"{scheme[:-1]}0"}
    for row in _PLACES.rows(connection, asked):
        yield row["table_id"], row["location"]


def _around(key: str) -> Iterator[tuple[str, str]]:
    """Yield the key and each of its ancestor directories, each with the relative path from there to the key."""
    above, below = key, ""
    while above:
        yield above, below
        above, _, name = above.rpartition("/")
        below = f"{name}/{below}" if below else name


class _KnownPlaces:
    """The known directories of tables and outlying partitions, grouped by the physical directory that they lead to.

    A directory inside of a known one is resolved with that one: a partition's directory needs no call to the file
    system.
    """

    def __init__(self, places: Collection[str]) -> None:
        self._keys = PlaceKeys()
        self._by_key: dict[str, list[str]] = {}
        self._key_of: dict[str, str] = {}
        for place in places:
            key = self._key_of[place] = self._keys.of(place)
            self._by_key.setdefault(key, []).append(place)
        self._others: dict[str, bool] = {}

    def spellings(self, directory: str) -> set[str]:
        """Return the other names of a directory, derived from the known directories at or around it."""
        root, below = next(
            ((above, below) for above, below in _around(directory) if above in self._key_of), (directory, "")
        )
        if not self._has_others(root):
            return set()
        key = self._key_of.get(root) or self._keys.of(root)
        key = f"{key}/{below}" if below else key
        spelled: set[str] = set()
        for above, way in _around(key):
            spelled.update(f"{place}/{way}" if way else place for place in self._by_key.get(above, ()))
        return spelled - {directory}

    def _has_others(self, root: str) -> bool:
        """Return whether a known directory lies at, in or around this one, but is spelled in another way."""
        known = self._others.get(root)
        if known is None:
            mine = self._key_of.get(root) or self._keys.of(root)
            around = {
                f"{place}/{way}" if way else place for a, way in _around(mine) for place in self._by_key.get(a, ())
            }
            inside = (self._by_key[key] for key in self._by_key if key.startswith(f"{mine}/"))
            known = bool(around - {root}) or any(not p.startswith(f"{root}/") for places in inside for p in places)
            self._others[root] = known
        return known


class PlaceKeys:
    """Computes a key for a location that is equal for all names of the same directory.

    Results are cached: use an instance for a short time only.
    """

    def __init__(self) -> None:
        self._local = PhysicalPaths()

    def of(self, location: str) -> str:
        """Return the key of a canonical location on a local file system or HDFS (see ``scheme_with_names``)."""
        if location.startswith(_LOCAL):
            return self._local.of(location.removeprefix(_LOCAL)).rstrip("/")
        address, _, path = location.removeprefix(_HDFS).partition("/")
        host, _, port = address.partition(":")
        return f"{_HDFS}{host.lower()}:{port or _DEFAULT_PORT}/{path}".rstrip("/")
