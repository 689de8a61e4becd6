"""Tables to measure on: many partitions with one tiny file each, and one of 200 MB."""

from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from catalog_ext.metastore.model.changes import AddPartition
from catalog_ext.metastore.model.tables import DataFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from pyarrow import fs

    from catalog_ext.catalog import Catalog

FILE_NAME = "part-0.parquet"
SCHEMA = "x BIGINT"
KEYS = {"p": "INT"}
_BATCH = 5000


def seed_file(folder: Path) -> Path:
    """A Parquet file of one row, of some 500 bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "seed.parquet"
    pq.write_table(pa.table({"x": pa.array([1], pa.int64())}), file, compression="none")
    return file


def grow(root: Path, seed: Path, keys: Iterable[int], name: str = FILE_NAME) -> Path:
    """A directory ``p=K`` with a copy of the seed, of this name, for each key; hard links, to spare the disk."""
    root.mkdir(parents=True, exist_ok=True)
    for key in keys:
        directory = root / f"p={key}"
        directory.mkdir(exist_ok=True)
        target = directory / name
        try:
            os.link(seed, target)
        except OSError:
            # A file may have only so many links.
            shutil.copy2(seed, target)
    return root


def grow_on_s3(store: fs.FileSystem, root: str, seed: Path, count: int) -> None:
    """The same on S3."""
    content = seed.read_bytes()

    def put(key: int) -> None:
        with store.open_output_stream(f"{root}/p={key}/{FILE_NAME}") as stream:
            stream.write(content)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(put, range(count)))


def fill_index(catalog: Catalog, table: str, count: int, seed: Path, *, deliver: bool) -> None:
    """Puts partitions ``p=0`` and so on into the index directly, as a repair would have."""
    target = catalog.load_table(table)
    size, modified = seed.stat().st_size, int(seed.stat().st_mtime * 1000)
    for batch in _batches(count):
        changes = [AddPartition(f"p={key}", (DataFile(FILE_NAME, size, modified),)) for key in batch]
        catalog.index.commits.apply_changes(target.table_id, changes, operation="benchmark", deliver=deliver)
    catalog.index.planner_statistics.analyze()
    if deliver:
        catalog.deliver(timeout_s=600)


def _batches(count: int) -> Iterator[range]:
    for start in range(0, count, _BATCH):
        yield range(start, min(start + _BATCH, count))
