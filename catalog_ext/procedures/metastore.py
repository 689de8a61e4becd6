"""Shows and mends by procedures where store, index and metastore differ, and what the metastore has not taken."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from catalog_ext.procedures.procedure import DRY_RUN, LONG, TABLE, TEXT, TIMESTAMP, Parameter, Procedure, in_batches

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from catalog_ext.catalog import Catalog


_OUTBOX_SCHEMA = pa.schema({
    "id": LONG, "table": TEXT, "operation": TEXT, "state": TEXT, "attempts": LONG, "since": TIMESTAMP, "error": TEXT,
})  # fmt: skip

_PUBLISH_SCHEMA = pa.schema({
    "table": TEXT, "action": TEXT, "published": LONG, "dropped": LONG, "pending": LONG, "error": TEXT, "differs": TEXT,
})  # fmt: skip
_EXPORT_SCHEMA = pa.schema({
    "table": TEXT, "action": TEXT, "partition": TEXT, "sent": LONG, "kept": LONG, "reason": TEXT,
})  # fmt: skip


def _publish(catalog: Catalog, arguments: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    entries = catalog.publish(arguments["table"], dry_run=arguments["dry_run"])
    return in_batches((entry._asdict() for entry in entries), _PUBLISH_SCHEMA)


def _outbox(catalog: Catalog, arguments: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    entries = catalog.outbox(arguments["action"], arguments["id"])
    return in_batches(({**e._asdict(), "since": e.since_ms * 1000} for e in entries), _OUTBOX_SCHEMA)


def _export(catalog: Catalog, arguments: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    entries = catalog.export(arguments["pattern"], to=arguments["to"], dry_run=arguments["dry_run"])
    return in_batches((asdict(entry) for entry in entries), _EXPORT_SCHEMA)


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
        "outbox", "Shows, retries or skips changes that the metastore has not taken",
        (
            Parameter("action", "string", "list, retry (at the next delivery) or skip", default="list"),
            Parameter("id", "string", "number of one change; all if left out, which skip refuses"),
        ),
        _OUTBOX_SCHEMA, _outbox,
    ),
    Procedure(
        "publish", "Brings the metastore to the index's state, after it was lost or replaced",
        (Parameter("table", "string", "namespace.table; all if left out"), DRY_RUN),
        _PUBLISH_SCHEMA, _publish,
    ),
    Procedure(
        "export", "Writes what another metastore needs of tables and views",
        (
            Parameter("to", "string", "thrift://host:9083 of the other metastore", required=True),
            Parameter("pattern", "string", "a database, or tables of one with * and ?; all if left out"), DRY_RUN,
        ),
        _EXPORT_SCHEMA, _export,
    ),
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
