"""Listing of a tree in parts, each by whoever has the time, and what of it is wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import IncompleteListingError, LocationNotFoundError, StorageError
from catalog_ext.metastore.storage.failures import is_missing_bucket
from catalog_ext.metastore.storage.listed import ListingFailure
from catalog_ext.metastore.storage.listing import list_tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from catalog_ext.metastore.storage.listed import Descend, Listed
    from catalog_ext.metastore.storage.locations import Location
    from catalog_ext.metastore.storage.store import Storage


class WantedBelow:
    """Says which directories below some are wanted: those whose parents, from there down, are not turned down either.

    Args:
        roots: The directories below which everything lies; they are wanted.
        descend: Says whether to look into a directory; it is asked once for each.
    """

    def __init__(self, roots: Iterable[str], descend: Descend) -> None:
        self._descend = descend
        self._known = dict.fromkeys(roots, True)

    def __call__(self, directory: str) -> bool:
        """Return whether what lies directly in the directory is wanted."""
        known, asked = self._known, []
        while directory not in known:
            asked.append(directory)
            directory = directory.rpartition("/")[0]
        wanted = known[directory]
        for step in reversed(asked):
            wanted = known[step] = wanted and self._descend(step)
        return wanted


def list_part(
    storage: Storage, root: Location, directory: str, *, descend: Descend, depth_hint: int, selective: bool = False
) -> Iterator[Listed]:
    """Yield what `list_tree` yields of a directory below ``root``, relative to the root; the directory itself is not.

    One that is not there any more holds nothing; one that cannot be listed is yielded as `ListingFailure`.

    Args:
        storage: The store.
        root: The location that ``directory``, what is yielded and what ``descend`` is asked are relative to.
        directory: Where to list; the root itself where it is empty.
        descend: As of `list_tree`.
        depth_hint: Levels of directories between ``directory`` and the files.
        selective: As of `list_tree`.

    Raises:
        LocationNotFoundError, StorageError: The root itself cannot be listed.
    """
    where = root.join(directory) if directory else root
    listing = list_tree(
        storage, where, descend=lambda below: descend(_joined(directory, below)), depth_hint=depth_hint,
        selective=selective,
    )  # fmt: skip
    try:
        for event in listing:
            yield event._replace(directory=_joined(directory, event.directory))
    except LocationNotFoundError as error:
        if not directory:
            raise
        if is_missing_bucket(error):
            yield ListingFailure(directory, IncompleteListingError(error.message, error.parameters))
    except StorageError as error:
        if not directory:
            raise
        yield ListingFailure(directory, error)
    finally:
        listing.close()


def _joined(directory: str, below: str) -> str:
    return f"{directory}/{below}" if directory and below else directory or below
