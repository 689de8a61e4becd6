"""A fake metastore and store with any number of partitions, which they generate while they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.metastore.hive.mapping.conversion import to_hive
from catalog_ext.metastore.hive.mapping.model import HiveDatabase, HivePartition
from catalog_ext.metastore.model.changes import AddPartition
from catalog_ext.metastore.model.tables import DataFile
from catalog_ext.metastore.storage.entries import ListedDirectory, ListedFile
from tests.kit.fakes_metastore import FakeMetastore

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from catalog_ext.catalog import Catalog

STATISTICS = {"numFiles": "1", "totalSize": "7"}
_AT_ONCE = 20_000


class ManyPartitions(FakeMetastore):
    """Has so many partitions of ``s.t``, each of a file; those that a number divides are elsewhere, but for the first.

    Args:
        place: Where the table lies.
        moved: That number; None where all are at their places.
    """

    def __init__(self, place: Path, moved: int | None = 5_000) -> None:
        super().__init__()
        self.place = place
        self.count = 0
        self._moved = moved

    def restore(self, catalog: Catalog, count: int) -> None:
        """Be the metastore of a catalog whose table is registered."""
        definition = catalog.load_table("s.t").definition
        self._databases |= {name: HiveDatabase(name) for name in ("default", "s")}
        self._tables["s", "t"] = to_hive(definition)
        self._partitions["s", "t"] = {}
        self.count = count

    def partition_names(self, database: str, table: str) -> Iterator[str]:
        self._called("partition_names")
        return (f"ds={number:07}" for number in range(self.count))

    def partitions_by_names(self, database: str, table: str, names: Sequence[str]) -> list[HivePartition]:
        self._called("partitions_by_names")
        return [self._made(name) for name in names]

    def _made(self, name: str) -> HivePartition:
        number = int(name[3:])
        moved = self._moved is not None and number and number % self._moved == 0
        return HivePartition((name[3:],), f"file://{self.place}/{'moved' if moved else name}", STATISTICS)

    def listing(self, *_: object, **__: object) -> Iterator[ListedFile | ListedDirectory]:
        """What lies on the store, in place of ``list_tree``."""
        for number in range(self.count):
            yield ListedDirectory(f"ds={number:07}")
            yield ListedFile(f"ds={number:07}", "f", 7, 1)


def register(catalog: Catalog, place: Path) -> None:
    """The table, without a partition yet."""
    place.mkdir(exist_ok=True)
    catalog.create_namespace("s")
    catalog.register_table("s.t", location=str(place), partition_columns={"ds": "STRING"}, schema="x INT", format="csv")
    catalog.deliver()


def grow(catalog: Catalog, metastore: ManyPartitions, count: int) -> None:
    """Give both sides so many partitions; no message is enqueued."""
    table = catalog.load_table("s.t")
    for start in range(metastore.count, count, _AT_ONCE):
        new = range(start, min(start + _AT_ONCE, count))
        changes = [AddPartition(f"ds={number:07}", (DataFile("f", 7, 1),)) for number in new]
        catalog.index.commits.apply_changes(table.table_id, changes, operation="repair", deliver=False)
    metastore.count = count
