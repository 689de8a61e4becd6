"""What the JSON of reads looks like: where a plan looks, and what is asked of groups of partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import InvalidInputError
from catalog_ext.metastore.index.read.metadata_groups import Aggregate, Function
from catalog_ext.metastore.index.read.partition_groups import WantedGroups
from catalog_ext.metastore.predicates.conditions import EVERYWHERE, Among, Values
from catalog_ext.tables.freshness import Staleness

if TYPE_CHECKING:
    from catalog_ext.service.messages.core import Request

_OF_ONE_KEY = (WantedGroups.LEAST, WantedGroups.GREATEST)


def among_of(request: Request) -> Among:
    """Return the partitions in the field ``among``, by their numbers and by values of keys; all where it is null.

    Raises:
        InvalidInputError: It is something else.
    """
    given = request.optional_object("among")
    if given is None:
        return EVERYWHERE
    ids = given.any("partition_ids")
    values = tuple(_values(item) for item in given.objects("values"))
    given.finish()
    if ids is None:
        return Among(None, values)
    if not isinstance(ids, list) or not all(type(number) is int and 0 <= number < 2**63 for number in ids):
        raise InvalidInputError("The field 'partition_ids' of the request must be a list of numbers of partitions.")
    return Among(tuple(ids), values)


def _values(item: Request) -> Values:
    values = Values(item.text("key"), tuple(item.texts("partitions")))
    item.finish()
    return values


def staleness_of(request: Request) -> Staleness | None:
    """Return how fresh the partitions have to be, in the field ``staleness``; None where it is null.

    Raises:
        InvalidInputError: It is something else.
    """
    given = request.optional_object("staleness")
    if given is None:
        return None
    staleness = Staleness(given.count("max_ms"), given.optional_text("statement"))
    given.finish()
    return staleness


def wanted_of(request: Request, keys: int) -> WantedGroups:
    """Return what the field ``wanted`` asks of groups by so many keys.

    Raises:
        InvalidInputError: It asks for nothing that there is.
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
    """Return the keys and aggregates in the field ``groups`` of ``tables/metadata``; None where it is null.

    Raises:
        InvalidInputError: It is something else.
    """
    given = request.optional_object("groups")
    if given is None:
        return None
    keys, aggregates = given.optional_texts("keys"), [_aggregate(item) for item in given.objects("aggregates")]
    given.finish()
    return keys, aggregates


def _aggregate(item: Request) -> Aggregate:
    function, column = item.text("function"), item.optional_text("column")
    item.finish()
    if function not in tuple(Function) or (column is None and function != Function.COUNT):
        raise InvalidInputError(
            f"An aggregate of the request cannot be {function[:40]!r} of {column!r:.60}. Use one of "
            f"{', '.join(Function)}, of a column; {Function.COUNT} alone is of rows too."
        )
    return Aggregate(Function(function), column)
