"""Drops and unregisters tables."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import ConflictError
from catalog_ext.metastore.model.tables import TableType
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.transactions.staging_locations import DATA, below

if TYPE_CHECKING:
    from catalog_ext.context import Context
    from catalog_ext.metastore.model.tables import Table

logger = logging.getLogger(__name__)


class TableRemoval:
    """Takes tables out of the index, with or without their files."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def unregister_table(self, table: str) -> Table:
        """Forget a table; its files and the metastore's table stay.

        Raises:
            TableNotFoundError: There is none of that name.
            ConflictError: Files of the table are being moved, or rows of a stream wait; nothing was done.
        """
        there = self._context.load_table(table)
        waiting = next(self._context.index.waiting_files(there.table_id), None)
        if waiting is not None:
            raise ConflictError(
                f"Rows of a stream into table {there.identifier} wait for their partitions to be due, such as "
                f"{waiting.partition[:200]!r}: the files that stay would be without them. Nothing was done. Let the "
                f"query end, or commit them: `catalog-ext release-waiting {there.identifier}`, or CALL "
                f"system.release_waiting(table => '{there.identifier}').",
                {"table": str(there.identifier), "partition": waiting.partition[:200]},
            )
        relocated = below(Location.parse(there.definition.location), DATA)
        if self._context.index.relocation_ids(there.table_id, str(relocated)):
            logger.warning(
                "Overwrites have relocated partitions of table %s to directories in %s, which the metastore knows: "
                "take the table into an index again by import, not by register.", there.identifier, relocated,
            )  # fmt: skip
        with self._context.transactions.dropping(there):
            return self._context.index.drop_table(there.identifier, deliver=False)

    def drop_table(self, table: str, *, purge: bool = False) -> Table:
        """Drop a table, here and in the metastore; the files of a managed one are deleted, an external one's stay.

        Args:
            table: Its name.
            purge: Said with ``DROP TABLE … PURGE``; there is no trash, so that it changes nothing for a managed table.

        Raises:
            TableNotFoundError: There is none of that name.
            ConflictError: Files of the table are being moved, or a table is being created where it lies; nothing was
                done.
            TableLayoutError: Another table lies in the directory that would be deleted; nothing was done.
            StorageError: The table is gone, and its files could not all be deleted: ``recover`` deletes the rest.
        """
        there = self._context.load_table(table)
        deliver = self._context.metastore.accepts(there.definition)
        deletes = there.definition.table_type is TableType.MANAGED
        with self._context.transactions.dropping(there):
            dropped = self._context.index.drop_table(there.identifier, deliver=deliver, purge=purge, deletes=deletes)
        try:
            # Before the metastore hears of it: whoever can make a table of that name would make it here.
            if deletes:
                self._context.transactions.delete_dropped(dropped)
        finally:
            self._context.sync.publish(dropped.table_id)
        return dropped
