"""The metastore's filter strings, and that they never lose a partition."""

from __future__ import annotations

import pytest

from catalog_ext.metastore.hive.filters import MAX_VALUES, metastore_filter
from catalog_ext.metastore.model.types import parse_type
from catalog_ext.metastore.model.values import Key
from catalog_ext.metastore.predicates.parser import parse_predicate
from catalog_ext.metastore.predicates.tree import In, bind

KEYS = (
    Key(0, "ds", parse_type("date")),
    Key(1, "Region", parse_type("string")),
    Key(2, "hour", parse_type("int")),
    Key(3, "my-key", parse_type("string")),
    Key(4, "code", parse_type("char(4)")),
    Key(5, "like", parse_type("string")),
)


@pytest.mark.parametrize(
    ("where", "text", "exact"),
    [
        ("region = 'eu'", 'region = "eu"', True),
        ("region = 'it\\'s'", 'region = "it\'s"', True),
        ("region = 'a\"b'", "region = 'a\"b'", True),
        ("region = 'a\"\\'b'", None, False),
        ("region = 'a\\\\b'", None, False),
        ("region = ''", None, False),
        ("region != 'eu'", 'region != "eu"', False),
        ("NOT (region != 'eu')", 'region = "eu"', True),
        ("NOT (region = 'a' OR region >= 'c')", '(region != "a") and (region < "c")', False),
        ("region <=> NULL", 'region = "__HIVE_DEFAULT_PARTITION__"', True),
        ("region IS NOT NULL", 'region != "__HIVE_DEFAULT_PARTITION__"', True),
        ("region IN ('a', 'b')", '(region = "a") or (region = "b")', True),
        ("region NOT IN ('a', 'b')", '(region != "a") and (region != "b")', False),
        ("region LIKE 'eu-%'", 'region >= "eu-"', False),
        ("region LIKE '%x'", None, False),
        ("NOT (region LIKE 'eu-%')", None, False),
        ("hour = 7", "hour = 7", False),
        ("hour > 7", None, False),
        ("hour = -7", None, False),
        ("ds = '2025-01-01'", None, False),
        ("ds = '2025-01-01' AND region = 'eu'", 'region = "eu"', False),
        ("ds = '2025-01-01' OR region = 'eu'", None, False),
        ("`my-key` = 'x'", None, False),
        ("`like` = 'x'", None, False),
        ("code = 'x'", 'code = "x"', False),
        ("region = NULL", None, False),
    ],
)
def test_filters(where: str, text: str | None, exact: bool) -> None:
    found = metastore_filter(bind(parse_predicate(where), KEYS, "t"), KEYS, binary_order=True)
    assert (found.text, found.exact) == (text, exact)


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("region > 'eu'", None),
        ("region != 'eu'", None),
        ("region LIKE 'eu-%'", None),
        ("region = 'eu'", 'region = "eu"'),
        ("region > 'a' AND region = 'eu'", 'region = "eu"'),
    ],
)
def test_the_order_of_an_unknown_database_is_not_trusted(where: str, text: str | None) -> None:
    found = metastore_filter(bind(parse_predicate(where), KEYS, "t"), KEYS)
    assert (found.text, found.exact) == (text, False)


def test_long_lists_are_left_out() -> None:
    assert metastore_filter(In("Region", tuple("x" * n for n in range(1, MAX_VALUES + 2))), KEYS).text is None
