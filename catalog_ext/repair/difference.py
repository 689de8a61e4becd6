"""The difference between the store and the index, as a stream of changes."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from catalog_ext.repair.layout import Layout, canonical_name, metastore_obstacle
from metastore.changes import AddPartition, Change, DropPartition, ReplaceFiles
from metastore.model import DataFile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_ext.repair.spool import Spool

_BELOW = "(name = f.directory OR f.directory = '' OR substr(name, 1, length(f.directory) + 1) = f.directory || '/')"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the report that a change explains itself with."""

    action: str
    partition: str
    path: str
    files: int
    bytes: int
    reason: str


@dataclass(frozen=True, slots=True)
class Proposed:
    """A change and the lines that the report gets when it is applied."""

    change: Change
    lines: tuple[Line, ...]


class Difference:
    """Compares the two sides in the scratch database.

    Args:
        spool: Both sides, filled by ``catalog_ext.repair.observe``.
        layout: The table's layout.
        has_directories: Whether the store keeps empty directories, so that a partition's absence means it is gone.
    """

    def __init__(self, spool: Spool, layout: Layout, *, has_directories: bool) -> None:
        self._spool = spool
        self._layout = layout
        self._has_directories = has_directories
        self._spellings: set[str] = set()

    def protect_incomplete(self) -> None:
        """Take everything at or below a directory whose listing failed out of the comparison, and say so."""
        spool = self._spool
        spool.execute(
            "INSERT OR IGNORE INTO skipped SELECT directory, '', 0, 0, 'the listing is incomplete: ' || reason FROM failures"
        )
        if spool.value("SELECT count(*) FROM failures") == 0:
            return
        for side in ("listed_partitions", "listed_files", "indexed_partitions", "indexed_files"):
            spool.execute(f"DELETE FROM {side} WHERE EXISTS (SELECT 1 FROM failures f WHERE {_BELOW})")

    def dropped(self) -> Iterator[Proposed]:
        """Partitions that are registered and gone."""
        had_files = "" if self._has_directories else "AND i.files > 0"
        query = (
            "SELECT name, coalesce(location, name), files, bytes FROM indexed_partitions i "
            f"WHERE NOT EXISTS (SELECT 1 FROM listed_partitions l WHERE l.name = i.name) {had_files} ORDER BY name"
        )
        for name, path, files, size in self._spool.rows(query):
            reason = "the directory has gone" if self._has_directories else "no file is left under the prefix"
            yield Proposed(DropPartition(name), (Line("drop", name, path, files, size, reason),))

    def added(self) -> Iterator[Proposed]:
        """Partitions that are on the store and not registered."""
        query = (
            "SELECT name, path, size, modified_ms FROM ("
            " SELECT name, NULL AS path, 0 AS size, 0 AS modified_ms FROM listed_partitions"
            " UNION ALL SELECT name, path, size, modified_ms FROM listed_files) l"
            " WHERE NOT EXISTS (SELECT 1 FROM indexed_partitions i WHERE i.name = l.name) ORDER BY name"
        )
        for name, rows in groupby(self._spool.rows(query), key=lambda row: row[0]):
            files = tuple(DataFile(path, size, modified) for _, path, size, modified in rows if path is not None)
            obstacle = self._obstacle(name)
            line = Line("add", name, name, len(files), sum(f.size for f in files), obstacle or "new on the store")
            yield Proposed(AddPartition(name, files, in_metastore=not obstacle), (line,))

    def _obstacle(self, name: str) -> str:
        if not name:
            return ""
        obstacle = metastore_obstacle(name, self._layout.keys)
        if obstacle:
            return obstacle
        canonical = canonical_name(name, self._layout.keys)
        if canonical == name:
            return ""
        # Names that Hive would write differently are few, so remembering them costs nothing.
        twin = canonical in self._spellings or self._spool.value(
            "SELECT EXISTS (SELECT 1 FROM listed_partitions WHERE name = ?) OR EXISTS (SELECT 1 FROM indexed_partitions WHERE name = ?)",
            (canonical, canonical),
        )
        self._spellings.add(canonical)
        return f"not representable in the metastore beside {canonical}, which has the same values" if twin else ""

    def changed(self) -> Iterator[Proposed]:
        """Known partitions whose files differ."""
        listed, indexed = (
            "SELECT name, path, size, modified_ms FROM listed_files",
            "SELECT name, path, size, modified_ms FROM indexed_files",
        )
        query = (
            f"SELECT name, path, size, modified_ms, side FROM ("
            f" SELECT *, 1 AS side FROM ({listed} EXCEPT {indexed}) UNION ALL SELECT *, 0 AS side FROM ({indexed} EXCEPT {listed})) d"
            " WHERE EXISTS (SELECT 1 FROM indexed_partitions i WHERE i.name = d.name)"
            " AND (side = 1 OR EXISTS (SELECT 1 FROM listed_partitions l WHERE l.name = d.name)) ORDER BY name, path, side"
        )
        for name, rows in groupby(self._spool.rows(query), key=lambda row: row[0]):
            added: list[DataFile] = []
            removed: list[str] = []
            lines: list[Line] = []
            for path, sides in groupby(rows, key=lambda row: row[1]):
                states = {row[4]: row for row in sides}
                lines.append(_file_line(name, path, states))
                if 0 in states:
                    removed.append(path)
                if 1 in states:
                    added.append(DataFile(path, states[1][2], states[1][3]))
            yield Proposed(ReplaceFiles(name, tuple(added), tuple(removed)), tuple(lines))


def _file_line(name: str, path: str, states: dict[int, tuple[str, str, int, int, int]]) -> Line:
    shown = f"{name}/{path}" if name else path
    before, after = states.get(0), states.get(1)
    if before is None:
        reason = "file added"
    elif after is None:
        reason = "file gone"
    elif before[2] != after[2]:
        reason = f"file changed: {before[2]} bytes before, {after[2]} now"
    else:
        reason = "file changed: written again with the same size"
    size = (after or before or (0, 0, 0))[2]
    return Line("change", name, shown, 1, int(size), reason)
