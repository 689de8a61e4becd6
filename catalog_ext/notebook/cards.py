"""Cards: a catalog, a table or a repair's report in a cell. A card never raises; it shows an error instead."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from catalog_ext.catalog import Catalog
from catalog_ext.catalog_table import CatalogTable
from catalog_ext.metastore.errors import CatalogExtError
from catalog_ext.metastore.index.database.urls import shown_index
from catalog_ext.metastore.model.tables import TableType
from catalog_ext.metastore.runtime.wording import counted, format_bytes
from catalog_ext.notebook.markup import render
from catalog_ext.notebook.rows import ShownRows, shown_rows
from catalog_ext.overview import formats
from catalog_ext.overview.layout import ListColumn, record_lines
from catalog_ext.overview.map_layout import SMALL, Choice, first_keys
from catalog_ext.overview.map_svg import map_svg
from catalog_ext.overview.partition_map import PartitionMap, read_map
from catalog_ext.overview.table_state import DeliveryState, load_summary, metastore_state
from catalog_ext.repair.report import RepairReport

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from markupsafe import Markup

    from catalog_ext.conf.resolved import Settings
    from catalog_ext.display import Displayed
    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.index.read.table_list import TableSummary
    from catalog_ext.metastore.model.identifiers import TableIdentifier
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.overview.dates import Gap
    from catalog_ext.overview.partition_map import MapPlace

logger = logging.getLogger(__name__)
_Made = TypeVar("_Made")

TABLES = 20
"""The most tables in a catalog's card."""

_COLUMNS = (
    ListColumn("table"), ListColumn("keys", cell=lambda keys: formats.cut(keys, 80)),
    ListColumn("partitions", right=True), ListColumn("files", right=True),
    ListColumn("bytes", "size", right=True, cell=formats.size),
    ListColumn("committed_at_ms", "last commit (UTC)", cell=formats.moment), ListColumn("metastore"),
)  # fmt: skip
_ENTRIES = (
    ListColumn("action"), ListColumn("partition"), ListColumn("path"), ListColumn("files", right=True),
    ListColumn("bytes", "size", right=True, cell=format_bytes), ListColumn("reason", wraps=True),
)  # fmt: skip
CHANGED = {"added": "#1a7f4b", "changed": "#d99000", "dropped": "#b3261e", "skipped": "#8b949e"}
"""The colours of a repair's actions."""

_ACTIONS = {"added": "add", "changed": "change", "dropped": "drop", "skipped": "skip"}
_ENTRIES_OF_ACTION = 25
_GAPS = 6
_KEYS = 40


@dataclass(frozen=True, slots=True)
class Problem:
    """An error: its name and its message."""

    name: str
    message: str


@dataclass(frozen=True, slots=True)
class Fact:
    """A line of a card. Its parts are isolated from each other in the HTML, as each may be a name."""

    name: str
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Share:
    """A segment of a stacked bar: its label, its share in percent, and its colour."""

    word: str
    percent: float
    colour: str


@dataclass(frozen=True, slots=True)
class SmallMap:
    """A partition map drawn as SVG, with the numbers and gaps that a card writes beside it."""

    of: PartitionMap
    svg: Markup

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """The first of the longest gaps, as many as a card shows."""
        return self.of.holes.gaps[:_GAPS] if self.of.holes is not None else ()

    @property
    def more_gaps(self) -> int:
        """The number of gaps that the card does not show."""
        holes = self.of.holes
        return 0 if holes is None else max(len(holes.gaps) + holes.more - _GAPS, 0)


def small_map(of: PartitionMap) -> SmallMap:
    """Draw a map for a card or a picture."""
    return SmallMap(of, map_svg(of, _said))


def _said(place: MapPlace) -> str:
    # Save space, because a card has at most 50 kB: empty cells have no text, other cells only their measure.
    if place.kind == "none":
        return ""
    return f"{place.where}: {place.text if place.text != 'none' else place.said}"


