"""The partition codec of Python against the golden files that the connector's is tested against as well.

``tests/integration/connector/test_golden_partitions.py`` has the other half.
"""

from __future__ import annotations

import pytest

from catalog_ext.metastore.errors import InvalidPartitionNameError, InvalidValueError
from catalog_ext.metastore.model.key_encoding import encode_key
from catalog_ext.metastore.model.partition_names import format_partition_name, partition_values
from catalog_ext.metastore.model.types import parse_type
from catalog_ext.metastore.model.values import cast_text, value_text
from catalog_ext.metastore.predicates.partition_specs import MAX_COMPONENT_BYTES
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.scan.path_keys import keys_of
from tests.contract.golden import NAMES, ORDER, VALUES, NameCase, ValueCase


def _named(case: NameCase) -> str:
    kind = parse_type(case.type)
    value = None if case.text is None else cast_text(case.text, kind)
    return format_partition_name(["k"], [None if value is None else value_text(value, kind)])


@pytest.mark.parametrize("case", NAMES, ids=str)
def test_a_value_has_the_golden_name(case: NameCase) -> None:
    if case.refused == "always":
        with pytest.raises(InvalidPartitionNameError):
            _named(case)
    else:
        name = _named(case)
        assert name == (case.upload_name or case.name)
        assert (len(name.encode()) > MAX_COMPONENT_BYTES) == (case.refused == "directories")


@pytest.mark.parametrize("case", VALUES, ids=str)
def test_a_name_has_the_golden_value(case: ValueCase) -> None:
    kind = parse_type(case.type)
    (text,) = partition_values(case.name)
    if case.refused:
        with pytest.raises(InvalidValueError):
            cast_text(text or "", kind)
    else:
        value = None if text is None else cast_text(text, kind)
        assert (None if value is None else value_text(value, kind)) == case.value


@pytest.mark.parametrize("name", ORDER)
def test_the_indexs_keys_have_the_golden_order(name: str) -> None:
    kind = parse_type(name)
    keys = [encode_key(value, kind).encode() for value in (None, *(cast_text(text, kind) for text in ORDER[name]))]
    assert keys == sorted(set(keys))


@pytest.mark.parametrize(
    ("directory", "keys"),
    [
        ("s3a://bucket/data/year=2024/Month=01", [("year", "2024"), ("Month", "01")]),
        ("s3a://bucket", []),
        ("s3a://bucket/a=1", [("a", "1")]),
        ("hdfs://node:9000/k=v/plain/j=w", [("k", "v"), ("j", "w")]),
        ("file:///data/a%20b=c%2Fd", [("a b", "c%2Fd")]),
        ("file:///data/k=a=b", [("k", "a=b")]),
        ("file:///data/k=", [("k", "")]),
        ("file:///data/=v", []),
        ("file:///data/k", []),
        ("file:///data/%zz=%4", [("%zz", "%4")]),
        ("file:///data/%3d=x", [("=", "x")]),
        ("file:///data/k=__HIVE_DEFAULT_PARTITION__", [("k", "__HIVE_DEFAULT_PARTITION__")]),
        ("file:///data/k=1/K=2", [("k", "1"), ("K", "2")]),
        ("file:///data/ k = v ", [(" k ", " v ")]),
        ("file:///data/größe=😀", [("größe", "😀")]),
        ("file:///data/_k=1/.k=2", [("_k", "1"), (".k", "2")]),
    ],
)
def test_keys_of_a_path_are_unescaped_and_their_values_are_not(directory: str, keys: list[tuple[str, str]]) -> None:
    assert list(keys_of(Location.parse(directory))) == keys
