"""Mends a table with the metastore as the right side: the index imports the changes of Hive engines."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from catalog_ext.conf import keys
from catalog_ext.drift.definitions import COMMENT, DefinitionComparison
from catalog_ext.drift.difference import MISSING, OF_DEFINITION, DriftKind
from catalog_ext.drift.table_drift import TableDrift
from catalog_ext.metastore.errors import InvalidInputError, MassDropError
from catalog_ext.metastore.index.tables.definition_history import changed_parts
from catalog_ext.metastore.model.batches import batched
from catalog_ext.repair.options import DropLimit
from catalog_ext.scan.equivalent_names import key_of
from catalog_ext.scan.scratch import Scratch
from catalog_ext.sync.adoption import PartitionAdoption
from catalog_ext.sync.definitions import adopted_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from catalog_ext.context import Context
    from catalog_ext.drift.difference import Difference
    from catalog_ext.metastore.hive.mapping.model import HiveTable
    from catalog_ext.metastore.model.tables import Table, TableDefinition
    from catalog_ext.metastore.predicates.conditions import NameFilter
    from catalog_ext.repair.table_repair import TableRepair
    from catalog_ext.sync.metastore_partitions import MetastorePartitions
    from catalog_ext.tables.alter import TableAlterations


LEFT_ALONE = "left alone"


@dataclass(frozen=True, slots=True)
class Mended:
    """One change of a mend, or in a preview a change that it would make.

    Attributes:
        table: ``namespace.table``.
        action: ``add``, ``drop``, ``move``, ``change``, ``alter``, ``publish``, or ``left alone``.
        subject: The partition, column or parameter; ``''`` for the table as a whole.
        why: The reason, as a text.
        done: Whether it is done, or in a preview would be; False for a subject that was not changed.
    """

    table: str
    action: str
    subject: str = ""
    why: str = ""
    done: bool = True

    def to_dict(self) -> dict[str, Any]:
        """Return the change as JSON values."""
        return asdict(self)


def left_alone(table: str, subject: str, why: str) -> Mended:
    """Return an entry for a difference that was not mended."""
    return Mended(table, LEFT_ALONE, subject, why, done=False)


ADD, MOVE, DESCRIBE, DROP, LOOK = "add", "move", "describe", "drop", "look at"
_SAY_DROP = "the metastore does not have it, which is no reason to drop it here: say so (drop) if it is"
WHY_DROPPED = "the metastore does not have it; its files stay, and a repair adds it again, but for the mode drop"
_ACTIONS = {
    DriftKind.PARTITION_LOCATION: MOVE, DriftKind.STATISTICS: LOOK, DriftKind.PARTITION_DESCRIPTOR: DESCRIBE,
}  # fmt: skip


class PlannedMend:
    """The planned changes that make the index equal to the metastore: one action per partition, stored on disk."""

    def __init__(self, *, drop: bool) -> None:
        self._drop = drop
        self._scratch = Scratch()
        self._scratch.execute("CREATE TABLE plan (key TEXT PRIMARY KEY, action TEXT) WITHOUT ROWID")
        self.columns: list[Difference] = []
        self.parameters: list[Difference] = []

    def close(self) -> None:
        """Delete the scratch database with the plan."""
        self._scratch.close()

    def take(self, difference: Difference) -> Mended | None:
        """Plan the action that mends a difference; return an entry if the metastore's state cannot mend it."""
        kind, name = difference.kind, difference.subject
        why = None
        if difference.pending or kind is DriftKind.NOT_COMPARED:
            why = difference.evidence
        elif kind is DriftKind.COLUMN:
            self.columns.append(difference)
        elif kind is DriftKind.PARAMETER and (difference.metastore != MISSING or self._drop):
            self.parameters.append(difference)
        elif kind is DriftKind.PARTITION and difference.index == MISSING:
            if difference.metastore not in (None, MISSING):
                self._plan(ADD, name)
        elif kind is DriftKind.PARTITION and difference.metastore == MISSING and self._drop:
            self._plan(DROP, name)
        elif kind in (DriftKind.PARAMETER, DriftKind.PARTITION) and difference.metastore == MISSING:
            why = _SAY_DROP
        elif kind in _ACTIONS and difference.index != MISSING:
            self._plan(_ACTIONS[kind], name)
        elif kind not in (DriftKind.PARTITION, DriftKind.FILES):  # other FILES, PARTITION: a repair mends them
            self._scratch.delete("plan", [name])
            both = f"{difference.index} here, {difference.metastore} in the metastore"
            why = f"the {kind} differs, and is not taken over: {both}"
        return None if why is None else left_alone(difference.table, name, why)

    def _plan(self, action: str, name: str) -> None:
        """Plan an action for a partition.

        The first planned action of a partition is kept, because it imports the partition's whole state. Only a change
        of the descriptor replaces an earlier action.
        """
        if action == DESCRIBE:
            self._scratch.delete("plan", [name])
        self._scratch.insert("plan", [(name, action)])

    def count(self, action: str) -> int:
        """Return the number of partitions that an action is planned for."""
        return self._scratch.count("SELECT count(*) FROM plan WHERE action = ?", (action,))

    def names(self, action: str) -> Iterator[str]:
        """Yield the partitions that an action is planned for, by name."""
        rows = self._scratch.rows("SELECT key FROM plan WHERE action = ? ORDER BY key", (action,))
        return (name for (name,) in rows)


