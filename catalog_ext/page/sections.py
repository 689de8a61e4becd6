"""The data of the parts of a table's page: a few bounded queries each, whose answers are cached by version.

A version never changes, except that rows may be counted later: expensive answers are cached for a minute.
"""

from __future__ import annotations

import re
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

from catalog_ext.metastore.errors import InvalidInputError
from catalog_ext.metastore.index.read.overviews import GrowthPosition
from catalog_ext.metastore.model.tables import TableType
from catalog_ext.metastore.runtime.wording import counted
from catalog_ext.overview import formats
from catalog_ext.overview.lists import altered_parts
from catalog_ext.overview.table_state import compacting_statement
from catalog_ext.page import charts

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

    from markupsafe import Markup

    from catalog_ext.metastore.index.read.overviews import CommitCount, HistoryEvent, Overviews, SizeClass, SmallFiles
    from catalog_ext.metastore.index.read.table_list import TableSummary
    from catalog_ext.metastore.model.tables import Table

_Answer = TypeVar("_Answer")

SMALL = 32 * 2**20
"""The size, in bytes, below which a file counts as too small, unless the address has another size."""

SMALL_CHOICES = tuple(n * 2**20 for n in (1, 4, 16, 32, 64, 128))
_EDGES = (2**16, *SMALL_CHOICES, 2**28, 2**29, 2**30)
_MOST_FILES = 2_000_000
_STRIDES = (3, 7, 11, 31, 101, 307, 1009)
"""Primes as sampling intervals, so that a sample does not always hit the same value of a key."""

_INTERVALS = 60
_MINUTE_MS = 60_000
_DAY_MS = 86_400_000
_EVENTS = 50
_POSITION = re.compile(r"(\d{1,18})?\.(?:(\d{1,18})\.(\d{1,18})|\.)", re.ASCII)
_WORST = 15
_KEPT_S, _MOST_KEPT, _CHART = 60.0, 40_000, 50


class Kept:
    """A cache that keeps expensive results for a minute.

    If the sum of the results' weights is above ``most``, the oldest are evicted.
    """

    def __init__(self, most: int = _MOST_KEPT, clock: Callable[[], float] = time.monotonic) -> None:
        self._answers: OrderedDict[Hashable, tuple[float, int, Any]] = OrderedDict()
        self._most = most
        self._clock = clock
        self._weight = 0
        self._lock = threading.Lock()

    def get(
        self, key: Hashable, make: Callable[[], _Answer], weigh: Callable[[_Answer], int] = lambda _: 50
    ) -> _Answer:
        """Return the cached result for a key, or compute it; two simultaneous callers may both compute it.

        ``weigh`` returns the approximate weight of a result: a cell of a map is 1.
        """
        now = self._clock()
        with self._lock:
            kept = self._answers.get(key)
        if kept is not None and kept[0] > now:
            return kept[2]  # type: ignore[no-any-return]
        made = make()
        weight = weigh(made)
        with self._lock:
            self._forget(key)
            self._answers[key] = (self._clock() + _KEPT_S, weight, made)
            self._weight += weight
            # Evict in the order of computation, so that expired results go first.
            while self._answers and (self._weight > self._most or next(iter(self._answers.values()))[0] <= now):
                self._forget(next(iter(self._answers)))
        return made

    def _forget(self, key: Hashable) -> None:
        kept = self._answers.pop(key, None)
        if kept is not None:
            self._weight -= kept[1]


@dataclass(frozen=True, slots=True)
class Growth:
    """The charts of a table's growth and commits, and the numbers from which they are drawn.

    Attributes:
        sizes: Time, partitions, files, bytes and rows (None: some are not counted) of each version.
        commits: The start of each interval, and its commits by kind.
    """

    pictures: tuple[tuple[str, Markup], ...]
    sizes: tuple[tuple[str, int, int, int, int | None], ...]
    timeline: Markup | None
    kinds: tuple[str, ...]
    commits: tuple[tuple[str, tuple[int, ...]], ...]
    step: str


