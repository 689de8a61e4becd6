"""Recovers, vacuums and shows writes by procedures."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from catalog_ext.procedures.procedure import DRY_RUN, LONG, TABLE, TEXT, TIMESTAMP, Parameter, Procedure, in_batches

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from catalog_ext.catalog import Catalog

_RECOVER_SCHEMA = pa.schema({
    "transaction": TEXT, "table": TEXT, "operation": TEXT, "owner": TEXT, "action": TEXT, "files": LONG, "error": TEXT,
})  # fmt: skip
_VACUUM_SCHEMA = pa.schema({
    "action": TEXT, "path": TEXT, "bytes": LONG, "reason": TEXT, "table": TEXT,
})  # fmt: skip
_DISCARD_SCHEMA = pa.schema({
    "partition": TEXT, "location": TEXT, "rows": LONG, "bytes": LONG, "since": TIMESTAMP, "transaction": TEXT,
})  # fmt: skip
_RELEASE_SCHEMA = pa.schema({
    "partition": TEXT, "application": TEXT, "files": LONG, "rows": LONG, "bytes": LONG, "since": TIMESTAMP,
})  # fmt: skip
_STATUS_SCHEMA = pa.schema({
    "kind": TEXT, "table": TEXT, "id": TEXT, "state": TEXT, "since": TIMESTAMP, "detail": TEXT,
})  # fmt: skip
_RESTORED_SCHEMA = pa.schema([("action", pa.string()), ("subject", pa.string()), ("detail", pa.string())])
_ANY_TABLE = Parameter("table", "string", "namespace.table; all if left out")


def _recover(catalog: Catalog, arguments: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    report = catalog.recover(**arguments)
    rows = ({**asdict(t), "transaction": t.transaction_id} for t in (*report.transactions, *report.waiting))
    return in_batches(rows, _RECOVER_SCHEMA)


def _vacuum(catalog: Catalog, arguments: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    return in_batches((asdict(entry) for entry in catalog.vacuum(**arguments).entries), _VACUUM_SCHEMA)


def _discard_waiting(catalog: Catalog, arguments: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    files = catalog.discard_waiting(**arguments).files
    rows = ({**asdict(f), "since": f.since_ms * 1000, "transaction": f.transaction_id} for f in files)
    return in_batches(rows, _DISCARD_SCHEMA)


def _release_waiting(catalog: Catalog, arguments: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    partitions = catalog.release_waiting(**arguments).partitions
    return in_batches(({**asdict(p), "since": p.since_ms * 1000} for p in partitions), _RELEASE_SCHEMA)


def _restored(catalog: Catalog, arguments: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    return in_batches((entry._asdict() for entry in catalog.restored(**arguments)), _RESTORED_SCHEMA)


def _status(catalog: Catalog, arguments: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    rows = ({**e._asdict(), "since": e.since_ms * 1000} for e in catalog.status(**arguments))
    return in_batches(rows, _STATUS_SCHEMA)


PROCEDURES = (
    Procedure(
        "restored", "Goes on with an index that was restored; a preview says whether it was",
        (DRY_RUN,),
        _RESTORED_SCHEMA, _restored,
    ),
    Procedure(
        "recover", "Finishes or undoes writes whose owners are gone",
        (
            _ANY_TABLE,
            Parameter("older_than", "string",
                "duration since the last sign of life, such as 0s; the lease if left out"),
            Parameter("undo", "string", "id of the one write that is undone instead of finished"), DRY_RUN,
        ),
        _RECOVER_SCHEMA, _recover, touches=("table",),
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
        _VACUUM_SCHEMA, _vacuum,
    ),
    Procedure(
        "release_waiting", "Commits what streams have kept back until their partitions are due",
        (TABLE, Parameter("application", "string", "id of the one query; all if left out"), DRY_RUN),
        _RELEASE_SCHEMA, _release_waiting, touches=("table",),
    ),
    Procedure(
        "discard_waiting", "Gives up files of streams that waited for their partitions and are gone",
        (TABLE, DRY_RUN),
        _DISCARD_SCHEMA, _discard_waiting,
    ),
    Procedure(
        "status", "Shows writes, waiting partitions and changes for the metastore that are under way",
        (_ANY_TABLE,),
        _STATUS_SCHEMA, _status,
    ),
)  # fmt: skip
