"""Adds, drops, renames, relocates and exchanges partitions, each command by one transaction."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from catalog_ext.conf.properties import check_one_directory
from catalog_ext.conf.write_keys import LOCK_SETTINGS, lock_settings, transaction_options
from catalog_ext.metastore.commit.lock_settings import LockMode
from catalog_ext.metastore.commit.partition_plans import (
    AddPartitions,
    DataDeletion,
    DropPartitions,
    ExchangePartitions,
    NewPartition,
    RelocatePartition,
    RenamePartition,
)
from catalog_ext.metastore.commit.transaction import transaction_id_in
from catalog_ext.metastore.errors import InvalidInputError, InvalidPartitionSpecError, SchemaMismatchError
from catalog_ext.metastore.model.partition_names import is_hidden
from catalog_ext.metastore.model.tables import TableType
from catalog_ext.metastore.predicates.conditions import NO_CLAUSES, PartitionClauses, bound_to
from catalog_ext.metastore.predicates.partition_specs import (
    ANY_SESSION,
    Session,
    partition_name,
    require_partitioned,
    spec_condition,
)
from catalog_ext.metastore.predicates.tree import any_of
from catalog_ext.metastore.runtime.local_paths import real_location
from catalog_ext.metastore.storage.locations import Location, shown
from catalog_ext.metastore.transactions.staging_locations import DATA, below
from catalog_ext.tables.locations import TableOverlapWarning, warn_of_other_name_node
from catalog_ext.tables.lookups import require_match

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from catalog_ext.context import Context
    from catalog_ext.metastore.commit.partition_plans import AskedCommand
    from catalog_ext.metastore.commit.transaction import WriteOutcome
    from catalog_ext.metastore.model.tables import Column, Table
    from catalog_ext.metastore.predicates.tree import Predicate

    Spec = Mapping[str, str | None]


class PartitionCommands:
    """The partition commands of a catalog; a *spec* maps key names to literals (None is NULL).

    Each method takes the table by name or as a loaded table. With a loaded table, a change by another writer since its
    version is a conflict. Each method refuses a table whose location has wildcards (OperationNotSupportedError).
    """

    def __init__(self, context: Context) -> None:
        self._context = context

    def add(
        self, table: str | Table, partitions: Sequence[tuple[Spec, str | None]], *, if_not_exists: bool = False,
        session: Session = ANY_SESSION,
    ) -> WriteOutcome:  # fmt: skip
        """Register partitions with the files at their locations. Either all partitions are registered, or none.

        They are given by full specs and locations; a relative location is relative to the table's, None is the default.

        Raises:
            PartitionAlreadyExistsError: A partition with the same values exists, whatever the spelling of the values.
            InvalidPartitionSpecError, InvalidValueError: A spec does not fit the table.
            LocationNotFoundError: A location outside the table's directory does not exist.
            InvalidInputError: A location cannot be a partition's.
            ConflictError: Another writer was first.
        """
        target = self._table(table, "ADD PARTITION")
        named = [(partition_name(target, spec, session), location) for spec, location in partitions]
        names = [name for name, _ in named]
        doubled = next((name for i, name in enumerate(names) if name in names[:i]), None)
        if doubled is not None or not named:
            what = "No partition was given" if doubled is None else f"The partition {shown(doubled)} is given twice"
            raise InvalidPartitionSpecError(f"{what} to be added to table {target.identifier}.")
        own = self._located(target)
        comes = {name for name, location in named if location is None}
        placed: list[NewPartition] = []
        for name, location in named:
            place = below(Location.parse(target.definition.location), name)
            if location is not None:
                place = self._chosen_location(target, name, location)
            self._look_for_others(target, name, place, own, comes, chosen=location is not None)
            if location is not None:
                own[name] = _real(place)
            placed.append(NewPartition(name, None if location is None else str(place)))
        return self._run(target, AddPartitions(tuple(placed), if_not_exists), "ADD PARTITION", session)

    def drop(
        self, table: str | Table, predicates: Sequence[Predicate] = (), *, clauses: PartitionClauses = NO_CLAUSES,
        if_exists: bool = False, purge: bool = False,
    ) -> WriteOutcome:  # fmt: skip
        """Drop the partitions that the predicates and PARTITION clauses select; only a managed table's data is deleted.

        With ``purge``, a managed table's data outside the table's directory is deleted too.

        Raises:
            PartitionNotFoundError: A predicate matches nothing.
            InvalidPredicateError, InvalidPartitionSpecError, InvalidValueError: A predicate or clause does not fit the
                table's partition columns.
            ConflictError: Another writer was first.
        """
        target = self._table(table, "DROP PARTITION")
        require_partitioned(target)
        predicates = [*predicates, *clauses.conditions(target)]
        if not predicates:
            raise InvalidPartitionSpecError(f"No partition was given to be dropped from table {target.identifier}.")
        for predicate in predicates:
            if if_exists:
                bound_to(target, predicate)
            else:
                require_match(self._context.index, target, predicate, droppable=True)
        managed = target.definition.table_type is TableType.MANAGED
        deletes = DataDeletion.NONE if not managed else DataDeletion.ALL if purge else DataDeletion.INSIDE
        either = any_of(*predicates)
        return self._run(target, DropPartitions(either, deletes), "DROP PARTITION", clauses.session)

    def rename(self, table: str | Table, from_: Spec, to: Spec, *, session: Session = ANY_SESSION) -> WriteOutcome:
        """Rename a partition to other values; files of a managed table's partition at its default location are moved.

        Raises:
            PartitionNotFoundError: There is no partition with the old values.
            PartitionAlreadyExistsError: There is a partition with the new values.
            InvalidPartitionSpecError, InvalidValueError: A spec does not fit the table.
            TableLayoutError: Unregistered files lie at the new location.
            ConflictError: Another writer was first.
        """
        target = self._table(table, "RENAME PARTITION")
        asked = RenamePartition(partition_name(target, from_, session), partition_name(target, to, session))
        return self._run(target, asked, "RENAME PARTITION", session)

    def relocate(
        self, table: str | Table, spec: Spec, location: str, *, session: Session = ANY_SESSION
    ) -> WriteOutcome:
        """Set a partition's location and register the files there; nothing is changed at the old location.

        Raises:
            PartitionNotFoundError: There is no such partition.
            InvalidPartitionSpecError, InvalidValueError: The spec does not fit the table.
            LocationNotFoundError: The location lies outside the table's directory and does not exist.
            InvalidInputError: The location cannot be a partition's.
            ConflictError: Another writer was first.
        """
        target = self._table(table, "PARTITION ... SET LOCATION")
        name = partition_name(target, spec, session)
        place = self._chosen_location(target, name, location)
        self._look_for_others(target, name, place, self._located(target), frozenset(), chosen=True)
        return self._run(target, RelocatePartition(name, str(place)), "SET LOCATION", session)

    def exchange(
        self, table: str | Table, source: str | Table, specs: Sequence[Spec], *, session: Session = ANY_SESSION
    ) -> WriteOutcome:
        """Move the partitions of ``source`` that match full or partial specs into the table, atomically.

        Raises:
            PartitionNotFoundError: A spec matches nothing in the source.
            PartitionAlreadyExistsError: The table has one of the partitions already.
            SchemaMismatchError: The tables differ in columns, partition columns or format.
            InvalidPartitionSpecError, InvalidValueError: A spec does not fit the tables.
            ConflictError: Another writer was first.
        """
        target, origin = (self._table(each, "EXCHANGE PARTITION") for each in (table, source))
        if target.table_id == origin.table_id:
            raise InvalidInputError(
                f"Partitions of table {target.identifier} cannot be exchanged with itself. Name another table.",
                {"table": str(target.identifier)},
            )
        require_partitioned(target)
        _require_same_schema(target, origin)
        if not specs:
            raise InvalidPartitionSpecError(f"No partition was given to be moved from table {origin.identifier}.")
        predicates = [spec_condition(target, spec, session) for spec in specs]
        for predicate in predicates:
            require_match(self._context.index, origin, predicate)
        either = any_of(*predicates)
        asked = ExchangePartitions(origin.table_id, str(origin.identifier), origin.version, either)
        return self._run(target, asked, "EXCHANGE PARTITION", session, origin)

    def _run(
        self, table: Table, asked: AskedCommand, operation: str, session: Session, origin: Table | None = None
    ) -> WriteOutcome:
        """Run a command. If it changes a second table, the stricter lock settings of the two tables apply."""
        conf, own = self._context.settings.conf, [table.definition.properties]
        own += [] if origin is None else [origin.definition.properties]
        options = [transaction_options({}, session.settings, properties, conf) for properties in own]
        strictest = max(options, key=lambda found: list(LockMode).index(lock_settings(found).mode))
        return self._context.transactions.command(table, asked, operation, {**options[0], **_of_locks(strictest)})

    def _table(self, table: str | Table, command: str) -> Table:
        """Return the table whose partitions a command changes.

        Raises:
            OperationNotSupportedError: The location has wildcards: the matching paths define the table's partitions.
        """
        found = self._context.load_table(table) if isinstance(table, str) else table
        check_one_directory(found.definition, command)
        return found

    def _chosen_location(self, table: Table, name: str, location: str) -> Location:
        """Return the location that a statement gives to a partition, checked.

        Raises:
            InvalidInputError: No partition of the table can have this location.
        """
        root = Location.parse(table.definition.location)
        place = Location.parse(location, base=root)
        self._context.allowed.require(place)
        parameters = {"table": str(table.identifier), "partition": name[:200], "location": str(place)}
        about = f"The location {shown(str(place))} of partition {shown(name)} of table {table.identifier}"
        if place.contains(root) or _real(place).contains(_real(root)):
            raise InvalidInputError(
                f"{about} is the table's own directory, or holds it. Give a directory of the partition's own.",
                parameters,
            )
        components = (place.relative_to(root) if root.contains(place) else place.name).split("/")
        if root.contains(place) and components[0] == DATA and transaction_id_in("".join(components[1:2])) is not None:
            # Allow the directory of a relocating overwrite, although its name is hidden: a user may make a partition
            # use these rows again.
            components = components[2:]
        hidden_name = next((c for c in components if is_hidden(c)), None)
        if hidden_name is not None:
            raise InvalidInputError(
                f"{about} is hidden: names that begin with '_' or '.', such as {shown(hidden_name)}, are kept for "
                "unfinished writes. Give another directory.",
                parameters,
            )
        return place

    def _located(self, table: Table) -> dict[str, Location]:
        """Return the real paths of partitions with an explicit location."""
        return {name: _real(Location.parse(at)) for name, at in self._context.index.partitions.located(table).items()}

    def _look_for_others(
        self, table: Table, name: str, place: Location, own: Mapping[str, Location], comes: AbstractSet[str], *,
        chosen: bool,
    ) -> None:  # fmt: skip
        """Warn if another partition or table has files at the new location; refuse the location in a managed table.

        Dropping a partition of a managed table deletes its files. ``own`` has the real locations of partitions with an
        explicit location. ``comes`` has the partitions that the same statement adds at their default locations.
        ``chosen``: the statement gives the location.
        """
        index, root = self._context.index, _real(Location.parse(table.definition.location))
        real = _real(place)
        others = [f"partition {n}" for n, at in own.items() if n != name and real.overlaps(at)]
        if chosen:
            others += [str(o) for o in index.tables.overlapping(str(place)) if o != table.identifier]
            inside = real.relative_to(root) if root.contains(real) else name
            if inside != name and inside not in own and (inside in comes or index.partitions.existing(table, [inside])):
                others.append(f"partition {inside}")
        if place.scheme == "hdfs":
            what = f"Partition {shown(name)} of table {table.identifier}"
            warn_of_other_name_node(what, str(place), (there for _, there in index.tables.locations()))
        if not others:
            return
        parameters = {"table": str(table.identifier), "partition": name[:200], "location": str(place)}
        about = f"The location {shown(str(place))} of partition {shown(name)} of table {table.identifier}"
        owners = ", ".join(sorted(others)[:5])
        if table.definition.table_type is TableType.MANAGED:
            raise InvalidInputError(f"{about} is that of, in or around {owners}. Give another directory.", parameters)
        warnings.warn(f"{about} shares files with {owners}.", TableOverlapWarning, stacklevel=4)


def _of_locks(options: Mapping[str, str]) -> dict[str, str]:
    return {setting.key: options[setting.key] for setting in LOCK_SETTINGS if setting.key in options}


def _real(place: Location) -> Location:
    """Return the real path of a location, with symbolic links resolved."""
    if place.scheme != "file":
        return place
    return Location("file", "", real_location(str(place)).removeprefix("file:///"))


def _require_same_schema(target: Table, source: Table) -> None:
    ours, theirs = target.definition, source.definition
    for definition_part, target_value, source_value in (
        ("columns", _described(ours.columns), _described(theirs.columns)),
        ("partition columns", _described(ours.partition_columns), _described(theirs.partition_columns)),
        # Bucketed files may be exchanged into a table without buckets, which can read them.
        ("buckets", ours.bucketed_by or "none", (ours.bucketed_by and theirs.bucketed_by) or "none"),
        ("format", ours.format, theirs.format),
        ("options", dict(ours.options), dict(theirs.options)),
    ):
        if target_value != source_value:
            raise SchemaMismatchError(
                f"Partitions cannot be moved from table {source.identifier} to table {target.identifier}: their "
                f"{definition_part} differ ({source_value} and {target_value}). Both must be the same.",
                {"table": str(target.identifier), "source": str(source.identifier)},
            )


def _described(columns: Sequence[Column]) -> list[str]:
    return [f"{column.name.lower()} {column.type}" for column in columns]
