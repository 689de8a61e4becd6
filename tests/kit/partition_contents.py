"""Every kind of file that a partition directory can hold, and how each component treats it.

``tests/integration/repair/test_partition_contents.py`` shows that the table is right; ``tests/kit/contents_page.py``
writes ``docs/what-can-lie-in-a-partition.md`` from it.
"""

from __future__ import annotations

import gzip
import io
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import orc
from pyarrow import parquet as pq

from tests.kit.parquet_files import write_optional_map_keys

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ROWS = pa.table({"x": pa.array([1, 2], pa.int64())})

IGNORED, REGISTERED, WARNED, SKIPPED = "ignored", "registered", "registered, warning", "skipped, reason"
IGNORED_WARNED = f"{IGNORED}, warning"
PASSES, NAMED = "passes", "named"
READ, NO_ROWS, FAILS = "read", "no rows", "fails"
NOTHING = "-"
LEFT_OUT = "left out, warning"
REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of thing, and what is done with it.

    Attributes:
        name: What it is, for the page.
        path: Where it lies below the table, whose partition column is ``k``.
        make: Puts it there.
        repair: What a repair does.
        verify: What ``verify => 'all'`` says of it afterwards.
        analyze: What ANALYZE TABLE does.
        query: What a query of its columns ``x BIGINT, ts TIMESTAMP_NTZ`` does.
        register: What a registration without a schema does with it.
    """

    name: str
    path: str
    make: Callable[[Path], None]
    repair: str
    verify: str = NOTHING
    analyze: str = NOTHING
    query: str = NOTHING
    register: str = NOTHING


def _bytes(content: bytes) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    return make


def parquet_bytes(rows: pa.Table = ROWS, **options: object) -> bytes:
    """A Parquet file."""
    sink = io.BytesIO()
    pq.write_table(rows, sink, **options)
    return sink.getvalue()


def _orc_bytes() -> bytes:
    sink = io.BytesIO()
    orc.write_table(ROWS, sink)
    return sink.getvalue()


def _map_keys(path: Path) -> None:
    with_map = ROWS.append_column("m", pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int32())))
    write_optional_map_keys(with_map, path)


def _link(target: str) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)

    return make


def _directory(path: Path) -> None:
    path.mkdir(parents=True)


_PARQUET = parquet_bytes()
_NANOSECONDS = parquet_bytes(pa.table({"ts": pa.array([1, 2], pa.timestamp("ns"))}), store_schema=False)
_TEXT = parquet_bytes(pa.table({"x": ["a", "b"]}))
_ARRAY = parquet_bytes(pa.table({"x": pa.array([[1], [2]])}))

KINDS = (
    Kind("a Parquet file", "k=1/a.parquet", _bytes(_PARQUET), REGISTERED, PASSES, READ, READ, READ),
    Kind(
        "a Parquet file without a suffix (Hive)", "k=1/000000_0", _bytes(_PARQUET), REGISTERED, PASSES, READ, READ, READ
    ),
    Kind("a Parquet file named `.csv`", "k=1/a.csv", _bytes(_PARQUET), WARNED, PASSES, READ, READ, LEFT_OUT),
    Kind(
        "a map with optional keys (Presto, Athena, Hive)",
        "k=1/a.parquet",
        _map_keys,
        REGISTERED,
        PASSES,
        READ,
        READ,
        READ,
    ),
    Kind("a file of zero bytes", "k=1/a.parquet", _bytes(b""), WARNED, PASSES, NO_ROWS, NO_ROWS, NO_ROWS),
    Kind("a CSV file", "k=1/fix.csv", _bytes(b"x\n1\n"), WARNED, NAMED, FAILS, FAILS, LEFT_OUT),
    Kind("an ORC file", "k=1/a.orc", _bytes(_orc_bytes()), WARNED, NAMED, FAILS, FAILS, LEFT_OUT),
    Kind(
        "an Avro file without a suffix",
        "k=1/part-0",
        _bytes(b"Obj\x01 and more"),
        REGISTERED,
        NAMED,
        FAILS,
        FAILS,
        LEFT_OUT,
    ),
    Kind("a gzip file", "k=1/a.json.gz", _bytes(gzip.compress(b"{}", mtime=0)), WARNED, NAMED, FAILS, FAILS, LEFT_OUT),
    Kind(
        "a Parquet file that was cut", "k=1/a.parquet", _bytes(_PARQUET[:-9]), REGISTERED, NAMED, FAILS, FAILS, LEFT_OUT
    ),
    Kind(
        "a Parquet file with an encrypted footer",
        "k=1/a.parquet",
        _bytes(b"PARE....PARE"),
        REGISTERED,
        PASSES,
        FAILS,
        FAILS,
        LEFT_OUT,
    ),
    Kind(
        "a column in nanoseconds (pandas)",
        "k=1/a.parquet",
        _bytes(_NANOSECONDS),
        REGISTERED,
        NAMED,
        READ,
        FAILS,
        REFUSED,
    ),
    Kind("a column of another type", "k=1/a.parquet", _bytes(_TEXT), REGISTERED, NAMED, READ, FAILS, REFUSED),
    Kind("an array in place of a number", "k=1/a.parquet", _bytes(_ARRAY), REGISTERED, NAMED, READ, FAILS, REFUSED),
    Kind(
        "an editor's leftover `a.parquet.swp`",
        "k=1/a.parquet.swp",
        _bytes(b"b0VIM"),
        WARNED,
        NAMED,
        FAILS,
        FAILS,
        LEFT_OUT,
    ),
    Kind("`_SUCCESS`", "k=1/_SUCCESS", _bytes(b""), IGNORED),
    Kind("`_committed_1`, `_started_1` (Databricks)", "k=1/_committed_1", _bytes(b"{}"), IGNORED),
    Kind("a checksum `.a.parquet.crc`", "k=1/.a.parquet.crc", _bytes(b"crc"), IGNORED),
    Kind("`.DS_Store`", "k=1/.DS_Store", _bytes(b"Bud1"), IGNORED),
    Kind(
        "`_temporary/`, `.hive-staging_1/`, `.spark-staging-1/`",
        "k=1/_temporary/0/a.parquet",
        _bytes(_PARQUET),
        IGNORED,
    ),
    Kind("`_spark_metadata/` of a streaming sink", "_spark_metadata/0", _bytes(b"v1"), IGNORED_WARNED),
    Kind("`_delta_log/` of a Delta table", "_delta_log/0.json", _bytes(b"{}"), IGNORED_WARNED),
    Kind("`.hoodie/` of a Hudi table", ".hoodie/hoodie.properties", _bytes(b"{}"), IGNORED_WARNED),
    Kind(
        "`metadata/` of an Iceberg table (also a warning)",
        "metadata/v1.metadata.json",
        _bytes(b"{}"),
        SKIPPED,
        register=REFUSED,
    ),
    Kind("a marker `day_$folder$` (S3N, EMR)", "k=1_$folder$", _bytes(b""), IGNORED),
    Kind("`HIVE_UNION_SUBDIR_1/`", "k=1/HIVE_UNION_SUBDIR_1/a.parquet", _bytes(_PARQUET), SKIPPED, register=REFUSED),
    Kind("a directory below a partition", "k=1/more/a.parquet", _bytes(_PARQUET), SKIPPED, register=REFUSED),
    Kind("a data file above the partitions", "a.parquet", _bytes(_PARQUET), SKIPPED, register=REFUSED),
    Kind("README.txt above the partitions", "README.txt", _bytes(b"Hello"), IGNORED_WARNED),
    Kind("a folder without `key=`", "archive/a.parquet", _bytes(_PARQUET), SKIPPED, register=REFUSED),
    Kind("a partition without files", "k=2", _directory, REGISTERED, PASSES, NO_ROWS, NO_ROWS),
    Kind("a named pipe", "k=1/pipe", lambda path: os.mkfifo(path), SKIPPED),
    Kind("a device or a socket", "k=1/device", _link("/dev/zero"), SKIPPED),
    Kind("a link to nothing", "k=1/link", _link("nothing"), SKIPPED),
    Kind("a link to itself", "k=1/itself", _link("itself"), SKIPPED),
    Kind("a link to a directory above it", "k=1/loop", _link(".."), SKIPPED),
    Kind("a file name that is not UTF-8", os.fsdecode(b"k=1/\xff.parquet"), _bytes(_PARQUET), SKIPPED),
)
"""On the local disk, beside a whole Parquet file ``k=1/whole.parquet``."""

S3_KEYS = {
    "a key with a doubled slash (`t//k=1/a`)": ("/k=1/a.parquet", SKIPPED),
    "a key with `.` or `..`": ("../k=1/a.parquet", SKIPPED),
    "an empty object whose key ends in a slash (a directory)": ("k=1/sub/", IGNORED),
    "an object with content whose key ends in a slash": ("k=1/full/", SKIPPED),
    "a key that is also a prefix (`k=1/a` beside `k=1/a/b`)": ("k=1/whole.parquet/b", SKIPPED),
}
"""On S3: what it is, its key below the table, and what a repair does with it."""
