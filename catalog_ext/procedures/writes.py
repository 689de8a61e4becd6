"""Procedures that recover, vacuum and show writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from catalog_ext.procedures.procedure import DRY_RUN, TABLE, Parameter, Procedure, columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from catalog_ext.catalog import Catalog

_ANY_TABLE = Parameter("table", "string", "name of the table: namespace.table; all tables if omitted")


def _recover(catalog: Catalog, arguments: Mapping[str, Any]) -> Iterable[object]:
    report = catalog.recover(**arguments)
    return (*report.transactions, *report.waiting)


PROCEDURES = (
    Procedure(
        "restored",
        "Makes an index usable again after a restore from a backup; the dry run says whether it was restored",
        (DRY_RUN,),
        columns("action, subject, detail"), lambda catalog, arguments: catalog.restored(**arguments),
    ),
    Procedure(
        "recover", "Finishes or undoes the writes of processes that died",
        (
            _ANY_TABLE,
            Parameter("older_than", "string",
                "recover writes without a keepalive for this long, such as 10m; each write's lease if omitted"),
            Parameter("undo", "string", "id of one uncommitted write to undo instead of finishing it"), DRY_RUN,
        ),
        columns("transaction, table, operation, owner, action, files bigint, error"), _recover, touches=("table",),
    ),
    Procedure(
        "vacuum", "Deletes replaced files, leftovers of aborted writes and old versions that nothing needs",
        (
            _ANY_TABLE,
            Parameter("retention", "string",
                "minimum age of what is deleted, such as 7d; the setting vacuum.retention if omitted"),
            Parameter("allow_short_retention", "boolean",
                "allow a retention below one hour, while no query and no write is running", default=False),
            Parameter("unknown_writes", "boolean",
                "also delete staged files of unknown writes, if "
                "no other index has a table at the location", default=False),
            DRY_RUN,
        ),
        columns("action, path, bytes bigint, reason, table"),
        lambda catalog, arguments: catalog.vacuum(**arguments).entries,
    ),
    Procedure(
        "release_waiting", "Commits the partitions that streaming queries hold back until they are due",
        (TABLE, Parameter("application", "string", "id of one streaming query; all queries if omitted"), DRY_RUN),
        columns("partition, application, files bigint, rows bigint, bytes bigint, since timestamp"),
        lambda catalog, arguments: catalog.release_waiting(**arguments).partitions, touches=("table",),
    ),
    Procedure(
        "discard_waiting",
        "Gives up files that streaming queries held back and that are missing, so that the queries can go on",
        (TABLE, DRY_RUN),
        columns("partition, location, rows bigint, bytes bigint, since timestamp, transaction"),
        lambda catalog, arguments: catalog.discard_waiting(**arguments).files,
    ),
    Procedure(
        "status", "Shows running writes, waiting partitions and undelivered metastore changes",
        (_ANY_TABLE,),
        columns("kind, table, id, state, since timestamp, detail"),
        lambda catalog, arguments: catalog.status(**arguments),
    ),
)  # fmt: skip
