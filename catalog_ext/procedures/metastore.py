"""Procedures for drift, mending and the outbox: differences between the three sides, and pending messages."""

from __future__ import annotations

from catalog_ext.procedures.procedure import DRY_RUN, TABLE, Parameter, Procedure, columns

_ONE_OR_ALL = Parameter("table", "string", "namespace.table; all if left out")

PROCEDURES = (
    Procedure(
        "outbox", "Shows, retries or skips changes that the metastore has not taken",
        (
            Parameter("action", "string", "list, retry (at the next delivery) or skip", default="list"),
            Parameter("id", "string", "number of one change; all if left out, which skip refuses"),
        ),
        columns("id bigint, table, operation, state, attempts bigint, since timestamp, error"),
        lambda catalog, arguments: catalog.outbox(arguments["action"], arguments["id"]),
    ),
    Procedure(
        "publish", "Brings the metastore to the index's state, after it was lost or replaced",
        (_ONE_OR_ALL, DRY_RUN),
        columns("table, action, published bigint, dropped bigint, pending bigint, error, differs"),
        lambda catalog, arguments: catalog.publish(**arguments),
    ),
    Procedure(
        "export", "Writes what another metastore needs of tables and views",
        (
            Parameter("to", "string", "thrift://host:9083 of the other metastore", required=True),
            Parameter("pattern", "string", "a database, or tables of one with * and ?; all if left out"), DRY_RUN,
        ),
        columns("table, action, partition, sent bigint, kept bigint, reason"),
        lambda catalog, arguments: catalog.export(**arguments),
    ),
    Procedure(
        "drift", "Shows where the store, the index and the metastore differ",
        (_ONE_OR_ALL,),
        columns(
            "table, kind, subject, store, index, metastore, newer, evidence, pending boolean, failed boolean, "
            "unavailable boolean"
        ),
        lambda catalog, arguments: catalog.drift(**arguments),
    ),
    Procedure(
        "mend_drift", "Brings the sides of a table together, by the one that is right",
        (
            TABLE, Parameter("source", "string", "the side that is right: store, index or metastore", required=True),
            Parameter("where", "string", "a condition on partition columns that limits the mend"),
            Parameter("drop", "boolean", "drop what the metastore does not have, too", default=False),
            Parameter("allow_mass_drop", "boolean", "drop however much has gone", default=False), DRY_RUN,
        ),
        columns("table, action, subject, done boolean, why"),
        lambda catalog, arguments: catalog.mend_drift(**arguments), touches=("table",),
    ),
)  # fmt: skip
