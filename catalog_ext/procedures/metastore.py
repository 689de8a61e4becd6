"""Procedures for drift, mending and the outbox: differences between the three sides, and pending messages."""

from __future__ import annotations

from catalog_ext.procedures.procedure import DRY_RUN, TABLE, Parameter, Procedure, columns

_ONE_OR_ALL = Parameter("table", "string", "name of the table: namespace.table; all tables if omitted")

PROCEDURES = (
    Procedure(
        "outbox", "Lists the changes that the metastore has not applied yet, retries them, or discards one",
        (
            Parameter("action", "string",
                "list, retry (with the next delivery) or skip (never deliver it)", default="list"),
            Parameter("id", "string", "number of one change; all if omitted, but skip requires it"),
        ),
        columns("id bigint, table, operation, state, attempts bigint, since timestamp, error"),
        lambda catalog, arguments: catalog.outbox(arguments["action"], arguments["id"]),
    ),
    Procedure(
        "publish",
        "Makes the metastore match the index, for example after it was lost or replaced; files and index are not "
        "changed",
        (_ONE_OR_ALL, DRY_RUN),
        columns("table, action, published bigint, dropped bigint, pending bigint, error, differs"),
        lambda catalog, arguments: catalog.publish(**arguments),
    ),
    Procedure(
        "export", "Copies the definitions of tables and views to another metastore; nothing is dropped there",
        (
            Parameter("to", "string", "address of the other metastore: thrift://host:9083", required=True),
            Parameter("pattern", "string",
                "a database, or a pattern such as sales.fact_* with * and ?; all tables if omitted"), DRY_RUN,
        ),
        columns("table, action, partition, sent bigint, kept bigint, reason"),
        lambda catalog, arguments: catalog.export(**arguments),
    ),
    Procedure(
        "drift", "Compares the store, the index and the metastore, and lists the differences; nothing is changed",
        (_ONE_OR_ALL,),
        columns(
            "table, kind, subject, store, index, metastore, newer, evidence, pending boolean, failed boolean, "
            "unavailable boolean"
        ),
        lambda catalog, arguments: catalog.drift(**arguments),
    ),
    Procedure(
        "mend_drift", "Makes the other two sides of a table match the side that is right: store, index or metastore",
        (
            TABLE, Parameter("source", "string", "the side that is right: store, index or metastore", required=True),
            Parameter("where", "string", "SQL condition on partition columns; only partitions that match are mended"),
            Parameter("drop", "boolean",
                "with source metastore: also remove partitions from the index that the metastore does not have",
                default=False),
            Parameter("allow_mass_drop", "boolean",
                "no limit on the share of partitions that may be dropped (repair.mass-drop-percent)", default=False),
            DRY_RUN,
        ),
        columns("table, action, subject, done boolean, why"),
        lambda catalog, arguments: catalog.mend_drift(**arguments), touches=("table",),
    ),
)  # fmt: skip
