"""Parquet files as other engines write them."""

from __future__ import annotations

import io
import struct
from typing import TYPE_CHECKING

from pyarrow import parquet as pq

from catalog_ext.scan.parquet_footer import map_keys

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

_OPTIONAL = 2


def write_optional_map_keys(rows: pa.Table, path: Path) -> None:
    """A file whose footer says that the keys of its maps are optional, as of Presto; its pages are as before."""
    written = io.BytesIO()
    pq.write_table(rows, written, store_schema=False)
    data = bytearray(written.getvalue())
    start = len(data) - 8 - struct.unpack("<I", data[-8:-4])[0]
    places = [at for _, at in map_keys(bytes(data[start:-8]))]
    assert places, "the table has a map"
    for at in places:
        data[start + at] = _OPTIONAL
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(data))
