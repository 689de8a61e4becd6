"""Names of tables, namespaces and columns: what is accepted, what is refused, and how it is shown."""

from __future__ import annotations

import pytest

from catalog_ext.metastore.errors import InvalidIdentifierError
from catalog_ext.metastore.model.identifiers import (
    MAX_IDENTIFIER_LENGTH,
    TableIdentifier,
    validate_column_name,
    validate_identifier,
)
from tests.contract.golden import IDENTIFIERS

HOSTILE = [
    "",
    ".",
    "..",
    "../etc",
    "a/b",
    "a'b",
    'a"b',
    "a`b",
    "a;drop table x",
    "%2F",
    "a\nb",
    "a\x00b",
    "a b\t",
    "-a",
    " a",
    "*",
    "a" * 10_000,
]


@pytest.mark.parametrize("name", IDENTIFIERS, ids=lambda name: f"{ascii(name)[:12]}-{len(name)}")
def test_golden_names(name: str) -> None:
    try:
        accepted = validate_identifier(name, "table") == name.lower()
    except InvalidIdentifierError:
        accepted = False
    assert accepted is IDENTIFIERS[name]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_refused_with_a_short_message(name: str) -> None:
    with pytest.raises(InvalidIdentifierError) as caught:
        validate_identifier(name, "table")
    assert len(caught.value.message) < 400
    assert caught.value.code == "CATALOG_EXT_INVALID_IDENTIFIER"


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("Trips", "trips"),
        ("a-b c_1", "a-b c_1"),
        ("2024", "2024"),
        ("_x", "_x"),
        ("fährten", "fährten"),
        ("a" * 128, "a" * 128),
    ],
)
def test_valid_names_are_kept_in_lower_case(name: str, kept: str) -> None:
    assert validate_identifier(name, "table") == kept


def test_the_longest_name_is_the_metastores() -> None:
    with pytest.raises(InvalidIdentifierError, match="129 characters"):
        validate_identifier("a" * (MAX_IDENTIFIER_LENGTH + 1), "namespace")


@pytest.mark.parametrize(
    ("text", "namespace", "name"),
    [
        ("sales.trips", "sales", "trips"),
        ("Sales.Trips", "sales", "trips"),
        ("lake.sales.trips", "sales", "trips"),
        ("LAKE.sales.trips", "sales", "trips"),
        ("`sales`.`a b`", "sales", "a b"),
        ("lake.`sales`.trips", "sales", "trips"),
    ],
)
def test_parse(text: str, namespace: str, name: str) -> None:
    assert TableIdentifier.parse(text, "lake") == TableIdentifier(namespace, name)


@pytest.mark.parametrize(
    "text",
    [
        "trips",
        "",
        ".",
        "a.",
        ".a",
        "other.sales.trips",
        "a.b.c.d",
        "sales..trips",
        "sales.`tr`ips`",
        "x" * 10_000,
        "`a.b`",
        "sales.tr/ips",
    ],
)
def test_what_names_no_table_is_refused(text: str) -> None:
    with pytest.raises(InvalidIdentifierError) as caught:
        TableIdentifier.parse(text, "lake")
    assert len(caught.value.message) < 500


def test_a_refused_name_says_what_to_write() -> None:
    with pytest.raises(InvalidIdentifierError, match=r"namespace\.table or lake\.namespace\.table"):
        TableIdentifier.parse("other.sales.trips", "lake")


def test_any_catalog_is_accepted_when_none_is_given() -> None:
    assert str(TableIdentifier.parse("any.sales.trips")) == "sales.trips"


@pytest.mark.parametrize("name", ["a,b", "a:b", "a;b", "a/b", "a\\b", "", "a\nb", "a\x7fb", "a" * 768])
def test_column_names_that_neither_metastore_nor_directory_can_carry(name: str) -> None:
    with pytest.raises(InvalidIdentifierError):
        validate_column_name(name)


@pytest.mark.parametrize(
    "name", ["id", "Größe", "a b", "a.b", "a=b", "'; drop table x --".replace(";", ""), "%2F", "a" * 767]
)
def test_column_names_keep_their_spelling(name: str) -> None:
    assert validate_column_name(name) == name
