"""The real service in this process, behind a recorder, and the tables that tests give it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from catalog_ext.catalog import connect
from catalog_ext.metastore.model.tables import PARTITION_MODE_PROPERTY
from catalog_ext.service.server import Service
from tests.kit.index_cases import empty_index, without_waiting_for_the_disk
from tests.servers.recorder import Recorder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from catalog_ext.metastore.model.tables import Table


class RecordedService(Recorder):
    """A service with a recorder before it.

    Attributes:
        catalog: What the service serves.
    """

    def __init__(self, catalog: Catalog, service: Service) -> None:
        super().__init__(service)
        self.catalog = catalog

    def add_table(
        self,
        name: str,
        location: str | Path,
        columns: Mapping[str, str],
        keys: Mapping[str, str],
        *,
        file_format: str = "parquet",
        mode: str | None = None,
        options: Mapping[str, str] | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> Table:
        """Register ``sales.<name>`` with everything that lies at the location now, in the place of an older one."""
        table = f"sales.{name}"
        if name in self.catalog.list_tables("sales"):
            self.catalog.unregister_table(table)
        given = {} if mode is None else {PARTITION_MODE_PROPERTY: mode}
        self.catalog.register_table(
            table,
            location=str(location),
            format=file_format,
            partition_columns=keys,
            schema=", ".join(f"`{column}` {kind}" for column, kind in columns.items()),
            options=options,
            properties={**given, **(properties or {})},
        )
        self.catalog.repair_partitions(table, mode="add", strict=True)
        return self.table(name)

    def table(self, name: str) -> Table:
        """Return the table ``sales.<name>`` as it is now."""
        return self.catalog.load_table(f"sales.{name}")


@contextmanager
def serve_recorded(folder: Path, storage: Mapping[str, Any] | None = None) -> Iterator[RecordedService]:
    """Serve a catalog on an index in the folder, with the namespaces ``default`` and ``sales`` and no tables."""
    index = folder / "index.db"
    index.write_bytes(empty_index())
    with (
        without_waiting_for_the_disk(),
        connect(index=str(index), metastore=None, warehouse=str(folder / "warehouse"), storage=storage) as catalog,
        Service(catalog) as service,
        RecordedService(catalog, service) as recorded,
    ):
        catalog.create_namespace("default")
        catalog.create_namespace("sales", comment="what we sell")
        yield recorded
