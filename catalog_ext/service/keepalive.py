"""Keepalives for slow answers: a client that asks for them gets blanks or empty batches until the answer is ready."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pyarrow as pa
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from catalog_ext.metastore.errors import InvalidInputError
from catalog_ext.service.rows_response import RowsResponse, closed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Mapping

    from starlette.responses import Response

HEADER = "X-Keepalive"
_LATE = "application/octet-stream"
UNBUFFERED = {"X-Accel-Buffering": "no"}
"""Headers of a streamed answer: they stop nginx from buffering it, which would hold the keepalives back."""


def asked_for(headers: Mapping[str, str]) -> float | None:
    """Return the seconds after which a client expects a keepalive; None for a client that does not ask for them."""
    value = headers.get(HEADER)
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0
    if not 0 < seconds < float("inf"):
        raise InvalidInputError(f"The header {HEADER} is {value[:40]!r}; it is a number of seconds, such as 15.")
    return seconds


async def answer_in_time(making: Coroutine[None, None, Response], seconds: float) -> Response:
    """Return the response; if it takes longer than ``seconds``, one that sends blanks until the answer is ready."""
    answer = asyncio.ensure_future(making)
    done, _ = await asyncio.wait({answer}, timeout=seconds)
    return answer.result() if done else RowsResponse(_late(answer, seconds), 200, UNBUFFERED, _LATE)


async def _late(answer: asyncio.Future[Response], seconds: float) -> AsyncIterator[bytes]:
    yield b" "
    while not (await asyncio.wait({answer}, timeout=seconds))[0]:
        yield b" "
    made = answer.result()
    if not isinstance(made, StreamingResponse):
        yield bytes(made.body)
        return
    async with closed(made.body_iterator) as chunks:
        async for chunk in chunks:
            yield (
                chunk if isinstance(chunk, bytes) else bytes(chunk, "utf-8") if isinstance(chunk, str) else bytes(chunk)
            )


async def send_batches(
    first: bytes, rest: Generator[bytes, None, None], schema: pa.Schema, seconds: float | None,
    run: Callable[..., Awaitable[bytes]] = run_in_threadpool,
) -> AsyncIterator[bytes]:  # fmt: skip
    """Yield the parts of an Arrow stream. While a part takes longer than ``seconds``, yield empty batches.

    Args:
        first: The first part.
        rest: Generates the other parts.
        schema: The schema of the stream.
        seconds: The time after which a keepalive is sent; None for never.
        run: Runs a call in a thread.
    """
    part: asyncio.Future[bytes] | None = None
    try:
        yield first
        while True:
            part = asyncio.ensure_future(run(next, rest, b""))
            while not (await asyncio.wait({part}, timeout=seconds))[0]:
                yield _without_rows(schema)
            if not part.result():
                return
            yield part.result()
    finally:
        # This also runs when the client has disconnected. A generator cannot be closed while it makes a part; the
        # thread that makes the part then closes it afterwards.
        if part is None or part.done():
            rest.close()
        else:
            part.add_done_callback(lambda _: rest.close())


def _without_rows(schema: pa.Schema) -> bytes:
    empty = pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
    return bytes(empty.serialize())
