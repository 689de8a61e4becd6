"""The partition map of the page: the choice in the page's address, and the addresses of the maps around it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import InvalidInputError
from catalog_ext.metastore.index.read.partition_map import Unit
from catalog_ext.overview import partition_map
from catalog_ext.overview.map_layout import Choice, Measure, keys_by_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog_ext.metastore.index.read.overviews import Overviews
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.model.values import Key
    from catalog_ext.metastore.predicates.tree import Predicate
    from catalog_ext.overview.partition_map import Head, PartitionMap
    from catalog_ext.page.query import Query

_LINKED, _LONGEST_LINK = 300, 2000
"""Characters of a condition that is linked to, and of a link with all that is chosen besides: a page has hundreds."""

_POSITIONS = ("xa", "xto", "ya", "yto")


def weight(of: PartitionMap | None) -> int:
    """Return the number of places of a map: they take its memory."""
    return 1 if of is None else 1 + sum(len(places) for _, places in of.rows)


def chosen_keys(table: Table, query: Query) -> tuple[Key, ...]:
    """Return the one or two keys of the map: those in the address, else the first two.

    Raises:
        InvalidInputError: The table has no such key.
    """
    by_name = keys_by_name(table)
    for name in ("x", "y"):
        if query.text(name) not in ("", "-", *by_name):
            raise InvalidInputError(
                f"{name} is {query.text(name)[:80]!r} in the page's address; the table's keys are {', '.join(by_name)}."
            )
    across = by_name.get(query.text("x")) or next(iter(by_name.values()), None)
    if across is None:
        return ()
    other = next((key for key in by_name.values() if key != across), None)
    down = by_name.get(query.text("y")) if query.text("y") else other
    return (across,) if down is None or down == across else (across, down)


def read_map(
    overviews: Overviews, table: Table, predicate: Predicate | None, keys: Sequence[Key], query: Query, now_ms: int
) -> PartitionMap | None:
    """Return the map of the address; None without keys that have a column of their own in the index.

    Raises:
        InvalidInputError: The address names a date or a choice that does not exist.
        InvalidPredicateError: The index cannot decide the condition by itself.
    """
    positions = {name: query.text(name) for name in _POSITIONS if query.text(name)}
    choice = Choice(query.choice("m", Measure, Measure.BYTES), query.choice("unit", Unit, Unit.DAY), positions)
    found = partition_map.read_map(overviews, table, predicate, keys, choice, now_ms)
    return None if found is None else _linked(found, query)


def _linked(of: PartitionMap, query: Query) -> PartitionMap:
    """Return the map with the addresses of its heads and of the maps around it."""
    return replace(
        of, columns=tuple(_head(head, query) for head in of.columns),
        rows=tuple((_head(head, query), places) for head, places in of.rows),
        steps=tuple(replace(step, href=query.but(**{step.position: step.value})) for step in of.steps),
        undated=tuple(_head(head, query) for head in of.undated),
    )  # fmt: skip


def _head(head: Head, query: Query) -> Head:
    before, condition = query.text("where"), head.condition
    wanted = f"({before}) AND {condition}" if before else condition
    if wanted is None or len(wanted) > _LINKED:
        return head
    href = query.but(where=wanted, xa=None, ya=None)
    return replace(head, href=href) if len(href) <= _LONGEST_LINK else head
