"""What of partitions' rows comes from their names: remembering components must not change it."""

from __future__ import annotations

import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from catalog_ext.metastore.errors import CatalogExtError
from catalog_ext.metastore.index.database import rows as database_rows
from catalog_ext.metastore.index.database.prepared import insert_rows
from catalog_ext.metastore.index.database.rows import KeyRows, has_long_key, key_row
from catalog_ext.metastore.model.typed_values import checked_values
from catalog_ext.metastore.model.types import parse_type
from catalog_ext.metastore.model.values import Key

_TYPES = ("date", "string", "int", "decimal(10,2)", "char(3)", "double", "boolean", "timestamp", "bigint", "string")
_VALUES = (
    "2025-01-01", "2025-1-1", "", "1", "01", "+1", "x", "X", "true", "1.005", "abc ", "abcd", "NaN", "-0.0", "%2F",
    "%2f", "a=b", "é" * 200, "\ud800", "x" * 254 + "é", "__HIVE_DEFAULT_PARTITION__", "2025-01-01 10:00:00",
)  # fmt: skip
_NAMES = ("ds", "DS", "region", "d%73", "")


def _component(position: int) -> st.SearchStrategy[str]:
    right = st.sampled_from(_VALUES).map(lambda value: f"c{position}={value}")
    return st.one_of(right, right.map(str.upper), st.builds("=".join, st.tuples(st.sampled_from(_NAMES), st.just("1"))))


@st.composite
def _loads(draw: st.DrawFn) -> tuple[list[Key], list[str], int]:
    """Partition columns, names of partitions, most of them right, and how many components are remembered."""
    types = draw(st.lists(st.sampled_from(_TYPES), max_size=10))
    keys = [Key(i, f"c{i}", parse_type(t)) for i, t in enumerate(types)]
    right = st.tuples(*(_component(i) for i in range(len(keys)))).map("/".join)
    odd = st.sampled_from(("", "/", "x", "c0=1/", "c0=1/c1=1/c2=1", "c0", "c1=1/c0=1"))
    names = draw(st.lists(st.one_of(right, right, right, odd), max_size=12))
    return keys, names, draw(st.sampled_from((1, 2, 4096)))


@given(_loads())
def test_a_remembered_component_is_what_it_was(load: tuple[list[Key], list[str], int]) -> None:
    keys, names, remembered = load
    before, database_rows._REMEMBERED = database_rows._REMEMBERED, remembered
    try:
        rows = KeyRows(keys, "n.t")
        long_keys = False
        for name in names:
            expected: object
            try:
                values = checked_values(name, keys, "n.t")
                expected = tuple(key_row(values, keys))
                long_keys = long_keys or has_long_key(values, keys)
            except CatalogExtError as error:
                expected = (type(error), error.message, error.parameters)
            found: object
            try:
                found = rows.of(name)
            except CatalogExtError as error:
                found = (type(error), error.message, error.parameters)
            assert found == expected
            assert rows.has_long_keys == long_keys
            assert all(len(known) <= remembered for known in rows._known)
    finally:
        database_rows._REMEMBERED = before


def test_columns_without_values_stay_null() -> None:
    engine = sa.create_engine("sqlite://")
    metadata = sa.MetaData()
    table = sa.Table("t", metadata, *(sa.Column(name, sa.BigInteger) for name in ("a", "b", "c")))
    metadata.create_all(engine)
    rows = [(i, None, i if i == 1999 else None) for i in range(2000)]
    with engine.begin() as connection:
        insert_rows(connection, table, ("a", "b", "c"), rows)
        insert_rows(connection, table, ("a", "b", "c"), [(i, None, None) for i in range(2000)])
        insert_rows(connection, table, ("a", "b", "c"), [(None, None, None)] * 2000)
        stored = connection.execute(sa.select(table)).all()
    expected = [*rows, *((i, None, None) for i in range(2000)), *([(None, None, None)] * 2000)]
    assert [tuple(row) for row in stored] == expected
