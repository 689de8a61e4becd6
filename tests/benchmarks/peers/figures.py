"""The figures of the comparison: what was measured, kept in docs/benchmarks/peers.json and merged run by run."""

from __future__ import annotations

import json
import statistics
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

OURS = "catalog-ext"
SIZES = (1_000, 100_000, 1_000_000)
"""Partitions of the tables, unless others are asked for."""

CONTENDERS = {
    OURS: OURS,
    "hive": "Spark's Hive catalog",
    "iceberg": "Iceberg",
    "delta": "Delta",
    "ducklake": "DuckLake",
    "duckdb": "DuckDB's glob",
}
"""What each is called on the page, in the page's order."""

MEASURES = {
    "first": "First registration",
    "rows": "Counting the rows of files",
    "plan one": "Plan one",
    "run one": "Run one",
    "plan year": "Plan a year",
    "plan all": "Plan all",
    "count": "`count(*)`",
    "max": "`max(ds)`",
    "unchanged": "Repair with nothing changed",
    "commit": "Commit",
}
"""The measures in the order in which they are taken, and their titles."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One contender's time of one measure on a table of one size.

    Attributes:
        seconds: The median of the runs; None with a reason.
        runs: How many counted.
        reason: Why there is no time.
        measured: The day, and the load average of the machine when the contender began.
    """

    contender: str
    measure: str
    partitions: int
    seconds: float | None
    runs: int = 0
    reason: str = ""
    measured: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """All the figures, and the versions of the contenders."""

    figures: tuple[Figure, ...] = ()
    versions: dict[str, str] = field(default_factory=dict)

    @classmethod
    def load(cls, file: Path) -> Comparison:
        """What the file keeps, nothing if it is not there."""
        if not file.is_file():
            return cls()
        kept = json.loads(file.read_text(encoding="utf-8"))
        return cls(tuple(Figure(**each) for each in kept["figures"]), kept["versions"])

    def save(self, file: Path) -> None:
        """Keeps it, a figure a line."""
        lines = ",\n".join(f"  {json.dumps(asdict(figure))}" for figure in self.figures)
        versions = json.dumps(self.versions, indent=2).replace("\n", "\n ")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f'{{\n "versions": {versions},\n "figures": [\n{lines}\n ]\n}}\n', encoding="utf-8")

    def merged(self, figures: Iterable[Figure], versions: dict[str, str]) -> Comparison:
        """With newer figures in the place of those for the same contender, measure and size."""
        kept = {_key(figure): figure for figure in [*self.figures, *figures]}
        return Comparison(tuple(kept[key] for key in sorted(kept)), {**self.versions, **versions})

    def sizes(self) -> list[int]:
        """The sizes of tables that anything is known of."""
        return sorted({figure.partitions for figure in self.figures})

    def of(self, contender: str, measure: str, partitions: int) -> Figure | None:
        """The figure, None if it was not measured."""
        wanted = (contender, measure, partitions)
        found = (each for each in self.figures if (each.contender, each.measure, each.partitions) == wanted)
        return next(found, None)

    def ratio(self, figure: Figure) -> float | None:
        """How many times as long as ours it took, above 1 where the peer is slower; None if there is no telling."""
        ours = self.of(OURS, figure.measure, figure.partitions)
        if figure.seconds is None or ours is None or not ours.seconds:
            return None
        return figure.seconds / ours.seconds

    def ahead(self, measure: str) -> list[tuple[Figure, float]]:
        """The figures of peers that are quicker than ours, with their ratios."""
        found = [(each, self.ratio(each)) for each in self.figures if each.measure == measure]
        return [(each, ratio) for each, ratio in found if ratio is not None and ratio < 1 and each.contender != OURS]


def _key(figure: Figure) -> tuple[int, int, int]:
    return list(MEASURES).index(figure.measure), list(CONTENDERS).index(figure.contender), figure.partitions


class Answers:
    """Makes figures of the lines that a contender prints."""

    def __init__(self, contender: str, partitions: int, measured: str) -> None:
        self._contender = contender
        self._partitions = partitions
        self._measured = measured
        self._warm: dict[str, list[float]] = {}
        self._begun = ""
        self.version = ""
        self.figures: list[Figure] = []

    @property
    def under_way(self) -> str:
        """The measure that has begun and has not ended, else empty."""
        return self._begun

    def take(self, line: str) -> None:
        """One line of its output.

        Raises:
            AssertionError: No contender prints such a line.
        """
        answer = json.loads(line)
        match answer:
            case {"version": version}:
                self.version = version
            case {"measure": measure, "begun": True}:
                self._begun = measure
            case {"measure": measure, "seconds": seconds, "warm": warm}:
                if warm:
                    self._warm.setdefault(measure, []).append(seconds)
            case {"measure": measure, "reason": reason}:
                self._note(measure, None, reason=reason)
            case {"measure": measure, "ended": True}:
                self._note(measure, self._warm.pop(measure))
            case _:
                raise AssertionError(f"{self._contender} printed {line!r}")

    def give_up(self, measure: str, reason: str) -> None:
        """The measure has no figure; what it has counted so far does not stand for it."""
        self._warm.pop(measure, None)
        self._note(measure, None, reason=reason)

    def left_of(self, measures: Iterable[str]) -> tuple[str, ...]:
        """Those that have no figure yet."""
        done = {figure.measure for figure in self.figures}
        return tuple(measure for measure in measures if measure not in done)

    def added_to(self, comparison: Comparison) -> Comparison:
        """The comparison with these figures."""
        return comparison.merged(self.figures, {self._contender: self.version})

    def _note(self, measure: str, warm: list[float] | None, reason: str = "") -> None:
        self._begun = ""
        seconds = round(statistics.median(warm), 5) if warm else None
        self.figures.append(
            Figure(self._contender, measure, self._partitions, seconds, len(warm or ()), reason, self._measured)
        )
