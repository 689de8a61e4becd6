"""The partition map of the page: the choice in the page's address, and the addresses of the maps around it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import InvalidInputError
from catalog_ext.metastore.index import Unit
from catalog_ext.overview import partition_map
from catalog_ext.overview.map_layout import Choice, Measure, keys_by_name
from catalog_ext.overview.map_svg import map_svg
from catalog_ext.overview.partition_map import Head

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markupsafe import Markup

    from catalog_ext.metastore.index import Overviews
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.model.values import Key
    from catalog_ext.metastore.predicates.tree import Predicate
    from catalog_ext.overview.dates import Holes
    from catalog_ext.overview.partition_map import PartitionMap, Place
    from catalog_ext.page.query import Query

_LINKED, _LONGEST_LINK = 300, 2000
"""Characters of a condition that is linked to, and of a link with all that is chosen besides: a page has hundreds."""

_POSITIONS = ("xa", "xto", "ya", "yto")


@dataclass(frozen=True, slots=True)
class LinkedMap:
    """A map as the page shows it: ``PartitionMap`` with the addresses of its heads and of the maps around it."""

    caption: str
    corner: str
    columns: tuple[Head, ...]
    rows: tuple[tuple[Head, tuple[Place | None, ...]], ...]
    least: str
    greatest: str
    shown: int
    steps: tuple[tuple[str, str], ...]
    missing: str
    holes: Holes | None
    undated: tuple[Head, ...]

    @property
    def svg(self) -> Markup:
        """The map as an SVG element."""
        return map_svg(self.caption, self.corner, self.columns, self.rows, lambda place: place.label)


def weight(of: LinkedMap | None) -> int:
    """Return how many places a map has: they are what takes memory."""
    return 1 if of is None else 1 + sum(len(places) for _, places in of.rows)


def chosen_keys(table: Table, query: Query) -> tuple[Key, ...]:
    """Return the one or two keys of the map: those that the address names, else the first two.

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
) -> LinkedMap | None:
    """Return the map that the address asks for; None where the table has no key that the index knows by itself.

    Raises:
        InvalidInputError: The address asks for what there is not.
        InvalidPredicateError: The index cannot decide the condition by itself.
    """
    positions = {name: query.text(name) for name in _POSITIONS if query.text(name)}
    choice = Choice(query.choice("m", Measure, Measure.BYTES), query.choice("unit", Unit, Unit.DAY), positions)
    found = partition_map.read_map(overviews, table, predicate, keys, choice, now_ms)
    return None if found is None else _linked(found, query)


def _linked(of: PartitionMap, query: Query) -> LinkedMap:
    return LinkedMap(
        of.caption, of.corner, tuple(_head(head, query) for head in of.columns),
        tuple((_head(head, query), places) for head, places in of.rows), of.least, of.greatest, of.shown,
        tuple((step.words, query.but(**{step.position: step.value})) for step in of.steps), of.missing, of.holes,
        tuple(_head(head, query) for head in of.undated),
    )  # fmt: skip


def _head(head: Head, query: Query) -> Head:
    before, condition = query.text("where"), head.condition
    wanted = f"({before}) AND {condition}" if before else condition
    if wanted is None or len(wanted) > _LINKED:
        return Head(head.label, condition)
    href = query.but(where=wanted, xa=None, ya=None)
    return Head(head.label, condition, href if len(href) <= _LONGEST_LINK else None)
