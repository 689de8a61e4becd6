"""Shows and mends by procedures what the metastore has not taken, or has lost."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from catalog_ext.procedures.procedure import DRY_RUN, LONG, TEXT, TIMESTAMP, Parameter, Procedure, in_batches

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
)  # fmt: skip
