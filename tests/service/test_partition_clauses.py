"""PARTITION clauses in requests: every operation that takes one refuses the same mistakes with the same errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from catalog_ext.service.server import Service
from tests.kit.repair_cases import local_catalog, register, write
from tests.kit.service_client import Client

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_ext.catalog import Catalog
    from tests.kit.service_client import Answer

GOLDEN = json.loads((Path(__file__).parents[1] / "contract" / "partition_specs.json").read_text(encoding="utf-8"))
MISTAKES = {case["mistake"]: case for case in GOLDEN["specs"]}
BEGIN = {
    "transaction": "c" * 32, "kind": "append", "operation": "INSERT", "owner": "o", "predicate": None, "app_id": None,
    "app_version": None, "options": {}, "session": {}, "definition": None,
}  # fmt: skip
OPERATIONS: dict[str, dict[str, Any]] = {
    "partitions/list": {},
    "tables/plan": {},
    "writes/delete": {"operation": "truncate"},
    "statistics/put": {"files": [], "columns": None},
    "partitions/drop": {"predicates": [], "if_exists": True, "purge": False},
    "writes/begin": BEGIN,
}


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    folder = tmp_path_factory.mktemp("clauses")
    write(folder / "t", "k=1/r=x/1.csv", "k=01/r=x/2.csv", "k=2/r=x/1.csv", "k=10/r=y/1.csv")
    with local_catalog(folder) as catalog:
        register(catalog, folder / "t", GOLDEN["keys"])
        catalog.repair_partitions("s.t")
        catalog.alterations.alter("s.t", set_={"external.table.purge": "true"})
        register(catalog, folder / "flat", {}, table="s.flat")
        yield catalog


@pytest.fixture(scope="module")
def client(catalog: Catalog) -> Iterator[Client]:
    with Service(catalog) as service:
        yield Client(service)


def clause(spec: dict[str, str | None], *open_keys: str) -> dict[str, Any]:
    equal = [{"column": key, "op": "=", "values": [value]} for key, value in spec.items()]
    return {"comparisons": [*equal, *({"column": key, "op": "any", "values": []} for key in open_keys)]}


def ask(client: Client, operation_name: str, /, *, table: str = "t", **fields: Any) -> Answer:
    loaded = client.load(table)
    return client.call(operation_name, table_id=loaded["table_id"], version=loaded["version"], **fields)


def listed(client: Client, **fields: Any) -> list[str]:
    return [row["partition"] for row in ask(client, "partitions/list", **fields).rows]


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("mistake", [name for name, case in MISTAKES.items() if not case.get("full")])
def test_a_mistake_has_one_error(client: Client, operation: str, mistake: str) -> None:
    case = MISTAKES[mistake]
    answer = ask(client, operation, clauses=[clause(case["spec"])], **OPERATIONS[operation])
    assert (answer.status, answer.error["code"]) == (400, case["code"])
    assert answer.error["message"] == case["message"].format(what="table s.t")


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_spec_has_the_same_errors(client: Client, mistake: str) -> None:
    case = MISTAKES[mistake]
    answer = ask(client, "partitions/list", spec=case["spec"])
    assert (answer.status, answer.error["code"]) == (400, case["code"])
    assert answer.error["message"] == case["message"].format(what="table s.t")


@pytest.mark.parametrize("operation", [name for name in OPERATIONS if name != "tables/plan"])
def test_what_has_no_partition_columns_takes_no_clause(client: Client, operation: str) -> None:
    answer = ask(client, operation, table="flat", clauses=[clause({"k": "1"})], **OPERATIONS[operation])
    assert (answer.status, answer.error["code"]) == (400, GOLDEN["unpartitioned"]["code"])
    assert answer.error["message"] == GOLDEN["unpartitioned"]["table"].format(name="s.flat")
    assert ask(client, "partitions/list", table="flat").error == answer.error, "without a clause, too"


def test_a_clause_chooses_by_value_and_so_does_a_spec(client: Client) -> None:
    equal = ["k=01/r=x", "k=1/r=x"]
    assert listed(client, clauses=[clause({"K": "1"})]) == equal
    assert listed(client, spec={"r": "x", "k": "001"}) == equal
    assert listed(client, clauses=[clause({"k": "1"}), clause({"r": "y"})]) == [*equal, "k=10/r=y"]
    above = {"op": ">", "column": "k", "value": "1"}
    assert listed(client, clauses=[clause({"r": "x"})], predicate=above) == ["k=2/r=x"]
    assert listed(client, clauses=[clause({"k": "77"})]) == []
    sensitive = ask(client, "partitions/list", clauses=[clause({"K": "1"})], session={"case_sensitive": True})
    assert sensitive.error["code"] == "CATALOG_EXT_INVALID_PARTITION_SPEC"
    planned = ask(client, "tables/plan", clauses=[clause({"k": "1"}, "r")])
    assert [row["partition"] for row in planned.rows] == equal
    assert len(ask(client, "tables/plan", clauses=[clause({}, "k", "r")]).rows) == 4


@pytest.mark.parametrize(
    ("operation", "fields"),
    [
        ("partitions/list", {"spec": {"k": "7", "r": "x"}}),
        ("writes/delete", {"operation": "truncate", "clauses": [clause({"r": "x"}), clause({"k": "7", "r": "x"})]}),
        ("statistics/put", {"files": [], "columns": None, "clauses": [clause({"k": "7"}, "r")]}),
    ],
)
def test_a_clause_that_names_no_partition(client: Client, operation: str, fields: dict[str, Any]) -> None:
    answer = ask(client, operation, **fields)
    assert (answer.status, answer.error["code"]) == (404, "CATALOG_EXT_PARTITION_NOT_FOUND")
    assert "Table s.t has no partition 'k=7" in answer.error["message"]
    assert len(ask(client, "tables/plan").rows) == 4


def test_keys_without_values_are_checked_and_match_all_partitions(client: Client) -> None:
    unknown = ask(client, "statistics/put", files=[], columns=None, clauses=[clause({}, "q")])
    assert unknown.error["message"] == MISTAKES["unknown"]["message"].format(what="table s.t")
    assert ask(client, "statistics/put", files=[], columns=None, clauses=[clause({}, "k")]).status == 200
    for operation in ("partitions/list", "writes/delete", "partitions/drop"):
        refused = ask(client, operation, clauses=[clause({}, "k")], **OPERATIONS[operation])
        assert (refused.status, refused.error["code"]) == (400, "CATALOG_EXT_INVALID_INPUT")


def test_a_spec_stands_alone(client: Client) -> None:
    spec = {"k": "1", "r": "x"}
    for more in ({"clauses": [clause(spec)]}, {"predicate": {"op": "true"}}):
        assert ask(client, "partitions/list", spec=spec, **more).status == 400
    for wrong in ({"comparisons": []}, {"comparisons": [{"column": "k", "op": "~", "values": ["1"]}]}, {}):
        assert ask(client, "partitions/list", clauses=[wrong]).status == 400


def test_truncate_empties_what_its_clauses_name(catalog: Catalog, client: Client) -> None:
    write(Path(catalog.load_table("s.t").definition.location.removeprefix("file://")), "k=3/r=z/1.csv")
    catalog.repair_partitions("s.t")
    emptied = ask(client, "writes/delete", operation="truncate", predicate=None, clauses=[clause({"k": "03"})])
    assert (emptied.json["files_removed"], emptied.json["partitions_removed"]) == (1, 0)
    assert len(ask(client, "tables/plan").rows) == 4
    # As in Spark, only a clause that names one partition has to name one that is there.
    nothing = ask(client, "writes/delete", operation="truncate", predicate=None, clauses=[clause({"k": "77"})])
    assert (nothing.status, nothing.json["files_removed"]) == (200, 0)
    assert len(ask(client, "tables/plan").rows) == 4
    ask(client, "partitions/drop", clauses=[clause({"r": "z"})], **OPERATIONS["partitions/drop"])
    assert listed(client, clauses=[clause({"r": "z"})]) == []


def test_views_take_clauses_and_specs_as_tables_do(client: Client) -> None:
    keys = [{"name": "k", "type": "int"}, {"name": "r", "type": "string"}]
    put = {
        "namespace": "s", "name": "v", "kind": "create", "text": "SELECT 1 AS a, 1 AS k, 'x' AS r", "catalog": "lake",
        "schema_mode": "BINDING", "columns": [{"name": "a", "type": "int"}, *keys], "partition_columns": ["k", "r"],
        "tables": None,
    }  # fmt: skip
    assert client.call("views/put", **put).json["view"]["automatic"] is False
    client.call("views/partitions/add", namespace="s", name="v", partitions=[{"spec": {"k": "1", "r": "x"}}])
    assert listed(client, table="v", clauses=[clause({"k": "01"})]) == ["k=1/r=x"]
    gone = ask(client, "partitions/list", table="v", spec={"k": "2", "r": "x"})
    assert (gone.status, gone.error["code"]) == (404, "CATALOG_EXT_PARTITION_NOT_FOUND")
    assert gone.error["message"].startswith("View s.v has no partition 'k=2, r=x'")
    for case in MISTAKES.values():
        wrong = ask(client, "partitions/list", table="v", spec=case["spec"])
        assert wrong.error["message"] == case["message"].format(what="view s.v")


def test_a_view_whose_partitions_follow_asks_for_its_tables(client: Client) -> None:
    keys = [{"name": "k", "type": "int"}, {"name": "r", "type": "string"}]
    put = {
        "namespace": "s", "name": "auto", "kind": "create", "text": "SELECT x, k, r FROM t", "catalog": "lake",
        "schema_mode": "BINDING", "columns": [{"name": "x", "type": "int"}, *keys], "partition_columns": ["k", "r"],
        "properties": {"Partition.Auto": " TRUE "},
    }  # fmt: skip
    assert client.call("views/put", **put, tables=None).json == {"needs_tables": True}
    assert "auto" not in client.call("views/list", namespace="s").json["views"]
    made = client.call("views/put", **put, tables=["s.t"]).json
    assert (made["view"]["automatic"], made["view"]["tables"]) == (True, ["s.t"])
    client.call("views/refresh", namespace="s", name="auto")
    assert "k=2/r=x" in listed(client, table="auto")
    plain = client.call("views/put", **{**put, "kind": "replace", "properties": {}}).json
    assert (plain["view"]["automatic"], plain["view"]["tables"]) == (False, [])