def read_growth(overviews: Overviews, table: Table, now_ms: int) -> Growth | None:
    """Return the table's growth since its oldest stored version; None if no version is stored."""
    span = overviews.history_span(table)
    if span is None:
        return None
    step = _step(span[1] - span[0])
    sizes = overviews.growth(table, step)
    counts = overviews.commit_counts(table, step)
    pictures = []
    if sizes:
        ends = [*sizes, sizes[-1]]
        times = [_in_utc(size.at_ms) for size in sizes]
        # Repeat the last size at the present time, so that the line reaches the right edge.
        times.append(max(_in_utc(now_ms), times[-1] + timedelta(seconds=1)))
        for what in ("bytes", "partitions", "files"):
            points = [(at, float(getattr(size, what))) for at, size in zip(times, ends, strict=True)]
            title = "Size" if what == "bytes" else what.capitalize()
            pictures.append(
                (f"{title} over time", charts.line(f"{title} over time", _stairs(points), of_bytes=what == "bytes"))
            )
    kinds, rows = _by_interval(counts)
    shown = [
        charts.Bar(_label(at, step), sum(each), _commits_said(formats.instant(at), kinds, each))
        for at, each in _without_gaps(rows, step, len(kinds))
    ]
    return Growth(
        tuple(pictures),
        tuple((formats.instant(s.at_ms), s.partitions, s.files, s.bytes, s.rows) for s in sizes),
        charts.columns("Commits over time", shown) if shown else None,
        kinds, tuple((formats.instant(at), each) for at, each in rows), formats.age(step),
    )  # fmt: skip


def _in_utc(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, timezone.utc).replace(tzinfo=None)


def _step(span_ms: int) -> int:
    """Return a common time interval that divides the span into about sixty parts."""
    wanted = max(span_ms / _INTERVALS, 1000)
    steps = (1, 5, 15, 60, 300, 900, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86_400, 7 * 86_400, 30 * 86_400)
    return next((step * 1000 for step in steps if step * 1000 >= wanted), 365 * 86_400_000)


def _stairs(points: Sequence[tuple[datetime, float]]) -> list[tuple[datetime, float]]:
    """Return points that draw a step line, because a table keeps its size from one commit to the next."""
    stairs = [points[0]]
    for (_, before), (at, value) in pairwise(points):
        stairs += [(at, before), (at, value)]
    return stairs


def _label(at_ms: int, step: int) -> str:
    text = formats.instant(at_ms)
    if step < _MINUTE_MS:
        # For steps of seconds show only the time: the whole chart spans less than an hour.
        return text[11:19]
    return text[:10] if step >= _DAY_MS else text[5:16].replace("T", " ")


def _without_gaps(
    rows: Sequence[tuple[int, tuple[int, ...]]], step: int, kinds: int
) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield all intervals from the first to the last, including those without commits."""
    found = dict(rows)
    for at in range(min(found, default=0), max(found, default=-1) + 1, step):
        yield at, found.get(at, (0,) * kinds)


def _by_interval(counts: Sequence[CommitCount]) -> tuple[tuple[str, ...], list[tuple[int, tuple[int, ...]]]]:
    kinds = tuple(sorted({count.operation for count in counts}))
    by_time: dict[int, dict[str, int]] = {}
    for count in counts:
        by_time.setdefault(count.at_ms, {})[count.operation] = count.commits
    return kinds, [(at, tuple(found.get(kind, 0) for kind in kinds)) for at, found in sorted(by_time.items())]


def _commits_said(at: str, kinds: Sequence[str], counts: Sequence[int]) -> str:
    said = ", ".join(f"{n} {kind}" for kind, n in zip(kinds, counts, strict=True) if n)
    return f"{at}: {said or 'none'}"


@dataclass(frozen=True, slots=True)
class FileSizePart:
    """The distribution of file sizes.

    Attributes:
        classes: For each class of sizes: name, files, bytes, and whether they are too small.
        small: The number of files that are too small, and ``small_bytes`` their size.
        every: One in this many partitions was sampled; 1 for all.
        worst: The partitions whose files are too small on average, the most files first.
        statement: A statement that rewrites the first of these partitions.
    """

    picture: Markup
    classes: tuple[tuple[str, int, int, bool], ...]
    below: int
    small: int
    small_bytes: int
    files: int
    every: int
    worst: tuple[SmallFiles, ...]
    statement: str | None = None

    @property
    def share(self) -> str:
        """The percentage of files that are too small, as text. It is 0 only for no file, and 100 only for all files."""
        percent = 100 * self.small / self.files if self.files else 0
        return "under 1" if 0 < percent < 1 else "over 99" if 99 < percent < 100 else f"{percent:.0f}"


def read_file_sizes(overviews: Overviews, table: Table, below: int, catalog: str) -> FileSizePart | None:
    """Return the sizes of the table's files; None if it has no file. Files below ``below`` bytes count as small."""
    if not table.totals.files:
        return None
    every = _stride(table.totals.files)
    classes = overviews.count_sizes(table, _EDGES, every)
    named = [(_class_name(each), each.files, each.bytes, _is_small(each, below)) for each in classes]
    columns = [
        charts.Bar(name, files, f"{name}: {counted(files, 'file')}, {formats.size(size)}", "small" if small else "")
        for name, files, size, small in named
    ]  # fmt: skip
    small = [each for each in classes if _is_small(each, below)]
    worst = tuple(overviews.small_file_partitions(table, below, _WORST))
    return FileSizePart(
        charts.columns("Files by size", columns), tuple(named), below, sum(each.files for each in small),
        sum(each.bytes for each in small), sum(each.files for each in classes), every,
        worst, compacting_statement(catalog, table, worst[0].partition) if worst else None,
    )  # fmt: skip


