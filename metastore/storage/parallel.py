"""Work on many locations at once, and one error for all that failed."""

from __future__ import annotations

from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from catalog_ext.metastore.errors import CatalogExtError

T = TypeVar("T")
R = TypeVar("R")


def in_parallel(work: Callable[[T], R], items: Sequence[T], threads: int) -> list[R]:
    """Return what ``work`` returns for each item, in their order; what it raises is raised when no thread works.

    After the first error no further item is begun.
    """
    if len(items) <= 1 or threads <= 1:
        return [work(item) for item in items]
    with ThreadPoolExecutor(min(threads, len(items)), thread_name_prefix="catalog-ext-storage") as pool:
        futures = [pool.submit(work, item) for item in items]
        wait(futures, return_when=FIRST_EXCEPTION)
        pool.shutdown(wait=True, cancel_futures=True)
        for future in futures:
            if not future.cancelled() and (error := future.exception()) is not None:
                raise error
        return [future.result() for future in futures]


def raise_together(errors: Sequence[CatalogExtError], one: str, many: str) -> None:
    """Raise one error for all, of the kind of the first, where there are any.

    Args:
        errors: What failed.
        one: What it is called where there is one, as it follows the count.
        many: The same where there are several.
    """
    if errors:
        first = errors[0]
        raise first.about(f"{len(errors)} {one if len(errors) == 1 else many}", {}) from first
