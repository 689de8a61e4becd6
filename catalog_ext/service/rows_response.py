"""Responses of record batches, sent part by part. A client that stops reading is disconnected after a timeout."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from starlette.responses import StreamingResponse

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Iterator

    import pyarrow as pa
    from starlette.types import Message, Receive, Scope, Send
    from typing_extensions import Self


@dataclass(frozen=True, slots=True)
class ArrowStream:
    """The result of an operation as a stream of record batches."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]

    @classmethod
    def of(cls, reader: pa.RecordBatchReader) -> Self:
        """Return a stream of the reader's batches; closing the stream closes the reader."""
        return cls(reader.schema, _batches(reader))

    def close(self) -> None:
        """Close the source of the batches, whether or not all batches were read."""
        if isinstance(self.batches, Generator):
            self.batches.close()


def _batches(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    with reader:
        yield from reader


logger = logging.getLogger(__name__)

T = TypeVar("T")

UNREAD_S = 60.0
"""The seconds after which a client that reads nothing is disconnected, because a begun answer holds a connection to the
index. It is the connector's default ``request-timeout``."""


class RowsResponse(StreamingResponse):
    """A streamed response that disconnects a client that stops reading.

    The stream then has no end marker, so that the client sees an incomplete answer as an error.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer part by part, and disconnect a client that does not read."""
        client = scope.get("client")
        waiting = UNREAD_S

        async def sent_in_time(message: Message) -> None:
            try:
                await asyncio.wait_for(send(message), waiting)
            except asyncio.TimeoutError as error:  # before Python 3.11 not the built-in TimeoutError
                raise _UnreadError from error

        try:
            await super().__call__(scope, receive, sent_in_time)
        except _UnreadError:
            logger.warning(
                "The answer to %s was given up: its client %s has read nothing for %g s, and the answer holds a "
                "connection to the index", scope["path"], client[0] if client else "", waiting,
            )  # fmt: skip

    async def stream_response(self, send: Send) -> None:
        """Send the parts. Close their source at the end, and also if the client has disconnected."""
        async with closed(self.body_iterator):
            await super().stream_response(send)


class _UnreadError(Exception):
    """Raised when the client has read nothing for ``UNREAD_S`` seconds."""


@asynccontextmanager
async def closed(parts: AsyncIterable[T]) -> AsyncIterator[AsyncIterable[T]]:
    """Return a context with the parts of an answer; at its end the source of the parts is closed."""
    try:
        yield parts
    finally:
        close = getattr(parts, "aclose", None)
        if close is not None:
            await close()
