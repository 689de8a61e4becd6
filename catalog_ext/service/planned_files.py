"""Answers with the files of a read, and tells how many they were and how long it took to choose them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from catalog_ext.metastore.runtime.measures import Planned, tell
from catalog_ext.metastore.runtime.tracing import span
from catalog_ext.service.arrow_stream import ArrowStream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa


def planned(plan: Callable[[], pa.RecordBatchReader]) -> ArrowStream:
    """Return the answer that a plan gives; what it took is told when its last batch is made, without the waits between.

    A client that wants no more of it has had a plan of the files that it took.
    """
    started = time.monotonic()
    with span("plan_files"):
        reader = plan()
    return ArrowStream(reader.schema, _told(reader, time.monotonic() - started))


def _told(reader: pa.RecordBatchReader, seconds: float) -> Iterator[pa.RecordBatch]:
    files, batches = 0, iter(reader)
    with reader:
        try:
            while True:
                started = time.monotonic()
                batch = next(batches, None)
                seconds += time.monotonic() - started
                if batch is None:
                    break
                files += batch.num_rows
                yield batch
        finally:
            tell(Planned(files, seconds))
