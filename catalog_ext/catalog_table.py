"""One table of a catalog, with what one asks of it: its card, its history, its picture; and the catalog's own card."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, TypeVar

from catalog_ext.metastore.errors import InvalidInputError
from catalog_ext.metastore.index import Unit
from catalog_ext.metastore.index.database.urls import shown_index
from catalog_ext.metastore.model.views import View
from catalog_ext.metastore.predicates.conditions import Where, bound_where
from catalog_ext.notebook.cards import card_html, card_text, catalog_card, table_card
from catalog_ext.notebook.plots import plot_map
from catalog_ext.overview.partition_map import Choice, Measure, first_keys, keys_by_name, read_map
from catalog_ext.tables.datasets import Datasets

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    import pyarrow.dataset as pads
    from matplotlib.axes import Axes

    from catalog_ext.context import Context
    from catalog_ext.metastore.backports import StrEnum
    from catalog_ext.metastore.index.tables.tables import TableVersion
    from catalog_ext.metastore.model.identifiers import TableIdentifier
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.model.values import Key
    from catalog_ext.notebook.cards import Card
    from catalog_ext.notebook.rows import Rows
    from catalog_ext.tables.reads import TableReads
    from catalog_ext.writes.maintenance import WriteMaintenance
    from catalog_ext.writes.status import StatusEntry

_Choice = TypeVar("_Choice", bound="StrEnum")
Keys: TypeAlias = "str | Sequence[str] | None"


class CatalogTable:
    """A table or view of a catalog, by its name: it is asked for anew each time, and shows itself in a notebook."""

    def __init__(
        self, context: Context, reads: TableReads, maintenance: WriteMaintenance, identifier: TableIdentifier
    ) -> None:
        self._context = context
        self._reads = reads
        self._maintenance = maintenance
        self._identifier = identifier

    @property
    def name(self) -> str:
        """Its name, with the catalog's in front."""
        return f"{self._context.settings.name}.{self._identifier}"

    def partitions(self, where: Where = None) -> pa.Table:
        """Return the registered partitions; see ``Catalog.partitions``."""
        self._context.require_open()
        return self._reads.partitions(str(self._identifier), where)

    def files(self, where: Where = None) -> pa.Table:
        """Return the registered files; see ``Catalog.files``."""
        self._context.require_open()
        return self._reads.files(str(self._identifier), where)

    def dataset(self, where: Where = None) -> pads.Dataset:
        """Return the table as a dataset of pyarrow; see ``Catalog.dataset``."""
        self._context.require_open()
        return Datasets(self._context).dataset(str(self._identifier), where)

    def history(self) -> Rows[TableVersion]:
        """Return the commits, newest first; see ``Catalog.history``."""
        self._context.require_open()
        return self._maintenance.history(str(self._identifier))

    def status(self) -> Rows[StatusEntry]:
        """Return what is in flight; see ``Catalog.status``."""
        self._context.require_open()
        return self._maintenance.status(str(self._identifier))

    def plot_partitions(
        self,
        keys: Keys = None,
        *,
        measure: str = "bytes",
        where: Where = None,
        unit: str | None = None,
        ax: Axes | None = None,
    ) -> Axes:
        """Draw the map of the partitions with matplotlib (``catalog-ext[plot]``), and return what it is drawn on.

        A date alone is a calendar, and what has no partition in a range of dates is framed red. Of many dates the
        newest are drawn, of many values the first: ``where`` chooses others.

        Args:
            keys: The key across, or the two across and down; the first two by default.
            measure: What the colour says: ``bytes``, ``files``, ``rows``, ``partitions``, ``mean`` (bytes of a file) or
                ``age`` (of the last change).
            where: A condition, or a partition spec, that partitions satisfy.
            unit: ``day``, ``month`` or ``year``, by which dates are counted; by default the finest of which all fit.
            ax: Where it is drawn; a figure of its own by default.

        Raises:
            EnvironmentSetupError: matplotlib is not installed.
            TableNotFoundError: The table is gone.
            InvalidInputError: An argument is not of its form, or there is no key to draw by.
            InvalidPredicateError, InvalidValueError: ``where`` is not valid for the table, or the index cannot count by
                it.
        """
        self._context.require_open()
        found = self._context.index.views.load_relation(self._identifier)
        table = found.table if isinstance(found, View) else found
        choice = Choice(_one_of(Measure, measure, "measure"), None if unit is None else _one_of(Unit, unit, "unit"))
        shown = read_map(
            self._context.index.overviews, table, bound_where(table, where), _chosen(table, keys), choice,
            self._context.index.now_ms(),
        )  # fmt: skip
        if shown is None:
            raise InvalidInputError(
                f"Table {self._identifier} has no partition columns: there is no map of its partitions.",
                {"table": str(self._identifier)},
            )
        return plot_map(shown, self.name, ax, table.totals.partitions if where is None else None)

    def __repr__(self) -> str:
        return card_text(self.name, lambda: self._card(with_map=False))

    def _repr_html_(self) -> str:
        return card_html(self.name, lambda: self._card(with_map=True))

    def _card(self, *, with_map: bool) -> Card:
        context = self._context
        return table_card(
            context.open_index, self._identifier, title=self.name, enabled=context.metastore.enabled, with_map=with_map
        )


class TablesByName:
    """The tables of a catalog, one at a time."""

    def __init__(self, context: Context, reads: TableReads, maintenance: WriteMaintenance) -> None:
        self._context = context
        self._reads = reads
        self._maintenance = maintenance

    def table(self, name: str) -> CatalogTable:
        """Return the table or view of a name: what one asks of it alone, its card and its picture in a notebook.

        Raises:
            TableNotFoundError: There is neither.
        """
        identifier = self._context.identify(name)
        self._context.index.views.load_relation(identifier)
        return CatalogTable(self._context, self._reads, self._maintenance, identifier)


class ShownCatalog:
    """What a catalog shows of itself: a line of text, and a card in a notebook."""

    _context: Context

    def __repr__(self) -> str:
        state = " (closed)" if self._context.closed.is_set() else ""
        of = self._context.settings
        return f"<Catalog {of.name}{state}: index {shown_index(of.index)}, warehouse {of.warehouse}>"

    def _repr_html_(self) -> str:
        of = self._context
        return card_html(
            of.settings.name, lambda: catalog_card(of.open_index, of.settings, enabled=of.metastore.enabled)
        )  # fmt: skip


def _chosen(table: Table, keys: Keys) -> tuple[Key, ...]:
    if keys is None:
        return first_keys(table)
    names = [keys] if isinstance(keys, str) else list(keys)
    by_name = {name.lower(): key for name, key in keys_by_name(table).items()}
    unknown = [name for name in names if name.lower() not in by_name]
    if unknown or len(set(map(str.lower, names))) != len(names) or not 1 <= len(names) <= 2:
        shown, there = ", ".join(name[:80] for name in names[:10]), ", ".join(keys_by_name(table)) or "none"
        raise InvalidInputError(
            f"keys is {shown or 'empty'}; a map of table {table.identifier} is over one or two of its keys "
            f"({there}; of more than eight the first eight).",
            {"table": str(table.identifier)},
        )
    return tuple(by_name[name.lower()] for name in names)


def _one_of(kind: type[_Choice], given: str, what: str) -> _Choice:
    if given not in list(kind):
        raise InvalidInputError(f"{what} is {str(given)[:40]!r}; it is one of {', '.join(kind)}.")
    return kind(given)
