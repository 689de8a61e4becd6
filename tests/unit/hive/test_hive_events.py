"""Messages of the metastore's notification log, as releases 2.3 to 4 write them."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import pytest

from catalog_ext.metastore.hive.events import HiveEvent, PartitionHint, Statistics, event_of

KEYS = {"lst": ["rec", 2, {"1": {"str": "ds"}, "2": {"str": "string"}}, {"1": {"str": "k"}, "2": {"str": "int"}}]}
COUNTED = {"numFiles": "1", "totalSize": "7", "transient_lastDdlTime": "99"}


def table(name: str = "t", keys: object = KEYS, **parameters: str) -> str:
    """A table by thrift's JSON protocol."""
    return json.dumps({
        "1": {"str": name}, "2": {"str": "s"}, "8": keys, "9": {"map": ["str", "str", len(parameters), parameters]},
    })  # fmt: skip


def partition(*values: str, **parameters: str) -> str:
    return json.dumps({
        "1": {"lst": ["str", len(values), *values]}, "7": {"map": ["str", "str", len(parameters), parameters]},
    })  # fmt: skip


def event(kind: str, body: dict[str, Any], form: str = "json-0.2") -> HiveEvent:
    text = json.dumps(body)
    if form == "gzip(json-2.0)":
        text = base64.b64encode(gzip.compress(text.encode())).decode()
    return event_of(7, 1, kind, "S", "T", text, form)


def test_added_partitions_bring_what_was_written_with_them() -> None:
    added = event("ADD_PARTITION", {
        "partitions": [{"ds": "a b", "k": "1"}, {"ds": "x/y", "k": "2"}],
        "partitionListJson": [partition("a b", "1", **COUNTED), partition("x/y", "2", numFiles="1")],
    })  # fmt: skip
    assert (added.event_id, added.database, added.table, added.definition) == (7, "s", "t", False)
    assert added.partitions == (
        PartitionHint("ds=a b/k=1", written=Statistics("1", "7", "99")), PartitionHint("ds=x%2Fy/k=2"),
    )  # fmt: skip


@pytest.mark.parametrize("form", ["json-0.2", "gzip(json-2.0)", ""])
def test_altered_partition_says_whether_all_statistics_are_new(form: str) -> None:
    body = {
        "keyValues": {"ds": "a", "k": "1"}, "partitionObjBeforeJson": partition("a", "1", **COUNTED),
        "partitionObjAfterJson": partition("a", "1", **{**COUNTED, "numFiles": "2"}),
    }  # fmt: skip
    assert event("ALTER_PARTITION", body, form).partitions == (
        PartitionHint("ds=a/k=1", written=Statistics("2", "7", "99")),
    )
    same = {**body, "partitionObjAfterJson": partition("a", "1", **COUNTED, other="x")}
    assert event("ALTER_PARTITION", same, form).partitions == (PartitionHint("ds=a/k=1"),)


def test_a_renamed_partition_went_and_came() -> None:
    body = {
        "keyValues": {"ds": "a", "k": "1"}, "partitionObjBeforeJson": partition("a", "1"),
        "partitionObjAfterJson": partition("b", "1"),
    }  # fmt: skip
    assert event("ALTER_PARTITION", body).partitions == (
        PartitionHint("ds=a/k=1", dropped=True), PartitionHint("ds=b/k=1"),
    )  # fmt: skip


def test_dropped_partitions() -> None:
    body = {"partitions": [{"ds": "a", "k": "1"}]}
    assert event("DROP_PARTITION", body).partitions == (PartitionHint("ds=a/k=1", dropped=True),)


def test_an_insert_names_its_partition_by_either_form() -> None:
    wanted = (PartitionHint("ds=a/k=1"),)
    assert event("INSERT", {"partKeyVals": {"ds": "a", "k": "1"}}).partitions == wanted
    assert event("INSERT", {"tableObjJson": table(), "ptnObjJson": partition("a", "1")}).partitions == wanted
    assert event("INSERT", {"tableObjJson": table(keys={"lst": ["rec", 0]})}).partitions == (PartitionHint(""),)


def test_an_altered_table_says_which_parameters_changed() -> None:
    body = {"tableObjBeforeJson": table(a="1", b="1"), "tableObjAfterJson": table(a="2", c="1")}
    altered = event("ALTER_TABLE", body)
    assert (altered.definition, altered.dropped, altered.partitions) == (True, False, ())
    assert altered.parameters == {"a", "b", "c"}
    plain = {"lst": ["rec", 0]}
    body = {"tableObjBeforeJson": table(keys=plain), "tableObjAfterJson": table(keys=plain, **COUNTED)}
    assert event("ALTER_TABLE", body).partitions == (PartitionHint("", written=Statistics("1", "7", "99")),)


def test_an_altered_table_says_whether_its_columns_changed() -> None:
    def of(*columns: str) -> str:
        return json.dumps({**json.loads(table()), "7": {"rec": {"1": {"lst": ["rec", len(columns), *columns]}}}})

    assert event("ALTER_TABLE", {"tableObjBeforeJson": of("x"), "tableObjAfterJson": of("x", "y")}).columns
    assert not event("ALTER_TABLE", {"tableObjBeforeJson": of("x"), "tableObjAfterJson": of("x")}).columns


def test_a_renamed_table_has_both_names() -> None:
    renamed = event("ALTER_TABLE", {"tableObjBeforeJson": table(), "tableObjAfterJson": table("u")})
    assert (renamed.dropped, renamed.renamed_to) == (True, ("s", "u"))


def test_tables_that_came_and_went() -> None:
    assert event("CREATE_TABLE", {}).definition
    assert event("DROP_TABLE", {}).dropped


def test_irrelevant_events_say_nothing() -> None:
    for kind in ("OPEN_TXN", "CREATE_FUNCTION", "UPDATE_PART_COL_STAT", "CREATE_DATABASE"):
        assert event(kind, {}).says_nothing


@pytest.mark.parametrize("body", [{}, {"partitions": 1}, {"partitions": [{"ds": "a"}], "partitionListJson": ["[]"]}])
def test_an_unknown_message_makes_the_whole_table_suspect(body: dict[str, Any]) -> None:
    assert event("ADD_PARTITION", body).partitions is None
    assert event_of(1, 1, "ALTER_PARTITION", "s", "t", "no JSON", "gzip(json-2.0)").partitions is None
    assert event("INSERT", {"tableObjJson": table()}).partitions is None
    altered = event("ALTER_TABLE", body)
    assert (altered.partitions, altered.definition, altered.dropped) == (None, True, False)
