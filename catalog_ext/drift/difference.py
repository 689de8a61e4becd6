"""The value class of a difference between store, index and metastore, with the evidence of which side is newer."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, NamedTuple

from catalog_ext.metastore.backports import StrEnum
from catalog_ext.metastore.hive.mapping.statistics_parameters import BYTES, FILES, ROWS
from catalog_ext.metastore.runtime.wording import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.tables import Partition, Table
    from catalog_ext.sync.pending import PendingMessages


MISSING = "missing"
"""The text for a side that lacks the subject. None stands for a side that cannot have it."""


class Side(StrEnum):
    """One of the three sides that describe a table."""

    STORE = "store"
    INDEX = "index"
    METASTORE = "metastore"


class DriftKind(StrEnum):
    """The kind of a difference."""

    TABLE = "table"
    LOCATION = "location"
    FORMAT = "format"
    COLUMN = "column"
    PARTITION_COLUMN = "partition column"
    PARAMETER = "parameter"
    VIEW = "view"
    PARTITION = "partition"
    PARTITION_LOCATION = "partition location"
    PARTITION_DESCRIPTOR = "partition descriptor"
    FILES = "files"
    STATISTICS = "statistics"
    NOT_COMPARED = "not compared"
    NOT_TAKEN = "not taken"


OF_DEFINITION = frozenset({
    DriftKind.TABLE, DriftKind.LOCATION, DriftKind.FORMAT, DriftKind.COLUMN, DriftKind.PARTITION_COLUMN,
    DriftKind.PARAMETER, DriftKind.VIEW,
})  # fmt: skip
"""Kinds of differences that concern the table, and not a partition."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference, or something that could not be compared.

    Attributes:
        table: ``namespace.table``.
        kind: The kind of the difference.
        subject: The partition, column, parameter or option; ``''`` for the table as a whole.
        store: A text on the store's state; ``missing`` if it lacks the subject, None if it is not concerned.
        index: A text on the index's state, likewise.
        metastore: A text on the metastore's state, likewise.
        newer: The side that changed last; None if unknown.
        evidence: The evidence for ``newer``, or the reason why the subject could not be compared.
        pending: Whether a pending outbox message will remove the difference, so that it does not count as drift.
        failed: Whether that delivery has failed: it may need an operator.
        unavailable: Whether the comparison failed because a side does not answer, and may succeed later.
    """

    table: str
    kind: DriftKind
    subject: str = ""
    store: str | None = None
    index: str | None = None
    metastore: str | None = None
    newer: Side | None = None
    evidence: str = ""
    pending: bool = False
    failed: bool = False
    unavailable: bool = False

    @property
    def is_drift(self) -> bool:
        """Whether the sides stay different until they are mended."""
        return not self.pending and self.kind not in (DriftKind.NOT_COMPARED, DriftKind.NOT_TAKEN)

    def to_dict(self) -> dict[str, Any]:
        """Return the difference as JSON values."""
        return asdict(self)


def not_compared(
    table: str, why: str, subject: str = "", *, side: Side | None = None, unavailable: bool = False
) -> Difference:
    """Return an entry for a partition, column or property that could not be compared.

    Args:
        table: ``namespace.table``.
        why: The reason in words.
        subject: The partition, column or property; ``''`` if the whole table was not compared.
        side: The side that could not be read.
        unavailable: Whether the reason is that the side does not answer.
    """
    store, index, metastore = ("not known" if each is side else None for each in Side)
    return Difference(
        table, DriftKind.NOT_COMPARED, subject, store, index, metastore, evidence=why, unavailable=unavailable
    )


def waiting(difference: Difference, pending: PendingMessages) -> Difference:
    """Return the difference, marked as pending: the delivery of outbox messages will remove it."""
    return replace(difference, newer=None, evidence=pending.why, pending=True, failed=pending.failed)


_WHAT = {Side.STORE: "newest file", Side.INDEX: "last commit", Side.METASTORE: "changed in the metastore"}
_METASTORE_TIMES = ("transient_lastDdlTime", "last_modified_time")


class ChangeTime(NamedTuple):
    """The time when a side was changed, and the evidence.

    Attributes:
        at_s: Seconds since 1970, because the metastore stores no fractions of seconds.
        source: The parameter or version from which the time is known, for the evidence; may be empty.
    """

    side: Side
    at_s: int
    source: str

    def __str__(self) -> str:
        shown = datetime.fromtimestamp(self.at_s, timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
        return f"{_WHAT[self.side]}: {shown} UTC" + (f" ({self.source})" if self.source else "")


class NewerSide(NamedTuple):
    """The side (store, index or metastore) that changed last, and the evidence; ``newer`` is None if it is unknown."""

    newer: Side | None
    evidence: str


def changed_in_metastore(parameters: Mapping[str, str]) -> ChangeTime | None:
    """Return when a metastore's table or partition was changed, from its parameters; None if they contain no time."""
    found = [(int(parameters[n]), n) for n in _METASTORE_TIMES if parameters.get(n, "").isdecimal()]
    return ChangeTime(Side.METASTORE, *max(found)) if found and max(found)[0] else None


