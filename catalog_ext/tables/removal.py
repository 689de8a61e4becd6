"""Drops and unregisters tables."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from catalog_ext.conf.write_keys import lock_settings
from catalog_ext.metastore.commit.lock_settings import WITHOUT_LOCKS
from catalog_ext.metastore.errors import IndexDatabaseError, StorageError, TableLayoutError
from catalog_ext.metastore.model.tables import TableType
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.transactions.staging_locations import DATA, below

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog_ext.context import Context
    from catalog_ext.metastore.model.tables import Table

logger = logging.getLogger(__name__)


class TableRemoval:
    """Removes tables from the index, with or without their files."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def unregister_table(self, table: str) -> Table:
        """Remove a table from the index. Its files and the metastore's table stay.

        Raises:
            TableNotFoundError: There is no table of that name.
            ConflictError: Files of the table are being moved, or rows of a stream wait; nothing was done.
        """
        there = self._context.load_table(table)
        # Recover a stream that has died first: its commit may leave files that wait until their partition is due, and a
        # table with such files must not be unregistered.
        self._context.transactions.recover_before(there)
        relocated = below(Location.parse(there.definition.location), DATA)
        relocations = self._context.index.partitions.relocation_ids(there.table_id, str(relocated))
        gone = self._context.index.tables.drop(there.identifier, deliver=False, keeps_files=True)
        if relocations:
            logger.warning(
                "Overwrites have relocated partitions of table %s to directories in %s, which the metastore knows: "
                "take the table into an index again by import, not by register.", there.identifier, relocated,
            )  # fmt: skip
        return gone

    def drop_table(self, table: str, *, purge: bool = False, session: Mapping[str, str] | None = None) -> Table:
        """Drop a table from the index and the metastore. A managed table's files are deleted, an external table's stay.

        Args:
            table: The table's name.
            purge: ``DROP TABLE … PURGE``; there is no trash, so it changes nothing for a managed table.
            session: The caller's session settings for Hive locks, by key; they override the table's properties.

        Raises:
            TableNotFoundError: There is no table of that name.
            ConflictError: Files of the table are being moved, or a table is being created at its location; nothing was
                done.
            TableLayoutError: Another table, or the index, lies in the directory that would be deleted; nothing was
                done.
            StorageError, IndexDatabaseError: If the message says that the table is dropped, some of its files could not
                be deleted, and ``recover`` deletes the rest. Otherwise nothing was done.
            HiveLockTimeoutError: Hive locks are required, and other sessions hold them; nothing was done.
            MetastoreError: The metastore grants no locks, or does not answer; nothing was done.
        """
        there = self._context.load_table(table)
        transactions = self._context.transactions
        locks = lock_settings(session or {}, there.definition.properties, self._context.settings.conf)
        transactions.recover_before(there)
        with transactions.locks.of_drop(there, locks):
            if locks != WITHOUT_LOCKS:
                # Load the table again: another process may have altered it during the wait for the lock.
                there = self._context.load_table(table)
            return self._drop(there, purge=purge)

    def _drop(self, there: Table, *, purge: bool) -> Table:
        deliver = self._context.metastore.accepts(there.definition)
        deletes = there.definition.table_type is TableType.MANAGED
        if deletes:
            self._require_no_index(there)
        dropped = None
        try:
            with self._context.transactions.waiting.dropping(there):
                dropped = self._context.index.tables.drop(
                    there.identifier, deliver=deliver, purge=purge, deletes=deletes
                )
            try:
                # Delete the files before the metastore gets the drop: afterwards another engine may create a table of
                # that name in the same directory.
                if deletes:
                    self._context.transactions.delete_dropped(dropped)
            finally:
                self._context.sync.publish(dropped.table_id)
        except (IndexDatabaseError, StorageError) as error:
            if dropped is None:
                raise
            name = str(there.identifier)
            raise error.about(
                f"Table {name} is dropped, and not all that belongs to it is deleted; `catalog-ext recover` goes on",
                {"table": name},
            ) from error
        return dropped

    def _require_no_index(self, there: Table) -> None:
        location = there.definition.location
        index = self._context.storage.index_within(location)
        if index is not None:
            raise TableLayoutError(
                f"Table {there.identifier} cannot be dropped: the index {index} lies in the directory {location} that "
                "would be deleted. Unregister the table, which keeps all files, or move the index to another folder.",
                {"table": str(there.identifier), "location": location, "index": index},
            )
