"""Runs a function on many items in parallel, and combines several errors into one."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from catalog_ext.metastore.errors import CatalogExtError

T = TypeVar("T")
R = TypeVar("R")


_MOST_THREADS = 128


def _new_pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_MOST_THREADS, thread_name_prefix="catalog-ext-storage")


_pool = _new_pool()
"""Threads of this pool are kept and reused: starting one takes longer than most calls of a local disk."""


def _replace_pool() -> None:
    global _pool
    _pool = _new_pool()


# A forked child has no threads, but copies of the pool's locks. A lock that was held at the fork would never be
# released.
os.register_at_fork(after_in_child=_replace_pool)


def in_parallel(work: Callable[[T], R], items: Sequence[T], threads: int) -> list[R]:
    """Return the results of ``work`` for each item, in order; an error is raised after all threads have stopped.

    After the first error no further item is started. The calling thread works too, so nested calls make progress even
    if all threads are busy.
    """
    if len(items) <= 1 or threads <= 1:
        return [work(item) for item in items]
    run = _Run(work, items)
    helpers: list[Future[None]] = []
    # While Python exits, its pools accept no work. This thread then does all of it, so that a running commit completes.
    with suppress(RuntimeError):
        helpers += (_pool.submit(run.help) for _ in range(min(threads, len(items)) - 1))
    try:
        run.help()
    except BaseException as error:  # noqa: BLE001 -- raised below, when no other thread works
        run.errors[-1] = error
    for helper in helpers:
        # A helper that has not started is cancelled, since no items are left; wait for the others.
        if not helper.cancel():
            helper.result()
    if run.errors:
        raise run.errors[min(run.errors)]
    return [run.results[number] for number in range(len(items))]


class _Run(Generic[T, R]):
    """A set of items that several threads work on.

    Attributes:
        results: The results by item number.
        errors: The errors by item number; -1 is an error from outside, such as Ctrl-C in the calling thread.
    """

    def __init__(self, work: Callable[[T], R], items: Sequence[T]) -> None:
        self._work = work
        self._items = items
        # All threads share this iterator: it is thread-safe and gives each number once.
        self._numbers = iter(range(len(items)))
        self.results: dict[int, R] = {}
        self.errors: dict[int, BaseException] = {}

    def help(self) -> None:
        """Work on items until none is left, or until one has failed."""
        for number in self._numbers:
            if self.errors:
                return
            try:
                self.results[number] = self._work(self._items[number])
            except BaseException as error:  # noqa: BLE001 -- raised by the thread that called
                self.errors[number] = error
                return


def raise_together(errors: Sequence[CatalogExtError], one: str, many: str) -> None:
    """Raise one error for all errors, of the type of the first one; do nothing if there are no errors.

    Args:
        errors: The errors.
        one: The text after the count for a single error: ``file could not be deleted``.
        many: The text after the count for several errors.
    """
    if errors:
        first = errors[0]
        raise first.about(f"{len(errors)} {one if len(errors) == 1 else many}", {}) from first
