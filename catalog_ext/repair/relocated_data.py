"""Reports what relocating overwrites have put below a table's location and the index knows nothing of.

A repair registers the partitions' own directories. Where an index has been restored, or a table registered again, these
have the rows that an overwrite has replaced, and those of the overwrite lie where nothing but its transaction led to.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import LocationNotFoundError
from catalog_ext.metastore.index.write.transactions import IN_FLIGHT
from catalog_ext.metastore.storage.entries import EntryKind
from catalog_ext.metastore.storage.listed import ListedFile
from catalog_ext.metastore.storage.listing import list_tree
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.transactions.staging_locations import DATA, below
from catalog_ext.repair.report import UNKNOWN_RELOCATION

if TYPE_CHECKING:
    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.storage.store import Storage
    from catalog_ext.scan.scratch import Scratch

logger = logging.getLogger(__name__)


def report_unknown_relocations(index: Index, storage: Storage, table: Table, scratch: Scratch) -> None:
    """Report as skipped the directories of overwrites of which no version of the table that is kept has anything.

    Raises:
        StorageError: The store refuses or does not answer.
    """
    root = below(Location.parse(table.definition.location), DATA)
    try:
        found = [e.location.name for e in storage.list_directory(root) if e.kind is EntryKind.DIRECTORY]
    except LocationNotFoundError:
        return
    # Asked after the listing: an overwrite is known before it has files.
    known = {t.transaction_id for t in index.list_transactions(states=IN_FLIGHT)}
    known |= set(index.uncommitted_ids(table.table_id, table.version))
    known |= index.relocation_ids(table.table_id, str(root))
    for name in sorted(set(found) - known):
        files = size = 0
        for event in list_tree(
            storage, below(root, name), descend=lambda _: True, depth_hint=len(table.definition.keys)
        ):
            if isinstance(event, ListedFile):
                files, size = files + 1, size + event.size
        if files:
            scratch.insert("skipped", [(f"{DATA}/{name}", "", files, size, UNKNOWN_RELOCATION)], columns=5, ignore=True)
            logger.warning("%s of table %s: %s.", f"{DATA}/{name}", table.identifier, UNKNOWN_RELOCATION)
