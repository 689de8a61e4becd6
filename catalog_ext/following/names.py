"""Gives tables that others have renamed their new names, also where these were the names of other tables of ours."""

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
    from catalog_ext.following.doubts import TableDoubt
    from catalog_ext.metastore.hive.mapping.model import HiveTable
    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore
    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.views import View
    from catalog_ext.tables.hive_import import HiveImport
    from catalog_ext.tables.removal import TableRemoval

logger = logging.getLogger(__name__)


class NewNames:
    """Applies renames before tables are compared: a name can be reused only after its old table was renamed.

    ``t`` to ``old`` and ``new`` to ``t``, as jobs that write a table anew do it, is two renames, of which the second
    needs the name that the first gives up; in a swap each needs the other's. Each step is a commit of its own after
    which the events of the batch, read again, lead to the same.

    Args:
        context: What the parts share.
        imports: Makes databases known.
        removal: Removes dropped tables from the index.
        client: The metastore.
        doubts: What the events of a batch put in doubt.
        preview: Gets what names would stand for, and nothing is changed; None where names are changed.
    """

    def __init__(
        self, context: Context, imports: HiveImport, removal: TableRemoval, client: HiveMetastore,
        doubts: Mapping[str, TableDoubt], preview: dict[TableIdentifier, Table | None] | None = None,
    ) -> None:  # fmt: skip
        self._context = context
        self._imports = imports
        self._removal = removal
        self._client = client
        self._doubts = doubts
        self._preview = preview
        self._theirs: dict[TableIdentifier, HiveTable | None] = {}
        self.settled: dict[str, str] = {}
        """What has become of the tables that had these names: ``renamed`` or ``removed``."""

    def settle(self) -> None:
        """Rename what several renames, or a rename and an end, are about; one alone needs no order.

        Raises:
            MetastoreUnavailableError: The metastore does not answer.
            IndexDatabaseError: The index does not.
        """
        renamed = [doubt for doubt in self._doubts.values() if doubt.renamed_to is not None]
        ends = sum(doubt.dropped for doubt in self._doubts.values())
        if not renamed or (ends == 1 and not renamed[0].created):
            return
        while (moves := self._moves(renamed)) and (self._step(moves) or self._park(moves)):
            pass

    def _moves(self, renamed: Iterable[TableDoubt]) -> dict[TableIdentifier, TableIdentifier]:
        """Return the tables of ours that are not where the metastore has them, and their names there."""
        targets = [
            *(TableIdentifier(*doubt.renamed_to) for doubt in renamed if doubt.renamed_to is not None),
            # Of a name that has had two tables only the last one's rename is known; each got a name that is in doubt.
            *(TableIdentifier(d.database, d.table) for d in self._doubts.values() if d.definition and d.whole),
        ]
        found: dict[TableIdentifier, TableIdentifier] = {}
        for doubt in renamed:
            name = TableIdentifier(doubt.database, doubt.table)
            ours = self._relation(name)
            if not isinstance(ours, Table) or unrepresentable_reason(ours.definition) is not None:
                continue
            if self._is_at(name, ours) or pending_for(self._context.index, name, ours).definition:
                continue
            place = next((each for each in targets if self._is_at(each, ours)), None)
            if place is not None:
                found[name] = place
        return found

    def _step(self, moves: Mapping[TableIdentifier, TableIdentifier]) -> bool:
        """Return whether a table has got its name, or one has gone that had it."""
        for name, place in moves.items():
            holder = self._relation(place)
            if holder is None:
                self._rename(name, place)
                return True
            if place in moves or not isinstance(holder, Table):
                continue
            doubt = self._doubts.get(str(place))
            pending = pending_for(self._context.index, place, holder)
            if doubt is not None and doubt.dropped and not self._is_at(place, holder) and not pending.any:
                if self._preview is None:
                    self._removal.unregister_table(str(place))
                else:
                    self._preview[place] = None
                self.settled[str(place)] = "removed"
                return True
        return False

    def _park(self, moves: Mapping[TableIdentifier, TableIdentifier]) -> bool:
        """Return whether one of a circle has got a name that one of it had in between, and that no table has now."""
        between = (TableIdentifier(d.database, d.table) for d in self._doubts.values() if d.renamed_to is not None)
        free = next((n for n in between if self._relation(n) is None and self._find(n) is None), None)
        circle = next((name for name, place in moves.items() if place in moves), None)
        if free is None or circle is None:
            return False
        self._rename(circle, free)
        return True

    def _rename(self, name: TableIdentifier, to: TableIdentifier) -> None:
        self.settled[str(name)] = "renamed"
        if self._preview is not None:
            ours = self._relation(name)
            assert isinstance(ours, Table)
            self._preview |= {name: None, to: ours}
            return
        self._imports.ensure_namespace(self._client, to.namespace)
        self._context.index.alterations.rename(name, to, deliver=False)
        logger.info("Table %s is %s now, as in the metastore", name, to)

    def _relation(self, name: TableIdentifier) -> Table | View | None:
        return previewed_relation(self._context.index, name, self._preview or {})

    def _is_at(self, name: TableIdentifier, ours: Table) -> bool:
        theirs = self._find(name)
        return (
            theirs is not None
            and theirs.table_type != VIRTUAL_VIEW
            and same_location(theirs.location, ours.definition.location)
        )

    def _find(self, name: TableIdentifier) -> HiveTable | None:
        if name not in self._theirs:
            self._theirs[name] = find_table(self._client, name)
        return self._theirs[name]


def previewed_relation(
    index: Index, name: TableIdentifier, preview: Mapping[TableIdentifier, Table | None]
) -> Table | View | None:
    """Return the table or view of a name, in a preview the one that would have it."""
    return preview[name] if name in preview else find_relation(index, name)
