"""The report of a repair or of its preview."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import pyarrow as pa

from catalog_ext.display import Displayed, display
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.partition_names import DeclaredNames
from catalog_ext.metastore.runtime.wording import counted, format_bytes
from catalog_ext.repair.changes_by_value import changes_by_value
from catalog_ext.scan.observe import INCOMPLETE, MISSING

if TYPE_CHECKING:
    from collections.abc import Callable

    from catalog_ext.display import Picture
    from catalog_ext.metastore.index.read.partition_map import Bounds, Unit
    from catalog_ext.repair.changes_by_value import ChangesByValue
    from catalog_ext.scan.scratch import Scratch

SCHEMA = pa.schema(
    [
        ("action", pa.string()),
        ("partition", pa.string()),
        ("path", pa.string()),
        ("files", pa.int64()),
        ("bytes", pa.int64()),
        ("reason", pa.string()),
    ]
)
"""The columns of a report as rows, as in the result of ``CALL system.repair_partitions``."""

NEW = "new on the store"
"""The reason of an ordinary addition."""

UNKNOWN_RELOCATION = (
    "a relocating overwrite that this index does not know has put its rows here; the partitions' own directories may "
    "have those that it replaced. Import the table from the metastore, which has the partitions' locations, or set "
    "them (ALTER TABLE ... PARTITION ... SET LOCATION). If nothing needs the rows, vacuum with --unknown-writes "
    "removes them"
)
"""The reason of skipped directories of an overwrite that the index does not know: the index was restored, or the table
registered again."""
MOVING = "a RENAME or EXCHANGE is moving it"
"""The reason of a partition that is skipped because a command is moving its files."""

REPAIR_AGAIN = ": repair again"
"""The end of the reason of a partition that changed between the comparison and the commit."""

CAME_BACK = f"it was gone when it was listed, and is there again, or cannot be looked at{REPAIR_AGAIN}"
"""The reason of a missing partition that is not dropped, because its directory exists again or cannot be checked."""

DELETED_MEANWHILE = f"another statement deleted files of it after they were listed{REPAIR_AGAIN}"
"""The reason of a partition that is skipped because its files were deleted or replaced after the listing."""

COMPARED_LATER = "another process has compared it with the store after this repair began"
"""The reason of a partition that is skipped because a query or an event has compared it with the store more
recently."""


def is_open(reason: str) -> bool:
    """Return whether this reason for skipping a path is temporary, so that the path must be checked again."""
    return reason.startswith(INCOMPLETE) or reason.endswith(REPAIR_AGAIN) or reason == MOVING


_SHOWN = 20
_COLUMNS = "action, partition, path, files, bytes, reason"
_WORDS = {"add": "added", "drop": "dropped", "change": "changed", "skip": "skipped", "warn": "warnings"}
REFUSE = "refuse"
"""The action of a preview's entry which says that the run would be refused."""


class ReportEntry(NamedTuple):
    """One line of a report.

    Attributes:
        action: ``add``, ``drop``, ``change`` or ``skip``; ``warn`` for a possible mistake that is applied anyway;
            ``refuse`` in a preview of a repair that would be refused.
        partition: The partition's name; ``''`` if a skipped path belongs to no partition.
        path: The partition's directory, or the file or directory that changed or was skipped, relative to the table.
        files: The number of files; None if it is not known, because the directory was not listed.
        bytes: The sum of their sizes; None if ``files`` is None.
        reason: The reason, as a text.
    """

    action: str
    partition: str
    path: str
    files: int | None
    bytes: int | None
    reason: str


class ReportEntries(Sequence[ReportEntry]):
    """The entries of one action, read from the scratch database on demand, with bounded memory."""

    def __init__(self, scratch: Scratch, action: str, names: DeclaredNames, *, but: str = "") -> None:
        self._scratch = scratch
        self._names = names
        # ``but`` excludes the entries with this reason.
        self._where = "action = ? AND reason <> ?"
        self._which = (action, but)
        self._length = scratch.count(f"SELECT count(*) FROM entries WHERE {self._where}", self._which)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[ReportEntry]:
        rows = self._scratch.rows(f"SELECT {_COLUMNS} FROM entries WHERE {self._where} ORDER BY seq", self._which)
        return map(self._entry, rows)

    @overload
    def __getitem__(self, index: int) -> ReportEntry: ...
    @overload
    def __getitem__(self, index: slice) -> list[ReportEntry]: ...
    def __getitem__(self, index: int | slice) -> ReportEntry | list[ReportEntry]:
        if isinstance(index, slice):
            wanted = range(*index.indices(self._length))
            if not wanted:
                return []
            low, high = min(wanted[0], wanted[-1]), max(wanted[0], wanted[-1])
            found = self._between(low, high + 1)
            return [found[i - low] for i in wanted]
        position = index + self._length if index < 0 else index
        if not 0 <= position < self._length:
            raise IndexError(f"There is no entry {index}; there are {self._length}.")
        return self._between(position, position + 1)[0]

    def _between(self, start: int, stop: int) -> list[ReportEntry]:
        query = f"SELECT {_COLUMNS} FROM entries WHERE {self._where} ORDER BY seq LIMIT ? OFFSET ?"
        return list(map(self._entry, self._scratch.rows(query, (*self._which, stop - start, start))))

    def _entry(self, row: tuple[Any, ...]) -> ReportEntry:
        entry = ReportEntry(*row)
        return entry._replace(partition=self._names.of(entry.partition))

    def __repr__(self) -> str:
        return f"<{counted(self._length, 'entry', 'entries')}>"


