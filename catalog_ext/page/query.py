"""The choices of a page, which are all in its address, and the addresses for other choices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote, urlencode

from catalog_ext.metastore.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog_ext.metastore.backports import StrEnum
    from catalog_ext.metastore.model.identifiers import TableIdentifier

_Choice = TypeVar("_Choice", bound="StrEnum")

ROOT = "/ui"
_LONGEST, _LONGEST_ADDRESS = 2000, 4000
_KNOWN = frozenset({
    "search", "metastore", "sort", "desc", "from", "x", "y", "m", "unit", "where", "xa", "xto", "ya", "yto", "small",
    "before",
})  # fmt: skip
"""The parameters that the page reads. Unknown ones are dropped: every link of the page repeats the parameters."""


@dataclass(frozen=True, slots=True)
class Query:
    """The path and the choices in a page's address.

    Attributes:
        path: The path without choices.
        chosen: The non-empty choices.
    """

    path: str
    chosen: Mapping[str, str]

    @classmethod
    def of(cls, path: str, given: Mapping[str, str]) -> Query:
        """Return the choices in an address; unknown names are dropped.

        Raises:
            InvalidInputError: A part of the address is too long, or contains NUL.
        """
        if "\x00" in path:
            raise InvalidInputError("The page's address has a NUL, which no name has.")
        for name, value in given.items():
            if "\x00" in value:
                raise InvalidInputError(f"{name[:40]!r} in the page's address has a NUL, which no name has.")
            if len(value) > _LONGEST:
                raise InvalidInputError(
                    f"{name[:40]!r} in the page's address has {len(value)} characters; at most {_LONGEST} are taken."
                )
        return cls(path, {name: value for name, value in given.items() if value and name in _KNOWN})

    def text(self, name: str) -> str:
        """Return a choice as text; ``''`` if it is not made."""
        return self.chosen.get(name, "")

    def choice(self, name: str, kind: type[_Choice], default: _Choice) -> _Choice:
        """Return a choice among the members of an enumeration.

        Raises:
            InvalidInputError: The address has another value.
        """
        value = self.chosen.get(name)
        if value is None:
            return default
        if value not in list(kind):
            raise InvalidInputError(f"{name} is {value[:40]!r} in the page's address; it is one of {', '.join(kind)}.")
        return kind(value)

    def number(self, name: str, default: int) -> int:
        """Return a choice that is a whole number, zero or greater.

        Raises:
            InvalidInputError: The address has another value.
        """
        value = self.chosen.get(name)
        if value is None:
            return default
        if not (value.isascii() and value.isdigit() and len(value) <= 18):
            raise InvalidInputError(f"{name} is {value[:40]!r} in the page's address; it is a whole number.")
        return int(value)

    def but(self, **changes: str | int | None) -> str:
        """Return the address with some choices changed; None removes a choice."""
        chosen = {**self.chosen, **{name: "" if value is None else str(value) for name, value in changes.items()}}
        said = urlencode({name: value for name, value in chosen.items() if value})
        return f"{self.path}?{said}" if said else self.path


def table_path(identifier: TableIdentifier) -> str:
    """Return the path of a table's page."""
    return f"{ROOT}/table/{quote(identifier.namespace, safe='')}/{quote(identifier.name, safe='')}"


def is_local(address: str) -> bool:
    """Return whether an address belongs to the page, so that a browser may be redirected to it after the sign-in."""
    if len(address) > _LONGEST_ADDRESS:
        return False
    return address.startswith(f"{ROOT}/") and "\\" not in address and address.isprintable() and "//" not in address