@dataclass(frozen=True, slots=True)
class Card:
    """The contents of a card.

    Attributes:
        kind: A word for the subject: table, view, catalog, repair.
        partitions: The number of the table's partitions.
        problem: The error, if the map could not be drawn.
        shares: The parts of a bar; empty for no bar.
        notes: Sentences below the facts.
    """

    title: str
    kind: str
    facts: tuple[Fact, ...]
    rows: ShownRows | None = None
    map: SmallMap | None = None
    partitions: int = 0
    problem: Problem | None = None
    shares: tuple[Share, ...] = ()
    notes: tuple[str, ...] = ()

    def html(self) -> str:
        """Return the card as the HTML of a cell."""
        return render("card.html", card=self)

    def text(self) -> str:
        """Return the title and the facts as lines of text, without the map."""
        facts = [(fact.name, formats.visible("".join(fact.parts))) for fact in self.facts]
        return "\n".join((f"{formats.visible(self.title)} ({self.kind})", *record_lines(facts, None)))


def card_html(of: Displayed) -> str:
    """Return the card of a catalog, table or report as HTML; if that fails, the error as HTML."""
    title, card = _card(of, with_map=True)
    return card.html() if isinstance(card, Card) else render("failed.html", title=title, problem=card)


def card_text(of: Displayed) -> str:
    """Return the card of a table as text, or the error as text; for a catalog one line, without a query."""
    if isinstance(of, Catalog):
        state = " (closed)" if of._context.closed.is_set() else ""
        index, warehouse = shown_index(of.settings.index), of.settings.warehouse
        return f"<Catalog {of.settings.name}{state}: index {index}, warehouse {warehouse}>"
    title, card = _card(of, with_map=False)
    if isinstance(card, Card):
        return card.text()
    return f"{formats.visible(title)} ({card.name}: {formats.visible(card.message)})"


def _card(of: Displayed, *, with_map: bool) -> tuple[str, Card | Problem]:
    title = of.name if isinstance(of, CatalogTable) else of.settings.name if isinstance(of, Catalog) else ""
    return title, _tried(f"card of {title}", lambda: _made(of, title, with_map=with_map))


def _tried(what: str, make: Callable[[], _Made]) -> _Made | Problem:
    """Return the result of ``make``, or the error as a value: IPython would show its own traceback, or nothing."""
    try:
        return make()
    except CatalogExtError as error:
        return Problem(error.code, error.message)
    except Exception as error:
        logger.exception("The %s failed unexpectedly", formats.visible(what))
        return Problem(type(error).__name__, str(error))


def _made(of: Displayed, title: str, *, with_map: bool) -> Card:
    if isinstance(of, RepairReport):
        return report_card(of)
    if not isinstance(of, Catalog | CatalogTable):
        raise TypeError(f"A {type(of).__name__} has no card.")
    context = of._context
    index, enabled = context.open_index, context.metastore.enabled
    if isinstance(of, Catalog):
        return catalog_card(index, context.settings, enabled=enabled)
    return table_card(index, of._identifier, title=title, enabled=enabled, with_map=with_map)


def report_card(report: RepairReport) -> Card:
    """Return the card of a repair's report."""
    facts = tuple(Fact(word, (text,)) for word, text in report._lines())
    rows = None
    if len(report):
        # Take the first entries of each action: a thousand additions must not hide the skipped paths.
        kinds = (report.added, report.dropped, report.changed, report.skipped, report.warnings)
        shown = [entry._asdict() for entries in kinds for entry in entries[:_ENTRIES_OF_ACTION]]
        rows = shown_rows(_ENTRIES, shown, len(report), most=len(shown))
    return Card(report._headline(), "", facts, rows, shares=tuple(_shares(report)), notes=tuple(report._notes()))


def _shares(report: RepairReport) -> Iterator[Share]:
    counts = {word: report.counts(action).partitions for word, action in _ACTIONS.items()}
    total = sum(counts.values())
    for word, number in counts.items():
        if number:
            yield Share(word, 100 * number / total, CHANGED[word])


def table_card(index: Index, identifier: TableIdentifier, *, title: str, enabled: bool, with_map: bool = True) -> Card:
    """Return the card of a table or view, by at most ten queries of the index; a map needs most of them.

    Raises:
        TableNotFoundError: There is no table or view of that name.
        IndexUnavailableError: The index does not answer.
    """
    summary = load_summary(index, identifier)
    table, now_ms = summary.table, index.now_ms()
    partitioned = with_map and bool(table.definition.keys)
    state = metastore_state(summary, enabled=enabled, now_ms=now_ms)
    found_map, problem = _map(index, table, now_ms) if partitioned else (None, None)
    return Card(
        title, _kind(table), tuple(_table_facts(summary, state)), map=found_map, problem=problem,
        partitions=table.totals.partitions,
    )  # fmt: skip


