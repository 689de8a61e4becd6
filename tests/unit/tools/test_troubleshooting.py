"""docs/troubleshooting.md goes with the error reference."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from docs.tools.error_reference import PROJECT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from docs.tools.error_reference import Described

PAGE = (PROJECT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
_CODE = re.compile(r"CATALOG_EXT_[A-Z_]+(?<!_)")
_VARIABLES = {"CATALOG_EXT_TOKEN", "CATALOG_EXT_INDEX"}
_SEEN = re.compile(r"^\* \*\*You see\*\* (?P<seen>.+)$", re.MULTILINE)
_SYMPTOM = re.compile(r"^(?P<marks>##+) (?P<title>.+)\n(?P<body>(?:(?!#).*\n?)*)", re.MULTILINE)
# What people meet first; the others are found by their code, in the error reference.
_MET_FIRST = {
    "COMMIT_STATE_UNKNOWN", "CONFLICT", "ENVIRONMENT_SETUP", "FILE_MISSING", "HIVE_LOCK_TIMEOUT", "INDEX_NOT_AT_HEAD",
    "INDEX_RESTORED", "INDEX_UNAVAILABLE", "INVALID_CONFIGURATION", "LOCATION_NOT_ALLOWED", "LOCATION_NOT_FOUND",
    "MASS_DROP", "METASTORE_ACCESS", "METASTORE_REPLACED", "METASTORE_UNAVAILABLE", "NAMESPACE_NOT_FOUND",
    "NOT_SUPPORTED", "READ_ONLY_TOKEN", "SERVICE_ANSWER", "SERVICE_UNAVAILABLE", "STORAGE_ACCESS_DENIED",
    "STORAGE_UNAVAILABLE", "TABLE_LAYOUT", "TABLE_NOT_FOUND", "TRANSACTION_STATE", "UNAUTHORIZED", "VERSION_EXPIRED",
}  # fmt: skip


@pytest.mark.slow
def test_every_code_is_one_of_the_reference(described_errors: Mapping[str, Described]) -> None:
    assert set(_CODE.findall(PAGE)) - _VARIABLES <= set(described_errors)


def test_what_people_meet_first_is_there() -> None:
    assert {f"CATALOG_EXT_{code}" for code in _MET_FIRST} <= set(_CODE.findall(PAGE))


@pytest.mark.slow
def test_retryable_errors_are_on_the_page(described_errors: Mapping[str, Described]) -> None:
    retryable = {code for code, error in described_errors.items() if error.retryable}
    assert retryable <= set(_CODE.findall(PAGE))


def test_a_symptom_says_what_is_seen_why_and_what_to_do() -> None:
    symptoms = [match for match in _SYMPTOM.finditer(PAGE) if match["marks"] == "###" or "**You see**" in match["body"]]
    assert len(symptoms) > 25
    for symptom in symptoms:
        parts = re.findall(r"^\* \*\*(You see|Why|Do)\*\*", symptom["body"], re.MULTILINE)
        assert parts == ["You see", "Why", "Do"], symptom["title"]


@pytest.mark.slow
def test_messages_are_quoted_as_they_are(described_errors: Mapping[str, Described]) -> None:
    quoted = 0
    for match in _SEEN.finditer(PAGE):
        codes = re.findall(r"`\[(\w+)\]` with ", match["seen"])
        for text in re.findall(r"`([^`\[]+)`", match["seen"]) if codes else []:
            pieces = [piece.strip() for piece in text.split("…") if piece.strip()]
            assert any(all(p in message for p in pieces) for message in described_errors[codes[0]].messages), text
            quoted += 1
    assert quoted > 5
