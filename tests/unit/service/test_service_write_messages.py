"""The JSON of writes: what is read of it, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from catalog_ext.metastore.commit.staged_files import StagedFile, Upload, UploadedPart
from catalog_ext.metastore.commit.transaction import WriteOutcome
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import InvalidInputError
from catalog_ext.metastore.model.tables import ColumnStatistics
from catalog_ext.service.messages.core import Request
from catalog_ext.service.messages.writes import MAX_FILES, files_of, kind_of, outcome_json, transaction_of

ID = "0123456789abcdef0123456789abcdef"
FILE: dict[str, Any] = {
    "partition": "ds=2025-01-01", "name": f"part-0-{ID}.parquet", "size": 1234, "rows": 10,
    "statistics": {"fare": {"min": "1.50", "max": "9.00", "nulls": 0}}, "upload": None,
}  # fmt: skip
UPLOAD: dict[str, Any] = {"id": "u", "parts": [{"number": 1, "etag": "e", "checksums": {"ChecksumCRC32C": "c"}}]}


def test_a_file_is_read_as_it_was_meant() -> None:
    assert files_of(Request({"files": [FILE, {**FILE, "rows": None, "statistics": {}, "upload": UPLOAD}]})) == (
        StagedFile(FILE["partition"], FILE["name"], 1234, 10, {"fare": ColumnStatistics("1.50", "9.00", 0)}),
        StagedFile(
            FILE["partition"], FILE["name"], 1234,
            upload=Upload("u", (UploadedPart(1, "e", {"ChecksumCRC32C": "c"}),)),
        ),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": None}, "'name'"),
        ({"size": -1}, "negative"),
        ({"size": 2**63}, "64 bits"),
        ({"size": "1"}, "'size'"),
        ({"size": True}, "'size'"),
        ({"rows": -1}, "negative"),
        ({"partition": None}, "'partition'"),
        ({"statistics": {"fare": 7}}, "JSON object"),
        ({"statistics": {"fare": {"min": 1}}}, "'min'"),
        ({"statistics": {"fare": {"average": "1"}}}, "unknown field"),
        ({"upload": "u"}, "'upload'"),
        ({"upload": {"id": "u", "parts": []}}, "at least one part"),
        ({"upload": {"id": "", "parts": UPLOAD["parts"]}}, "an id"),
        ({"upload": {"id": "u", "parts": [{"number": 1}]}}, "'etag'"),
        ({"upload": {**UPLOAD, "more": 1}}, "unknown field"),
        ({"more": 1}, "unknown field"),
    ],
)
def test_malformed_file_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        files_of(Request({"files": [{**FILE, **change}]}))


@pytest.mark.parametrize("files", [7, "x", [7], {"a": 1}])
def test_files_are_a_list_of_objects(files: object) -> None:
    with pytest.raises(InvalidInputError, match="list of objects"):
        files_of(Request({"files": files}))


def test_only_so_many_files_are_taken_at_once() -> None:
    assert len(files_of(Request({"files": [FILE] * MAX_FILES}))) == MAX_FILES
    with pytest.raises(InvalidInputError, match="writes/stage"):
        files_of(Request({"files": [FILE] * (MAX_FILES + 1)}))


@pytest.mark.parametrize("text", ["", "x" * 32, ID[:-1], ID.upper(), f"{ID}\n", None])
def test_a_transaction_is_32_hexadecimal_digits(text: str | None) -> None:
    assert transaction_of(Request({"transaction": ID})) == ID
    with pytest.raises(InvalidInputError, match="'transaction'"):
        transaction_of(Request({"transaction": text}))


def test_kinds() -> None:
    assert kind_of(Request({"kind": "overwrite_partitions"})) is WriteKind.OVERWRITE_PARTITIONS
    with pytest.raises(InvalidInputError, match="append, overwrite_partitions"):
        kind_of(Request({"kind": "upsert"}))


def test_an_outcome_has_the_fields_of_the_contract() -> None:
    outcome = outcome_json(WriteOutcome(ID, 7, "s.t", "INSERT", 3, rows=10))
    assert list(outcome) == [
        "transaction", "table_id", "table", "operation", "version", "partitions_added", "partitions_removed",
        "partitions_changed", "files_added", "files_removed", "rows", "bytes", "waiting", "duplicate",
        "pending_deliveries", "commit_ms",
    ]  # fmt: skip
    assert (outcome["transaction"], outcome["rows"]) == (ID, 10)
