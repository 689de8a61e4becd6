"""What a client found in the directories that the plan of a path has left to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.storage.patterns import parse_pattern
from catalog_ext.scan.path_keys import agreed_names
from catalog_ext.scan.walk import not_found

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class ListedPath:
    """Directories in which a client has found files of a path.

    Attributes:
        path: As it was planned.
        keys: The table's partition columns; None where keys are not looked at.
        directories: As URIs.
        awaited: Paths that the plan said are missing unless the client finds a file, or leaves one out by a filter.
        found: Those of them of which it did.
    """

    path: str
    keys: Sequence[str] | None
    directories: Sequence[str]
    awaited: Sequence[str] = ()
    found: Sequence[str] = ()

    def names(self) -> list[str]:
        """Return the names of the directories' partitions, in their order.

        Raises:
            PathNotFoundError: A path that was awaited is missing.
            PathLayoutError: The directories disagree on the keys, or one has a key twice.
        """
        missing = sorted({*self.awaited} - {*self.found})
        if missing:
            raise not_found(self.path, missing, len(parse_pattern(self.path)))
        if self.keys is None:
            return [""] * len(self.directories)
        places = [Location.parse(directory) for directory in self.directories]
        names = agreed_names(places, self.keys)
        return [names[place] for place in places]
