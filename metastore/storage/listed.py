"""What a listing yields. Named tuples, because a listing makes millions of them and a frozen dataclass costs thrice."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from catalog_ext.metastore.errors import StorageError


class ListedFile(NamedTuple):
    """A file below the root of a listing.

    Attributes:
        directory: Its directory relative to the root, exactly as on the store; empty for the root itself. An empty
            component (the S3 key ``a//x``) shows as a ``/`` at an end or a doubled one.
        name: Its name in that directory.
        size: Bytes.
        modified_ms: Last modification, in milliseconds since 1970.
    """

    directory: str
    name: str
    size: int
    modified_ms: int


class ListedDirectory(NamedTuple):
    """A directory below the root that was listed, on a store that has directories; it may be empty."""

    directory: str


class ListingFailure(NamedTuple):
    """A directory below which something may lie that the listing does not hold; ``error`` says why."""

    directory: str
    error: StorageError


Listed: TypeAlias = ListedFile | ListedDirectory | ListingFailure
Descend: TypeAlias = Callable[[str], bool]