@dataclass(frozen=True, slots=True)
class Counts:
    """The totals of one action; ``files`` and ``bytes`` are None if those of a skipped directory are not known."""

    partitions: int
    files: int | None
    bytes: int | None


class RepairReport(Displayed):
    """The outcome of ``repair_partitions``: what was (or, in a dry run, would be) added, dropped, changed and skipped.

    Attributes:
        table: ``namespace.table``.
        mode: ``add``, ``drop`` or ``sync``.
        where: The predicate that limited the repair, or None.
        dry_run: Whether this is a preview.
        version: The table's version after the repair.
        refused: The reason for which a repair would be refused, in a preview: one entry, or no entry.
        pending_deliveries: Changes that are not delivered to the metastore yet; they are delivered later, in order.
        delivery_error: The metastore's error that stopped the delivery, or None.
    """

    def __init__(
        self,
        scratch: Scratch,
        *,
        table: str,
        mode: str,
        where: str | None,
        dry_run: bool,
        version: int,
        pending_deliveries: int = 0,
        delivery_error: str | None = None,
        keys: Sequence[str] = (),
    ) -> None:
        self._scratch = scratch
        self.table = table
        self.mode = mode
        self.where = where
        self.dry_run = dry_run
        self.version = version
        self.pending_deliveries = pending_deliveries
        self.delivery_error = delivery_error
        self._keys = tuple(keys)
        self._names = names = DeclaredNames(keys)
        self.added = ReportEntries(scratch, "add", names)
        self.dropped = ReportEntries(scratch, "drop", names)
        self.changed = ReportEntries(scratch, "change", names)
        self.skipped = ReportEntries(scratch, "skip", names)
        self.warnings = ReportEntries(scratch, "warn", names)
        self.refused = ReportEntries(scratch, REFUSE, names)

    @property
    def in_sync(self) -> bool:
        """Whether store and index agree: no change, no missing named path, nothing left to check again."""
        unseen = "action = 'skip' AND (reason IN (?, ?, ?) OR substr(reason, 1, ?) = ? OR substr(reason, -?) = ?)"
        query = f"SELECT EXISTS (SELECT 1 FROM entries WHERE action IN ('add', 'drop', 'change') OR {unseen})"
        known = (MISSING, MOVING, UNKNOWN_RELOCATION, len(INCOMPLETE), INCOMPLETE, len(REPAIR_AGAIN), REPAIR_AGAIN)
        return not self._scratch.count(query, known)

    def counts(self, action: str) -> Counts:
        """Count the distinct partitions, files and bytes of an action (``add``, ``drop``, ``change`` or ``skip``)."""
        query = (
            "SELECT count(DISTINCT partition), iif(count(files) < count(*), NULL, coalesce(sum(files), 0)),"
            " iif(count(bytes) < count(*), NULL, coalesce(sum(bytes), 0)) FROM entries WHERE action = ?"
        )
        return Counts(*next(self._scratch.rows(query, (action,))))

    def __iter__(self) -> Iterator[ReportEntry]:
        # Show skipped paths first: additions can be thousands, and would hide the few paths that need a person.
        for entries in (self.refused, self.skipped, self.warnings, self.added, self.dropped, self.changed):
            yield from entries

    def __len__(self) -> int:
        return sum(map(len, (self.refused, self.warnings, *(entries for _, entries in self._by_word()))))

    def batches(self, size: int = 10_000) -> Iterator[pa.RecordBatch]:
        """Yield the entries as Arrow batches of ``SCHEMA``."""
        for chunk in batched(self, size):
            yield pa.RecordBatch.from_pylist([e._asdict() for e in chunk], schema=SCHEMA)

    def to_arrow(self) -> pa.Table:
        """Return the entries as one Arrow table of ``SCHEMA``."""
        return pa.Table.from_batches(self.batches(), schema=SCHEMA)

    def to_json(self) -> str:
        """Return the report as one JSON object."""
        return "".join(self.json_chunks())

    def json_chunks(self) -> Iterator[str]:
        """Yield the text of ``to_json`` in pieces, for reports that are larger than memory."""
        head = {
            "table": self.table,
            "mode": self.mode,
            "where": self.where,
            "dry_run": self.dry_run,
            "refused": next((entry.reason for entry in self.refused), None),
            "version": self.version,
            "pending_deliveries": self.pending_deliveries,
            "delivery_error": self.delivery_error,
        }
        yield json.dumps(head, ensure_ascii=False)[:-1]
        for word, entries in self._by_word():
            yield f', "{word}": ['
            for number, entry in enumerate(entries):
                yield (", " if number else "") + json.dumps(entry._asdict(), ensure_ascii=False)
            yield "]"
        yield f', "warnings": {json.dumps([entry._asdict() for entry in self.warnings], ensure_ascii=False)}}}'

    def _by_word(self) -> Iterator[tuple[str, ReportEntries]]:
        words = (word for action, word in _WORDS.items() if action != "warn")
        yield from zip(words, (self.added, self.dropped, self.changed, self.skipped), strict=True)

    def _headline(self) -> str:
        """The table, the mode and the outcome, in one line."""
        verb = "Preview of repair" if self.dry_run else "Repair"
        limit = f" where {_one_line(self.where)}" if self.where else ""
        state = "nothing was changed" if self.dry_run else f"version {self.version}"
        return f"{verb} of {self.table} (mode {self.mode}{limit}): {state}"

    def _lines(self) -> Iterator[tuple[str, str]]:
        """Yield each action that changed or skipped something, with a text of its counts."""
        for action, word in _WORDS.items():
            counts = self.counts(action)
            if action == "skip" and self.skipped:
                yield word, counted(len(self.skipped), "path")
            elif action == "warn" and self.warnings:
                yield word, f"{len(self.warnings):,}"
            elif action not in ("skip", "warn") and counts.partitions:
                # The files of a partition that is added, dropped or changed are known: the repair has listed it.
                text = f"{counted(counts.partitions, 'partition')}, {counted(counts.files or 0, 'file')}"
                yield word, f"{text}, {format_bytes(counts.bytes or 0)}"

    def _notes(self) -> Iterator[str]:
        """Yield sentences about the repair as a whole."""
        yield from (entry.reason for entry in self.refused)
        if len(self) == len(self.skipped) + len(self.warnings):
            what = "the index agrees with the store" if self.mode == "sync" else f"there is nothing to {self.mode}"
            yield f"otherwise {what}" if self.skipped else what
        if self.pending_deliveries:
            changes = counted(self.pending_deliveries, "change")
            reason = f" ({_one_line(self.delivery_error)})" if self.delivery_error else ""
            yield f"the metastore has not taken {changes} yet{reason}; delivered later, in order"

    def _first_entries(self) -> Iterator[tuple[ReportEntries, list[ReportEntry]]]:
        """Yield the entries of each action with those that the summary shows.

        Additions with a special reason come first: thousands of ordinary additions must not hide them.
        """
        special = ReportEntries(self._scratch, "add", self._names, but=NEW)[:_SHOWN]
        ordinary = [entry for entry in self.added[:_SHOWN] if entry.reason == NEW]
        yield self.added, [*special, *ordinary][:_SHOWN]
        for entries in (self.dropped, self.changed, self.skipped, self.warnings):
            yield entries, entries[:_SHOWN]

    def summary(self) -> str:
        """Return the report in a few lines of text: counts, and the first entries of each action."""
        lines = [self._headline(), *(f"  {word:<8} {text}" for word, text in self._lines())]
        for entries, shown in self._first_entries():
            lines += [_text_line(entry) for entry in shown]
            if len(entries) > len(shown):
                lines.append(f"           … and {len(entries) - len(shown):,} more")
        return "\n".join([*lines, *(f"  {note}" for note in self._notes())])

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        counts = ", ".join(f"{word} {text}" for word, text in self._lines()) or "nothing to do"
        return f"<RepairReport of {self.table}, mode {self.mode}{', dry run' if self.dry_run else ''}: {counts}>"

    def _changes(self, unit_of: Callable[[Bounds], Unit]) -> ChangesByValue:
        """Count the changes by the values of the first partition column (``changes_by_value``)."""
        return changes_by_value(self._scratch, self._keys, unit_of)

    def plot_partitions(self) -> Picture:
        """Draw a chart of the changes by the first key: partitions added, dropped and changed, and paths skipped.

        Dates are counted by day, month or year. Of other values the thirty with the most changes are drawn.

        Returns:
            The picture, which a notebook's cell shows; ``svg`` is the document.

        Raises:
            StorageError: The report's scratch file cannot be read.
        """
        return display().picture(self)


def _text_line(entry: ReportEntry) -> str:
    return f"  {entry.action:<8} {_one_line(entry.path) or '(the table)'}: {_one_line(entry.reason, 500)}"


def _one_line(text: str, limit: int = 160) -> str:
    """Return the text without unprintable characters, such as line breaks, truncated to the limit."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text[: limit + 1])
    return shown if len(shown) <= limit else f"{shown[: limit - 1]}…"
