"""The paths of a store that a path pattern matches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.metastore.storage.patterns import parse_pattern
from catalog_ext.scan.path_keys import Pruner
from catalog_ext.scan.walk import Walk

if TYPE_CHECKING:
    from catalog_ext.metastore.storage.locations import Location
    from catalog_ext.metastore.storage.store import Storage


def matched(storage: Storage, pattern: str) -> list[Location]:
    """Return the files that a pattern matches, sorted.

    Raises:
        PathNotFoundError: A path that it names is not there.
    """
    alternatives = parse_pattern(pattern)
    found = Walk(storage, alternatives, Pruner(None)).run()
    found.check(pattern, alternatives)
    return sorted(found.files)
