"""What relocating overwrites have left at the old locations: files of old versions, which stay until vacuum."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.removals import Removal
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.transactions.identity import has_own_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.tables import Table


def replaced_by_relocations(index: Index, table: Table) -> Iterator[Removal]:
    """Yield the files that no version from the table's own on knows, and that a relocation has left where they were.

    Nobody may take them for new ones when their partition is gone; who brings it back at its default location removes
    them, unless that place was named by hand. What is not
    as the index knew it is another file under the same name, whatever the store's clock says of it; names that carry a
    transaction's id are never given again, and come without a size and a time.
    """
    versions = index.relocations(table.table_id)
    if not versions:
        return
    for page in index.ended_files(table, table.version):
        for file in page:
            if file.version in versions:
                own = has_own_name(Location.parse(file.uri))
                yield Removal(file.uri) if own else Removal(file.uri, file.size, file.modified_ms)
