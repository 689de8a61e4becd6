"""The reference of errors is made of the sources: every class is described, every message found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore import errors
from docs.tools import error_reference

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@pytest.mark.slow
def test_every_error_says_what_it_means_and_what_to_do(
    described_errors: Mapping[str, error_reference.Described],
) -> None:
    assert described_errors["CATALOG_EXT_CONFLICT"].retryable
    assert described_errors["CATALOG_EXT_FILE_MISSING"].python is None
    assert all(one.meaning.endswith(".") and one.remedy.endswith(".") for one in described_errors.values())


@pytest.mark.slow
def test_messages_are_those_of_the_places_that_raise_them(
    described_errors: Mapping[str, error_reference.Described],
) -> None:
    assert "Table <table> does not exist." in described_errors["CATALOG_EXT_TABLE_NOT_FOUND"].messages
    assert any(
        message.startswith("The file <file>[ of partition '<partition>'] of (table <catalog>.<table> | ")
        and " <reason>, and is no longer on the store. <remedy> To read on" in message
        for message in described_errors["CATALOG_EXT_FILE_MISSING"].messages
    )


def test_an_error_without_a_remedy_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors.ConflictError, "__doc__", "Another writer was first.")
    with pytest.raises(error_reference.UndocumentedError, match="ConflictError"):
        error_reference.described()


@pytest.mark.parametrize(
    ("condition", "refusal"),
    [('val New: Condition = own("NEW", "42000")', "The condition New"),
     ('val Conflict: Condition = own("CONFLICT", "42000")', "40001 in Python and 42000 in the connector")],
)  # fmt: skip
def test_connector_condition_is_described_and_agrees_with_its_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, condition: str, refusal: str
) -> None:
    (tmp_path / "ConnectorErrors.scala").write_text(condition, encoding="utf-8")
    monkeypatch.setattr(error_reference, "_SCALA", tmp_path)
    with pytest.raises(error_reference.UndocumentedError, match=refusal):
        error_reference.described()
