"""Publishes tables again: updates a metastore that was lost, replaced or changed to the index's state."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from catalog_ext.identity.record import METASTORE_ID, no_metastore
from catalog_ext.metastore.errors import (
    CatalogExtError,
    IndexDatabaseError,
    InvalidInputError,
    MetastoreUnavailableError,
)
from catalog_ext.metastore.hive.mapping.conversion import to_hive_database, unrepresentable_reason, values_or_none
from catalog_ext.metastore.hive.mapping.model import VIRTUAL_VIEW
from catalog_ext.metastore.hive.outbox.alter_table import make_database
from catalog_ext.metastore.hive.outbox.compare import (
    PartitionDifference,
    check_ours,
    definition_differs,
    key_types_differ,
)
from catalog_ext.metastore.hive.outbox.views import view_differs
from catalog_ext.metastore.index.write.publishing import Publication
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import TableType
from catalog_ext.metastore.predicates.conditions import NameFilter, bound_where
from catalog_ext.sync.metastore_differences import compared_pages, view_partitions
from catalog_ext.sync.tables import find_table, relations, table_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from catalog_ext.metastore.hive.mapping.model import HiveTable
    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore
    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.predicates.conditions import Where
    from catalog_ext.metastore_sync.connection import MetastoreConnection
    from catalog_ext.metastore_sync.sync import MetastoreSync

logger = logging.getLogger(__name__)

_AT_ONCE = 1000
_MOST_NAMES = 100_000
"""The most differing partitions that are collected. If a table has more, all its partitions are published."""
_MOST_NAMED = 1000
"""The most partition names in an entry."""

_TABLE_MISSING = "the table is missing"

IN_SYNC, CREATE, ALTER, PARTITIONS, REFUSED, LEFT_OUT = (
    "in sync", "create", "alter", "partitions", "refused", "left out",
)  # fmt: skip


class PublishEntry(NamedTuple):
    """The result of publishing a table, or in a preview the changes.

    Attributes:
        table: ``namespace.table``.
        action: ``create``, ``alter``, ``partitions``, ``in sync``, ``refused`` (the metastore has another table of this
            name) or ``left out`` (it cannot store the table).
        published: The number of partitions that were added or altered in the metastore.
        dropped: The number of partitions that were dropped in the metastore, because the index does not have them.
        pending: The number of the table's messages that the metastore has not accepted yet.
        error: The reason for ``refused``, ``left out`` or pending messages, or None.
        drops: The names of the dropped partitions, at most a thousand.
        differs: A text on the differences, with counts of partitions (``56 statistics``); None without differences.
    """

    table: str
    action: str
    published: int = 0
    dropped: int = 0
    pending: int = 0
    error: str | None = None
    drops: tuple[str, ...] = ()
    differs: str | None = None


class Publishing:
    """Compares tables with the metastore and publishes the differences, through the outbox.

    The present state of the index is published and replaces the table's pending messages, in one
    transaction: an interruption loses nothing, and a repeated call continues with the remaining differences.
    """

    def __init__(self, index: Index, metastore: MetastoreConnection, sync: MetastoreSync, catalog: str) -> None:
        self._index = index
        self._metastore = metastore
        self._sync = sync
        self._catalog = catalog

    def publish(
        self, table: str | None = None, *, where: Where = None, dry_run: bool = False
    ) -> Iterator[PublishEntry]:
        """Update the metastore to the index's state; yield the result of each table as it is done.

        Args:
            table: One table or view. None for all: the tables of each namespace by name, followed by its views.
            where: With a table: a condition, or a partition spec, that limits publishing to partitions; the definition
                stays.
            dry_run: Preview: compare, and change nothing.

        Raises:
            InvalidInputError: ``where`` without a table, or with a view.
            InvalidPredicateError, InvalidValueError: ``where`` is not valid for the table.
            TableNotFoundError: The index has no such table.
            InvalidConfigurationError: There is no metastore.
            MetastoreReplacedError: The metastore is not the index's own.
            MetastoreUnavailableError: The metastore does not answer; tables published before stay.
        """
        if not self._metastore.enabled:
            raise no_metastore(self._index, "to publish to")
        chosen = None if table is None else TableIdentifier.parse(table, self._catalog)
        if chosen is None:
            if where is not None:
                raise InvalidInputError("Partitions are chosen in one table: name it beside where.")
            return self._publish_all(dry_run=dry_run)
        found = table_of(self._index.views.load_relation(chosen))
        if where is not None and found.definition.table_type is TableType.VIEW:
            raise InvalidInputError(f"{found.identifier} is a view, which is published as a whole: leave out where.")
        wanted = NameFilter(found, bound_where(found, where))
        return iter([self._publish_table(found, wanted, dry_run=dry_run)])

    def _publish_all(self, *, dry_run: bool) -> Iterator[PublishEntry]:
        complete = True
        for found in map(table_of, relations(self._index)):
            entry = self._publish_table(found, NameFilter(found, None), dry_run=dry_run)
            complete = complete and entry.action != REFUSED and not entry.pending
            yield entry
        embedded_id = self._metastore.embedded_id
        if complete and not dry_run and embedded_id is not None:
            # All tables were published to the embedded metastore, so it is the index's own from now on: record its id.
            self._index.properties.replace({METASTORE_ID: embedded_id})

    def _publish_table(self, table: Table, wanted: NameFilter, *, dry_run: bool) -> PublishEntry:
        name = str(table.identifier)
        reason = unrepresentable_reason(table.definition)
        if reason is not None:
            return PublishEntry(name, LEFT_OUT, error=reason)
        client = self._metastore.client()
        try:
            publication, differs = self._compared(client, table, wanted)
        except MetastoreUnavailableError:
            raise
        except CatalogExtError as error:
            return PublishEntry(name, REFUSED, error=error.message)
        entry = _entry(name, table, publication)._replace(differs=differs)
        if dry_run or publication.is_empty:
            pending, why = self._index.outbox.pending_of(table.table_id)
            return entry._replace(pending=pending, error=why)
        try:
            return self._send(client, table, publication, entry)
        except (MetastoreUnavailableError, IndexDatabaseError):
            raise
        except CatalogExtError as error:
            return PublishEntry(name, REFUSED, error=error.message)

    def _send(self, client: HiveMetastore, table: Table, publication: Publication, entry: PublishEntry) -> PublishEntry:
        make_database(client, to_hive_database(self._index.namespaces.load(table.identifier.namespace)))
        self._index.publications.publish(table, publication)
        report = self._sync.deliver()
        while report.pending and report.delivered:
            report = self._sync.deliver()  # repeat: undelivered messages of many tables would pile up
        pending, error = self._index.outbox.pending_of(table.table_id)
        return entry._replace(pending=pending, error=error or (report.error if pending else None))

    def _compared(self, client: HiveMetastore, table: Table, wanted: NameFilter) -> tuple[Publication, str | None]:
        """Return what to send to make the metastore's table equal to the index's, and a text on the differences."""
        definition = table.definition
        if self._index.outbox.has_pending_predecessor(table):
            # The metastore's table of this name is an older one. A pending message will remove it before this table is
            # created.
            return Publication(create=True), _TABLE_MISSING
        found = find_table(client, table.identifier)
        if found is None:
            return Publication(create=True), _TABLE_MISSING
        if definition.table_type is TableType.VIEW:
            if found.table_type != VIRTUAL_VIEW:
                raise InvalidInputError(
                    f"The metastore has a table {found}, which the index's view of that name cannot replace."
                )
            view = self._compared_view(client, table, found)
            return view, None if view.is_empty else "the view's text or partitions"
        check_ours(found, definition)
        upto = self._index.publications.last_delivery(table)
        # Load the table again: its state then includes the changes of all messages up to ``upto``, which are removed.
        table = self._index.tables.load_by_id(table.table_id)
        definition = table.definition
        differ, held = self._differing(client, table, found, wanted)
        whole = not wanted.is_limited
        publication = Publication(
            alter=whole and definition_differs(found, definition),
            retype=whole and key_types_differ(found, definition),
            partitions=None if differ is None else list(differ),
            dropped=self._unknown(client, table, found, wanted, held),
            # Keep the pending messages (``upto`` 0) if only some partitions are compared: they may be about others.
            upto=upto if whole else 0,
        )
        return publication, _in_words(publication, differ)

    def _compared_view(self, client: HiveMetastore, table: Table, found: HiveTable) -> Publication:
        view = self._index.views.load(table.identifier)
        missing, unknown = view_partitions(self._index, client, table, found)
        differs = view_differs(found, view.table.definition, view.query) or bool(missing)
        # If a view differs, send its text and all partitions, which are few.
        return Publication(alter=True, dropped=unknown) if differs or unknown else Publication(partitions=())

    def _differing(
        self, client: HiveMetastore, table: Table, found: HiveTable, wanted: NameFilter
    ) -> tuple[dict[str, PartitionDifference] | None, int]:
        """Return the selected partitions that differ, and the number of the index's partitions that the metastore has.

        The first value is None if so many differ that all are published.
        """
        names: dict[str, PartitionDifference] = {}
        there = 0
        for page in compared_pages(self._index, client, table, found, wanted):
            if len(names) > _MOST_NAMES:
                # A limited publication sends what was found; a repeated call finds the rest.
                return (names, -1) if wanted.is_limited else (None, -1)
            names |= page.differ
            there += page.there
        return names, there

    def _unknown(
        self, client: HiveMetastore, table: Table, found: HiveTable, wanted: NameFilter, held: int
    ) -> list[str]:
        """Return the metastore's selected partitions that the index does not have, up to a limit.

        ``held`` is the number of the index's partitions that the metastore has. Publishing again drops the partitions
        above the limit.
        """
        if not table.definition.partition_columns:
            return []
        names = [name for name in client.partition_names(found.database, found.name) if wanted.chooses(name)]
        # Fast path: if the metastore has as many names as it has partitions of the index, it has no other partitions.
        # With ``where`` the numbers cannot be compared, because the metastore may spell names differently.
        if len(names) == held and not wanted.is_limited:
            return []
        unknown: list[str] = []
        for chunk in batched(names, _AT_ONCE):
            ours = {values_or_none(found, p.name) for p in self._index.living_partitions.of_values(table, chunk)}
            unknown.extend(name for name in chunk if values_or_none(found, name) not in ours)
        return unknown[:_MOST_NAMES]


def _in_words(publication: Publication, differing: Mapping[str, PartitionDifference] | None) -> str | None:
    """Return a text on the differences: parts of the definition, and numbers of partitions by kind of difference."""
    words = ["columns or properties"] * publication.alter + ["types of partition columns"] * publication.retype
    if differing is None:
        words.append(f"more than {_MOST_NAMES:,} partitions")
    else:
        counts = Counter(differing.values())
        words += [f"{counts[kind]:,} {kind}" for kind in PartitionDifference if counts[kind]]
    words += [f"{len(publication.dropped):,} unknown to the index"] * bool(publication.dropped)
    return ", ".join(words) or None


def _entry(name: str, table: Table, publication: Publication) -> PublishEntry:
    if publication.is_empty:
        return PublishEntry(name, IN_SYNC)
    every = publication.create or publication.partitions is None
    published = table.totals.partitions if every else len(publication.partitions or ())
    action = CREATE if publication.create else ALTER if publication.alter or publication.retype else PARTITIONS
    sent = published if table.definition.partition_columns else 0
    drops = tuple(publication.dropped[:_MOST_NAMED])
    return PublishEntry(name, action, sent, len(publication.dropped), drops=drops)
