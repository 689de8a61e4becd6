"""What relocating overwrites have left at the old locations: files of old versions, which stay until vacuum."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.removals import Removal
from catalog_ext.metastore.commit.transaction import transaction_id_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.tables import Table


def replaced_by_relocations(index: Index, table: Table) -> Iterator[Removal]:
    """Yield the files that a relocating overwrite has replaced and that no later version of the table has named.

    A repair does not take them for new ones when their partition is gone. A path that a later version named again
    (``SET LOCATION``, ``ADD PARTITION … LOCATION``) is not among them, whatever became of it afterwards. A file that
    differs from the one that the index knew is another one under the same name; names that carry a transaction's id
    come without a size, a time and an ETag: the overwrite has also replaced one that was rewritten before it.
    """
    for page in index.ended_files.pages(table, table.version):
        for file in page:
            own = transaction_id_in(file.uri.rpartition("/")[2]) is not None
            yield Removal(file.uri) if own else Removal(file.uri, file.size, file.modified_ms, file.etag)
