"""Records a repair, finished or failed, in the index, which shows it in the table's history of repairs."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import CatalogExtError
from catalog_ext.metastore.index.write.repairs import MOST_SKIPPED, RepairRecord, SkippedPath
from catalog_ext.metastore.runtime.processes import this_process
from catalog_ext.metastore.runtime.users import signed

if TYPE_CHECKING:
    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.repair.options import RepairOptions
    from catalog_ext.scan.scratch import Scratch

logger = logging.getLogger(__name__)


class RepairRecorder:
    """Measures the duration of one repair, and writes its row when it has ended."""

    def __init__(self, index: Index, table: Table, options: RepairOptions, scratch: Scratch) -> None:
        self._index = index
        self._table = table
        self._options = options
        self._scratch = scratch
        self._began = time.monotonic()

    def finished(self, version: int) -> None:
        """Record that the repair ended with the table at this version.

        Previews are not recorded, and neither are the frequent checks of single partitions that found nothing.

        Raises:
            IndexUnavailableError: The database is gone or locked.
        """
        looked = self._options.names is not None and not self._scratch.count("SELECT count(*) FROM entries")
        if not self._options.dry_run and not looked:
            self._index.repairs.add(self._record(version, None), self._skipped())

    def failed(self, version: int, error: BaseException) -> None:
        """Record the error that stopped the repair, if the index can be written. The caller raises the error itself."""
        if self._options.dry_run:
            return
        message = error.message if isinstance(error, CatalogExtError) else f"{type(error).__name__}: {error}"
        try:
            self._index.repairs.add(self._record(version, message), self._skipped())
        except CatalogExtError as unkept:
            logger.warning(
                "The failed repair of table %s is not among its repairs: %s", self._table.identifier, unkept.message
            )

    def _skipped(self) -> list[SkippedPath] | None:
        """Return the first skipped paths; None for a check of single partitions, which is too frequent."""
        if self._options.names is not None:
            return None
        query = "SELECT path, partition, files, bytes, reason FROM entries WHERE action = 'skip' ORDER BY seq LIMIT ?"
        return [SkippedPath(*row) for row in self._scratch.rows(query, (MOST_SKIPPED,))]

    def _record(self, version: int, error: str | None) -> RepairRecord:
        added, dropped, changed = (
            self._scratch.count("SELECT count(DISTINCT partition) FROM entries WHERE action = ?", (action,))
            for action in ("add", "drop", "change")
        )
        skipped = self._scratch.count("SELECT count(*) FROM entries WHERE action = 'skip'")
        return RepairRecord(
            table_id=self._table.table_id,
            duration_ms=round((time.monotonic() - self._began) * 1000),
            mode=str(self._options.mode),
            limited_to=self._options.where,
            strict=int(self._options.strict),
            owner=signed(this_process()),
            added=added,
            dropped=dropped,
            changed=changed,
            skipped=skipped,
            version_before=self._table.version,
            version_after=version,
            error=error,
        )
