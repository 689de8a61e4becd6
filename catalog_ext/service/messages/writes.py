"""The JSON of writes: staged files, the kind of a write, outcomes."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from catalog_ext.metastore.commit.partition_plans import COMMANDS
from catalog_ext.metastore.commit.plan import CREATIONS
from catalog_ext.metastore.commit.staged_files import StagedFile, Upload, UploadedPart
from catalog_ext.metastore.commit.transaction import PlannedFormat
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import InvalidInputError, InvalidPartitionNameError
from catalog_ext.metastore.index.database.texts import storable
from catalog_ext.metastore.model.partition_names import MAX_VALUE_LENGTH, partition_values
from catalog_ext.metastore.model.tables import ColumnStatistics, DataFile, TableDefinition
from catalog_ext.metastore.transactions.staging_locations import task_directories
from catalog_ext.service.messages.core import Request, planned_table_json, table_json

if TYPE_CHECKING:
    from catalog_ext.metastore.commit.transaction import BegunWrite, WriteOutcome
    from catalog_ext.metastore.model.tables import Table

MAX_FILES = 1000
"""The most staged files in one request. A client sends further files beforehand by ``writes/stage``."""

_TRANSACTION_ID = re.compile(r"[0-9a-f]{32}", re.ASCII)
_CREATIONS = frozenset(asked.kind for asked in CREATIONS)
_COMMANDS = frozenset(asked.kind for asked in COMMANDS)


def transaction_of(request: Request) -> str:
    """Return the id in the field ``transaction``."""
    text = request.text("transaction")
    if not _TRANSACTION_ID.fullmatch(text):
        raise InvalidInputError(
            f"The field 'transaction' of the request must be 32 hexadecimal digits, not {text[:40]!r}."
        )
    return text


def kind_of(request: Request) -> WriteKind:
    """Return the kind of a write, from the field ``kind``."""
    text = request.text("kind")
    kinds = [kind for kind in WriteKind if kind not in _COMMANDS]
    if text not in kinds:
        raise InvalidInputError(
            f"The field 'kind' of the request cannot be {text[:40]!r}. Use one of: {', '.join(kinds)}."
        )
    return WriteKind(text)


def planned_of(request: Request) -> PlannedFormat | None:
    """Return the table's format when the client planned its write, from ``planned``; None if it is left out."""
    return request.optional_object(
        "planned", lambda given: PlannedFormat(given.text("format"), given.text_map("options"))
    )


def creates(kind: WriteKind) -> bool:
    """Return whether a write of this kind creates its table, and so has a definition instead of a table."""
    return kind in _CREATIONS


def files_of(request: Request) -> tuple[StagedFile, ...]:
    """Return the staged files in the field ``files``."""
    _check_count(request, "Send more ahead by writes/stage.")
    return tuple(request.objects("files", _file))


def counted_files_of(request: Request) -> dict[str, list[DataFile]]:
    """Return files whose rows the client has counted, from the field ``files``, by partition name."""
    _check_count(request, "Send several.")
    counted: dict[str, list[DataFile]] = {}
    for partition, file in request.objects("files", _counted_file):
        counted.setdefault(partition, []).append(file)
    return counted


def _check_count(request: Request, remedy: str) -> None:
    files = request.any("files")
    if isinstance(files, list) and len(files) > MAX_FILES:
        raise InvalidInputError(f"The request has {len(files)} files; at most {MAX_FILES} are taken. {remedy}")


def _counted_file(file: Request) -> tuple[str, DataFile]:
    partition, given = _partition(file.text("partition")), file.optional_mapping("statistics")
    statistics = None if given is None else {column: _statistics(item) for column, item in given.items()}
    return partition, DataFile(
        storable(file.text("path"), "file"), file.count("size"), file.integer("modified_ms"), file.count("rows"),
        statistics,
    )  # fmt: skip


def _file(file: Request) -> StagedFile:
    return StagedFile(
        _partition(file.text("partition")),
        storable(file.text("name"), "file"),
        file.count("size"),
        file.optional_count("rows"),
        {column: _statistics(item) for column, item in file.mapping("statistics").items()},
        file.optional_object("upload", _upload),
    )


def _partition(name: str) -> str:
    """Return the partition's name, checked to be valid on every store. The engine checks that it fits the table."""
    for value in partition_values(storable(name, "partition")):
        if value is not None and len(value) > MAX_VALUE_LENGTH:
            raise InvalidPartitionNameError(
                f"A value of the partition {name[:80]!r}… has {len(value)} characters; at most {MAX_VALUE_LENGTH} can "
                "be kept.",
                {"partition": name[:200]},
            )
    return name


def _statistics(item: object) -> ColumnStatistics:
    return Request(item).read(
        lambda column: ColumnStatistics(
            column.optional_text("min"), column.optional_text("max"), column.optional_count("nulls"),
            column.optional_count("after"),
        )
    )  # fmt: skip


def _upload(upload: Request) -> Upload:
    found = Upload(upload.text("id"), tuple(upload.objects("parts", _part)))
    if not found.upload_id or not found.parts:
        raise InvalidInputError("An upload of the request must have an id and at least one part.")
    return found


def _part(part: Request) -> UploadedPart:
    return UploadedPart(part.count("number"), part.text("etag"), part.text_map("checksums"))


def begun_json(begun: BegunWrite, table: Table | TableDefinition) -> dict[str, Any]:
    """Return the answer to ``writes/begin``."""
    plan, directories = begun.plan, task_directories(begun)
    return {
        "transaction": None if begun.duplicate else begun.transaction_id, "duplicate": begun.duplicate,
        "location": plan.location, "base": plan.base, "staging": plan.staging, "promotion": str(plan.promotion),
        "directory": directories.directory,
        "partition_directories": None if plan.asks_locations else dict(directories.own),
        "partition_locations": None if plan.asks_locations else dict(begun.partition_locations),
        "lease_ms": begun.lease_ms, "table": _table(table),
    }  # fmt: skip


def _table(table: Table | TableDefinition) -> dict[str, Any]:
    return planned_table_json(table) if isinstance(table, TableDefinition) else table_json(table)


def outcome_json(outcome: WriteOutcome) -> dict[str, Any]:
    """Return the outcome of a write as JSON by the contract."""
    return {"transaction" if name == "transaction_id" else name: value for name, value in asdict(outcome).items()}
