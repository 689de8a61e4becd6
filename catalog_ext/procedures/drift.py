"""Shows and mends by procedures where store, index and metastore differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from catalog_ext.procedures.procedure import DRY_RUN, TABLE, TEXT, Parameter, Procedure, in_batches

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from catalog_ext.catalog import Catalog

_DRIFT_SCHEMA = pa.schema({
    "table": TEXT, "kind": TEXT, "subject": TEXT, "store": TEXT, "index": TEXT, "metastore": TEXT, "newer": TEXT,
    "evidence": TEXT, "pending": pa.bool_(), "failed": pa.bool_(), "unavailable": pa.bool_(),
})  # fmt: skip
_MENDED_SCHEMA = pa.schema({
    "table": TEXT, "action": TEXT, "subject": TEXT, "done": pa.bool_(), "why": TEXT,
})  # fmt: skip


def _drift(catalog: Catalog, arguments: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    return in_batches((each.to_dict() for each in catalog.drift(arguments["table"])), _DRIFT_SCHEMA)


def _mend(catalog: Catalog, arguments: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    return in_batches((each.to_dict() for each in catalog.mend_drift(**arguments)), _MENDED_SCHEMA)


PROCEDURES = (
    Procedure(
        "drift", "Shows where the store, the index and the metastore differ",
        (Parameter("table", "string", "namespace.table; all if left out"),),
        _DRIFT_SCHEMA, _drift,
    ),
    Procedure(
        "mend_drift", "Brings the sides of a table together, by the one that is right",
        (
            TABLE, Parameter("source", "string", "the side that is right: store, index or metastore", required=True),
            Parameter("where", "string", "a condition on partition columns that limits the mend"),
            Parameter("drop", "boolean", "drop what the metastore does not have, too", default=False),
            Parameter("allow_mass_drop", "boolean", "drop however much has gone", default=False), DRY_RUN,
        ),
        _MENDED_SCHEMA, _mend, touches=("table",),
    ),
)  # fmt: skip
