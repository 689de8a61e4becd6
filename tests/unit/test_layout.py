"""Which directories are partitions, and the reason for each that is not (``docs/spec/semantics.md``)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.partition_names import format_partition_name, metastore_obstacle
from catalog_ext.metastore.model.tables import Column, TableDefinition, TableType
from catalog_ext.metastore.predicates.parser import parse_predicate
from catalog_ext.metastore.predicates.tree import bind
from catalog_ext.scan.equivalent_names import EquivalentNames
from catalog_ext.scan.key_layout import Layout, Place


def definition(**keys: str) -> TableDefinition:
    columns = tuple(Column(name, kind) for name, kind in keys.items())
    return TableDefinition(
        TableIdentifier.of("s", "t"), TableType.EXTERNAL, "csv", "file:///t", (Column("x", "int"),), columns
    )


def layout(where: str | None = None, **keys: str) -> Layout:
    table = definition(**(keys or {"ds": "date", "region": "string"}))
    return Layout(table, bind(parse_predicate(where), table.keys, "s.t") if where else None)


@pytest.mark.parametrize(
    "directory",
    [
        "ds=2025-01-01/region=eu", "DS=2025-01-01/Region=eu", "ds=2025-1-1/region=eu", "ds=2025/region=eu",
        "ds=__HIVE_DEFAULT_PARTITION__/region=__HIVE_DEFAULT_PARTITION__", "ds=/region=", "ds=2025-01-01/region=a=b",
        "ds=2025-01-01/region=%2F", "ds=2025-01-01/region=%zz", "ds=2025-01-01/region=+", "ds=2025-01-01/region=\n",
        "d%73=2025-01-01/region=eu", "ds=2025%2D01-01/region=eu", "ds= 2025-01-01/region= ",
    ],
)  # fmt: skip
def test_partitions(directory: str) -> None:
    assert layout().judge(directory).place is Place.PARTITION


@pytest.mark.parametrize("directory", ["", "ds=2025-01-01", "ds=__HIVE_DEFAULT_PARTITION__", "ds="])
def test_directories_above_partitions(directory: str) -> None:
    assert layout().judge(directory).place is Place.ABOVE


@pytest.mark.parametrize(
    "directory",
    [
        "_temporary", ".hive-staging", "ds=2025-01-01/_x", "ds=2025-01-01/region=eu/_x", "ds=2025-01-01/region=eu/.x/y",
        "_delta_log/x=1", "ds=2025-01-01/region=eu/_", "_x/ds=2025-01-01",
    ],
)  # fmt: skip
def test_hidden_directories_at_every_depth(directory: str) -> None:
    assert layout().judge(directory).place is Place.HIDDEN


def test_a_name_with_an_equals_sign_is_not_hidden() -> None:
    assert layout(_k="string").judge("_k=1").place is Place.PARTITION
    assert layout(k="string").judge("_x=1").reason == "the key '_x' is not a partition column; 'k' is expected here"


@pytest.mark.parametrize(
    ("directory", "reason"),
    [
        ("plain", "'plain' is not of the form ds=value"),
        ("=1", "'=1' is not of the form ds=value"),
        ("", ""),
        ("ds=2025-01-01/plain", "'plain' is not of the form region=value"),
        ("ds=2025-01-01/region=eu/plain", "lies deeper than the 2 partition columns"),
        ("ds=2025-01-01/region=eu/hour=1", "lies deeper than the 2 partition columns"),
        ("ds=2025-01-01/region=eu/ds=2025-01-01", "the key 'ds' comes twice in the path"),
        ("ds=2025-01-01/region=eu/REGION=eu", "the key 'REGION' comes twice in the path"),
        ("ds=2025-01-01/ds=2025-01-01", "the key 'ds' comes twice in the path"),
        ("region=eu", "the key 'region' stands where 'ds' is expected (keys in the wrong order)"),
        ("day=1", "the key 'day' is not a partition column; 'ds' is expected here"),
        ("ds=2025-02-30", "partition column ds: '2025-02-30' does not fit the type DATE"),
        ("ds=tomorrow/region=eu", "partition column ds: 'tomorrow' does not fit the type DATE"),
        ("plain\n", "'plain\\n' is not of the form ds=value"),
        ("x" * 500, f"'{'x' * 80}'… (500 characters) is not of the form ds=value"),
        (
            "ds=2025-01-01/region=%5F_HIVE_DEFAULT_PARTITION__",
            "partition column region: '%5F_HIVE_DEFAULT_PARTITION__' is the escaped name of the default partition, "
            "which stands for NULL",
        ),
    ],
)
def test_directories_that_do_not_conform_and_why(directory: str, reason: str) -> None:
    verdict = layout().judge(directory)
    assert verdict.reason == reason
    assert (verdict.place is Place.NONCONFORMING) is bool(reason)


def test_one_partition_column_is_one() -> None:
    assert layout(k="int").judge("k=1/x=2").reason == "lies deeper than the partition column"


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("int", ["01", "-0", "+1", " 7 ", "2147483647"], ["x", "1.5", "2147483648", "1e3"]),
        ("boolean", ["true", "F", "1"], ["maybe", "2"]),
        ("decimal(4,2)", ["1", "12.34", "-1.005"], ["100", "1,5"]),
        ("double", ["1e3", "NaN", "-Infinity"], ["one"]),
        ("timestamp", ["2025-01-01 10%3A00%3A00", "2025-01-01"], ["10%3A00"]),
        ("varchar(2)", ["ab", ""], ["abc"]),
    ],
)
def test_values_cast_by_sparks_rules_or_are_not_registered(kind: str, good: list[str], bad: list[str]) -> None:
    judged = layout(k=kind)
    assert {judged.judge(f"k={value}").place for value in good} == {Place.PARTITION}
    assert {judged.judge(f"k={value}").place for value in bad} == {Place.NONCONFORMING}


def test_a_table_without_partition_columns() -> None:
    plain = Layout(definition())
    assert plain.judge("").place is Place.PARTITION
    assert plain.judge("_x").place is Place.HIDDEN
    assert plain.judge("k=1").reason == "lies in a directory, but the table has no partition columns"


def test_more_than_eight_keys() -> None:
    keys = {f"k{i}": "int" for i in range(12)}
    name = "/".join(f"k{i}={i}" for i in range(12))
    judged = layout("k11 = 11", **keys)
    assert judged.judge(name).place is Place.PARTITION
    assert judged.judge(name.replace("k11=11", "k11=12")).place is Place.PRUNED
    assert judged.judge(name.rpartition("/")[0]).place is Place.ABOVE


@pytest.mark.parametrize(
    ("where", "pruned", "kept"),
    [
        ("ds = '2025-01-02'", ["ds=2025-01-01", "ds=2025-01-01/region=eu"], ["", "ds=2025-01-02"]),
        ("region = 'eu'", ["ds=2025-01-01/region=us"], ["", "ds=2025-01-01", "ds=2025-01-01/region=eu"]),
        ("ds IS NULL", ["ds=2025-01-01"], ["ds=__HIVE_DEFAULT_PARTITION__", "ds="]),
        ("ds = '2025-01-01' OR region = 'eu'", ["ds=2025-01-02/region=us"], ["ds=2025-01-02", "ds=2025/region=eu"]),
        ("NOT (ds < '2025-01-02')", ["ds=2025-01-01", "ds="], ["ds=2025-01-02"]),
        ("false", ["", "ds=2025-01-01"], []),
    ],
)  # fmt: skip
def test_what_a_predicate_excludes_is_not_looked_at(where: str, pruned: list[str], kept: list[str]) -> None:
    judged = layout(where)
    assert {judged.judge(d).place for d in pruned} == {Place.PRUNED}
    assert {judged.judge(d).place for d in kept} <= {Place.ABOVE, Place.PARTITION}


def test_directory_is_nonconforming_although_the_predicate_excludes_it() -> None:
    assert layout("region = 'eu'").judge("ds=tomorrow").place is Place.NONCONFORMING


@given(st.lists(st.text(alphabet="ab=/_.%20\n\x00é", max_size=12), max_size=4))
def test_any_path_has_a_verdict(components: list[str]) -> None:
    verdict = layout().judge("/".join(components))
    assert (verdict.place is Place.NONCONFORMING) is bool(verdict.reason)


# What the metastore can hold


@pytest.mark.parametrize(
    ("name", "obstacle"),
    [
        ("k=a", ""),
        ("", ""),
        ("k=__HIVE_DEFAULT_PARTITION__", ""),
        ("k=", "not representable in the metastore: the value is empty"),
        ("k=a/l=", "not representable in the metastore: the value is empty"),
        ("k=" + "x" * 1023, ""),
        ("k=" + "x" * 1024, "not representable in the metastore: a value has 1024 characters (1023 fit)"),
    ],
)
def test_what_the_metastore_cannot_hold(name: str, obstacle: str) -> None:
    assert metastore_obstacle(name) == obstacle


def spellings(staying: list[str], listed: list[str]) -> EquivalentNames:
    return EquivalentNames(layout(k="string", l="string").keys, lambda: staying, lambda name: name in staying + listed)


def test_equal_values_in_other_spellings_stand_back() -> None:
    beside = "not representable in the metastore beside {}, which has the same values"
    known = spellings(["k=%61/l=1", "k=b/l=1"], ["k=c/l=1"])
    assert known.obstacle("k=a/l=1") == beside.format("k=%61/l=1")
    assert known.obstacle("K=a/l=1") == beside.format("k=%61/l=1")
    assert known.obstacle("k=%62/l=1") == beside.format("k=b/l=1")
    assert known.obstacle("k=%63/l=1") == beside.format("k=c/l=1")
    assert known.obstacle("k=c/l=1") == ""
    assert known.obstacle("k=%64/l=1") == ""
    assert known.obstacle("K=d/l=1") == beside.format("k=%64/l=1")
    assert known.obstacle("k=a%3Ab/l=1") == ""
    assert known.obstacle("k=a%3ab/l=1") == "", "no partition has it in Hive's spelling yet"
    assert known.obstacle("k=a:b/l=1") == beside.format("k=a%3ab/l=1")


@given(st.text(min_size=1, max_size=20), st.text(min_size=1, max_size=20))
def test_what_hive_writes_is_recognized_as_its_spelling(k: str, v: str) -> None:
    name = format_partition_name(["k", "l"], [k, v])
    assert spellings([], [name]).obstacle(name) == ""
