"""What a repair did, or would do."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import TYPE_CHECKING, overload

import pyarrow as pa

if TYPE_CHECKING:
    from catalog_ext.repair.spool import Spool

SCHEMA = pa.schema([
    ("action", pa.string()), ("partition", pa.string()), ("path", pa.string()), ("files", pa.int64()), ("bytes", pa.int64()),
    ("reason", pa.string()),
])  # fmt: skip
"""The columns of a report as rows, as ``CALL system.repair_partitions`` returns them."""

_SHOWN = 20
_COLUMNS = "action, partition, path, files, bytes, reason"


@dataclass(frozen=True, slots=True)
class ReportEntry:
    """One line of a report.

    Attributes:
        action: ``add``, ``drop``, ``change`` or ``skip``.
        partition: The partition's name; ``''`` where a skipped path belongs to none.
        path: The partition's directory, or the file or directory that changed or was skipped, relative to the table.
        files: How many files it concerns.
        bytes: Their size.
        reason: Why, in words.
    """

    action: str
    partition: str
    path: str
    files: int
    bytes: int
    reason: str


class ReportEntries(Sequence[ReportEntry]):
    """The entries of one action, read from the scratch database as they are asked for: a report needs no memory."""

    def __init__(self, spool: Spool, action: str) -> None:
        self._spool = spool
        self._action = action
        self._length: int = spool.value("SELECT count(*) FROM entries WHERE action = ?", (action,))

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[ReportEntry]:
        rows = self._spool.rows(f"SELECT {_COLUMNS} FROM entries WHERE action = ? ORDER BY seq", (self._action,))
        return (ReportEntry(*row) for row in rows)

    @overload
    def __getitem__(self, index: int) -> ReportEntry: ...
    @overload
    def __getitem__(self, index: slice) -> list[ReportEntry]: ...
    def __getitem__(self, index: int | slice) -> ReportEntry | list[ReportEntry]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._length))]
        position = index + self._length if index < 0 else index
        if not 0 <= position < self._length:
            raise IndexError(index)
        query = f"SELECT {_COLUMNS} FROM entries WHERE action = ? ORDER BY seq LIMIT 1 OFFSET ?"
        return ReportEntry(*next(self._spool.rows(query, (self._action, position))))

    def __repr__(self) -> str:
        return f"<{self._length} entries>"


@dataclass(frozen=True, slots=True)
class Counts:
    """The sums of one action."""

    partitions: int
    files: int
    bytes: int


class RepairReport:
    """The outcome of ``repair_partitions``: what was (or, in a dry run, would be) added, dropped, changed and skipped.

    Attributes:
        table: ``namespace.table``.
        mode: ``add``, ``drop`` or ``sync``.
        where: The predicate that limited the repair, or None.
        dry_run: Whether this is a preview.
        version: The table's version afterwards.
        pending_deliveries: Messages that the metastore has not taken yet; they are delivered later, in order.
        delivery_error: Why not, in the metastore's words, or None.
    """

    def __init__(
        self, spool: Spool, *, table: str, mode: str, where: str | None, dry_run: bool, version: int,
        pending_deliveries: int = 0, delivery_error: str | None = None,
    ) -> None:  # fmt: skip
        self._spool = spool
        self.table = table
        self.mode = mode
        self.where = where
        self.dry_run = dry_run
        self.version = version
        self.pending_deliveries = pending_deliveries
        self.delivery_error = delivery_error
        self.added = ReportEntries(spool, "add")
        self.dropped = ReportEntries(spool, "drop")
        self.changed = ReportEntries(spool, "change")
        self.skipped = ReportEntries(spool, "skip")

    def counts(self, action: str) -> Counts:
        """The distinct partitions, the files and the bytes of one action (``add``, ``drop``, ``change``, ``skip``)."""
        query = "SELECT count(DISTINCT partition), coalesce(sum(files), 0), coalesce(sum(bytes), 0) FROM entries WHERE action = ?"
        return Counts(*next(self._spool.rows(query, (action,))))

    def __iter__(self) -> Iterator[ReportEntry]:
        for entries in (self.added, self.dropped, self.changed, self.skipped):
            yield from entries

    def __len__(self) -> int:
        return len(self.added) + len(self.dropped) + len(self.changed) + len(self.skipped)

    def batches(self, size: int = 10_000) -> Iterator[pa.RecordBatch]:
        """The entries as Arrow batches of ``SCHEMA``."""
        entries = iter(self)
        while chunk := list(islice(entries, size)):
            yield pa.RecordBatch.from_pylist([asdict(e) for e in chunk], schema=SCHEMA)

    def to_arrow(self) -> pa.Table:
        """The entries as one Arrow table of ``SCHEMA``."""
        return pa.Table.from_batches(self.batches(), schema=SCHEMA)

    def to_json(self) -> str:
        """The report as one JSON object."""
        return json.dumps({
            "table": self.table, "mode": self.mode, "where": self.where, "dry_run": self.dry_run, "version": self.version,
            "pending_deliveries": self.pending_deliveries, "delivery_error": self.delivery_error,
            "added": [asdict(e) for e in self.added], "dropped": [asdict(e) for e in self.dropped],
            "changed": [asdict(e) for e in self.changed], "skipped": [asdict(e) for e in self.skipped],
        }, ensure_ascii=False)  # fmt: skip

    def _headline(self) -> str:
        verb = "Preview of repair" if self.dry_run else "Repair"
        limit = f" where {self.where}" if self.where else ""
        state = "nothing was changed" if self.dry_run else f"version {self.version}"
        return f"{verb} of {self.table} (mode {self.mode}{limit}): {state}"

    def _lines(self) -> Iterator[tuple[str, str]]:
        for action, word in (("add", "added"), ("drop", "dropped"), ("change", "changed"), ("skip", "skipped")):
            counts = self.counts(action)
            if action == "skip":
                yield word, f"{len(self.skipped):,} paths"
            else:
                yield word, f"{counts.partitions:,} partitions, {counts.files:,} files, {format_bytes(counts.bytes)}"

    def summary(self) -> str:
        """The report in a few lines of text: counts, and the first entries of what is not plain."""
        lines = [self._headline(), *(f"  {word:<8} {text}" for word, text in self._lines())]
        for entry in [*islice(self.dropped, _SHOWN), *islice(self.changed, _SHOWN), *islice(self.skipped, _SHOWN)]:
            lines.append(f"  {entry.action:<7} {_one_line(entry.path)}: {entry.reason}")
        if self.pending_deliveries:
            lines.append(f"  the metastore has not taken {self.pending_deliveries} messages yet: {self.delivery_error}")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        counts = ", ".join(f"{word}: {text}" for word, text in self._lines())
        return f"<RepairReport {self.table} {self.mode}{' dry run' if self.dry_run else ''}; {counts}>"

    def _repr_html_(self) -> str:
        counts = "".join(f"<tr><th>{word}</th><td>{text}</td></tr>" for word, text in self._lines())
        rows = "".join(
            "<tr>" + "".join(f"<td>{html.escape(str(v))}</td>" for v in asdict(entry).values()) + "</tr>"
            for entry in islice(self, 100)
        )
        heads = "".join(f"<th>{name}</th>" for name in SCHEMA.names)
        more = f"<p>… and {len(self) - 100:,} more</p>" if len(self) > 100 else ""
        return (
            f"<p><b>{html.escape(self._headline())}</b></p><table>{counts}</table>"
            f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>{more}"
        )


def format_bytes(size: int) -> str:
    """The size for people, in binary units.

    >>> format_bytes(10), format_bytes(3_500_000)
    ('10 B', '3.3 MiB')
    """
    number, unit = float(size), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if number < 1024 or unit == "TiB":
            break
        number /= 1024
    return f"{size} B" if unit == "B" else f"{number:.1f} {unit}"


def _one_line(path: str) -> str:
    escaped = path.encode("unicode_escape", "backslashreplace").decode("ascii") if not path.isprintable() else path
    return escaped if len(escaped) <= 160 else f"{escaped[:120]}…"
