"""The operations of writes of the fake service: transactions in memory, promotion by renaming local files."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.integration.fake_service import FakeTable

STAGING = "_catalog_ext_staging"


@dataclass
class FakeTransaction:
    transaction_id: str
    table: FakeTable
    kind: str
    operation: str
    files: list[dict[str, Any]] = field(default_factory=list)
    state: str = "open"
    outcome: dict[str, Any] | None = None

    @property
    def root(self) -> Path:
        return Path(self.table.location.removeprefix("file://"))


class FakeWrites:
    """Appends and dynamic overwrites of tables on the local disk, by the contract."""

    def __init__(self) -> None:
        self.transactions: dict[str, FakeTransaction] = {}
        self.lease_ms = 600_000

    def begin(self, table: FakeTable, **request: Any) -> dict[str, Any]:
        """The answer to ``writes/begin``; the request has to have every field of the contract and no other."""
        assert set(request) == {
            "version", "kind", "operation", "owner", "predicate", "keep_emptied", "app_id", "app_version", "options",
            "session", "definition",
        }  # fmt: skip
        transaction_id = f"{len(self.transactions) + 1:032x}"
        self.transactions[transaction_id] = FakeTransaction(
            transaction_id, table, request["kind"], request["operation"]
        )
        return {
            "transaction": transaction_id, "duplicate": False, "location": table.location, "base": table.location,
            "staging": STAGING, "promotion": "rename", "lease_ms": self.lease_ms, "table": table.describe(),
            "directory": f"{table.location}/{STAGING}/{transaction_id}",
            "partition_locations": {p.name: p.location for p in table.partitions if p.location is not None},
            "partition_directories": {
                p.name: f"{p.location}/{STAGING}/{transaction_id}"
                for p in table.partitions if p.location is not None
            },
        }  # fmt: skip

    def heartbeat(self, transaction: str) -> dict[str, Any]:
        return {"expires_at_ms": 1763722800000 if transaction in self.transactions else 0}

    def stage(self, transaction: str, files: list[dict[str, Any]]) -> dict[str, Any]:
        assert len(files) <= 1000
        self.transactions[transaction].files += files
        return {"staged": len(files)}

    def commit(
        self, transaction: str, files: list[dict[str, Any]], keep: str | None, watermark_ms: int | None, final: bool
    ) -> dict[str, Any]:
        """The outcome; a second call gives the same, as the contract has it."""
        found = self.transactions[transaction]
        if found.outcome is None:
            self.stage(transaction, files)
            found.outcome = self._promote(found)
        return found.outcome

    def abort(self, transaction: str, reason: str) -> dict[str, Any]:
        self.transactions[transaction].state = "aborted"
        return {"aborted": True}

    def _promote(self, found: FakeTransaction) -> dict[str, Any]:
        replaced: list[Path] = []
        if found.kind == "overwrite_partitions":
            names = {file["partition"] for file in found.files}
            replaced = [
                found.root / p.name / f.path for p in found.table.partitions if p.name in names for f in p.files
            ]
        for file in found.files:
            target = found.root / file["partition"] / file["name"]
            target.parent.mkdir(parents=True, exist_ok=True)
            source = found.root / STAGING / found.transaction_id / file["partition"] / file["name"]
            assert source.stat().st_size == file["size"]
            source.rename(target)
        for path in replaced:
            path.unlink()
        before = {p.name for p in found.table.partitions}
        found.table.list_files()
        found.table.version += 1
        found.state = "finished"
        added = {p.name for p in found.table.partitions} - before
        return {
            "transaction": found.transaction_id, "table_id": found.table.table_id,
            "table": f"{found.table.namespace}.{found.table.name}", "operation": found.operation,
            "version": found.table.version, "partitions_added": len(added), "partitions_removed": 0,
            "partitions_changed": len({f["partition"] for f in found.files} - added),
            "files_added": len(found.files), "files_removed": len(replaced),
            "rows": sum(f["rows"] or 0 for f in found.files), "bytes": sum(f["size"] for f in found.files),
            "waiting": 0, "duplicate": False, "pending_deliveries": 0, "commit_ms": 1,
        }  # fmt: skip
