"""What the store has otherwise than the index, by a preview of repair, to be looked up by partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from catalog_ext.drift.difference import MISSING, files_words, not_compared
from catalog_ext.repair.report import COMPARED_LATER, MOVING, REPAIR_AGAIN, UNKNOWN_RELOCATION
from catalog_ext.scan.equivalent_names import key_of
from catalog_ext.scan.observe import INCOMPLETE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from catalog_ext.drift.difference import Difference
    from catalog_ext.scan.scratch import Scratch

ADD, DROP, CHANGE = "add", "drop", "change"
_IN_QUERY = 500
_COLUMNS = "partition, key, action, files, bytes, newest_ms"
_UNSEEN = (MOVING, UNKNOWN_RELOCATION, COMPARED_LATER)


class StoreFinding(NamedTuple):
    """What the store has of a partition otherwise than the index.

    Attributes:
        action: ``add`` (the index lacks it), ``drop`` (the store lacks it) or ``change`` (it has other files).
        files: How many files that concerns.
        bytes: Their size.
        newest_ms: When the newest of the partition's files was written; None where none is known.
    """

    partition: str
    key: str
    action: str
    files: int
    bytes: int
    newest_ms: int | None


class StoreSide:
    """Looks up what a preview of repair has found.

    Args:
        scratch: The preview's.
        listed: Whether the store could be listed at all.
    """

    def __init__(self, scratch: Scratch, *, listed: bool = True) -> None:
        self._scratch = scratch
        self._listed = listed
        scratch.create_function("key_of", key_of)
        scratch.execute("CREATE INDEX listed_files_of_partition ON listed_files (name, modified_ms)")
        scratch.execute(
            f"CREATE TABLE store_side AS SELECT partition, key_of(partition) AS key, action, sum(files) AS files,"
            " sum(bytes) AS bytes, (SELECT max(modified_ms) FROM listed_files WHERE name = partition) AS newest_ms,"
            f" 0 AS seen FROM entries WHERE action IN ('{ADD}', '{DROP}', '{CHANGE}') GROUP BY partition, action"
        )
        scratch.execute("CREATE INDEX store_side_by_key ON store_side (key)")

    def take(self, names: Mapping[str, str]) -> dict[str, StoreFinding]:
        """Return, by key, what was found of partitions, which ``rest`` leaves out from now on.

        Args:
            names: The partitions' names by key: of two that have equal values the very name is theirs.
        """
        found: dict[str, StoreFinding] = {}
        keys = list(names)
        for start in range(0, len(keys), _IN_QUERY):
            some = tuple(keys[start : start + _IN_QUERY])
            marks = ",".join("?" * len(some))
            for row in self._scratch.rows(f"SELECT {_COLUMNS} FROM store_side WHERE key IN ({marks})", some):
                finding = StoreFinding(*row)
                if finding.key not in found or finding.partition == names[finding.key]:
                    found[finding.key] = finding
            self._scratch.execute(f"UPDATE store_side SET seen = 1 WHERE key IN ({marks})", some)
        return found

    def hidden(self, names: Sequence[str]) -> set[str]:
        """Return those of the partitions that lie where the listing failed."""
        if not self._listed:
            return set(names)
        found: set[str] = set()
        for start in range(0, len(names), _IN_QUERY):
            some = tuple(names[start : start + _IN_QUERY])
            marks = ",".join("?" * len(some))
            rows = self._scratch.rows(f"SELECT name FROM protected WHERE name IN ({marks})", some)
            found.update(name for (name,) in rows)
        return found

    def rest(self) -> Iterator[StoreFinding]:
        """Yield what was not taken, by name."""
        query = f"SELECT {_COLUMNS} FROM store_side WHERE seen = 0 ORDER BY partition"
        return (StoreFinding(*row) for row in self._scratch.rows(query))

    def unseen(self, table: str) -> Iterator[Difference]:
        """Yield what of the store could not be compared."""
        for path, reason in self._scratch.rows("SELECT path, reason FROM entries WHERE action = 'skip' ORDER BY seq"):
            if reason in _UNSEEN or reason.startswith(INCOMPLETE) or reason.endswith(REPAIR_AGAIN):
                yield not_compared(table, reason, path)


def store_words(finding: StoreFinding | None, index: str) -> str:
    """Return what the store has of a partition that the index knows.

    Args:
        finding: In what it differs from the index; None where it does not.
        index: What the index has.
    """
    if finding is None:
        return index
    if finding.action == DROP:
        return MISSING
    if finding.action == CHANGE:
        return f"other files: {files_words(finding.files, finding.bytes)} differ"
    return files_words(finding.files, finding.bytes)
