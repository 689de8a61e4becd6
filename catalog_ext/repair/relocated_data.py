"""Reports directories below a table's location that relocating overwrites have written and the index does not know.

A relocating overwrite writes a partition's rows into a new directory. A repair registers the partitions' default
directories. After an index was restored, or a table registered again, the default directories hold the replaced rows,
and only the overwrite's lost transaction knew the directory of the new rows.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import LocationNotFoundError, MetastoreError
from catalog_ext.metastore.index.write.transaction_rows import IN_FLIGHT
from catalog_ext.metastore.storage.entries import EntryKind, ListedFile
from catalog_ext.metastore.storage.listing import list_tree
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.transactions.staging_locations import DATA, below
from catalog_ext.repair.report import UNKNOWN_RELOCATION

if TYPE_CHECKING:
    from collections.abc import Collection

    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.storage.store import Storage
    from catalog_ext.metastore.transactions.deletion_gate import StillNamed
    from catalog_ext.scan.scratch import Scratch

logger = logging.getLogger(__name__)


def report_unknown_relocations(
    index: Index, storage: Storage, table: Table, scratch: Scratch, named: StillNamed | None
) -> None:
    """Report directories of unknown relocating overwrites as skipped, if a partition may need them.

    If the metastore can be asked, only the directories at which it has a partition are reported. Neither index nor
    metastore names the files in the other directories: ``vacuum`` reports them.

    Args:
        index: The index.
        storage: The stores.
        table: The table.
        scratch: Gets the skipped paths.
        named: Returns the metastore's partitions; None if the catalog has no metastore.

    Raises:
        StorageError: The store refuses or does not answer.
    """
    root = below(Location.parse(table.definition.location), DATA)
    try:
        found = {e.location.name for e in storage.list_directory(root) if e.kind is EntryKind.DIRECTORY}
    except LocationNotFoundError:
        return
    # Read the transactions after the listing: an overwrite is in the index before it writes files, so every listed
    # overwrite of this index is known.
    known = {t.transaction_id for t in index.transactions.all(states=IN_FLIGHT)}
    known |= set(index.transactions.uncommitted_ids(table.table_id, table.version))
    known |= index.partitions.relocation_ids(table.table_id, str(root))
    # Transactions that the index has deleted since, whose statements dropped or moved their partitions, are known too.
    known |= index.forgotten_transactions.of_table(table.table_id, found - known)
    for name in sorted(found - known):
        files = size = 0
        partitions: set[str] = set()
        for event in list_tree(
            storage, below(root, name), descend=lambda _: True, depth_hint=len(table.definition.keys)
        ):
            if isinstance(event, ListedFile):
                files, size = files + 1, size + event.size
                partitions.add(event.directory)
        if files and _may_be_needed(table, f"{root}/{name}", partitions, named):
            scratch.insert("skipped", [(f"{DATA}/{name}", "", files, size, UNKNOWN_RELOCATION)])
            logger.warning("%s of table %s: %s.", f"{DATA}/{name}", table.identifier, UNKNOWN_RELOCATION)


def _may_be_needed(table: Table, base: str, partitions: Collection[str], named: StillNamed | None) -> bool:
    if named is None:
        return True
    try:
        return bool(named(sorted(partitions), [f"{base}/{name}" for name in sorted(partitions)]))
    except MetastoreError as error:
        logger.warning(
            "Table %s: the metastore cannot say whether it has partitions at %s: %s",
            table.identifier, base, error.message,
        )  # fmt: skip
        return True
