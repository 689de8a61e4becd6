"""The short way by which most names are judged says of each name what the long way says."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.partition_names import escape_path_name
from catalog_ext.metastore.model.tables import Column, TableDefinition, TableType
from catalog_ext.scan.key_layout import Layout, Place

TYPES = ("string", "tinyint", "smallint", "int", "bigint", "date", "boolean", "varchar(3)")
VALUES = (
    "0", "007", "-1", "127", "128", "32767", "32768", "2147483647", "2147483648", "9" * 18, "9" * 19, "a", "A.b-c_d",
    "_a", ".a", "", "a b", "a%20b", "__HIVE_DEFAULT_PARTITION__", "2024-02-28", "2024-02-29", "2023-02-29",
    "2024-02-30", "0000-01-01", "2024-1-1", "2024-13-01", "true", "\u0663", "1\n", "a\n",
)  # fmt: skip


def table(types: tuple[str, ...], **properties: str) -> TableDefinition:
    return TableDefinition(
        identifier=TableIdentifier("s", "t"), table_type=TableType.EXTERNAL, format="parquet", location="file:///t",
        columns=(Column("x", "int"),), options={}, properties=properties,
        partition_columns=tuple(Column(f"k{number}", each) for number, each in enumerate(types)),
    )  # fmt: skip


def slow(definition: TableDefinition) -> Layout:
    layout = Layout(definition)
    layout.is_plain = lambda _: None
    return layout


_PARTS = st.tuples(
    st.sampled_from(("k0", "k1", "K0", "_k0", "k%30")), st.one_of(st.sampled_from(VALUES), st.text(max_size=4))
)


@given(st.lists(st.sampled_from(TYPES), min_size=1, max_size=2), st.lists(_PARTS, min_size=1, max_size=3))
def test_both_ways_agree(types: list[str], parts: list[tuple[str, str]]) -> None:
    name = "/".join(f"{key}={value}" for key, value in parts)
    definition = table(tuple(types))
    assert Layout(definition).judge(name) == slow(definition).judge(name)


@pytest.mark.parametrize("key", ["a%41", "a=b", "a/b", "a:b", "a b", "_k", ".k", "\u0131"])
@pytest.mark.parametrize("is_escaped", [True, False])
def test_both_ways_agree_on_names_of_keys_that_paths_escape(key: str, is_escaped: bool) -> None:
    definition = replace(table(("string",)), partition_columns=(Column(key, "int"),))
    name = f"{escape_path_name(key) if is_escaped else key}=1"
    assert Layout(definition).judge(name) == slow(definition).judge(name)


@pytest.mark.parametrize("globs", ["k0=2024*", "*tmp*"])
def test_names_that_a_table_ignores_are_looked_at_closely(globs: str) -> None:
    layout = Layout(table(("string",), **{"ignored-names": globs}))
    assert layout.judge("k0=2024tmp").place is Place.HIDDEN
