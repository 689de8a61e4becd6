"""Staged files and outcomes as JSON values; a staged file has the form that ``docs/spec/service.md`` gives it."""

from __future__ import annotations

import hashlib
from dataclasses import fields
from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.staged_files import StagedFile, Upload, UploadedPart
from catalog_ext.metastore.commit.transaction import WriteOutcome
from catalog_ext.metastore.model.json import statistics_from_dict, statistics_to_dict, to_json

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    """Return the file that ``staged_file_to_dict`` wrote."""
    upload = value["upload"]
    return StagedFile(
        partition=value["partition"], name=value["name"], size=value["size"], rows=value["rows"],
        statistics=statistics_from_dict(value["statistics"]),
        upload=None if upload is None else _upload_from_dict(upload), source=value.get("source"),
        modified_ms=value.get("modified_ms"), etag=value.get("etag"),
    )  # fmt: skip


def digest_of(files: Sequence[StagedFile], recorded: int | None) -> str:
    """Return a digest of the files that a request sends, and of how many were recorded before them."""
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
    """Return the outcome that ``outcome_to_dict`` wrote."""
    return WriteOutcome(**value)
