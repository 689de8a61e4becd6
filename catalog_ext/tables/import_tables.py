"""Imports all tables of a database, or those that match a pattern, from the metastore, several in parallel."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from catalog_ext.display import display
from catalog_ext.metastore.errors import (
    CatalogExtError,
    IndexDatabaseError,
    InvalidInputError,
    MetastoreUnavailableError,
    NamespaceNotFoundError,
    TableAlreadyExistsError,
)
from catalog_ext.metastore.model.identifiers import TableIdentifier, TablePattern, no_table_matches
from catalog_ext.metastore.storage.locations import locations_equal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from catalog_ext.context import Context
    from catalog_ext.tables.hive_import import HiveImport

TAKEN, THERE, REFUSED = "taken", "there already", "refused"
JOBS = 4
"""The default number of tables that are imported in parallel."""


@dataclass(frozen=True, slots=True)
class ImportEntry:
    """The outcome of the import of one table.

    Attributes:
        table: ``namespace.table``.
        action: ``taken`` (imported), ``there already`` (with its files at the same location) or ``refused``.
        partitions: The number of the table's partitions in the index.
        files: The number of files in these partitions.
        code: The error's code; None without an error.
        reason: The reason of a refusal, or a remark.
    """

    table: str
    action: str
    partitions: int = 0
    files: int = 0
    code: str | None = None
    reason: str | None = None


class ImportTables:
    """Imports many tables of the metastore."""

    def __init__(self, context: Context, hive_import: HiveImport) -> None:
        self._context = context
        self._hive_import = hive_import

    def import_tables(
        self, pattern: str, properties: Mapping[str, str] | None = None, *, jobs: int = JOBS
    ) -> Iterator[ImportEntry]:
        """Import the metastore's tables that match a pattern; yield the outcome of each, in the order of names.

        A table that fails does not stop the others. Nothing changes in the metastore.

        Args:
            pattern: A database (``sales``), or a database and its tables with ``*`` and ``?`` (``sales.fact_*``,
                ``*.*``).
            properties: Properties for each imported table.
            jobs: The number of tables imported in parallel.

        Raises:
            InvalidInputError: The pattern or the number is not valid.
            NamespaceNotFoundError: The metastore has no such database.
            TableNotFoundError: The metastore has no table that matches the pattern.
            MetastoreUnavailableError: The metastore does not answer; tables that were imported before stay.
        """
        if jobs < 1:
            raise InvalidInputError(f"{jobs} tables cannot be imported at a time. Give a number from 1 on.")
        return self._imported(self._found(pattern), properties or {}, jobs)

    def _found(self, text: str) -> list[TableIdentifier]:
        pattern = TablePattern.parse(text, self._context.settings.name)
        client = self._context.metastore.client()
        chosen = [name for name in client.list_databases() if pattern.has_namespace(name)]
        if not chosen:
            raise NamespaceNotFoundError(
                f"The metastore has no database {pattern.namespaces[:120]!r} from which tables could be imported.",
                {"namespace": pattern.namespaces[:120]},
            )
        found = [
            TableIdentifier(database, name)
            for database in sorted(chosen)
            for name in sorted(client.list_tables(database))
            if pattern.has_table(name)
        ]
        # A database without tables is no error, but a pattern for table names must match a table.
        if not found and pattern.tables != "*":
            raise no_table_matches(text, "The metastore has no table")
        return found

    def _imported(
        self, found: list[TableIdentifier], properties: Mapping[str, str], jobs: int
    ) -> Iterator[ImportEntry]:
        pool = ThreadPoolExecutor(jobs, thread_name_prefix="catalog-ext-import")
        try:
            with display().steps("Importing tables", len(found)) as ended:
                for entry in pool.map(lambda identifier: self._one(identifier, properties), found):
                    ended(entry.table)
                    yield entry
        finally:
            # Start no further imports if the metastore does not answer, or if the caller stops reading.
            pool.shutdown(cancel_futures=True)

    def _one(self, identifier: TableIdentifier, properties: Mapping[str, str]) -> ImportEntry:
        name = str(identifier)
        try:
            table = self._hive_import.import_table(name, properties)
        except (MetastoreUnavailableError, IndexDatabaseError):
            raise
        except TableAlreadyExistsError as error:
            return self._there(identifier, error)
        except CatalogExtError as error:
            return ImportEntry(name, REFUSED, code=error.code, reason=error.message)
        remark = None
        if table.definition.bucketed_by is not None:
            remark = f"bucketed ({table.definition.bucketed_by}): it is read, and not written"
        return ImportEntry(name, TAKEN, table.totals.partitions, table.totals.files, reason=remark)

    def _there(self, identifier: TableIdentifier, error: TableAlreadyExistsError) -> ImportEntry:
        ours = self._context.find_table(identifier)
        theirs = self._context.metastore.client().get_table(identifier.namespace, identifier.name)
        if ours is None or not locations_equal(ours.definition.location, theirs.location):
            return ImportEntry(str(identifier), REFUSED, code=error.code, reason=error.message)
        return ImportEntry(str(identifier), THERE, ours.totals.partitions, ours.totals.files)
