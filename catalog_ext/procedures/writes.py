"""Procedures that recover, vacuum and show writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from catalog_ext.procedures.procedure import DRY_RUN, TABLE, Parameter, Procedure, columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from catalog_ext.catalog import Catalog

_ANY_TABLE = Parameter("table", "string", "namespace.table; all if left out")


def _recover(catalog: Catalog, arguments: Mapping[str, Any]) -> Iterable[object]:
    report = catalog.recover(**arguments)
    return (*report.transactions, *report.waiting)


PROCEDURES = (
    Procedure(
        "restored", "Goes on with an index that was restored; a preview says whether it was",
        (DRY_RUN,),
        columns("action, subject, detail"), lambda catalog, arguments: catalog.restored(**arguments),
    ),
    Procedure(
        "recover", "Finishes or undoes writes whose owners are gone",
        (
            _ANY_TABLE,
            Parameter("older_than", "string",
                "duration since the last sign of life, such as 0s; the lease if left out"),
            Parameter("undo", "string", "id of the one write that is undone instead of finished"), DRY_RUN,
        ),
        columns("transaction, table, operation, owner, action, files bigint, error"), _recover, touches=("table",),
    ),
    Procedure(
        "vacuum", "Removes files and versions that nothing needs any more",
        (
            _ANY_TABLE,
            Parameter("retention", "string", "age from which they go, such as 7d; vacuum.retention if left out"),
            Parameter("allow_short_retention", "boolean", "take a retention below an hour", default=False),
            Parameter("unknown_writes", "boolean",
                "remove what is reported as skipped, too: no other index has a table at the location", default=False),
            DRY_RUN,
        ),
        columns("action, path, bytes bigint, reason, table"),
        lambda catalog, arguments: catalog.vacuum(**arguments).entries,
    ),
    Procedure(
        "release_waiting", "Commits what streams have kept back until their partitions are due",
        (TABLE, Parameter("application", "string", "id of the one query; all if left out"), DRY_RUN),
        columns("partition, application, files bigint, rows bigint, bytes bigint, since timestamp"),
        lambda catalog, arguments: catalog.release_waiting(**arguments).partitions, touches=("table",),
    ),
    Procedure(
        "discard_waiting", "Gives up files of streams that waited for their partitions and are gone",
        (TABLE, DRY_RUN),
        columns("partition, location, rows bigint, bytes bigint, since timestamp, transaction"),
        lambda catalog, arguments: catalog.discard_waiting(**arguments).files,
    ),
    Procedure(
        "status", "Shows writes, waiting partitions and changes for the metastore that are under way",
        (_ANY_TABLE,),
        columns("kind, table, id, state, since timestamp, detail"),
        lambda catalog, arguments: catalog.status(**arguments),
    ),
)  # fmt: skip
