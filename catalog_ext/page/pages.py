"""The pages: the parts of each page, in the order in which they are rendered and sent."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from catalog_ext.metastore.errors import CatalogExtError, InvalidInputError
from catalog_ext.metastore.index.read.partition_map import Unit
from catalog_ext.metastore.index.read.table_list import Pending, TableOrder
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.overview import partition_map
from catalog_ext.overview.map_layout import MEASURES, Choice, Measure, keys_by_name
from catalog_ext.overview.table_state import load_summary, metastore_state
from catalog_ext.page.sections import (
    SMALL,
    SMALL_CHOICES,
    Growth,
    Kept,
    is_view,
    position_of,
    read_drift,
    read_events,
    read_file_sizes,
    read_growth,
)
from catalog_ext.writes.status import status_entries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from catalog_ext.catalog import Catalog
    from catalog_ext.metastore.index.read.overviews import Overviews
    from catalog_ext.metastore.index.read.table_list import TableSummary
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.model.values import Key
    from catalog_ext.metastore.predicates.tree import Predicate
    from catalog_ext.overview.partition_map import MapHead, PartitionMap
    from catalog_ext.page.query import Query

logger = logging.getLogger(__name__)

Part = tuple[str, dict[str, Any]]
"""A part of a page: its template, and the values for the template."""

_PAGE = 100
_MOST_ENTRIES = 100
_LINKED, _LONGEST_LINK = 300, 2000
"""The most characters of a condition in a link, and of a whole link: a page has hundreds of links."""

_POSITIONS = ("xa", "xto", "ya", "yto")


class Pages:
    """The pages of a catalog.

    Each yields its parts one by one, so that the first is sent before the last is computed.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._overviews = catalog.index.overviews
        self._kept = Kept()
        self.name = catalog.settings.name

    @property
    def warning(self) -> str | None:
        """The warning at the top of each page if the index was restored, so that it can be read but not changed."""
        behind = self._catalog.reads.behind
        return None if behind is None else behind.message

    def tables(self, query: Query, _: dict[str, str]) -> Iterator[Part]:
        """Yield the list of tables.

        Raises:
            InvalidInputError: The address has an unknown order or filter.
        """
        order = query.choice("sort", TableOrder, TableOrder.NAME)
        pending = query.choice("metastore", Pending, Pending.ALL)
        descending, offset = query.text("desc") == "1", query.number("from", 0)
        now_ms = self._catalog.index.now_ms()
        listing = self._overviews.tables.find(
            search=query.text("search"), pending=pending, order=order, descending=descending, limit=_PAGE,
            offset=offset,
        )  # fmt: skip
        rows = [(each, self._state(each, now_ms)) for each in listing.page]
        yield "tables.html", {
            "title": "Tables", "listing": listing, "rows": rows, "order": order, "descending": descending,
            "offset": offset, "page": _PAGE, "now_ms": now_ms, "pending": pending, "is_view": is_view,
        }  # fmt: skip

    def activity(self, query: Query, _: dict[str, str]) -> Iterator[Part]:
        """Yield the running and pending work of all tables."""
        yield "head.html", {"title": "Activity", "here": "activity"}
        yield self._part(
            "activity.html", "Under way and pending", lambda: self._under_way(None, self._catalog.index.now_ms())
        )
        yield "foot.html", {}

    def table(self, query: Query, path: dict[str, str]) -> Iterator[Part]:
        """Yield a table's page.

        Raises:
            TableNotFoundError: There is no such table.
            InvalidInputError: The address has an invalid choice.
        """
        summary = load_summary(self._catalog.index, TableIdentifier(path["namespace"].lower(), path["name"].lower()))
        now_ms = self._catalog.index.now_ms()
        size_limit, before = query.number("small", SMALL), position_of(query.text("before"))
        if size_limit not in SMALL_CHOICES:
            raise InvalidInputError(f"small is {size_limit} in the page's address; it is one of {SMALL_CHOICES}.")
        keys, measure = chosen_keys(summary.table, query), query.choice("m", Measure, Measure.BYTES)
        unit = query.choice("unit", Unit, Unit.DAY)
        of = summary.table
        yield "table.html", {
            "title": str(of.identifier), "here": "", "summary": summary, "table": of, "now_ms": now_ms,
            "state": self._state(summary, now_ms), "is_view": is_view(of),
        }  # fmt: skip
        if of.definition.keys:
            yield self._part("map.html", "Partition map", lambda: {
                **self._map(of, keys, query, now_ms), "keys": keys, "measure": measure, "unit": unit,
                "units": list(Unit), "measures": MEASURES, "table": of,
            })  # fmt: skip
        yield self._part("growth.html", "Growth", lambda: {"growth": self._growth(of, now_ms)})
        yield self._part("timeline.html", "Commits and repairs", lambda: dict(zip(
            ("events", "more"), read_events(self._overviews, of, before, now_ms), strict=True
        )) | {"before": before, "growth": self._growth(of, now_ms)})  # fmt: skip
        yield self._part("activity.html", "Under way and pending", lambda: self._under_way(of, now_ms))
        yield self._part(
            "drift.html", "Drift", lambda: {"sides": read_drift(self._overviews, summary, now_ms), "table": of}
        )
        if not is_view(of):
            yield self._part("files.html", "File sizes", lambda: {
                "sizes": self._kept.get(
                    ("sizes", of.table_id, of.version, size_limit), lambda: read_file_sizes(
                        self._overviews, of, size_limit, self._catalog.settings.name
                    )
                ),
                "choices": SMALL_CHOICES,
            })  # fmt: skip
        yield "foot.html", {}

    def _growth(self, table: Table, now_ms: int) -> Growth | None:
        kept = ("growth", table.table_id, table.version)
        return self._kept.get(kept, lambda: read_growth(self._overviews, table, now_ms))

    def _map(self, table: Table, keys: Sequence[Key], query: Query, now_ms: int) -> dict[str, object]:
        """Return the map for the address, or the error in its condition, with the form to correct the condition."""
        chosen = tuple(sorted((k, v) for k, v in query.chosen.items() if k not in ("small", "before")))

        def read() -> PartitionMap | None:
            where = query.text("where") or None
            predicate = self._catalog.predicate(table, where)
            return read_map(self._overviews, table, predicate, keys, query, now_ms)

        try:
            return {"map": self._kept.get(("map", table.table_id, table.version, chosen), read, weight), "problem": ""}
        except InvalidInputError as error:
            return {"map": None, "problem": error.message}

    def _under_way(self, table: Table | None, now_ms: int) -> dict[str, Any]:
        pending, failed = self._overviews.count_deliveries(table)
        found = list(status_entries(self._catalog.index, table, _MOST_ENTRIES))
        kinds = ("transaction", "waiting", "delivery", "follower", "suspect")
        return {
            "entries": {kind: [each for each in found if each.kind == kind] for kind in kinds},
            "most": _MOST_ENTRIES, "pending": pending, "failed": failed, "now_ms": now_ms,
            "of_all": table is None, "enabled": self._catalog.metastore.enabled,
        }  # fmt: skip

    def _state(self, summary: TableSummary, now_ms: int) -> object:
        return metastore_state(summary, enabled=self._catalog.metastore.enabled, now_ms=now_ms)

    def _part(self, template: str, title: str, make: Callable[[], dict[str, Any]]) -> Part:
        """Return a part of the page, or the error that prevented it; other parts are not affected."""
        try:
            return template, make()
        except CatalogExtError as error:
            return "failed_part.html", {"part": title, "message": error.message}
        except Exception as error:
            logger.exception("The part %s of a page failed unexpectedly", title)
            return "failed_part.html", {"part": title, "message": f"{type(error).__name__}: see the service's log"}


