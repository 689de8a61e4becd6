"""What decides in partition commands what becomes of data, and the errors of partitions that are (not) there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import PartitionAlreadyExistsError, PartitionNotFoundError

if TYPE_CHECKING:
    from catalog_ext.metastore.commit.plan import WritePlan
    from catalog_ext.metastore.model.tables import Table


def lies_inside(table: Table, place: str) -> bool:
    """Whether a partition's directory, given by its URI, is in the table's."""
    return place.startswith(f"{table.definition.location}/")


def deletes(plan: WritePlan, table: Table, place: str) -> bool:
    """Whether a ``DROP`` deletes the data of a partition that lies there."""
    scope = plan.command["deletes"]
    return scope == "all" or (scope == "inside" and lies_inside(table, place))


def travels(source: Table, place: str) -> bool:
    """Whether an ``EXCHANGE`` moves the files of a partition there: those in the source's directory, as in Hive."""
    return lies_inside(source, place)


def already_exists(table: Table, name: str, known_as: str) -> PartitionAlreadyExistsError:
    """The error for a partition that is to come and whose values are taken."""
    spelled = "" if name == known_as else f", as {known_as[:200]!r}"
    return PartitionAlreadyExistsError(
        f"The partition {name[:200]!r} of table {table.identifier} exists already{spelled}. Nothing was changed; drop "
        "it first, or choose other values.",
        {"table": str(table.identifier), "partition": name[:200]},
    )


def not_found(table: Table, which: str) -> PartitionNotFoundError:
    """The error for a partition that is not there."""
    return PartitionNotFoundError(
        f"Table {table.identifier} has no partition {which[:200]!r}. Nothing was changed; SHOW PARTITIONS lists those "
        "that are there, MSCK REPAIR TABLE finds new ones.",
        {"table": str(table.identifier), "partition": which[:200]},
    )
