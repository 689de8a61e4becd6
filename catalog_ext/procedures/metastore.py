"""Shows, retries and skips by a procedure what the metastore has not taken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from catalog_ext.procedures.procedure import TIMESTAMP, Parameter, Procedure, in_batches

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from catalog_ext.catalog import Catalog

_OUTBOX_SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("table", pa.string()),
        ("operation", pa.string()),
        ("state", pa.string()),
        ("attempts", pa.int64()),
        ("since", TIMESTAMP),
        ("error", pa.string()),
    ]
)


def _outbox(catalog: Catalog, arguments: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    entries = catalog.outbox(arguments["action"], arguments["id"])
    return in_batches(({**e._asdict(), "since": e.since_ms * 1000} for e in entries), _OUTBOX_SCHEMA)


PROCEDURES = (
    Procedure(
        "outbox",
        "Shows, retries or skips changes that the metastore has not taken",
        (
            Parameter("action", "string", "list, retry (at the next delivery) or skip", default="list"),
            Parameter("id", "string", "number of one change; all if left out, which skip refuses"),
        ),
        _OUTBOX_SCHEMA,
        _outbox,
    ),
)
