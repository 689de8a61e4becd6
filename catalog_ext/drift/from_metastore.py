"""Mends a table where the metastore is right: the index follows what Hive engines have changed."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from catalog_ext.conf import keys
from catalog_ext.drift.definitions import COMMENT, DefinitionComparison
from catalog_ext.drift.difference import MISSING, OF_DEFINITION, DriftKind
from catalog_ext.drift.table_drift import TableDrift
from catalog_ext.metastore.errors import (
    InvalidInputError,
    MassDropError,
)
from catalog_ext.metastore.model.batches import batched
from catalog_ext.repair.options import DropLimit, MetastoreState
from catalog_ext.scan.equivalent_names import key_of
from catalog_ext.scan.scratch import Scratch
from catalog_ext.sync.columns import adopted_columns
from catalog_ext.sync.metastore_partitions import MetastoreObserver

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from catalog_ext.context import Context
    from catalog_ext.drift.difference import Difference
    from catalog_ext.metastore.hive.mapping.model import HiveTable
    from catalog_ext.metastore.model.tables import Table, TableDefinition
    from catalog_ext.metastore.predicates.conditions import NameFilter
    from catalog_ext.repair.table_repair import TableRepair
    from catalog_ext.tables.alter import TableAlterations


LEFT_ALONE = "left alone"


@dataclass(frozen=True, slots=True)
class Mended:
    """One thing that mending did, or in a preview would do.

    Attributes:
        table: ``namespace.table``.
        action: ``add``, ``drop``, ``move``, ``change``, ``alter``, ``publish``, or ``left alone``.
        subject: The partition, column or parameter; ``''`` for the table as a whole.
        why: Why, in words.
        done: Whether it is done, or in a preview would be; False for what was left alone.
    """

    table: str
    action: str
    subject: str = ""
    why: str = ""
    done: bool = True

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return asdict(self)


def left_alone(table: str, subject: str, why: str) -> Mended:
    """Return that something was not mended."""
    return Mended(table, LEFT_ALONE, subject, why, done=False)


ADD, MOVE, DESCRIBE, DROP, LOOK = "add", "move", "describe", "drop", "look at"
_SAY_DROP = "the metastore does not have it, which is no reason to drop it here: say so (drop) if it is"
_DEFINITION = frozenset({DriftKind.COLUMN, DriftKind.PARAMETER})
WHY_DROPPED = "the metastore does not have it; its files stay, and a repair adds it again, but for the mode drop"


class PlannedMend:
    """What the differences ask for where the metastore is right; close it."""

    def __init__(self, *, drop: bool) -> None:
        self._drop = drop
        self._scratch = Scratch()
        self._scratch.execute("CREATE TABLE plan (action TEXT, name TEXT, PRIMARY KEY (action, name)) WITHOUT ROWID")
        self._left: list[Mended] = []
        self.definition: list[Difference] = []
        """In what the definitions differ, as far as that can be taken over."""

    def close(self) -> None:
        """Forget it."""
        self._scratch.close()

    def take(self, difference: Difference) -> Mended | None:
        """Plan what the difference asks for; return that it is left alone where nothing does."""
        action, why = self._action(difference)
        if action is not None:
            self._scratch.insert("plan", [(action, difference.subject)])
            return None
        if why is None:
            return None
        return left_alone(difference.table, difference.subject, why)

    def _action(self, difference: Difference) -> tuple[str | None, str | None]:
        """Return what to do with a partition, or why nothing is done; neither where it is for others."""
        kind = difference.kind
        if difference.pending or kind is DriftKind.NOT_COMPARED:
            return None, difference.evidence
        if kind in _DEFINITION:
            lacks = difference.metastore == MISSING
            if lacks and kind is DriftKind.PARAMETER and not self._drop:
                return None, _SAY_DROP
            self.definition.append(difference)
            return None, None
        if kind is DriftKind.PARTITION and difference.index == MISSING and difference.metastore not in (None, MISSING):
            return ADD, None
        if kind is DriftKind.PARTITION and difference.metastore == MISSING and difference.index != MISSING:
            return (DROP, None) if self._drop else (None, _SAY_DROP)
        if kind is DriftKind.PARTITION_LOCATION:
            return MOVE, None
        if kind is DriftKind.STATISTICS:
            # A partition that moves gets the files at its new place. A look at the old one would drop it in a preview.
            return (None, None) if self._moves(difference.subject) else (LOOK, None)
        if kind in (DriftKind.FILES, DriftKind.PARTITION):
            return None, None  # between the store and the index: a repair's
        if kind is DriftKind.PARTITION_DESCRIPTOR:
            # It is taken over as it is now, with its files and its place: nothing else is to be done with it.
            self._scratch.execute("DELETE FROM plan WHERE name = ?", (difference.subject,))
            if difference.index != MISSING:
                return DESCRIBE, None
        both = f"{difference.index} here, {difference.metastore} in the metastore"
        return None, f"the {kind} differs, and is not taken over: {both}"

    def _moves(self, name: str) -> bool:
        query = "SELECT count(*) FROM plan WHERE action = ? AND name = ?"
        return self._scratch.count(query, (MOVE, name)) > 0

    def count(self, action: str) -> int:
        """Count the partitions that an action is for."""
        return self._scratch.count("SELECT count(*) FROM plan WHERE action = ?", (action,))

    def names(self, action: str) -> Iterator[str]:
        """Yield the partitions that an action is for, by name."""
        rows = self._scratch.rows("SELECT name FROM plan WHERE action = ? ORDER BY name", (action,))
        return (name for (name,) in rows)


_ADOPTED = {
    DROP: WHY_DROPPED,
    ADD: "the metastore has it",
    MOVE: "the metastore has it there",
    DESCRIBE: "it is read as the metastore says",
}
_GONE = "the metastore does not have it any more"


class MendFromMetastore:
    """One mend of one table: compared as a whole, then changed.

    Args:
        context: What the parts share.
        repair: Compares with the store what the metastore knows other files of.
        alterations: Sets properties.
        table: The table, just loaded.
        wanted: Chooses the partitions that are mended; where it is limited, columns and properties are not.
        drop: Whether what the metastore lacks goes.
        allow_mass_drop: Whether however much goes.
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
        """Yield what is done, or in a preview would be.

        Raises:
            MassDropError: More would go than may go at once; nothing was changed.
            MetastoreUnavailableError: It does not answer; what was committed stays.
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
        """Return whether a limited mend is about a difference; what was not compared at all stays in the answer."""
        if not self._wanted.is_limited or (difference.kind is DriftKind.NOT_COMPARED and not difference.subject):
            return True
        return difference.kind not in OF_DEFINITION and self._wanted.chooses(difference.subject)

    def _refuse_mass_drop(self, plan: PlannedMend) -> None:
        registered, lost = self._table.totals.partitions, plan.count(DROP)
        limit = DropLimit.of(self._table, self._context.settings.conf)
        if self._allow_mass_drop or not lost or (limit.allows(lost, registered) and lost < registered):
            return
        raise MassDropError(
            f"Nothing was changed: mending table {self._name} is refused: it would drop {lost:,} of {registered:,} "
            f"registered partitions, more than the {limit.percent} % that it may drop at once, or all. Look whether "
            "the metastore is the right one and whole. If they are gone for good, allow it: --force on the command "
            "line, allow_mass_drop => true in CALL, allow_mass_drop=True in Python.",
            {"table": self._name, "partitions": str(lost), "registered": str(registered)},
        )

    def _apply(self, plan: PlannedMend, *, dry_run: bool) -> Iterator[Mended]:
        yield from self._alter(plan, dry_run=dry_run)
        # A definition that was altered is no other version: what was compared holds.
        self._base = replace(self._base, definition=self._now().definition)
        for action in (DROP, ADD, MOVE, DESCRIBE):
            for names in batched(plan.names(action), self._batch()):
                yield from self._adopt(action, names, dry_run=dry_run)
        for names in batched(plan.names(LOOK), self._batch()):
            yield from self._look(names, dry_run=dry_run)
        if not dry_run:
            self._context.sync.publish(self._table.table_id)

    def _batch(self) -> int:
        return keys.BATCH_PARTITIONS.read(self._table.definition.properties, self._context.settings.conf)

    def _now(self) -> Table:
        return self._context.index.tables.load_by_id(self._table.table_id)

    def _found(self) -> HiveTable:
        return self._context.metastore.client().get_table(self._table.identifier.namespace, self._table.identifier.name)

    def _alter(self, plan: PlannedMend, *, dry_run: bool) -> Iterator[Mended]:
        columns = [each for each in plan.definition if each.kind is DriftKind.COLUMN]
        if columns:
            yield from self._alter_columns(columns, dry_run=dry_run)
        set_, removed = _adopted_properties(plan.definition)
        if not set_ and not removed:
            return
        try:
            if dry_run:
                self._alterations.checked(self._table, set_, removed)
            else:
                self._alterations.alter(self._name, set_=set_, remove=removed)
        except InvalidInputError as error:
            yield from (left_alone(self._name, name, error.message) for name in (*set_, *removed))
            return
        for name in (*set_, *removed):
            yield Mended(self._name, "alter", name, "as the metastore has it")

    def _alter_columns(self, differences: Sequence[Difference], *, dry_run: bool) -> Iterator[Mended]:
        """Take over columns; what differs afterwards is no success, whatever was altered."""
        found = self._found()
        subjects = [each.subject for each in differences]

        def change(definition: TableDefinition) -> TableDefinition:
            return adopted_columns(definition, found)

        deliver = self._context.metastore.accepts(self._table.definition)
        try:
            if dry_run:
                new = change(self._now().definition)
            else:
                new = self._context.index.alterations.alter(self._table.identifier, change, deliver=deliver).definition
        except InvalidInputError as error:
            yield from (left_alone(self._name, subject, error.message) for subject in subjects)
            return
        still = {each.subject: each for each in DefinitionComparison(new, found).columns()}
        for each in differences:
            if each.subject in still:
                both = f"{still[each.subject].index} here, {still[each.subject].metastore} in the metastore"
                yield left_alone(self._name, each.subject, f"it cannot be taken over as it is there: {both}")
            else:
                yield Mended(self._name, "alter", each.subject, f"{each.metastore}, as the metastore has it")

    def _adopt(self, action: str, names: Sequence[str], *, dry_run: bool) -> Iterator[Mended]:
        """Bring partitions to what the metastore has of them now."""
        observer = MetastoreObserver(self._context, self._context.metastore.client(), self._found(), self._base)
        there = observer.observe(dict.fromkeys(names, action == DROP))
        left = there.left | dict.fromkeys(there.later, there.pending.why)
        there.places = {name: place for name, place in there.places.items() if name not in there.lost}
        there.lost.clear()
        known = {key_of(name) for name in (*there.places, *there.gone)}
        for name in names:
            if there.is_pending(name):
                left.setdefault(name, there.pending.why)
            elif key_of(name) not in known:
                left.setdefault(name, _GONE)
        yield from (left_alone(self._name, name, why) for name, why in left.items())
        state = there.state(must_lie=True)
        if not state.names:
            return
        report = self._repair.look_at(
            self._base, state.names, why="the metastore", metastore_state=state, dry_run=dry_run, deliver=True,
            operation="mend",
        )  # fmt: skip
        if report.version == self._base.version + 1:
            # No other commit was in between, and no partition is in two batches.
            self._base = replace(self._base, version=report.version)
        asked = {key_of(name): name for name in names}
        done = (entry.partition for entry in (*report.dropped, *report.added, *report.changed))
        for name in dict.fromkeys(done):
            yield Mended(self._name, action, asked.get(key_of(name), name), _ADOPTED[action])
        for entry in report.skipped:
            yield left_alone(self._name, entry.path, entry.reason)

    def _look(self, names: Sequence[str], *, dry_run: bool) -> Iterator[Mended]:
        """Compare partitions with the store of which the metastore counts other files.

        The metastore has them, so none is dropped: one at whose place nothing lies is left alone.
        """
        base = replace(self._now(), version=self._base.version)
        located = self._context.index.partitions.locations(base, names)
        state = MetastoreState({name: located.get(name) for name in names}, must_lie=True)
        why = "the metastore knows of other files"
        report = self._repair.look_at(base, names, why=why, metastore_state=state, dry_run=dry_run, deliver=True)
        for entry in (*report.added, *report.changed):
            yield Mended(self._name, entry.action, entry.path, entry.reason)
        for entry in report.skipped:
            yield left_alone(self._name, entry.path, entry.reason)


def _adopted_properties(differences: Iterable[Difference]) -> tuple[dict[str, str], list[str]]:
    """Return the properties to set and those to remove, so that the metastore's parameters are the table's."""
    set_: dict[str, str] = {}
    removed: list[str] = []
    for each in differences:
        if each.kind is not DriftKind.PARAMETER:
            continue
        name = "comment" if each.subject == COMMENT else each.subject
        if each.metastore == MISSING:
            removed.append(name)
        else:
            set_[name] = each.metastore or ""
    return set_, removed