_ADOPTED = {
    DROP: WHY_DROPPED,
    ADD: "the metastore has it",
    MOVE: "the metastore has it there",
    DESCRIBE: "it is read as the metastore says",
}
_GONE = "the metastore does not have it any more"
_COUNTED = "the metastore knows of other files"


class MendFromMetastore:
    """One mend of one table: the whole table is compared, and then changed.

    Args:
        context: The catalog's context.
        repair: Lists the files of partitions for which the metastore's statistics show other files.
        alterations: Sets properties of tables.
        table: The table, just loaded.
        wanted: Selects the partitions to mend; if it is limited, columns and properties are not mended.
        drop: Whether partitions and properties that the metastore lacks are dropped.
        allow_mass_drop: Whether any number of partitions may be dropped.
    """

    def __init__(
        self, context: Context, repair: TableRepair, alterations: TableAlterations, table: Table, *,
        wanted: NameFilter, drop: bool, allow_mass_drop: bool,
    ) -> None:  # fmt: skip
        self._context = context
        self._repair = repair
        self._alterations = alterations
        self._table = table
        self._name = str(table.identifier)
        self._wanted = wanted
        self._drop = drop
        self._allow_mass_drop = allow_mass_drop
        self._base = table

    def run(self, *, dry_run: bool) -> Iterator[Mended]:
        """Yield the changes as they are made, or in a preview the changes that would be made.

        Raises:
            MassDropError: More partitions would be dropped than allowed at once; nothing was changed.
            MetastoreUnavailableError: The metastore does not answer; committed changes stay.
        """
        client = self._context.metastore.client()
        plan = PlannedMend(drop=self._drop)
        try:
            comparison = TableDrift(self._context, self._repair, self._table, client)
            for difference in filter(self._is_wanted, comparison.differences()):
                left = plan.take(difference)
                if left is not None:
                    yield left
            if comparison.metastore_error is not None:
                raise comparison.metastore_error
            self._refuse_mass_drop(plan)
            yield from self._apply(plan, dry_run=dry_run)
        finally:
            plan.close()

    def _is_wanted(self, difference: Difference) -> bool:
        """Return whether the mend covers a difference; with ``where`` it covers only the selected partitions.

        Entries about subjects that could not be compared are always covered, so that they are reported.
        """
        if not self._wanted.is_limited or (difference.kind is DriftKind.NOT_COMPARED and not difference.subject):
            return True
        return difference.kind not in OF_DEFINITION and self._wanted.chooses(difference.subject)

    def _refuse_mass_drop(self, plan: PlannedMend) -> None:
        total, count = self._table.totals.partitions, plan.count(DROP)
        limit = DropLimit.of(self._table, self._context.settings.conf)
        if self._allow_mass_drop or not count or (limit.allows(count, total) and count < total):
            return
        raise MassDropError(
            f"Nothing was changed: mending table {self._name} is refused: it would drop {count:,} of {total:,} "
            f"registered partitions, more than the {limit.percent} % that it may drop at once, or all. Check that the "
            "metastore is the right one and complete. If they are gone for good, allow it: --force on the command "
            "line, allow_mass_drop => true in CALL, allow_mass_drop=True in Python.",
            {"table": self._name, "partitions": str(count), "registered": str(total)},
        )

    def _apply(self, plan: PlannedMend, *, dry_run: bool) -> Iterator[Mended]:
        yield from self._alter_columns(plan.columns, dry_run=dry_run)
        yield from self._alter_properties(plan.parameters, dry_run=dry_run)
        now, base = self._context.index.tables.load_by_id(self._table.table_id), self._base
        # A version of the altered definition changes no partition, so the comparison is still valid at it. If there is
        # one further version, and the definition differs, then the alteration made that version.
        altered = now.version == base.version + 1 and changed_parts(base.definition, now.definition)
        self._base = replace(base, definition=now.definition, version=now.version if altered else base.version)
        batch = keys.BATCH_PARTITIONS.read(self._table.definition.properties, self._context.settings.conf)
        for action in (DROP, ADD, MOVE, DESCRIBE, LOOK):
            for names in batched(plan.names(action), batch):
                yield from self._adopt(action, names, dry_run=dry_run)
        if not dry_run:
            self._context.sync.publish(self._table.table_id)

    def _found(self) -> HiveTable:
        return self._context.metastore.client().get_table(self._table.identifier.namespace, self._table.identifier.name)

    def _alter_properties(self, differences: Sequence[Difference], *, dry_run: bool) -> Iterator[Mended]:
        named = {"comment" if each.subject == COMMENT else each.subject: each.metastore or "" for each in differences}
        set_ = {name: value for name, value in named.items() if value != MISSING}
        removed = [name for name in named if name not in set_]
        try:
            if dry_run:
                self._alterations.checked(self._table, set_, removed)
            elif named:
                self._alterations.alter(self._name, set_=set_, remove=removed)
        except InvalidInputError as error:
            yield from (left_alone(self._name, name, error.message) for name in (*set_, *removed))
            return
        for name in (*set_, *removed):
            yield Mended(self._name, "alter", name, "as the metastore has it")

    def _alter_columns(self, differences: Sequence[Difference], *, dry_run: bool) -> Iterator[Mended]:
        """Import column changes; changes that cannot be imported are reported as not done."""
        if not differences:
            return
        found, index = self._found(), self._context.index

        def change(definition: TableDefinition) -> TableDefinition:
            return adopted_columns(definition, found)

        deliver = self._context.metastore.accepts(self._table.definition)
        try:
            if dry_run:
                new = change(index.tables.load_by_id(self._table.table_id).definition)
            else:
                new = index.alterations.alter(self._table.identifier, change, deliver=deliver).definition
        except InvalidInputError as error:
            yield from (left_alone(self._name, each.subject, error.message) for each in differences)
            return
        still = {each.subject: each for each in DefinitionComparison(new, found).columns()}
        for each in differences:
            if each.subject in still:
                both = f"{still[each.subject].index} here, {still[each.subject].metastore} in the metastore"
                yield left_alone(self._name, each.subject, f"it cannot be taken over as it is there: {both}")
            else:
                yield Mended(self._name, "alter", each.subject, f"{each.metastore}, as the metastore has it")

    def _adopt(self, action: str, names: Sequence[str], *, dry_run: bool) -> Iterator[Mended]:
        """Import the metastore's current state of the named partitions into the index."""
        # Send nothing about partitions that are added or dropped here, because the metastore's state is right already.
        # A late message would drop a partition that a Hive engine has created again meanwhile, or add one again that it
        # has dropped.
        adoption = PartitionAdoption(
            self._context, self._repair, self._context.metastore.client(), self._found(), dry_run=dry_run,
            must_lie=True, deliver=action not in (ADD, DROP),
        )  # fmt: skip
        why, operation = (_COUNTED, "repair") if action == LOOK else ("the metastore", "mend")
        found = adoption.adopt(self._base, dict.fromkeys(names, action == DROP), why=why, operation=operation)
        if found.there is not None:
            yield from (left_alone(self._name, name, why) for name, why in _not_adopted(found.there, names).items())
        report = found.report
        if report is None:
            return
        if report.version == self._base.version + 1:
            # No other commit came in between, and each partition is in a single batch: the next batch can be based on
            # the new version.
            self._base = replace(self._base, version=report.version)
        done = (*report.dropped, *report.added, *report.changed)
        if action == LOOK:
            yield from (Mended(self._name, entry.action, entry.path, entry.reason) for entry in done)
        else:
            asked = {key_of(name): name for name in names}
            for name in dict.fromkeys(entry.partition for entry in done):
                yield Mended(self._name, action, asked.get(key_of(name), name), _ADOPTED[action])
        for entry in report.skipped:
            yield left_alone(self._name, entry.path, entry.reason)


def _not_adopted(there: MetastorePartitions, names: Sequence[str]) -> dict[str, str]:
    """Return the named partitions that were not changed in the index, with the reasons."""
    left = there.left | there.later
    known = {key_of(name) for name in (*there.places, *there.gone) if name not in there.lost}
    for name in names:
        if there.is_pending(name):
            left.setdefault(name, there.pending.why)
        elif key_of(name) not in known:
            left.setdefault(name, _GONE)
    return left
