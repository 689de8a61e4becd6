"""How large a table's files are: a histogram, and the partitions that have the most of small ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from catalog_ext.metastore.index.database.column_types import total
from catalog_ext.metastore.index.database.schema import files, partitions
from catalog_ext.metastore.index.read.marked_rows import in_order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog_ext.metastore.index.database.database import Database
    from catalog_ext.metastore.model.tables import Table


@dataclass(frozen=True, slots=True)
class SizeClass:
    """Files of one class of the histogram.

    Attributes:
        least: Bytes that each of them has at least.
        below: Bytes that each has less than; None for no bound.
    """

    least: int
    below: int | None
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class SmallFiles:
    """A partition whose files are small on average."""

    partition: str
    files: int
    bytes: int


class FileSizes:
    """The sizes of a table's files, counted by the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def count_sizes(self, table: Table, edges: Sequence[int], every: int = 1) -> list[SizeClass]:
        """Count the table's files by classes of sizes, in one query.

        Args:
            table: The table, at the version to read.
            edges: The lower bounds of the classes in bytes, ascending; the first class begins at 0.
            every: Read only each ``every``-th partition id: a sample of a table with very many files.
        """
        f = files.c
        number = sa.case(
            *((f.size < edge, i) for i, edge in enumerate(edges)), else_=sa.literal_column(str(len(edges)))
        ).label("number")  # fmt: skip
        rows = (
            sa.select(number, sa.func.count().label("n"), total(f.size).label("size"))
            .where(*in_order(files, table))
            .group_by(number)
        )  # fmt: skip
        if every > 1:
            rows = rows.where(f.partition_id % sa.literal_column(str(every)) == sa.literal_column("0"))
        found: dict[int, tuple[int, int]] = {}
        with self._database.reading() as connection:
            for row in connection.execute(rows):
                found[int(row.number)] = (row.n, int(row.size))
        bounds = [0, *edges]
        return [
            SizeClass(bounds[i], bounds[i + 1] if i < len(edges) else None, *found.get(i, (0, 0)))
            for i in range(len(edges) + 1)
        ]

    def small_file_partitions(self, table: Table, below: int, limit: int) -> list[SmallFiles]:
        """Return the partitions whose files have on average less than ``below`` bytes, most files first."""
        p = partitions.c
        statement = (
            sa.select(p.name, p.n_files, p.n_bytes)
            .where(*in_order(partitions, table))
            .where(p.n_files > 0, p.n_bytes < p.n_files * below)
            .order_by(p.n_files.desc(), p.partition_id).limit(limit)
        )  # fmt: skip
        with self._database.reading() as connection:
            return [SmallFiles(*row) for row in connection.execute(statement)]
