"""What the JSON of PARTITION clauses looks like: specs, comparisons, and the session that a statement runs in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import InvalidInputError
from catalog_ext.metastore.predicates.conditions import PartitionClauses
from catalog_ext.metastore.predicates.partition_specs import ANY_VALUE, KeyComparison, Session

if TYPE_CHECKING:
    from catalog_ext.service.messages.core import Request


def spec_of(request: Request, name: str) -> dict[str, str | None]:
    """Return a partition spec: an object of texts or nulls."""
    return checked_spec(request.mapping(name), name)


def optional_spec(request: Request, name: str) -> dict[str, str | None] | None:
    """Return a partition spec or None."""
    value = request.any(name)
    return None if value is None else checked_spec(value, name)


def session_of(request: Request, name: str = "session") -> Session:
    """Return the session that a statement runs in."""
    given = request.optional_object(name)
    if given is None:
        return Session()
    session = Session(given.optional_text("zone"), given.flag("case_sensitive"), given.text_map("settings"))
    given.finish()
    return session


_OPERATORS = ("=", "!=", "<", "<=", ">", ">=", "in")


def clauses_of(request: Request, *, session: str = "session", open_keys: bool = False) -> PartitionClauses:
    """Return the PARTITION clauses in the field ``clauses``: objects with a list ``comparisons`` each.

    Args:
        request: It has also the session that the statement runs in.
        session: The name of that field.
        open_keys: Whether a clause may name a key without a value.

    Raises:
        InvalidInputError: One is none.
    """
    clauses = tuple(_clause(item, open_keys) for item in request.objects("clauses"))
    return PartitionClauses(clauses, session_of(request, session))


def _clause(request: Request, open_keys: bool) -> tuple[KeyComparison, ...]:
    comparisons = tuple(_comparison(item, open_keys) for item in request.objects("comparisons"))
    request.finish()
    if not comparisons:
        raise InvalidInputError("A PARTITION clause of the request has no comparisons.")
    return comparisons


def _comparison(item: Request, open_keys: bool) -> KeyComparison:
    key, operator, values = item.text("column"), item.text("op"), item.items("values")
    item.finish()
    if open_keys and operator == ANY_VALUE and not values:
        return KeyComparison(key, operator, ())
    texts = tuple(value for value in values if value is None or isinstance(value, str))
    if operator not in _OPERATORS or len(texts) < len(values) or (operator != "in" and len(texts) != 1) or not texts:
        raise InvalidInputError(
            f"A comparison of the request with {operator[:40]!r} is none: give one of {', '.join(_OPERATORS)} and "
            "'values' of text or null, one unless it is 'in'."
        )
    return KeyComparison(key, operator, texts)


def checked_spec(value: object, name: str) -> dict[str, str | None]:
    """Return the value, if it is a partition spec.

    Raises:
        InvalidInputError: It is none.
    """
    if not isinstance(value, dict) or not all(v is None or isinstance(v, str) for v in value.values()):
        raise InvalidInputError(f"A partition spec in the field {name!r} must map names to text or null.")
    return value
