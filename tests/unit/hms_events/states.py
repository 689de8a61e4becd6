"""Sets what the index remembers of following."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from catalog_ext.metastore.index.database.schema import followed_metastore

if TYPE_CHECKING:
    from catalog_ext.catalog import Catalog


def set_cursor(catalog: Catalog, event_id: int | None) -> None:
    """Make an event the last one that was dealt with."""
    statement = sa.update(followed_metastore).values(event_id=event_id)
    catalog.index._database.write(lambda connection: connection.execute(statement))
