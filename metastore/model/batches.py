"""Splits iterables into batches, like ``itertools.batched`` of Python 3.12."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

T = TypeVar("T")


def batched(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield the items in order, in lists of at most ``size``; only one batch is kept in memory."""
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch
