"""The class ``CatalogTable``: one table or view of a catalog, with its most common operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from catalog_ext.display import Displayed, display
from catalog_ext.tables.datasets import Datasets

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    import pyarrow.dataset as pads

    from catalog_ext.context import Context
    from catalog_ext.display import Picture, Rows
    from catalog_ext.metastore.index.tables.tables import TableVersion
    from catalog_ext.metastore.model.as_of import Version
    from catalog_ext.metastore.model.identifiers import TableIdentifier
    from catalog_ext.metastore.predicates.conditions import Where
    from catalog_ext.tables.reads import TableReads
    from catalog_ext.writes.maintenance import WriteMaintenance
    from catalog_ext.writes.status import StatusEntry

Keys: TypeAlias = "str | Sequence[str] | None"


class CatalogTable(Displayed):
    """A table or view of a catalog, by its name. Each call reads the index again; a notebook shows it as a card."""

    def __init__(
        self, context: Context, reads: TableReads, maintenance: WriteMaintenance, identifier: TableIdentifier
    ) -> None:
        self._context = context
        self._reads = reads
        self._maintenance = maintenance
        self._identifier = identifier

    @property
    def name(self) -> str:
        """The table's name, with the catalog's name in front."""
        return f"{self._context.settings.name}.{self._identifier}"

    def partitions(self, where: Where = None, *, version: Version | None = None) -> pa.Table:
        """Return the registered partitions; see ``Catalog.partitions``."""
        self._context.require_open()
        return self._reads.partitions(str(self._identifier), where, version=version)

    def files(self, where: Where = None, *, version: Version | None = None) -> pa.Table:
        """Return the registered files; see ``Catalog.files``."""
        self._context.require_open()
        return self._reads.files(str(self._identifier), where, version=version)

    def dataset(self, where: Where = None, *, version: Version | None = None) -> pads.Dataset:
        """Return the table as a pyarrow dataset; see ``Catalog.dataset``."""
        self._context.require_open()
        return Datasets(self._context).dataset(str(self._identifier), where, version=version)

    def history(self) -> Rows[TableVersion]:
        """Return the commits, newest first; see ``Catalog.history``."""
        self._context.require_open()
        return self._maintenance.history(str(self._identifier))

    def status(self) -> Rows[StatusEntry]:
        """Return the work in flight; see ``Catalog.status``."""
        self._context.require_open()
        return self._maintenance.status(str(self._identifier))

    def plot_partitions(
        self, keys: Keys = None, *, measure: str = "bytes", where: Where = None, unit: str | None = None
    ) -> Picture:
        """Draw the map of the partitions.

        For a single key of dates it is a calendar, in which missing days are framed red. If there are too many dates,
        the newest are drawn, and of other values the first: ``where`` selects others.

        Args:
            keys: The key of the columns, or the two keys of columns and rows; the first two by default.
            measure: The measure shown by the colour: ``bytes``, ``files``, ``rows``, ``partitions``, ``mean`` (bytes of
                a file) or ``age`` (of the last change).
            where: A condition, or a partition spec, that partitions satisfy.
            unit: ``day``, ``month`` or ``year``, to which dates are truncated; by default the finest that fits.

        Returns:
            The picture, which a notebook's cell shows; ``svg`` is the document.

        Raises:
            TableNotFoundError: The table does not exist any more.
            InvalidInputError: An argument is not valid, or the table has no partition columns.
            InvalidPredicateError, InvalidValueError: ``where`` is not valid for the table, or the database cannot
                evaluate it.
        """
        self._context.require_open()
        return display().picture(self, keys=keys, measure=measure, where=where, unit=unit)


class TablesByName:
    """The part of a catalog that returns single tables as ``CatalogTable``."""

    def __init__(self, context: Context, reads: TableReads, maintenance: WriteMaintenance) -> None:
        self._context = context
        self._reads = reads
        self._maintenance = maintenance

    def table(self, name: str) -> CatalogTable:
        """Return the table or view with a name: its own methods, its card and its picture in a notebook.

        Raises:
            TableNotFoundError: There is no table or view of that name.
        """
        identifier = self._context.identify(name)
        self._context.index.views.load_relation(identifier)
        return CatalogTable(self._context, self._reads, self._maintenance, identifier)