def _map(index: Index, table: Table, now_ms: int) -> tuple[SmallMap | None, Problem | None]:
    choice = Choice(unit=None, extent=SMALL)

    def made() -> SmallMap | None:
        found = read_map(index.overviews, table, None, first_keys(table), choice, now_ms)
        return None if found is None or not found.rows else small_map(found)

    # A map that fails must not hide the facts of the card.
    found = _tried(f"map of {table.identifier}", made)
    return (None, found) if isinstance(found, Problem) else (found, None)


def _kind(table: Table) -> str:
    kind = {TableType.MANAGED: "managed table", TableType.EXTERNAL: "external table", TableType.VIEW: "view"}
    return kind[table.definition.table_type]


def _table_facts(summary: TableSummary, state: DeliveryState) -> list[Fact]:
    table = summary.table
    of, is_view = table.definition, table.definition.table_type is TableType.VIEW
    keys = [f"{key.name} {str(key.type).upper()}" for key in of.keys]
    shown = [part for key in keys[:_KEYS] for part in (", ", key)][1:]
    if len(keys) > _KEYS:
        shown.append(f" and {len(keys) - _KEYS} more")
    facts = [] if is_view else [Fact("Location", (of.location,)), Fact("Format", (of.format,))]
    facts.append(
        Fact("Keys", (*shown, f" ({of.partition_mode})") if keys and not is_view else tuple(shown) or ("none",))
    )
    facts.append(Fact("Size", (_size(table),)))
    committed = "" if summary.committed_at_ms is None else f", committed {formats.instant(summary.committed_at_ms)}"
    facts.append(Fact("Version", (f"{table.version}{committed}",)))
    facts.append(Fact("Metastore", (state.word, f": {state.detail}" if state.detail else "")))
    if not is_view:
        at = summary.verified_at_ms
        compared = "never as a whole with the store" if at is None else f"with the store {formats.instant(at)}"
        facts.append(Fact("Compared", (compared,)))
    return facts


def _size(table: Table) -> str:
    of = table.totals
    partitions = counted(of.partitions, "partition")
    if table.definition.table_type is TableType.VIEW:
        return partitions
    rows = "rows not all counted" if of.rows is None else counted(of.rows, "row")
    sizes = f"{counted(of.files, 'file')}, {formats.size(of.bytes)}, {rows}"
    return f"{partitions}, {sizes}" if table.definition.keys else sizes


def catalog_card(index: Index, settings: Settings, *, enabled: bool) -> Card:
    """Return the card of a catalog, by three queries of the index.

    Raises:
        IndexUnavailableError: The index does not answer.
    """
    now_ms = index.now_ms()
    listing = index.overviews.tables.find(limit=TABLES)
    pending = ""
    if listing.pending:
        failed = f", {listing.failed:,} of them tried in vain" if listing.failed else ""
        pending = f": {counted(listing.pending, 'change')} pending{failed}"
    sums = (
        f"{counted(listing.partitions, 'partition')}, {counted(listing.files, 'file')}, {formats.size(listing.bytes)}"
    )
    facts = (
        Fact("Index", (shown_index(settings.index),)),
        Fact("Warehouse", (settings.warehouse,)),
        Fact("Metastore", (settings.metastore or "none", pending)),
        Fact("Tables", (f"{counted(listing.tables, 'table')}: {sums}" if listing.tables else "none",)),
    )
    columns = _COLUMNS if enabled else _COLUMNS[:-1]
    fields = [_fields(each, enabled=enabled, now_ms=now_ms) for each in listing.page]
    rows = shown_rows(columns, fields, listing.tables, "No table is registered yet.")
    return Card(settings.name, "catalog", facts, rows)


def _fields(of: TableSummary, *, enabled: bool, now_ms: int) -> dict[str, object]:
    totals = of.table.totals
    return {
        "table": of.table.identifier, "keys": ", ".join(key.name for key in of.table.definition.keys) or None,
        "partitions": totals.partitions, "files": totals.files, "bytes": totals.bytes,
        "committed_at_ms": of.committed_at_ms,
        "metastore": metastore_state(of, enabled=enabled, now_ms=now_ms).word,
    }  # fmt: skip
