"""Items a batch at a time, as ``itertools.batched`` of Python 3.12 has them."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

T = TypeVar("T")


def batched(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield the items in their order, at most ``size`` at a time; no more of them is held."""
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch
