"""The rules of the partition commands: their effects on partitions, and the reasons for refusals.

The steps ``check`` and ``apply`` use the same rules: ``check`` before any file is touched, ``apply`` while it holds the
lock on the table's row in the index.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.partition_plans import CheckedRename, DataDeletion, MovingPartition
from catalog_ext.metastore.errors import (
    ConflictError,
    InvalidInputError,
    PartitionAlreadyExistsError,
    PartitionDescriptorError,
    PartitionNotFoundError,
)
from catalog_ext.metastore.model.partition_names import escape_path_name, split_component
from catalog_ext.metastore.model.tables import TableType
from catalog_ext.metastore.model.typed_values import claim_hash, typed_values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from catalog_ext.metastore.commit.partition_plans import (
        AddPartitions,
        DropPartitions,
        NewPartition,
        RenamePartition,
    )
    from catalog_ext.metastore.commit.plan import WritePlan
    from catalog_ext.metastore.model.tables import Partition, Table


def partitions_to_add(
    asked: AddPartitions, table: Table, wanted: Sequence[NewPartition], living: Iterable[Partition]
) -> tuple[NewPartition, ...]:
    """Return the partitions of an ADD PARTITION that do not exist yet; partitions are compared by their values.

    Raises:
        PartitionAlreadyExistsError: A partition exists, and ``if_not_exists`` is false.
    """
    there = by_name(table, [partition.name for partition in wanted], living)
    if there and not asked.if_not_exists:
        raise _already_exists(table, there)
    return tuple(partition for partition in wanted if partition.name not in there)


def check_rename(asked: RenamePartition, table: Table, living: Iterable[Partition]) -> CheckedRename:
    """Return the partitions to rename, and whether their files move.

    The files move if the table is managed and they are at default locations.

    Raises:
        PartitionNotFoundError: No partition has the old values.
        PartitionAlreadyExistsError: A partition has the new values.
        InvalidInputError: Several directories have the old values, and their files would stay in place.
    """
    living = list(living)
    partitions = partitions_of(table, asked.name, living)
    require_free(table, [asked.to], living)
    _require_one_descriptor(table, partitions)
    managed = table.definition.table_type is TableType.MANAGED
    moves = managed and all(partition.location is None for partition in partitions)
    if len(partitions) > 1 and not moves:
        raise _in_several_places(table, asked.name, partitions, "a rename")
    moving = tuple(MovingPartition(p.partition_id, p.begin_version, asked.to) for p in partitions)
    return CheckedRename(asked, moving, moves)


def exchanged_names(table: Table, source: Table, found: Iterable[Partition]) -> list[tuple[Partition, str]]:
    """Return the partitions of an exchange's source, ordered by name, each with its name in the target table.

    Raises:
        PartitionNotFoundError: The source has no partition that the exchange names.
        InvalidInputError: Several partitions would get one name, and the files of one of them stay in place.
    """
    pairs = [(partition, respelled(partition.name, table)) for partition in sorted(found, key=lambda p: p.name)]
    if not pairs:
        raise not_found(source, "that the exchange names")
    alike: dict[str, list[Partition]] = {}
    for partition, name in pairs:
        alike.setdefault(name, []).append(partition)
    for name, partitions in alike.items():
        _require_one_descriptor(source, partitions)
        if len(partitions) > 1 and not all(moves_files(source, partition) for partition in partitions):
            raise _in_several_places(source, name, partitions, "an exchange")
    return pairs


def _require_one_descriptor(table: Table, partitions: Sequence[Partition]) -> None:
    if len({partition.descriptor for partition in partitions}) > 1:
        name = partitions[0].name[:200]
        raise PartitionDescriptorError(
            f"The directories of the partition {name!r} of table {table.identifier} are of different formats, and "
            "would become one partition. INSERT OVERWRITE the partition before, which brings them together.",
            {"table": str(table.identifier), "partition": name},
        )


def staying(living: Iterable[Partition], name: str) -> list[Partition]:
    """Sort partitions with equal values. SET LOCATION keeps the first: one that the metastore has, if possible."""
    return sorted(living, key=lambda p: (not p.in_metastore, p.name != name, p.name))


def as_checked(
    table: Table,
    planned: Sequence[MovingPartition],
    living: Iterable[Partition],
    moved: Callable[[Partition], bool],
) -> list[Partition]:
    """Return the partitions that ``check`` has found, in its order, after checking that they are unchanged.

    A partition whose files stay in place (``moved`` is false) may have changed by a repair since: its new files belong
    to it. ``living`` are the planned partitions that still exist.

    Raises:
        ConflictError: Another process has changed or dropped one of the partitions.
    """
    found = {partition.partition_id: partition for partition in living}
    expected = {moving.partition_id: moving.begin_version for moving in planned}
    changed = [p for p in found.values() if p.begin_version != expected.get(p.partition_id)]
    if found.keys() != expected.keys() or any(map(moved, changed)):
        raise ConflictError(
            f"A partition of table {table.identifier} was changed by another process, such as a repair, before this "
            "statement could move it. Nothing was changed; try again.",
            {"table": str(table.identifier)},
        )
    return [found[moving.partition_id] for moving in planned]


def by_name(table: Table, names: Sequence[str], living: Iterable[Partition]) -> dict[str, list[Partition]]:
    """Return the names that have existing partitions with equal typed values, each with these partitions."""
    keys = table.definition.keys
    of_values: dict[str, list[Partition]] = {}
    for partition in living:
        of_values.setdefault(claim_hash(typed_values(partition.name, keys), keys), []).append(partition)
    digests = {name: claim_hash(typed_values(name, keys), keys) for name in names}
    return {name: of_values[digest] for name, digest in digests.items() if digest in of_values}


def partitions_of(table: Table, name: str, living: Iterable[Partition]) -> list[Partition]:
    """Return the partitions with the values of a name; the partition with exactly that name comes first.

    Raises:
        PartitionNotFoundError: There is no such partition.
    """
    found = by_name(table, [name], living).get(name)
    if not found:
        raise not_found(table, name)
    return sorted(found, key=lambda partition: (partition.name != name, partition.name))


def require_free(table: Table, names: Sequence[str], living: Iterable[Partition]) -> None:
    """Check that no existing partition has the values of one of the names.

    Raises:
        PartitionAlreadyExistsError: A partition with these values exists.
    """
    there = by_name(table, names, living)
    if there:
        raise _already_exists(table, there)


def own_location(table: Table, name: str, place: str | None) -> str | None:
    """Return a partition's location as the index stores it: None for the default location."""
    return None if place == table.directory(name) else place


def lies_inside(table: Table, place: str) -> bool:
    """Return whether a partition's directory, given by its URI, is inside the table's directory."""
    return place.startswith(f"{table.definition.location}/")


def keeps_files(replaced: Table, plan: WritePlan) -> bool:
    """Return whether a replacement keeps the old table's files: the old table is external, and the location changes."""
    return replaced.definition.table_type is TableType.EXTERNAL and replaced.definition.location != plan.location


def goes_with_table(replaced: Table, place: str) -> bool:
    """Return whether the files in a partition's directory are deleted when the table is replaced."""
    return place == replaced.definition.location or lies_inside(replaced, place)


def deletes(asked: DropPartitions, table: Table, place: str) -> bool:
    """Return whether a DROP deletes the files of a partition in this directory."""
    return asked.deletes is DataDeletion.ALL or (asked.deletes is DataDeletion.INSIDE and lies_inside(table, place))


def moves_files(source: Table, partition: Partition) -> bool:
    """Return whether an EXCHANGE moves a partition's files: like Hive, only those in the source's directory."""
    return lies_inside(source, source.directory_of(partition))


def respelled(name: str, table: Table) -> str:
    """Return the partition's name with its keys in the table's spelling; the values keep their spelling."""
    keys = table.definition.keys
    values = [(split_component(component) or ("", ""))[1] for component in name.split("/")]
    return "/".join(f"{escape_path_name(key.name)}={value}" for key, value in zip(keys, values, strict=True))


def _in_several_places(table: Table, name: str, partitions: Sequence[Partition], command: str) -> InvalidInputError:
    names = ", ".join(repr(partition.name[:200]) for partition in partitions)
    return InvalidInputError(
        f"The partition {name[:200]!r} of table {table.identifier} has {len(partitions)} directories "
        f"({names}), whose files {command} leaves where they are: one partition cannot lie in two places. Bring "
        "them together, or drop one of them, before.",
        {"table": str(table.identifier), "partition": name[:200]},
    )


def _already_exists(table: Table, there: dict[str, list[Partition]]) -> PartitionAlreadyExistsError:
    name, living = next(iter(there.items()))
    known_as = living[0].name
    spelled = "" if name == known_as else f", as {known_as[:200]!r}"
    return PartitionAlreadyExistsError(
        f"The partition {name[:200]!r} of table {table.identifier} exists already{spelled}. Nothing was changed; drop "
        "it first, or choose other values.",
        {"table": str(table.identifier), "partition": name[:200]},
    )


def not_found(table: Table, which: str, *, droppable: bool = False) -> PartitionNotFoundError:
    """Return the error for a partition that a table or view does not have; its message quotes the text ``which``.

    ``droppable`` adds a hint to IF EXISTS, for a DROP.
    """
    kind, remedy = "table", ", MSCK REPAIR TABLE finds new ones"
    if table.definition.table_type is TableType.VIEW:
        kind, remedy = "view", ""
    if droppable:
        remedy = ", and DROP IF EXISTS PARTITION passes over those that are not"
    subject = f"{kind.capitalize()} {table.identifier}"
    return PartitionNotFoundError(
        f"{subject} has no partition {which[:200]!r}. Nothing was changed; SHOW PARTITIONS lists those that are "
        f"there{remedy}.",
        {kind: str(table.identifier), "partition": which[:200]},
    )
