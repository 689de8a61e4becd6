"""Rows that come one by one, as record batches of a bounded size."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_ROWS_AT_ONCE = 10_000


def in_batches(rows: Iterable[dict[str, Any]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows, at most 10,000 in a batch; no batch where there is no row."""
    remaining = iter(rows)
    while chunk := list(islice(remaining, _ROWS_AT_ONCE)):
        yield pa.RecordBatch.from_pylist(chunk, schema=schema)
