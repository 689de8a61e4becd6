"""A descriptor that forwards methods of a catalog to its parts, with the parts' signatures and docstrings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import Callable

    from catalog_ext.context import Context

_Part = TypeVar("_Part")
_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


class Composed(Protocol):
    """The interface of an object, such as a catalog, that forwards methods to its parts and can be closed."""

    _context: Context


class Forwarded(Generic[_Part, _Parameters, _Result]):
    """Forwards a method to one of the parts, with the parameters and the docstring of the part's method.

    Args:
        part: Returns the part of the composed object.
        method: The method, as a function of the part's class.
    """

    def __init__(
        self, part: Callable[[Any], _Part], method: Callable[Concatenate[_Part, _Parameters], _Result]
    ) -> None:
        self._part = part
        self._method = method

    @overload
    def __get__(self, catalog: None, owner: type) -> Callable[Concatenate[_Part, _Parameters], _Result]: ...
    @overload
    def __get__(self, catalog: Composed, owner: type) -> Callable[_Parameters, _Result]: ...
    def __get__(self, catalog: Composed | None, owner: type) -> Callable[..., _Result]:
        if catalog is None:
            return self._method
        catalog._context.require_open()
        bound: Callable[..., _Result] = getattr(self._part(catalog), self._method.__name__)
        return bound
