"""The table that every contender gets: its partitions, the tree of files, what is asked of it and what must come out.

It runs in the contenders' own environments too: nothing but the standard library.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILE_NAME = "part-0.parquet"
REGIONS = 12
OF_DAY = REGIONS * 24
FIRST_DAY = date(2017, 1, 1)
YEAR = 365 * OF_DAY
_LINKS = 50_000
"""Hard links to one file; ext4 allows 65,000."""


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition by its number in the table, counted from 0."""

    number: int

    @property
    def ds(self) -> date:
        """The day."""
        return FIRST_DAY + timedelta(days=self.number // OF_DAY)

    @property
    def region(self) -> str:
        """The region."""
        return f"r{self.number % OF_DAY // 24:02d}"

    @property
    def hour(self) -> int:
        """The hour."""
        return self.number % 24

    @property
    def name(self) -> str:
        """The directory below the table's."""
        return f"ds={self.ds}/region={self.region}/hour={self.hour}"

    @property
    def condition(self) -> str:
        """The predicate in SQL, which Spark and DuckDB both read."""
        return f"ds = DATE '{self.ds}' AND region = '{self.region}' AND hour = {self.hour}"

    @property
    def spec(self) -> str:
        """What stands in Spark's ``PARTITION (…)``."""
        return self.condition.replace(" AND ", ", ")


@dataclass(frozen=True, slots=True)
class Layout:
    """A table of that many partitions with a file of one row each."""

    partitions: int

    @property
    def last_day(self) -> date:
        """The greatest ``ds``."""
        return Partition(self.partitions - 1).ds

    @property
    def year(self) -> tuple[str, int]:
        """The condition of the query for a year, and how many partitions hold.

        A table of less than ten years is asked for the first tenth of its days, at least one.
        """
        days = max(1, min(365, self.partitions // OF_DAY // 10))
        end = FIRST_DAY + timedelta(days=days)
        return f"ds >= DATE '{FIRST_DAY}' AND ds < DATE '{end}'", min(days * OF_DAY, self.partitions)

    def one(self, number: int) -> Partition:
        """Another partition each time, spread over the table."""
        return Partition((number * 7919 + 13) % self.partitions)


def build(root: Path, seed: Path, partitions: int) -> None:
    """The tree of directories, each with a hard link to a copy of the seed."""
    source = seed
    for number in range(partitions):
        if number % _LINKS == 0:
            source = root.parent / f"{root.name}-seed-{number}.parquet"
            root.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(seed, source)
        directory = root / Partition(number).name
        if number % 24 == 0:
            directory.parent.mkdir(parents=True)
        directory.mkdir()
        os.link(source, directory / FILE_NAME)


def restore(root: Path, written: list[Partition]) -> None:
    """Takes away what a contender has written below the root: the next one finds the tree as it was built.

    Args:
        root: The table's directory.
        written: The partitions that it may have appended to.
    """
    for entry in root.iterdir():
        if not entry.name.startswith("ds="):
            _remove(entry)
    for partition in written:
        for entry in (root / partition.name).iterdir():
            if entry.name != FILE_NAME:
                _remove(entry)


def written_to(layout: Layout, rounds: int) -> Iterator[Partition]:
    """The partitions that the commits append to, in order."""
    for number in range(rounds):
        yield layout.one(number + 1000)


def _remove(entry: Path) -> None:
    if entry.is_dir():
        shutil.rmtree(entry)
    else:
        entry.unlink()
