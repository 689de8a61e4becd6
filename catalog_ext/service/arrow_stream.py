"""Answers that are record batches."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from typing_extensions import Self


@dataclass(frozen=True, slots=True)
class ArrowStream:
    """An answer of record batches."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]

    @classmethod
    def of(cls, reader: pa.RecordBatchReader) -> Self:
        """Return the answer that a reader gives; it is closed with the answer."""
        return cls(reader.schema, _batches(reader))

    def close(self) -> None:
        """Give up what the batches are made from, whether they were all taken or not."""
        if isinstance(self.batches, Generator):
            self.batches.close()


def _batches(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    with reader:
        yield from reader
