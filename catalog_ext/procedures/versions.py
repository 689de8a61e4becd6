"""Procedures that give tables and partitions the state of an earlier version."""

from __future__ import annotations

from catalog_ext.procedures.procedure import DRY_RUN, TABLE, Parameter, Procedure, columns

_ENTRIES = columns("action, partition, files bigint, rows bigint, bytes bigint, reason, version bigint")

PROCEDURES = (
    Procedure(
        "rollback",
        "Gives a table, or the partitions that match a condition, the files of an earlier version, if they still exist",
        (
            TABLE, Parameter("version", "bigint", "number of the earlier version, as in t.history", required=True),
            Parameter("where", "string", "SQL condition on partition columns; the whole table if omitted"), DRY_RUN,
        ),
        _ENTRIES, lambda catalog, arguments: catalog.rollback(**arguments), touches=("table",),
    ),
    Procedure(
        "restore_partition",
        "Gives one partition, which may have been dropped, the files of an earlier version, if they still exist",
        (
            TABLE, Parameter("partition", "string", "name of the partition, such as ds=2025-01-31", required=True),
            Parameter("version", "bigint",
                "number of the earlier version; the state before the partition's last change if omitted"),
            DRY_RUN,
        ),
        _ENTRIES, lambda catalog, arguments: catalog.restore_partition(**arguments), touches=("table",),
    ),
)  # fmt: skip
