"""What relocating overwrites have left at the old locations: files of old versions, which stay until vacuum."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.tables import Table


def replaced_by_relocations(index: Index, table: Table) -> Iterator[tuple[str, int]]:
    """Yield the files that no version from the table's own on knows, and that a relocation has left where they were.

    Nobody may take them for new ones when their partition is gone, or comes back at its default location. A file that
    was modified after the given time is another one under the same name.

    Yields:
        The URI, and when the overwrite was committed (milliseconds since the epoch, UTC).
    """
    versions = index.relocations(table.table_id)
    if not versions:
        return
    for page in index.ended_files(table, table.version):
        for file in page:
            if file.version in versions:
                yield file.uri, file.ended_ms
