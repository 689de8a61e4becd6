"""Converts staged files, outcomes and plans to JSON values and back (``docs/spec/service.md``, ``docs/spec/index.md``).

A plan is one flat object for all kinds of writes. Every field is written; fields of other kinds are empty. A reader
ignores fields that it does not know, because a newer release may have written them.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from catalog_ext.metastore.commit.lock_settings import LockMode, LockSettings
from catalog_ext.metastore.commit.partition_plans import (
    AddPartitions,
    AskedCommand,
    CheckedAdd,
    CheckedDrop,
    CheckedExchange,
    CheckedRelocate,
    CheckedRename,
    CheckedRollback,
    DataDeletion,
    DropPartitions,
    ExchangePartitions,
    MovingPartition,
    NewPartition,
    RelocatePartition,
    RenamePartition,
    Rollback,
)
from catalog_ext.metastore.commit.plan import (
    Append,
    Asked,
    Checked,
    CheckedWrite,
    Create,
    CreateOrReplace,
    Overwrite,
    OverwritePartitions,
    Promotion,
    Replace,
    WritePlan,
    asked_write,
)
from catalog_ext.metastore.commit.removals import removal_from_json, removal_to_json
from catalog_ext.metastore.commit.staged_files import StagedFile, Upload, UploadedPart
from catalog_ext.metastore.commit.transaction import WriteOutcome
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.model.json import (
    definition_from_dict,
    definition_to_dict,
    statistics_from_dict,
    statistics_to_dict,
    to_json,
)
from catalog_ext.metastore.model.tables import DataFile
from catalog_ext.metastore.predicates.json import predicate_from_json, predicate_to_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from catalog_ext.metastore.commit.removals import Removal
    from catalog_ext.metastore.model.json import JsonObject


def staged_file_to_dict(file: StagedFile) -> JsonObject:
    """Return the file as JSON values."""
    return {
        "partition": file.partition,
        "name": file.name,
        "size": file.size,
        "rows": file.rows,
        "statistics": statistics_to_dict(file.statistics),
        "upload": None if file.upload is None else _upload_to_dict(file.upload),
        **({} if file.source is None else {"source": file.source, "modified_ms": file.modified_ms}),
        **({} if file.etag is None else {"etag": file.etag}),
    }


def staged_file_from_dict(value: JsonObject) -> StagedFile:
    """Return the file from the JSON values of ``staged_file_to_dict``."""
    upload = value["upload"]
    return StagedFile(
        partition=value["partition"], name=value["name"], size=value["size"], rows=value["rows"],
        statistics=statistics_from_dict(value["statistics"]),
        upload=None if upload is None else _upload_from_dict(upload), source=value.get("source"),
        modified_ms=value.get("modified_ms"), etag=value.get("etag"),
    )  # fmt: skip


def digest_of(files: Sequence[StagedFile], recorded: int | None) -> str:
    """Return a digest of the files in a commit request, and of the number of files recorded before the request."""
    listed = to_json([recorded, [staged_file_to_dict(file) for file in files]])
    return hashlib.sha256(listed.encode()).hexdigest()[:32]


def _upload_to_dict(upload: Upload) -> JsonObject:
    parts = [{"number": p.number, "etag": p.etag, "checksums": dict(p.checksums)} for p in upload.parts]
    return {"id": upload.upload_id, "parts": parts}


def _upload_from_dict(value: JsonObject) -> Upload:
    return Upload(value["id"], tuple(UploadedPart(p["number"], p["etag"], p["checksums"]) for p in value["parts"]))


def outcome_to_dict(outcome: WriteOutcome) -> JsonObject:
    """Return the outcome as JSON values."""
    return {f.name: getattr(outcome, f.name) for f in fields(outcome)}


def outcome_from_dict(value: JsonObject) -> WriteOutcome:
    """Return the outcome from the JSON values of ``outcome_to_dict``."""
    return WriteOutcome(**value)


_OF_OTHER_KINDS: JsonObject = {
    "predicate": None, "keep_emptied": False, "adds_others": False, "keep": None, "definition": None, "takes_in": {},
    "removes": {}, "announces": (), "waiting": (), "due": (), "brought": "", "replaced_version": None, "command": {},
    "moves": False,
}  # fmt: skip


def plan_to_dict(plan: WritePlan) -> JsonObject:
    """Return the plan as JSON values."""
    return {
        **_OF_OTHER_KINDS,
        "kind": plan.asked.kind,
        "location": plan.location,
        "staging": plan.staging,
        "base": plan.base,
        "promotion": plan.promotion,
        "relocate": plan.relocate,
        "locations": plan.locations,
        "lease_ms": plan.lease_ms,
        "created_location": plan.created_location,
        "aside": plan.hides_uploads,
        "asks_locations": plan.asks_locations,
        "beside_located": plan.beside_located,
        "hive_locks": asdict(plan.hive_locks),
        "partition_commit": plan.partition_commit,
        **_change_to_dict(plan.change),
        **({"moves": True} if plan.moves_user_files else {}),
    }


def _change_to_dict(change: Asked | Checked) -> JsonObject:
    match change:
        case CheckedWrite():
            return {**_change_to_dict(change.asked), **_checked_write_to_dict(change)}
        case Overwrite():
            predicate = None if change.predicate is None else predicate_to_json(change.predicate)
            return {"predicate": predicate, "keep_emptied": change.keep_emptied, "adds_others": change.adds_others}
        case Create() | Replace() | CreateOrReplace():
            return {"definition": definition_to_dict(change.definition)}
        case Append() | OverwritePartitions():
            return {}
        case DropPartitions() | CheckedDrop():
            asked, unknown = (change.asked, change.unknown) if isinstance(change, CheckedDrop) else (change, {})
            predicate = predicate_to_json(asked.predicate)
            return {
                "predicate": predicate,
                "command": {"deletes": asked.deletes},
                "removes": _removals_to_dict(unknown),
            }
        case ExchangePartitions():
            return {"predicate": predicate_to_json(change.predicate), "command": _exchange_to_dict(change)}
        case Rollback() | CheckedRollback():
            return _rollback_to_dict(change)
        case _:
            return _command_to_dict(change)


def _checked_write_to_dict(write: CheckedWrite) -> JsonObject:
    return {
        "keep": write.static_partition,
        "waiting": write.waiting,
        "due": write.due,
        "announces": write.published,
        "takes_in": _files_to_dict(write.found),
        "removes": _removals_to_dict(write.unknown),
        "brought": write.digest,
        "replaced_version": write.replaced_version,
    }


def _command_to_dict(
    change: AddPartitions | CheckedAdd | RenamePartition | CheckedRename | RelocatePartition | CheckedRelocate
    | CheckedExchange,
) -> JsonObject:  # fmt: skip
    """Return the JSON fields of a partition command.

    ``names`` lists, for a checked command, the partitions of the table that it claims.
    """
    match change:
        case AddPartitions():
            return {"command": _add_to_dict(change.partitions, change)}
        case CheckedAdd():
            names = [partition.name for partition in change.partitions]
            command = {**_add_to_dict(change.partitions, change.asked), "names": names}
            return {"command": command, "takes_in": _files_to_dict(change.found)}
        case RenamePartition():
            return {"command": {"from": change.name, "to": change.to}}
        case CheckedRename():
            asked = change.asked
            rows = [[moving.partition_id, moving.begin_version] for moving in change.partitions]
            command = {"from": asked.name, "to": asked.to, "names": [asked.name, asked.to], "rows": rows}
            return {"command": {**command, "moved": change.moves}, "moves": change.moves}
        case RelocatePartition():
            return {"command": {"name": change.name, "location": change.location}}
        case CheckedRelocate():
            name = change.asked.name
            command = {"name": name, "location": change.location, "names": [name]}
            return {"command": command, "takes_in": _files_to_dict({name: change.found})}
        case CheckedExchange():
            named = [[moving.partition_id, moving.begin_version, moving.name] for moving in change.partitions]
            command = {
                **_exchange_to_dict(change.asked), "names": [moving.name for moving in change.partitions],
                "rows": named, "source_location": change.source_location,
            }  # fmt: skip
            predicate = predicate_to_json(change.asked.predicate)
            return {"predicate": predicate, "command": command, "moves": change.moves}


def _rollback_to_dict(change: Rollback | CheckedRollback) -> JsonObject:
    asked = change.asked if isinstance(change, CheckedRollback) else change
    found = {"predicate": None if asked.predicate is None else predicate_to_json(asked.predicate)}
    if not isinstance(change, CheckedRollback):
        return {**found, "command": {"version": asked.version}}
    command = {"version": asked.version, "names": change.returning}
    return {**found, "command": command, "removes": _removals_to_dict(change.deleted)}


def _add_to_dict(partitions: Iterable[NewPartition], asked: AddPartitions) -> JsonObject:
    return {"partitions": [[p.name, p.location] for p in partitions], "if_not_exists": asked.if_not_exists}


def _exchange_to_dict(asked: ExchangePartitions) -> JsonObject:
    return {"source_id": asked.source_id, "source": asked.source, "source_version": asked.source_version}


def _files_to_dict(found: Mapping[str, Iterable[DataFile]]) -> dict[str, list[list[Any]]]:
    return {name: [_file_to_list(file) for file in files] for name, files in found.items()}


def _file_to_list(file: DataFile) -> list[Any]:
    known = [file.path, file.size, file.modified_ms]
    return known if file.etag is None else [*known, file.etag]


def plan_from_dict(value: JsonObject, *, checked: bool) -> WritePlan:
    """Return the plan from the JSON values of ``plan_to_dict``.

    ``checked`` says whether the transaction may have passed ``check``; for a command the values themselves show this.
    """
    asked, locks = _asked(value), value["hive_locks"]
    return WritePlan(
        change=_checked(value, asked) if checked else asked,
        location=value["location"],
        staging=value["staging"],
        base=value["base"],
        promotion=Promotion(value["promotion"]),
        relocate=value["relocate"],
        locations=value["locations"],
        lease_ms=value["lease_ms"],
        created_location=value["created_location"],
        hides_uploads=value["aside"],
        asks_locations=value["asks_locations"],
        beside_located=value["beside_located"],
        partition_commit=value["partition_commit"],
        hive_locks=LockSettings(LockMode(locks["mode"]), locks["wait_s"]),
        # In a plan's JSON ``moves`` is also true for commands that move a table's own files, not the user's: exclude
        # these.
        moves_user_files=value["moves"] and not value["command"],
    )


def _asked(value: JsonObject) -> Asked:
    kind = WriteKind(value["kind"])
    if value["command"]:
        return _asked_command(kind, value["command"], value)
    return asked_write(
        kind,
        predicate=None if value["predicate"] is None else predicate_from_json(value["predicate"]),
        keep_emptied=value["keep_emptied"],
        adds_others=value["adds_others"],
        definition=None if value["definition"] is None else definition_from_dict(value["definition"]),
    )


def _asked_command(kind: WriteKind, command: JsonObject, value: JsonObject) -> AskedCommand:
    match kind:
        case WriteKind.ADD_PARTITIONS:
            partitions = tuple(NewPartition(name, location) for name, location in command["partitions"])
            return AddPartitions(partitions, command["if_not_exists"])
        case WriteKind.DROP_PARTITIONS:
            return DropPartitions(predicate_from_json(value["predicate"]), DataDeletion(command["deletes"]))
        case WriteKind.RENAME_PARTITION:
            return RenamePartition(command["from"], command["to"])
        case WriteKind.RELOCATE_PARTITION:
            name = command["name"]
            # A checked command has null for the default location; restore its URI.
            return RelocatePartition(name, command["location"] or f"{value['location']}/{name}")
        case WriteKind.ROLLBACK:
            predicate = value["predicate"]
            return Rollback(command["version"], None if predicate is None else predicate_from_json(predicate))
        case _:
            predicate = predicate_from_json(value["predicate"])
            return ExchangePartitions(command["source_id"], command["source"], command["source_version"], predicate)


def _checked(value: JsonObject, asked: Asked) -> Asked | Checked:
    command = value["command"]
    match asked:
        case DropPartitions():
            return CheckedDrop(asked, _removals_from_dict(value["removes"]))
        case AddPartitions() | RenamePartition() | RelocatePartition() | ExchangePartitions() | Rollback():
            return _checked_command(value, command, asked) if "names" in command else asked
        case _:
            return CheckedWrite(
                asked, static_partition=value["keep"], waiting=tuple(value["waiting"]), due=tuple(value["due"]),
                published=tuple(value["announces"]), found=_files_from_dict(value["takes_in"]),
                unknown=_removals_from_dict(value["removes"]), digest=value["brought"],
                replaced_version=value["replaced_version"],
            )  # fmt: skip


def _checked_command(
    value: JsonObject,
    command: JsonObject,
    asked: AddPartitions | RenamePartition | RelocatePartition | ExchangePartitions | Rollback,
) -> Checked:
    found = _files_from_dict(value["takes_in"])
    match asked:
        case AddPartitions():
            return CheckedAdd(asked, asked.partitions, found)
        case RenamePartition():
            moving = tuple(MovingPartition(number, version, asked.to) for number, version in command["rows"])
            return CheckedRename(asked, moving, command["moved"])
        case RelocatePartition():
            return CheckedRelocate(asked, command["location"], found[asked.name])
        case ExchangePartitions():
            moving = tuple(MovingPartition(*row) for row in command["rows"])
            return CheckedExchange(asked, moving, command["source_location"], value["moves"])
        case Rollback():
            return CheckedRollback(asked, tuple(command["names"]), _removals_from_dict(value["removes"]))


def _removals_to_dict(removals: Mapping[str, Iterable[Removal]]) -> JsonObject:
    return {name: [removal_to_json(removal) for removal in some] for name, some in removals.items()}


def _removals_from_dict(value: JsonObject) -> dict[str, tuple[Removal, ...]]:
    return {name: tuple(map(removal_from_json, some)) for name, some in value.items()}


def _files_from_dict(value: JsonObject) -> dict[str, tuple[DataFile, ...]]:
    return {name: tuple(_file_from_list(*file) for file in files) for name, files in value.items()}


def _file_from_list(path: str, size: int, modified_ms: int, etag: int | None = None) -> DataFile:
    return DataFile(path, size, modified_ms, etag=etag)
