"""Checks what a view must be like."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import (
    ViewOnlyPartitionColumnsError,
    ViewPartitionColumnDuplicateError,
    ViewPartitionColumnNotFoundError,
    ViewPartitionColumnOrderError,
    ViewPartitionColumnsNotLastError,
)
from catalog_ext.metastore.model.views import is_automatic

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog_ext.metastore.model.identifiers import TableIdentifier
    from catalog_ext.metastore.model.tables import Column
    from catalog_ext.metastore.model.views import ViewQuery


@dataclass(frozen=True, slots=True)
class ViewRequest:
    """A view that is to be made or changed.

    Attributes:
        columns: All of them, in their order.
        partitioned_on: The names of its partition columns.
    """

    identifier: TableIdentifier
    query: ViewQuery
    columns: tuple[Column, ...]
    partitioned_on: tuple[str, ...] = ()
    properties: Mapping[str, str] | None = None
    comment: str | None = None
    owner: str = ""

    @property
    def needs_tables(self) -> bool:
        """Whether the view's partitions follow those of the tables that it reads, which have to be known then."""
        return is_automatic(self.properties or {})


def split_columns(request: ViewRequest) -> tuple[tuple[Column, ...], tuple[Column, ...]]:
    """Return the columns and the partition columns, which are the last ones in their order.

    Raises:
        ViewError: They are not.
    """
    where = {"view": str(request.identifier)}
    shown = f"The view {request.identifier} cannot be PARTITIONED ON ({', '.join(request.partitioned_on)})"
    names = [c.name.lower() for c in request.columns]
    wanted = [name.lower() for name in request.partitioned_on]
    for name in wanted:
        if name not in names:
            raise ViewPartitionColumnNotFoundError(
                f"{shown}: its query has no column {name!r}. It has: {', '.join(names)[:300]}.", where
            )
        if wanted.count(name) > 1:
            raise ViewPartitionColumnDuplicateError(f"{shown}: {name!r} is named twice. Name each column once.", where)
    if wanted and len(wanted) == len(names):
        raise ViewOnlyPartitionColumnsError(
            f"{shown}: these are all its columns, and at least one must be none. Leave one out.", where
        )
    last = names[len(names) - len(wanted) :]
    if set(last) != set(wanted):
        raise ViewPartitionColumnsNotLastError(
            f"{shown}: these must be its last columns, which are {', '.join(last)}. Change the order of its columns.",
            where,
        )
    if last != wanted:
        raise ViewPartitionColumnOrderError(
            f"{shown}: its last columns come in another order. Write PARTITIONED ON ({', '.join(last)}).", where
        )
    first = len(names) - len(wanted)
    return request.columns[:first], request.columns[first:]