def weight(of: PartitionMap | None) -> int:
    """Return the number of cells of a map, which determines its memory in the cache."""
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
    """Return the map of the address; None if no key has a database column of its own in the index.

    Raises:
        InvalidInputError: The address has an invalid date or choice.
        InvalidPredicateError: The database cannot evaluate the condition.
    """
    positions = {name: query.text(name) for name in _POSITIONS if query.text(name)}
    choice = Choice(query.choice("m", Measure, Measure.BYTES), query.choice("unit", Unit, Unit.DAY), positions)
    found = partition_map.read_map(overviews, table, predicate, keys, choice, now_ms)
    return None if found is None else _linked(found, query)


def _linked(of: PartitionMap, query: Query) -> PartitionMap:
    """Return the map with links for its headings and the neighbouring maps."""
    return replace(
        of, columns=tuple(_head(head, query) for head in of.columns),
        rows=tuple((_head(head, query), places) for head, places in of.rows),
        steps=tuple(replace(step, href=query.but(**{step.position: step.value})) for step in of.steps),
        undated=tuple(_head(head, query) for head in of.undated),
    )  # fmt: skip


def _head(head: MapHead, query: Query) -> MapHead:
    before, condition = query.text("where"), head.condition
    wanted = f"({before}) AND {condition}" if before else condition
    if wanted is None or len(wanted) > _LINKED:
        return head
    href = query.but(where=wanted, xa=None, ya=None)
    return replace(head, href=href) if len(href) <= _LONGEST_LINK else head
