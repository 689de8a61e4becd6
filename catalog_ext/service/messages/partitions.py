"""The JSON of partitions: specs, PARTITION clauses, session settings, partition filters, groups of partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import InvalidInputError
from catalog_ext.metastore.index.read.metadata_groups import Aggregate, Function
from catalog_ext.metastore.index.read.partition_groups import WantedGroups
from catalog_ext.metastore.predicates.conditions import EVERYWHERE, Among, PartitionClauses, Values
from catalog_ext.metastore.predicates.partition_specs import ANY_VALUE, KeyComparison, Session
from catalog_ext.tables.freshness import Staleness

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
    """Return the settings of the client's Spark session that the statement depends on, from a field of the request."""
    return request.optional_object(name, _session) or Session()


def _session(given: Request) -> Session:
    return Session(given.optional_text("zone"), given.flag("case_sensitive"), given.text_map("settings"))


_OPERATORS = ("=", "!=", "<", "<=", ">", ">=", "in")


def clauses_of(request: Request, *, session: str = "session", open_keys: bool = False) -> PartitionClauses:
    """Return the PARTITION clauses in the field ``clauses``: objects, each with a list ``comparisons``.

    Args:
        request: The request, which also has the settings of the statement's session.
        session: The name of the field with these settings.
        open_keys: Whether a clause may name a key without a value.

    Raises:
        InvalidInputError: A clause is malformed.
    """
    clauses = tuple(request.objects("clauses", lambda clause: _clause(clause, open_keys)))
    return PartitionClauses(clauses, session_of(request, session))


def _clause(request: Request, open_keys: bool) -> tuple[KeyComparison, ...]:
    comparisons = tuple(request.objects("comparisons", lambda item: _comparison(item, open_keys)))
    if not comparisons:
        raise InvalidInputError("A PARTITION clause of the request has no comparisons.")
    return comparisons


def _comparison(item: Request, open_keys: bool) -> KeyComparison:
    key, operator, values = item.text("column"), item.text("op"), item.items("values")
    if open_keys and operator == ANY_VALUE and not values:
        return KeyComparison(key, operator, ())
    texts = tuple(value for value in values if value is None or isinstance(value, str))
    if operator not in _OPERATORS or len(texts) < len(values) or (operator != "in" and len(texts) != 1) or not texts:
        raise InvalidInputError(
            f"A comparison of the request with {operator[:40]!r} is not valid: give one of {', '.join(_OPERATORS)} and "
            "'values' of text or null, one unless it is 'in'."
        )
    return KeyComparison(key, operator, texts)


def checked_spec(value: object, name: str) -> dict[str, str | None]:
    """Return the value, checked to be a partition spec.

    Raises:
        InvalidInputError: The value is not a partition spec.
    """
    if not isinstance(value, dict) or not all(v is None or isinstance(v, str) for v in value.values()):
        raise InvalidInputError(f"A partition spec in the field {name!r} must map names to text or null.")
    return value


_OF_ONE_KEY = (WantedGroups.LEAST, WantedGroups.GREATEST)


def among_of(request: Request) -> Among:
    """Return the partition filter in the field ``among``: partition numbers and key values. Null means all partitions.

    Raises:
        InvalidInputError: The field has another form.
    """
    return request.optional_object("among", _among) or EVERYWHERE


def _among(given: Request) -> Among:
    ids, values = given.any("partition_ids"), tuple(given.objects("values", _values))
    if ids is None:
        return Among(None, values)
    if not isinstance(ids, list) or not all(type(number) is int and 0 <= number < 2**63 for number in ids):
        raise InvalidInputError("The field 'partition_ids' of the request must be a list of numbers of partitions.")
    return Among(tuple(ids), values)


def _values(item: Request) -> Values:
    return Values(item.text("key"), tuple(item.texts("partitions")))


def staleness_of(request: Request) -> Staleness | None:
    """Return how fresh the partitions have to be, from the field ``staleness``; None if it is null.

    Raises:
        InvalidInputError: The field has another form.
    """
    return request.optional_object(
        "staleness", lambda given: Staleness(given.count("max_ms"), given.optional_text("statement"))
    )


def wanted_of(request: Request, keys: int) -> WantedGroups:
    """Return the aggregates that a query needs for each group of partitions, from the field ``wanted``.

    Raises:
        InvalidInputError: The field has no valid value for this number of keys.
    """
    given = request.text("wanted")
    if given not in tuple(WantedGroups) or (given in _OF_ONE_KEY and keys != 1):
        known = ", ".join(WantedGroups)
        raise InvalidInputError(
            f"The field 'wanted' of the request cannot be {given[:40]!r} with {keys} keys. Use one of {known}; the "
            "last two are of one key."
        )
    return WantedGroups(given)


def metadata_groups_of(request: Request) -> tuple[list[str] | None, list[Aggregate]] | None:
    """Return the keys and aggregates in the field ``groups`` of ``tables/metadata``; None if it is null.

    Raises:
        InvalidInputError: The field has another form.
    """
    return request.optional_object(
        "groups", lambda given: (given.optional_texts("keys"), given.objects("aggregates", _aggregate))
    )


def _aggregate(item: Request) -> Aggregate:
    function, column = item.text("function"), item.optional_text("column")
    if function not in tuple(Function) or (column is None and function != Function.COUNT):
        raise InvalidInputError(
            f"An aggregate of the request cannot be {function[:40]!r} of {column!r:.60}. Use one of "
            f"{', '.join(Function)}, of a column; {Function.COUNT} alone is of rows too."
        )
    return Aggregate(Function(function), column)