def _stride(files: int) -> int:
    if files <= _MOST_FILES:
        return 1
    return next((n for n in _STRIDES if files / n <= _MOST_FILES), _STRIDES[-1])


def _class_name(each: SizeClass) -> str:
    if each.below is None:
        return f"≥ {_round(each.least)}"
    return f"< {_round(each.below)}"


def _round(number: int) -> str:
    for power, unit in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if number >= power:
            return f"{number // power} {unit}"
    return f"{number} B"


def _is_small(each: SizeClass, below: int) -> bool:
    return each.below is not None and each.below <= below


def read_events(
    overviews: Overviews, table: Table, before: GrowthPosition | None, now_ms: int
) -> tuple[list[dict[str, Any]], str | None]:  # fmt: skip
    """Return a page of commits and repairs, newest first, and the position of the next page; None on the last page."""
    shown, rest = overviews.recent_events(table, before=before, limit=_EVENTS)
    numbers = () if rest is None else (rest.version, *(rest.repair or (None, None)))
    return [_event(each, now_ms) for each in shown], ".".join("" if n is None else str(n) for n in numbers) or None


def position_of(position: str) -> GrowthPosition | None:
    """Return the position in the history that an address contains; None for an empty text.

    Raises:
        InvalidInputError: The text is not a position.
    """
    if not position:
        return None
    found = _POSITION.fullmatch(position)
    if found is None:
        raise InvalidInputError(f"before is {position[:40]!r} in the page's address; take the link to what is earlier.")
    version, ended_at_ms, repair_id = (int(part) if part else None for part in found.groups())
    repair = None if ended_at_ms is None or repair_id is None else (ended_at_ms, repair_id)
    return GrowthPosition(version, repair)


def _event(event: HistoryEvent, now_ms: int) -> dict[str, Any]:
    return {
        "at": formats.instant(event.at_ms), "age": formats.age(now_ms - event.at_ms), "kind": event.kind,
        "operation": event.operation, "who": event.who or "", "version": event.version, "error": event.error,
        "what": _in_words(event.summary, event.kind),
        "duration": "" if event.duration_ms is None else formats.age(event.duration_ms),
    }  # fmt: skip


_OF_COMMITS = (
    ("partitions_added", "partition", "added"), ("partitions_changed", "partition", "changed"),
    ("partitions_removed", "partition", "removed"), ("files_added", "file", "added"),
    ("files_removed", "file", "removed"), ("rows", "row", "written"),
)  # fmt: skip
_OF_REPAIRS = (
    ("added", "partition", "added"), ("dropped", "partition", "dropped"), ("changed", "partition", "changed"),
    ("skipped", "path", "skipped"),
)  # fmt: skip


def _in_words(summary: Mapping[str, Any], kind: str) -> str:
    of_kind = _OF_REPAIRS if kind == "repair" else _OF_COMMITS
    words = [
        f"{counted(n, noun)} {verb}" for key, noun, verb in of_kind if isinstance(n := summary.get(key), int) and n
    ]
    if isinstance(size := summary.get("bytes"), int) and size:
        words.append(f"{formats.size(size)} written")
    if summary.get("where"):
        words.append(f"where {summary['where']}")
    words.extend(altered_parts(summary))
    return ", ".join(words) or "nothing changed"


def read_drift(overviews: Overviews, summary: TableSummary, now_ms: int) -> dict[str, Any]:
    """Return when store, index and metastore were last compared for a table, from the index; nothing is compared now.

    The fields: the time of the last full comparison with the store (None: never), the number of partitions that were
    compared one by one since, the version at which a follower last compared it with the metastore (None: never), and
    the command that compares all three sides.
    """
    table, at = summary.table, summary.verified_at_ms
    return {
        "verified": None if at is None else (formats.instant(at), formats.age(now_ms - at)),
        "since": overviews.compared_since(table), "metastore_version": overviews.compared_with_metastore(table),
        "command": f"catalog-ext drift {table.identifier}",
    }  # fmt: skip


def is_view(table: Table) -> bool:
    """Return whether the object is a view, which has partitions but no files."""
    return table.definition.table_type is TableType.VIEW
