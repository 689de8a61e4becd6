"""The pages: which parts each has, in the order in which they are made and sent."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from catalog_ext.metastore.errors import CatalogExtError, InvalidInputError, TableNotFoundError
from catalog_ext.metastore.index.read.partition_map import Unit
from catalog_ext.metastore.index.read.table_list import Pending, TableOrder
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.views import View
from catalog_ext.overview.map_layout import MEASURES, Measure
from catalog_ext.overview.metastore_state import metastore_state
from catalog_ext.page.partition_map import chosen_keys, read_map, weight
from catalog_ext.page.sections import (
    SMALL,
    SMALL_CHOICES,
    Growth,
    Kept,
    is_view,
    position_of,
    read_events,
    read_file_sizes,
    read_growth,
    read_sides,
)
from catalog_ext.writes.status import status_entries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from catalog_ext.catalog import Catalog
    from catalog_ext.metastore.index.read.table_list import TableSummary
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.model.values import Key
    from catalog_ext.overview.partition_map import PartitionMap
    from catalog_ext.page.query import Query

logger = logging.getLogger(__name__)

Part = tuple[str, dict[str, Any]]
"""A template, and what it shows."""

_PAGE = 100
_MOST_ENTRIES = 100


class Views:
    """The pages of a catalog; each gives its parts one by one, the first before the last is made."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._overviews = catalog.index.overviews
        self._kept = Kept()
        self.name = catalog.settings.name

    @property
    def warning(self) -> str | None:
        """The warning that each page begins with: that the index was restored, and changes nothing."""
        behind = self._catalog.reads.behind
        return None if behind is None else behind.message

    def tables(self, query: Query, _: dict[str, str]) -> Iterator[Part]:
        """Yield the list of tables.

        Raises:
            InvalidInputError: The address asks for an order or a filter that there is not.
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
        """Yield what is under way in all tables."""
        yield "head.html", {"title": "Activity", "here": "activity"}
        yield self._part(
            "activity.html", "Under way and pending", lambda: self._under_way(None, self._catalog.index.now_ms())
        )
        yield "foot.html", {}

    def table(self, query: Query, path: dict[str, str]) -> Iterator[Part]:
        """Yield a table's page.

        Raises:
            TableNotFoundError: There is none.
            InvalidInputError: The address asks for what there is not.
        """
        summary = self._summary(TableIdentifier(path["namespace"].lower(), path["name"].lower()))
        now_ms = self._catalog.index.now_ms()
        below, before = query.number("small", SMALL), position_of(query.text("before"))
        if below not in SMALL_CHOICES:
            raise InvalidInputError(f"small is {below} in the page's address; it is one of {SMALL_CHOICES}.")
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
            "drift.html", "Drift", lambda: {"sides": read_sides(self._overviews, summary, now_ms), "table": of}
        )
        if not is_view(of):
            yield self._part("files.html", "File sizes", lambda: {
                "sizes": self._kept.get(
                    ("sizes", of.table_id, of.version, below), lambda: read_file_sizes(
                        self._overviews, of, below, self._catalog.settings.name
                    )
                ),
                "choices": SMALL_CHOICES,
            })  # fmt: skip
        yield "foot.html", {}

    def _summary(self, name: TableIdentifier) -> TableSummary:
        found = self._catalog.index.views.load_relation(name)
        summary = self._overviews.tables.load((found.table if isinstance(found, View) else found).table_id)
        if summary is None:
            raise TableNotFoundError(f"The table {name} does not exist any more.")
        return summary

    def _growth(self, table: Table, now_ms: int) -> Growth | None:
        kept = ("growth", table.table_id, table.version)
        return self._kept.get(kept, lambda: read_growth(self._overviews, table, now_ms))

    def _map(self, table: Table, keys: Sequence[Key], query: Query, now_ms: int) -> dict[str, object]:
        """Return the map, or what is wrong with the condition: the form in which it can be mended is shown with it."""
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
        kinds = ("transaction", "waiting", "delivery", "follower", "doubt")
        return {
            "entries": {kind: [each for each in found if each.kind == kind] for kind in kinds},
            "most": _MOST_ENTRIES, "pending": pending, "failed": failed, "now_ms": now_ms,
            "of_all": table is None, "enabled": self._catalog.metastore.enabled,
        }  # fmt: skip

    def _state(self, summary: TableSummary, now_ms: int) -> object:
        return metastore_state(summary, enabled=self._catalog.metastore.enabled, now_ms=now_ms)

    def _part(self, template: str, title: str, make: Callable[[], dict[str, Any]]) -> Part:
        """Return a part, or why it could not be made: the others do not suffer from it."""
        try:
            return template, make()
        except CatalogExtError as error:
            return "failed_part.html", {"part": title, "message": error.message}
        except Exception as error:
            logger.exception("The part %s of a page failed unexpectedly", title)
            return "failed_part.html", {"part": title, "message": f"{type(error).__name__}: see the service's log"}
