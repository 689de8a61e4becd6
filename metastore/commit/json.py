"""Staged files and outcomes as JSON values; a staged file has the form that ``docs/spec/service.md`` gives it."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from catalog_ext.metastore.commit.staged_files import ColumnStatistics, StagedFile, Upload, UploadedPart
from catalog_ext.metastore.commit.transaction import WriteOutcome

if TYPE_CHECKING:
    from collections.abc import Mapping


def staged_file_to_dict(file: StagedFile) -> dict[str, Any]:
    """Return the file as JSON values."""
    return {
        "partition": file.partition,
        "name": file.name,
        "size": file.size,
        "rows": file.rows,
        "statistics": statistics_to_dict(file.statistics),
        "upload": None if file.upload is None else _upload_to_dict(file.upload),
        **({} if file.source is None else {"source": file.source}),
    }


def staged_file_from_dict(value: Mapping[str, Any]) -> StagedFile:
    """Return the file that ``staged_file_to_dict`` wrote."""
    upload = value["upload"]
    return StagedFile(
        partition=value["partition"],
        name=value["name"],
        size=value["size"],
        rows=value["rows"],
        statistics=statistics_from_dict(value["statistics"]),
        upload=None if upload is None else _upload_from_dict(upload),
        source=value.get("source"),
    )


def statistics_to_dict(statistics: Mapping[str, ColumnStatistics]) -> dict[str, Any]:
    """Statistics of columns as JSON values, by the columns' names."""
    return {name: {"min": s.minimum, "max": s.maximum, "nulls": s.nulls} for name, s in statistics.items()}


def statistics_from_dict(value: Mapping[str, Any]) -> dict[str, ColumnStatistics]:
    """Return the statistics that ``statistics_to_dict`` wrote."""
    return {name: ColumnStatistics(s["min"], s["max"], s["nulls"]) for name, s in value.items()}


def _upload_to_dict(upload: Upload) -> dict[str, Any]:
    parts = [{"number": p.number, "etag": p.etag, "checksums": dict(p.checksums)} for p in upload.parts]
    return {"id": upload.upload_id, "parts": parts}


def _upload_from_dict(value: Mapping[str, Any]) -> Upload:
    return Upload(value["id"], tuple(UploadedPart(p["number"], p["etag"], p["checksums"]) for p in value["parts"]))


def outcome_to_dict(outcome: WriteOutcome) -> dict[str, Any]:
    """Return the outcome as JSON values."""
    return {f.name: getattr(outcome, f.name) for f in fields(outcome)}


def outcome_from_dict(value: Mapping[str, Any]) -> WriteOutcome:
    """Return the outcome that ``outcome_to_dict`` wrote."""
    return WriteOutcome(**value)