def changed_in_store(modified_ms: int | None) -> ChangeTime | None:
    """Return when the newest of some files was written; None without files."""
    return None if not modified_ms else ChangeTime(Side.STORE, modified_ms // 1000, "")


def later(*times: ChangeTime | None) -> NewerSide:
    """Return the side with the latest of these change times, and the evidence."""
    known = sorted((each for each in times if each is not None), key=lambda each: each.at_s, reverse=True)
    evidence = " · ".join(map(str, known))
    if len(known) < 2 or known[0].at_s == known[1].at_s:
        return NewerSide(None, evidence)
    return NewerSide(known[0].side, evidence)


class IndexTimes:
    """The commit times of a table's versions in the index.

    Args:
        index: The index.
        table: The table, at the version with which the other sides are compared.
    """

    def __init__(self, index: Index, table: Table) -> None:
        self._index = index
        self._table = table
        self._times: dict[int, int] = {}
        self._last = index.history.last_change(table)

    def _read(self, versions: Sequence[int]) -> None:
        unknown = set(versions) - self._times.keys()
        if unknown:
            self._times = self._times if len(self._times) < 10_000 else {}
            self._times |= self._index.history.version_times(self._table.table_id, unknown)

    def of_partitions(self, partitions: Sequence[Partition]) -> Mapping[str, ChangeTime]:
        """Return the time of each partition's last change; partitions whose version has expired are omitted."""
        self._read([p.begin_version for p in partitions])
        times = ((p.name, self._of_version(p.begin_version)) for p in partitions)
        return {name: each for name, each in times if each is not None}

    def _of_version(self, version: int) -> ChangeTime | None:
        at_ms = self._times.get(version)
        return None if at_ms is None else _made(version, at_ms)

    def after_all(self, changed_at: ChangeTime | None) -> NewerSide:
        """Return the side with the newer change of a subject that the index lacks, with the evidence.

        The index stores no time of a drop. If its last commit is later than the other side's change, that commit may
        have dropped the subject, and the newer side is unknown.
        """
        last = None if self._last is None else _made(*self._last)
        if changed_at is None or last is None:
            return NewerSide(None, "" if changed_at is None else str(changed_at))
        words = f"{changed_at} · {last}"
        if changed_at.at_s > last.at_s:
            return NewerSide(changed_at.side, words)
        return NewerSide(None, f"{words} → nothing says which side is right")


def _made(version: int, at_ms: int) -> ChangeTime:
    return ChangeTime(Side.INDEX, at_ms // 1000, f"version {version}")


HAS_IT = "has it"
NOT_KNOWN = "not known"


def files_words(files: int, size: int, rows: int | None = None) -> str:
    """Return ``2 files, 1,204 bytes, 10 rows``; without the rows if they were not counted."""
    words = f"{counted(files, 'file')}, {counted(size, 'byte')}"
    return words if rows is None else f"{words}, {counted(rows, 'row')}"


def index_words(partition: Partition | None) -> str:
    """Return a text on the index's state of a partition."""
    if partition is None:
        return MISSING
    words = files_words(partition.files, partition.bytes, partition.rows)
    return words if partition.location is None else f"{words} at {partition.location}"


def statistics_words(parameters: Mapping[str, str]) -> str:
    """Return a text on the statistics in parameters, from the metastore or from the index's publication."""
    numbers = [int(parameters[n]) if parameters.get(n, "").isdecimal() else None for n in (FILES, BYTES, ROWS)]
    nouns = zip(numbers, ("file", "byte", "row"), strict=True)
    words = [counted(number, noun) for number, noun in nouns if number is not None]
    return ", ".join(words) or HAS_IT
