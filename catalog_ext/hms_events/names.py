"""Applies renames of tables in the metastore to the index, also if tables swap names or reuse old ones."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from catalog_ext.metastore.hive.mapping.conversion import unrepresentable_reason
from catalog_ext.metastore.hive.mapping.locations import same_location
from catalog_ext.metastore.hive.mapping.model import VIRTUAL_VIEW
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import Table
from catalog_ext.sync.pending import pending_for
from catalog_ext.sync.tables import find_relation, find_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from catalog_ext.context import Context
    from catalog_ext.hms_events.suspects import SuspectTable
    from catalog_ext.metastore.hive.mapping.model import HiveTable
    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore
    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.views import View
    from catalog_ext.tables.hive_import import HiveImport
    from catalog_ext.tables.removal import TableRemoval

logger = logging.getLogger(__name__)


class TableNames:
    """The names of the index's tables. A preview keeps renames in memory, and changes nothing."""

    def __init__(self, context: Context, imports: HiveImport, removal: TableRemoval, *, dry_run: bool) -> None:
        self._index = context.index
        self._imports = imports
        self._removal = removal
        self._dry_run = dry_run
        self._preview: dict[TableIdentifier, Table | None] = {}

    def relation(self, name: TableIdentifier) -> Table | View | None:
        """Return the table or view with a name. A preview includes its own planned renames."""
        return self._preview[name] if name in self._preview else find_relation(self._index, name)

    def is_previewed(self, name: TableIdentifier) -> bool:
        """Return whether a preview has planned to give the name to another table, or to make it free."""
        return name in self._preview

    def rename(self, client: HiveMetastore, name: TableIdentifier, to: TableIdentifier) -> None:
        """Rename a table; the new name has to be free."""
        if self._dry_run:
            ours = self.relation(name)
            assert isinstance(ours, Table)
            self._preview |= {name: None, to: ours}
            return
        self._imports.ensure_namespace(client, to.namespace)
        self._index.alterations.rename(name, to, deliver=False)
        logger.info("Table %s is %s now, as in the metastore", name, to)

    def remove(self, name: TableIdentifier) -> None:
        """Unregister a table of the index; its files stay."""
        if self._dry_run:
            self._preview[name] = None
        else:
            self._removal.unregister_table(str(name))


def lies_at(theirs: HiveTable | None, ours: Table) -> bool:
    """Return whether the metastore's table is the index's: both have the same location, and it is not a view."""
    if theirs is None or theirs.table_type == VIRTUAL_VIEW:
        return False
    return same_location(theirs.location, ours.definition.location)


class NewNames:
    """Applies renames before tables are compared: a name can be reused only after its old table was renamed.

    Jobs that rewrite a table often rename ``t`` to ``old`` and ``new`` to ``t``: the second rename needs the name that
    the first one frees. In a swap each rename needs the other's name. Each step is a commit of its own. If the events
    are read again after a step, the result is the same.

    Args:
        index: The index.
        names: The names of its tables, which in a preview include planned renames.
        client: The metastore.
        suspects: The suspect parts of tables from the events of a batch.
    """

    def __init__(
        self, index: Index, names: TableNames, client: HiveMetastore, suspects: Mapping[str, SuspectTable]
    ) -> None:
        self._index = index
        self._names = names
        self._client = client
        self._suspect_tables = suspects
        self._theirs: dict[TableIdentifier, HiveTable | None] = {}
        self.settled: dict[str, str] = {}
        """For each old name, what was done to its table: ``renamed`` or ``removed``."""

    def settle(self) -> None:
        """Apply several renames, or renames and drops, in a possible order; a single rename needs no order.

        Raises:
            MetastoreUnavailableError: The metastore does not answer.
            IndexDatabaseError: The index does not answer.
        """
        renamed = [suspect for suspect in self._suspect_tables.values() if suspect.renamed_to is not None]
        ends = sum(suspect.dropped for suspect in self._suspect_tables.values())
        if not renamed or (ends == 1 and not renamed[0].created):
            return
        while (moves := self._moves(renamed)) and (self._step(moves) or self._park(moves)):
            pass

    def _moves(self, renamed: Iterable[SuspectTable]) -> dict[TableIdentifier, TableIdentifier]:
        """Return the tables of the index whose name in the metastore has changed: the old names with the new ones."""
        targets = [
            *(TableIdentifier(*suspect.renamed_to) for suspect in renamed if suspect.renamed_to is not None),
            # If two tables had the same name one after the other, the events give only the second one's new name. The
            # first one has a suspect table under its new name.
            *(TableIdentifier(d.database, d.table) for d in self._suspect_tables.values() if d.definition and d.whole),
        ]
        found: dict[TableIdentifier, TableIdentifier] = {}
        for suspect in renamed:
            name = TableIdentifier(suspect.database, suspect.table)
            ours = self._names.relation(name)
            if not isinstance(ours, Table) or unrepresentable_reason(ours.definition) is not None:
                continue
            if self._is_at(name, ours) or pending_for(self._index, name, ours).definition:
                continue
            place = next((each for each in targets if self._is_at(each, ours)), None)
            if place is not None:
                found[name] = place
        return found

    def _step(self, moves: Mapping[TableIdentifier, TableIdentifier]) -> bool:
        """Do one step: rename a table, or remove a dropped table that has the needed name.

        Return whether a step was done.
        """
        for name, place in moves.items():
            holder = self._names.relation(place)
            if holder is None:
                self._rename(name, place)
                return True
            if place in moves or not isinstance(holder, Table):
                continue
            suspect = self._suspect_tables.get(str(place))
            pending = pending_for(self._index, place, holder)
            if suspect is not None and suspect.dropped and not self._is_at(place, holder) and not pending.any:
                self._names.remove(place)
                self.settled[str(place)] = "removed"
                return True
        return False

    def _park(self, moves: Mapping[TableIdentifier, TableIdentifier]) -> bool:
        """Break a cycle of renames (a swap): rename one table to a free intermediate name that the events mention.

        Return whether there was such a cycle and such a name.
        """
        between = (
            TableIdentifier(d.database, d.table) for d in self._suspect_tables.values() if d.renamed_to is not None
        )
        free = next((n for n in between if self._names.relation(n) is None and self._find(n) is None), None)
        circle = next((name for name, place in moves.items() if place in moves), None)
        if free is None or circle is None:
            return False
        self._rename(circle, free)
        return True

    def _rename(self, name: TableIdentifier, to: TableIdentifier) -> None:
        self.settled[str(name)] = "renamed"
        self._names.rename(self._client, name, to)

    def _is_at(self, name: TableIdentifier, ours: Table) -> bool:
        return lies_at(self._find(name), ours)

    def _find(self, name: TableIdentifier) -> HiveTable | None:
        if name not in self._theirs:
            self._theirs[name] = find_table(self._client, name)
        return self._theirs[name]
