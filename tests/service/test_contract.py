"""The service against its contract (docs/spec/service.md), over HTTP on the loopback interface."""

from __future__ import annotations

import http.client
import json
import re
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from catalog_ext.metastore import errors
from catalog_ext.metastore.index.read.partition_groups import GROUP_SCHEMA
from catalog_ext.metastore.index.read.partitions import PARTITION_SCHEMA
from catalog_ext.metastore.index.read.planned_files import PLAN_SCHEMA
from catalog_ext.metastore.storage.entries import EntryKind
from catalog_ext.procedures.registry import PROCEDURES
from catalog_ext.repair.report import SCHEMA as REPAIR_SCHEMA
from catalog_ext.service import application
from catalog_ext.service.messages.settings import settings_json
from catalog_ext.service.operations import operations_of
from catalog_ext.service.server import Service
from tests.kit.repair_cases import EU, local_catalog, register, write
from tests.kit.service_client import END_MARKER, Answer, Client

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_ext.catalog import Catalog
    from catalog_ext.procedures.procedure import Procedure

OPERATIONS = {
    "ping", "namespaces/list", "namespaces/load", "namespaces/create", "namespaces/alter", "namespaces/drop",
    "tables/list", "tables/load", "tables/hive_clauses", "tables/create", "tables/set_serde",
    "tables/alter", "tables/rename", "tables/drop", "tables/plan", "partitions/list", "settings/load",
    "settings/resolve", "partitions/groups",
    "procedures/list", "writes/load",
    "procedures/call", "tables/changes", "tables/metadata", "writes/begin", "writes/locations", "writes/heartbeat",
    "writes/stage", "writes/commit", "writes/abort", "writes/release", "writes/delete", "paths/load", "paths/plan",
    "partitions/add", "partitions/drop", "partitions/rename", "partitions/relocate", "partitions/exchange",
    "statistics/put",
    "views/list", "views/put", "views/drop", "views/rename", "views/refresh", "views/partitions/add",
    "views/partitions/drop", "events/put",
}  # fmt: skip


@pytest.fixture(scope="module")
def module_catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    folder = tmp_path_factory.mktemp("service")
    root = folder / "t"
    for day in (1, 2, 10):
        write(root, *(f"ds=2025-01-{day:02d}/region={r}/1.csv" for r in ("eu", "a%20b")))
    with local_catalog(folder) as catalog:
        register(catalog, root)
        catalog.repair_partitions("s.t")
        yield catalog


@pytest.fixture(scope="module")
def module_service(module_catalog: Catalog) -> Iterator[Service]:
    with Service(module_catalog) as service:
        yield service


@pytest.fixture
def client(module_service: Service) -> Client:
    return Client(module_service)


@pytest.fixture
def catalog(module_catalog: Catalog) -> Catalog:
    return module_catalog


# Transport


def test_client_of_several_services_gets_their_index_ids(client: Client, catalog: Catalog) -> None:
    assert client.call("tables/list", namespace="s").index is None
    other = Client(client.service)
    other.index = "?"
    answer = other.call("tables/list", namespace="s")
    assert answer.index == catalog.index.properties.load()["index.id"]
    other.index = answer.index
    assert other.load()["name"] == "t"
    other.index = "0" * 32
    refused = other.call("tables/drop", namespace="s", name="t")
    assert (refused.status, refused.error["code"]) == (421, "CATALOG_EXT_INVALID_CONFIGURATION")
    assert "correct 'uri'" in refused.error["message"]
    assert client.load()["name"] == "t", "nothing was done"


@pytest.mark.parametrize("path", ["/v1/ping", "/v1/nosuch", "/", "/v2/ping", "/v1/tables/load?x=1"])
@pytest.mark.parametrize("token", [None, "wrong", "wr\xf6ng"])
def test_nothing_is_answered_without_the_token(client: Client, path: str, token: str | None) -> None:
    answer = client.send(path, token=token)
    assert answer.status == 401
    assert answer.error["code"] == "CATALOG_EXT_UNAUTHORIZED"


def test_a_part_of_the_token_or_another_scheme_does_not_do(client: Client) -> None:
    token = client.service.token
    assert client.send("/v1/ping", token=token[:-1]).status == 401
    assert client.send("/v1/ping", token=f"{token}x").status == 401
    assert client.send("/v1/ping", scheme="Basic").status == 401
    assert client.send("/v1/ping").status == 200


def test_tokens_are_32_random_bytes_new_at_each_start(catalog: Catalog) -> None:
    with Service(catalog) as one, Service(catalog) as two:
        assert one.token != two.token
        assert len(one.token) == 43
        assert one.port != two.port


def test_the_service_listens_on_the_loopback_interface_only(client: Client) -> None:
    assert client.service.uri.startswith("http://127.0.0.1:")


def test_a_port_that_is_taken_is_an_error(catalog: Catalog, client: Client) -> None:
    with pytest.raises(errors.ServiceError, match=str(client.service.port)):
        Service(catalog, port=client.service.port)


@pytest.mark.parametrize("path", ["/v1/nosuch", "/v1/", "/", "/v2/ping", "/v1/tables", "/v1/../etc/passwd"])
def test_an_unknown_operation_is_404_in_the_form_of_every_error(client: Client, path: str) -> None:
    answer = client.send(path)
    assert (answer.status, answer.error["code"]) == (404, "CATALOG_EXT_NOT_FOUND")


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_another_method_than_post_is_404(client: Client, method: str) -> None:
    answer = client.send("/v1/ping", method=method)
    assert (answer.status, answer.error["code"]) == (404, "CATALOG_EXT_NOT_FOUND")


@pytest.mark.parametrize(
    "body",
    [b"{", b"[]", b"null", b'"x"', b"\xff\xfe", b"{'a': 1}", b"[" * 100_000, b'{"namespace": "s"', b"7"],
    ids=["cut", "list", "null", "string", "bytes", "quotes", "deep", "open", "number"],
)
def test_a_body_that_is_no_json_object_is_400(client: Client, body: bytes) -> None:
    answer = client.send("/v1/namespaces/list", body)
    assert (answer.status, answer.error["code"]) == (400, "CATALOG_EXT_INVALID_INPUT")


def test_an_empty_body_is_an_empty_object(client: Client) -> None:
    assert client.send("/v1/ping", b"").status == 200


def test_a_body_that_is_too_large_is_400(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application, "MAX_BODY_BYTES", 1000)
    assert client.send("/v1/ping", b" " * 998 + b"{}").status == 200
    assert "1001 bytes" in client.send("/v1/ping", b" " * 999 + b"{}").error["message"]


_NOBODYS = "0" * 32
FIELDS: dict[str, dict[str, object]] = {
    "procedures/list": {"procedure": "status"},
    "namespaces/load": {"namespace": "s"},
    "namespaces/create": {"namespace": "never", "properties": {}},
    "namespaces/alter": {"namespace": "s", "set": {}, "remove": []},
    "namespaces/drop": {"namespace": "never", "cascade": False},
    "tables/list": {"namespace": "s"},
    "tables/load": {"namespace": "s", "name": "t", "metadata": "files"},
    "tables/hive_clauses": {"namespace": "s", "name": "t"},
    "tables/create": {
        "namespace": "s", "name": "never", "table_type": "EXTERNAL", "format": "csv", "storage": None,
        "default_format": "parquet", "location": None, "columns": [{"name": "x", "type": "int"}],
        "partition_columns": [], "options": {}, "properties": {}, "comment": None, "dry_run": False,
    },
    "tables/alter": {"namespace": "s", "name": "t", "set": {}, "remove": [], "changes": [], "location": None},
    "tables/set_serde": {"namespace": "s", "name": "t", "serde": None, "properties": {}},
    "tables/rename": {"namespace": "s", "name": "never", "to_namespace": "s", "to_name": "ever"},
    "tables/drop": {"namespace": "s", "name": "never", "purge": False},
    "settings/load": {"table": "s.t", "properties": {}},
    "settings/resolve": {"use": "read", "table": "s.t", "catalog": "lake"},
    "events/put": {"Records": []},
    "tables/plan": {
        "table_id": 1, "version": 1, "predicate": None, "clauses": [], "session": None, "among": None, "limit": None,
        "bounds": ["x"], "staleness": {"max_ms": 60_000, "statement": "one"},
    },
    "partitions/groups": {
        "table_id": 1, "version": 1, "predicate": None, "keys": ["ds"], "wanted": "rows", "among": None,
        "staleness": None,
    },
    "partitions/list": {
        "table_id": 1, "version": 1, "predicate": None, "clauses": [], "spec": None, "session": None,
    },
    "procedures/call": {"procedure": "never", "arguments": {}, "session_table": None},
    "tables/changes": {"table_id": 1, "after": 0, "upto": 1},
    "tables/metadata": {"table_id": 1, "name": "files", "columns": ["size"], "groups": None, "numbers": None},
    "writes/begin": {
        "transaction": _NOBODYS,
        "table_id": 1, "version": 1, "kind": "append", "operation": "INSERT", "owner": "o", "predicate": None,
        "clauses": [], "clause_session": None, "app_id": None, "app_version": None,
        "options": {}, "definition": None,
    },
    "writes/locations": {"transaction": _NOBODYS, "partitions": ["ds=2025-01-01"]},
    "writes/heartbeat": {"transaction": _NOBODYS},
    "writes/stage": {"transaction": _NOBODYS, "files": [], "staged": 0},
    "writes/commit": {
        "transaction": _NOBODYS, "files": [], "staged": 0, "keep": None, "watermark_ms": None, "final": False,
        "again": False,
    },
    "writes/abort": {"transaction": _NOBODYS, "reason": "r"},
    "writes/release": {"table_id": 1, "app_id": "q", "owner": "o", "options": {}},
    "writes/load": {
        "table_id": 1, "version": 0, "path": "file:///nowhere", "spec": None, "overwrite": False, "session": {},
    },
    "writes/delete": {
        "table_id": 1, "version": 1, "operation": "delete", "predicate": {"op": "=", "column": "region", "value": "x"},
        "clauses": [], "session": None,
    },
    "paths/load": {"path": "/never", "format": None, "schema": None, "options": {}, "partitioning": True},
    "paths/plan": {"path": "/never", "partitioning": True, "keys": [], "casts": [], "predicate": None},
    "partitions/add": {
        "table_id": 1, "version": 1, "if_not_exists": False,
        "partitions": [{"spec": {"ds": "2025-01-01", "region": "eu"}, "location": None}],
    },
    "partitions/drop": {
        "table_id": 1, "version": 1, "predicates": [{"op": "=", "column": "region", "value": "x"}], "if_exists": False,
        "purge": False,
    },
    "partitions/rename": {
        "table_id": 1, "version": 1, "from": {"ds": "2025-01-01", "region": "x"},
        "to": {"ds": "2025-01-01", "region": "y"},
    },
    "partitions/relocate": {
        "table_id": 1, "version": 1, "spec": {"ds": "2025-01-01", "region": "x"}, "location": "elsewhere",
    },
    "statistics/put": {
        "table_id": 1, "version": 1, "files": [], "columns": None, "predicate": None, "clauses": [], "session": None,
    },
    "partitions/exchange": {
        "table_id": 1, "version": 1, "source_id": 1, "source_version": 1, "specs": [{"region": "eu"}],
    },
    "views/list": {"namespace": "s"},
    "views/put": {
        "namespace": "s", "name": "never", "kind": "replace", "text": "SELECT 1 AS a", "catalog": "lake",
        "current_namespace": [], "configuration": {}, "schema_mode": "BINDING", "query_columns": [], "tables": [],
        "own_catalog": "lake", "columns": [], "partition_columns": [], "properties": {}, "comment": None, "owner": None,
    },
    "views/drop": {"namespace": "s", "name": "never"},
    "views/rename": {"namespace": "s", "name": "never", "new_namespace": "s", "new_name": "nowhere"},
    "views/refresh": {"namespace": "s", "name": "never"},
    "views/partitions/add": {"namespace": "s", "name": "never", "if_not_exists": False, "partitions": []},
    "views/partitions/drop": {"namespace": "s", "name": "never", "if_exists": False, "partitions": []},
}  # fmt: skip


def test_every_operation_of_the_contract_is_there_and_no_other(module_catalog: Catalog) -> None:
    assert set(operations_of(module_catalog)) == OPERATIONS
    assert set(FIELDS) | {"ping", "namespaces/list"} == OPERATIONS


# Of notifications the stores say what they have.
@pytest.mark.parametrize("operation", sorted(OPERATIONS - {"events/put"}))
def test_an_unknown_field_is_400_and_named(client: Client, operation: str) -> None:
    answer = client.call(operation, **FIELDS.get(operation, {}), surprise=1)
    assert answer.status == 400
    assert "'surprise'" in answer.error["message"]


@pytest.mark.parametrize(("operation", "field"), [(o, f) for o, fields in FIELDS.items() for f in fields])
@pytest.mark.parametrize("value", [7.5, [7], {"x": 7}])
def test_a_field_of_another_type_is_400_and_nothing_is_done(
    client: Client, catalog: Catalog, operation: str, field: str, value: object
) -> None:
    before = catalog.list_tables("s"), catalog.list_namespaces()
    answer = client.call(operation, **{**FIELDS[operation], field: value})
    if operation == "procedures/call" and isinstance(value, dict) and field == "arguments":
        assert answer.status == 404, "the arguments may be any object; there is no such procedure"
    else:
        assert answer.status == 400
        assert answer.error["retryable"] is False
    assert (catalog.list_tables("s"), catalog.list_namespaces()) == before


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 10**40, True, "1"])
def test_integer_beyond_64_bits_is_400(client: Client, value: object) -> None:
    assert client.call("tables/plan", table_id=value, version=1, predicate=None).status == 400
    assert client.call("tables/plan", table_id=1, version=value, predicate=None).status == 400


@pytest.mark.parametrize(
    "column",
    [
        {"name": "a"},
        {"type": "int"},
        {"name": "a", "type": "nosuch"},
        {"name": "a", "type": "int", "nullable": "no"},
        {"name": "a", "type": "int", "extra": 1},
        {"name": "a/b", "type": "int"},
        {"name": "", "type": "int"},
        "a int",
        None,
    ],
)
def test_malformed_column_is_400(client: Client, column: object) -> None:
    fields = {**FIELDS["tables/create"], "columns": [column]}
    assert client.call("tables/create", **fields).status == 400


HOSTILE = ["\ud800", "a\x00b", "../etc", "x" * 10_000, "a'b", "%2F", "a\nb", "; DROP TABLE tables; --", ""]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_refused_in_valid_json(client: Client, catalog: Catalog, name: str) -> None:
    before = catalog.list_namespaces()
    for operation in ("namespaces/load", "namespaces/create", "tables/list"):
        fields = {"namespace": name, **({"properties": {}} if operation.endswith("create") else {})}
        answer = client.call(operation, **fields)
        assert answer.status == 400
        assert answer.error["code"] == "CATALOG_EXT_INVALID_IDENTIFIER"
        assert len(answer.body) < 2000
    assert client.call("tables/load", namespace="s", name=name).status == 400
    assert client.call("procedures/call", procedure=name or "?", arguments={}).status == 404
    assert catalog.list_namespaces() == before


# Errors


def concrete(kind: type[errors.CatalogExtError]) -> Iterator[type[errors.CatalogExtError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from concrete(child)


STATUSES = {
    errors.InvalidInputError: 400, errors.TableLayoutError: 400, errors.SchemaConflictError: 400,
    errors.SchemaMismatchError: 400, errors.RepairRefusedError: 400, errors.UnauthorizedError: 401,
    errors.StorageAccessDeniedError: 403, errors.ReadOnlyTokenError: 403,
    errors.LocationNotAllowedError: 403,
    errors.NotFoundError: 404, errors.AlreadyExistsError: 409, errors.NamespaceNotEmptyError: 409,
    errors.ConflictError: 409, errors.TransactionStateError: 409, errors.VersionExpiredError: 409,
    errors.IndexUnavailableError: 503, errors.StorageUnavailableError: 503, errors.MetastoreUnavailableError: 503,
}  # fmt: skip


@pytest.mark.parametrize("kind", list(concrete(errors.CatalogExtError)), ids=lambda kind: kind.__name__)
def test_every_error_has_its_status_and_the_form_of_the_contract(
    client: Client, catalog: Catalog, kind: type[errors.CatalogExtError], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> object:
        raise kind("problem \ud800 and remedy", {"table": "s.t"})

    monkeypatch.setattr(catalog, "list_namespaces", fail)
    answer = client.call("namespaces/list")
    assert answer.status == next((s for base, s in STATUSES.items() if issubclass(kind, base)), 500)
    assert answer.error == {
        "code": kind.code, "message": "problem \ud800 and remedy", "retryable": kind.retryable,
        "kind": kind.kind, "sqlstate": kind.sqlstate, "parameters": {"table": "s.t"},
    }  # fmt: skip
    assert re.fullmatch(r"[0-9A-Z]{5}", kind.sqlstate)
    # A missing table or a wrong request is an error at analysis; a failure on the way is one while the query runs.
    assert kind.kind is (errors.ErrorKind.ANALYSIS if answer.status in (400, 404, 409) else errors.ErrorKind.RUNTIME)


def test_an_unexpected_exception_is_500_and_logged(
    client: Client, catalog: Catalog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> object:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(catalog, "list_namespaces", fail)
    answer = client.call("namespaces/list")
    assert (answer.status, answer.error["code"]) == (500, "CATALOG_EXT_ERROR")
    assert "ZeroDivisionError: by zero" in answer.error["message"]
    assert any(record.exc_info for record in caplog.records)


# Namespaces and tables


def test_ping(client: Client) -> None:
    assert client.call("ping").json == {"service": "catalog-ext", "contract": 2, "version": "0.1.0"}


def test_client_of_another_contract_gets_an_error(client: Client) -> None:
    client.contract = "2"
    assert client.call("namespaces/list").status == 200
    client.contract = "1"
    answer = client.call("namespaces/list")
    assert (answer.status, answer.error["code"]) == (400, "CATALOG_EXT_INVALID_INPUT")
    assert "made for version '1'" in answer.error["message"]
    assert "has version 2" in answer.error["message"]


def test_the_life_of_a_namespace(client: Client) -> None:
    made = client.call("namespaces/create", namespace="Sales", properties={"comment": "c", "a": "1"}).json
    assert made == {"name": "sales", "location": None, "comment": "c", "properties": {"a": "1"}}
    assert client.call("namespaces/create", namespace="sales", properties={}).error["code"] == (
        "CATALOG_EXT_NAMESPACE_ALREADY_EXISTS"
    )
    altered = client.call("namespaces/alter", namespace="sales", set={"b": "2"}, remove=["a"]).json
    assert altered["properties"] == {"b": "2"}
    assert client.call("namespaces/load", namespace="SALES").json == altered
    assert "sales" in client.call("namespaces/list").json["namespaces"]
    assert client.call("namespaces/drop", namespace="sales").json == {"dropped": True}
    assert client.call("namespaces/load", namespace="sales").error["code"] == "CATALOG_EXT_NAMESPACE_NOT_FOUND"


def test_a_namespace_with_tables_is_dropped_with_cascade_only(client: Client, tmp_path: Path) -> None:
    client.call("namespaces/create", namespace="full", properties={})
    fields = {**FIELDS["tables/create"], "namespace": "full", "name": "t", "location": str(tmp_path / "x")}
    assert client.call("tables/create", **fields).status == 200
    answer = client.call("namespaces/drop", namespace="full")
    assert (answer.status, answer.error["code"]) == (409, "CATALOG_EXT_NAMESPACE_NOT_EMPTY")
    assert client.call("namespaces/drop", namespace="full", cascade=True).json == {"dropped": True}


def test_the_life_of_a_table(client: Client, tmp_path: Path) -> None:
    fields = {
        **FIELDS["tables/create"], "name": "Life", "format": "PARQUET", "location": f"{tmp_path}/life", "comment": "c",
        "columns": [{"name": "id", "type": "BIGINT", "nullable": False, "comment": "key"}],
        "partition_columns": [{"name": "ds", "type": "DATE"}], "options": {"o": "1"}, "properties": {"p": "2"},
    }  # fmt: skip
    made = client.call("tables/create", **fields).json
    assert made.pop("table_id") > 0
    assert made.pop("created_at_ms") > 1_700_000_000_000
    assert made == {
        "namespace": "s", "name": "life", "table_type": "EXTERNAL", "format": "parquet",
        "location": f"file://{tmp_path}/life", "comment": "c", "owner": "", "version": 0, "partition_mode": "declared",
        "columns": [{"name": "id", "type": "bigint", "nullable": False, "comment": "key"}],
        "partition_columns": [{"name": "ds", "type": "date", "nullable": True, "comment": None}],
        "options": {"o": "1"}, "properties": {"p": "2", "partition-columns": "declared"}, "statistics": {},
        "totals": {"partitions": 0, "files": 0, "bytes": 0, "rows": made["totals"]["rows"]},
        "settings": settings_json(f"{made['namespace']}.{made['name']}", made["properties"], {}),
    }  # fmt: skip
    assert client.call("tables/create", **fields).error["code"] == "CATALOG_EXT_TABLE_ALREADY_EXISTS"
    altered = client.call("tables/alter", namespace="s", name="life", set={"q": "3"}, remove=["p"]).json
    assert altered["properties"] == {"q": "3", "partition-columns": "declared"}
    assert "life" in client.call("tables/list", namespace="s").json["tables"]
    assert client.call("tables/drop", namespace="s", name="life").json == {"dropped": True}
    assert client.call("tables/load", namespace="s", name="life").error["code"] == "CATALOG_EXT_TABLE_NOT_FOUND"


def test_new_tables_format_is_from_its_clauses_also_in_a_dry_run(client: Client) -> None:
    fields = {
        **FIELDS["tables/create"], "name": "clauses", "table_type": "MANAGED", "format": None, "dry_run": True,
        "storage": {"stored_as": "TEXTFILE", "serde": None}, "columns": [{"name": "id", "type": "bigint"}],
        "options": {"field.delim": "|"}, "properties": {"p": "1"},
    }  # fmt: skip
    planned = client.call("tables/create", **fields).json
    assert (planned["table_id"], planned["version"], planned["created_at_ms"]) == (None, None, None)
    assert (planned["format"], planned["options"]) == (
        "csv",
        {
            "sep": "|", "quote": "", "nullValue": "\\N",
            "serde": "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe",
        },
    )  # fmt: skip
    assert "clauses" not in client.call("tables/list", namespace="s").json["tables"]
    made = client.call("tables/create", **{**fields, "dry_run": False}).json
    assert {name: made[name] for name in planned.keys() - {"table_id", "version", "created_at_ms", "totals"}} == {
        name: planned[name] for name in planned.keys() - {"table_id", "version", "created_at_ms", "totals"}
    }
    for wrong, code in (
        ({"storage": {"stored_as": "AVRO"}}, "UNSUPPORTED_FORMAT"),
        ({"properties": {"file_format": "orc"}}, "INVALID_CONFIGURATION"),
        ({"namespace": "nowhere", "location": "/x"}, "NAMESPACE_NOT_FOUND"),
        ({"storage": None, "options": {}, "default_format": None}, "INVALID_INPUT"),
        ({"storage": {"stored_as": 7}}, "INVALID_INPUT"),
    ):
        refused = client.call("tables/create", **{**fields, **wrong})
        assert refused.error["code"] == f"CATALOG_EXT_{code}"
    assert client.call("tables/drop", namespace="s", name="clauses").json == {"dropped": True}


def test_columns_change_and_the_table_gets_another_name(client: Client) -> None:
    fields = {**FIELDS["tables/create"], "name": "first", "table_type": "MANAGED", "format": "orc"}
    client.call("tables/create", **{**fields, "columns": [{"name": "a", "type": "int"}, {"name": "b", "type": "int"}]})
    name = {"namespace": "s", "name": "first"}
    changes: list[dict[str, Any]] = [
        {"change": "add", "path": ["c"], "type": "INT", "nullable": True, "comment": "new", "default": "1 + 1",
         "existing_default": "2", "first": False, "after": "a"},
        {"change": "rename", "path": ["b"], "name": "B2"},
        {"change": "type", "path": ["a"], "type": "bigint"},
        {"change": "comment", "path": ["a"], "comment": "x"},
        {"change": "default", "path": ["a"], "default": "7"},
        {"change": "nullable", "path": ["a"], "nullable": True},
        {"change": "move", "path": ["b2"], "first": True},
        {"change": "drop", "path": ["gone"], "if_exists": True},
    ]  # fmt: skip
    altered = client.call("tables/alter", **name, set={"q": "1"}, remove=[], changes=changes).json
    assert altered["columns"] == [
        {"name": "B2", "type": "int", "nullable": True, "comment": None, "statistics_after": 0},
        {"name": "a", "type": "bigint", "nullable": True, "comment": "x", "default": "7"},
        {"name": "c", "type": "int", "nullable": True, "comment": "new", "default": "1 + 1",
         "existing_default": "2", "statistics_after": 0},
    ]  # fmt: skip
    assert (altered["properties"]["q"], altered["version"]) == ("1", 1), "the columns of version 0 are others"
    assert client.call("tables/load", **name).json == altered
    for wrong in ({"change": "drop"}, {"change": "fall", "path": ["a"]}, {"change": "move", "path": ["a"]}):
        refused = client.call("tables/alter", **name, set={"q": "2"}, remove=[], changes=[wrong])
        assert (refused.status, refused.error["code"]) == (400, "CATALOG_EXT_INVALID_INPUT")
    missing = client.call(
        "tables/alter", **name, set={"q": "2"}, remove=[], changes=[{"change": "drop", "path": ["z"]}]
    )
    assert (missing.status, missing.error["code"]) == (404, "CATALOG_EXT_COLUMN_NOT_FOUND")
    assert client.call("tables/load", **name).json == altered

    renamed = client.call("tables/rename", **name, to_namespace="s", to_name="Second").json
    assert renamed == {**altered, "name": "second"}
    assert client.call("tables/load", **name).error["code"] == "CATALOG_EXT_TABLE_NOT_FOUND"
    taken = client.call("tables/rename", namespace="s", name="second", to_namespace="s", to_name="t")
    assert (taken.status, taken.error["code"]) == (409, "CATALOG_EXT_TABLE_ALREADY_EXISTS")
    # The old name's place is still the renamed table's.
    again = client.call("tables/create", **{**fields, "columns": [{"name": "a", "type": "int"}]}).json
    assert again["location"] == f"{renamed['location']}__2"
    for table in ("first", "second"):
        client.call("tables/drop", namespace="s", name=table, purge=False)


def test_a_managed_table_gets_its_directory_and_loses_it(client: Client, catalog: Catalog) -> None:
    fields = {**FIELDS["tables/create"], "name": "managed", "table_type": "MANAGED"}
    location = client.call("tables/create", **fields).json["location"]
    made = catalog.storage.stat(location)
    assert made is not None
    assert made.kind is EntryKind.DIRECTORY
    assert client.call("tables/drop", namespace="s", name="managed", purge=True).status == 200
    assert catalog.storage.stat(location) is None


def test_managed_table_inside_another_is_refused_without_a_directory(client: Client, catalog: Catalog) -> None:
    inside = f"{client.load()['location']}/inside"
    fields = {**FIELDS["tables/create"], "name": "managed", "table_type": "MANAGED", "location": inside}
    assert client.call("tables/create", **fields).error["code"] == "CATALOG_EXT_INVALID_INPUT"
    assert catalog.storage.stat(inside) is None


def test_loading_says_the_version_and_its_totals(client: Client) -> None:
    table = client.load()
    assert table["version"] == 1
    assert table["totals"] == {"partitions": 6, "files": 6, "bytes": 6, "rows": None}
    assert table["partition_mode"] == "virtual"
    assert [c["type"] for c in table["partition_columns"]] == ["date", "string"]


# Plans


def plan(
    client: Client, predicate: object = None, *, operation: str = "tables/plan", version: int | None = None
) -> Answer:
    table = client.load()
    pinned = table["version"] if version is None else version
    return client.call(operation, table_id=table["table_id"], version=pinned, predicate=predicate)


def test_a_plan_has_a_row_a_file_and_partitions_lie_together(client: Client) -> None:
    answer = plan(client)
    assert answer.table.schema == PLAN_SCHEMA
    assert len(answer.rows) == 6
    assert {r["path"] for r in answer.rows} == {"1.csv"}
    names = [r["partition"] for r in answer.rows]
    assert sorted(set(names)) == sorted(names)
    assert answer.rows[0]["location"] is None


def test_partitions_are_listed_by_typed_values(client: Client) -> None:
    answer = plan(client, operation="partitions/list")
    assert answer.table.schema == PARTITION_SCHEMA
    assert [r["partition"] for r in answer.rows][:2] == ["ds=2025-01-01/region=a%20b", "ds=2025-01-01/region=eu"]


def test_partitions_come_in_groups_and_plans_look_among_some(client: Client) -> None:
    table = client.load()
    pinned = {"table_id": table["table_id"], "version": table["version"]}
    answer = client.call("partitions/groups", **pinned, keys=["DS"], wanted="rows")
    assert answer.table.schema == GROUP_SCHEMA
    assert [(row["partitions"], row["files"], row["rows"]) for row in answer.rows] == [(2, 2, None)] * 3
    each = client.call("partitions/groups", **pinned, keys=[], wanted="each").rows
    assert len(each) == 6
    for among, count in (
        ({"values": [{"key": "ds", "partitions": [each[0]["partition"]]}]}, 2),
        ({"partition_ids": [row["partition_id"] for row in each[:3]]}, 3),
        ({"values": [{"key": "region", "partitions": []}]}, 0),
    ):
        assert len(client.call("tables/plan", **pinned, among=among).rows) == count


@pytest.mark.parametrize(
    "wrong",
    [
        {"wanted": "estimate"}, {"wanted": "least", "keys": []}, {"keys": ["nosuch"]}, {"wanted": None},
        {"among": {"partition_ids": ["1"]}}, {"among": {"partition_ids": [True]}}, {"among": {"surprise": 1}},
        {"among": {"values": [{"key": "nosuch", "partitions": []}]}}, {"among": {"values": [{"partitions": []}]}},
        {"among": {"values": [{"key": "ds", "partitions": ["x"]}]}},
    ],
    ids=str,
)  # fmt: skip
def test_wrong_groups_are_400(client: Client, wrong: dict[str, object]) -> None:
    table = client.load()
    asked = {"table_id": table["table_id"], "version": table["version"], "keys": ["ds"], "wanted": "values"}
    assert client.call("partitions/groups", **{**asked, **wrong}).status == 400


_EU = {"op": "=", "column": "region", "value": "eu"}
_FIRST = {"op": "=", "column": "ds", "value": "2025-01-01"}
PREDICATES = [
    ({"op": "=", "column": "ds", "value": "2025-01-02"}, 2),
    ({"op": "!=", "column": "ds", "value": "2025-01-02"}, 4),
    ({"op": "<", "column": "ds", "value": "2025-01-02"}, 2),
    ({"op": ">=", "column": "ds", "value": "2025-01-02"}, 4),
    ({"op": "<=>", "column": "ds", "value": None}, 0),
    ({"op": "in", "column": "ds", "values": ["2025-01-02", "2025-01-10", None]}, 4),
    ({"op": "is_null", "column": "region"}, 0),
    ({"op": "is_not_null", "column": "region"}, 6),
    ({"op": "starts_with", "column": "region", "value": "a "}, 3),
    ({"op": "ends_with", "column": "region", "value": "u"}, 3),
    ({"op": "contains", "column": "region", "value": " "}, 3),
    ({"op": "like", "column": "region", "value": "e_"}, 3),
    ({"op": "true"}, 6),
    ({"op": "false"}, 0),
    ({"op": "not", "arg": {"op": "=", "column": "region", "value": "eu"}}, 3),
    ({"op": "or", "args": [_EU, _FIRST]}, 4),
    ({"op": "and", "args": [_EU, _FIRST]}, 1),
]  # fmt: skip


@pytest.mark.parametrize(("predicate", "expected"), PREDICATES, ids=lambda p: p["op"] if isinstance(p, dict) else "")
def test_predicates_of_every_kind_leave_what_satisfies_them(
    client: Client, predicate: dict[str, Any], expected: int
) -> None:
    assert len(plan(client, predicate).rows) == expected
    assert len(plan(client, predicate, operation="partitions/list").rows) == expected


@pytest.mark.parametrize(
    "predicate",
    [
        {"op": "nosuch"},
        {"op": "=", "column": "nosuch", "value": "1"},
        {"op": "=", "column": "x", "value": "1"},
        {"op": "=", "column": "ds", "value": "tomorrow"},
        {"op": "=", "column": "ds", "value": 5},
        {"op": "=", "column": "ds"},
        {"op": "and", "args": 7},
        {"op": "in", "column": "ds", "values": "x"},
        {},
        [],
        "ds = 1",
        7,
    ],
)
def test_malformed_predicate_is_400(client: Client, predicate: object) -> None:
    answer = plan(client, predicate)
    assert answer.status == 400
    assert answer.error["code"].startswith("CATALOG_EXT_INVALID_")


def test_too_deeply_nested_predicate_is_400_and_a_long_one_is_not(client: Client) -> None:
    deep: dict[str, Any] = {"op": "true"}
    for _ in range(400):
        deep = {"op": "not", "arg": deep}
    assert plan(client, deep).status in (200, 400)
    body = b'{"op":"not","arg":' * 20_000 + b'{"op":"true"}' + b"}" * 20_000
    answer = client.send("/v1/tables/plan", b'{"table_id":1,"version":1,"predicate":' + body + b"}")
    assert answer.status == 400
    values = [f"20{year:02d}-01-02" for year in range(100)] * 50
    assert len(plan(client, {"op": "in", "column": "ds", "values": values}).rows) == 2


@pytest.mark.parametrize("operation", ["tables/plan", "partitions/list"])
def test_a_plan_of_no_rows_is_a_whole_stream(client: Client, operation: str) -> None:
    assert plan(client, {"op": "false"}, operation=operation).table.num_rows == 0


def test_a_plan_is_pinned_to_its_version_whatever_is_committed_later(
    client: Client, catalog: Catalog, tmp_path: Path
) -> None:
    root = tmp_path / "pinned"
    write(root, "ds=2025-01-01/region=eu/1.csv")
    register(catalog, root, table="s.pinned")
    catalog.repair_partitions("s.pinned")
    loaded = client.load("pinned")
    write(root, "ds=2025-01-02/region=eu/1.csv", "ds=2025-01-01/region=eu/2.csv")
    (root / "ds=2025-01-01/region=eu/1.csv").unlink()
    catalog.repair_partitions("s.pinned")
    request = {"table_id": loaded["table_id"], "predicate": None}
    old = client.call("tables/plan", **request, version=loaded["version"]).rows
    new = client.call("tables/plan", **request, version=client.load("pinned")["version"]).rows
    assert [(r["partition"], r["path"]) for r in old] == [("ds=2025-01-01/region=eu", "1.csv")]
    assert {(r["partition"], r["path"]) for r in new} == {
        ("ds=2025-01-01/region=eu", "2.csv"), ("ds=2025-01-02/region=eu", "1.csv"),
    }  # fmt: skip


def test_table_at_a_version_has_the_definition_of_its_time(client: Client, catalog: Catalog, tmp_path: Path) -> None:
    write(tmp_path / "one", "a.csv")
    write(tmp_path / "two", "b.csv", "c.csv")
    register(catalog, tmp_path / "one", {}, table="s.altered")
    catalog.repair_partitions("s.altered")
    old = client.load("altered")
    column = {"change": "add", "path": ["n"], "type": "int"}
    request = {"namespace": "s", "name": "altered", "set": {"a": "b"}, "remove": []}
    answer = client.call("tables/alter", **request, changes=[column], location=str(tmp_path / "two"))
    assert answer.status == 200, answer.error
    new = client.load("altered")
    for expected, columns, files in ((old, ["x"], ["a.csv"]), (new, ["x", "n"], ["b.csv", "c.csv"])):
        version = expected["version"]
        found = client.call(
            "tables/load", namespace="s", name="altered", metadata=None, version=version, timestamp_ms=None
        ).json
        assert found == expected | {"properties": new["properties"], "settings": new["settings"]}
        assert [each["name"] for each in found["columns"]] == columns
        rows = client.call("tables/plan", table_id=found["table_id"], version=version, predicate=None).rows
        assert sorted(row["path"] for row in rows) == files
    assert [found["location"] for found in (old, new)] == [f"file://{tmp_path}/{name}" for name in ("one", "two")]


def test_a_plan_of_a_table_that_was_dropped_is_404(client: Client, catalog: Catalog, tmp_path: Path) -> None:
    register(catalog, tmp_path / "gone", table="s.gone")
    loaded = client.load("gone")
    catalog.unregister_table("s.gone")
    for operation in ("tables/plan", "partitions/list"):
        answer = client.call(operation, table_id=loaded["table_id"], version=0, predicate=None)
        assert (answer.status, answer.error["code"]) == (404, "CATALOG_EXT_TABLE_NOT_FOUND")
    assert client.call("tables/plan", table_id=10**9, version=0, predicate=None).status == 404


def test_loading_and_planning_cost_one_query_each(client: Client, catalog: Catalog) -> None:
    before = catalog.index.query_count
    table = client.load()
    assert catalog.index.query_count - before == 1
    predicate = {"op": "=", "column": "ds", "value": "2025-01-02"}
    client.call("tables/plan", table_id=table["table_id"], version=table["version"], predicate=predicate)
    assert catalog.index.query_count - before == 2


def failing_stream(schema: pa.Schema, batches: int) -> Iterator[pa.RecordBatch]:
    for _ in range(batches):
        yield pa.RecordBatch.from_pylist([], schema=schema)
    raise errors.IndexUnavailableError("the database went away")


def test_a_stream_that_fails_on_the_way_has_no_end_marker(
    client: Client, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = pa.RecordBatchReader.from_batches(PLAN_SCHEMA, failing_stream(PLAN_SCHEMA, 9))
    monkeypatch.setattr(catalog.index.files, "plan", lambda *_, **__: reader)
    with pytest.raises(http.client.IncompleteRead) as raised:
        plan(client)
    assert raised.value.partial, "the schema and the first batch were sent"
    assert not raised.value.partial.endswith(END_MARKER)


@pytest.mark.parametrize("batches", [0, 1, 3])
def test_a_stream_that_fails_before_anything_is_sent_is_an_error_answer(
    client: Client, catalog: Catalog, monkeypatch: pytest.MonkeyPatch, batches: int
) -> None:
    reader = pa.RecordBatchReader.from_batches(PLAN_SCHEMA, failing_stream(PLAN_SCHEMA, batches))
    monkeypatch.setattr(catalog.index.files, "plan", lambda *_, **__: reader)
    answer = plan(client)
    assert (answer.status, answer.error["retryable"]) == (503, True)


def test_a_stream_that_fails_at_once_is_an_error_answer(
    client: Client, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> object:
        raise errors.IndexUnavailableError("the database went away")

    monkeypatch.setattr(catalog.index.files, "plan", fail)
    answer = plan(client)
    assert (answer.status, answer.error["retryable"]) == (503, True)


def test_a_client_that_hangs_up_leaves_no_query_open(
    client: Client, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = threading.Event()

    def endless() -> Iterator[pa.RecordBatch]:
        try:
            while True:
                yield pa.RecordBatch.from_pylist(
                    [{"partition_id": 1, "partition": "x" * 1000, "path": "p", "size": 1, "modified_ms": 1}] * 100,
                    schema=PLAN_SCHEMA,
                )
        finally:
            closed.set()

    monkeypatch.setattr(
        catalog.index.files, "plan", lambda *_, **__: pa.RecordBatchReader.from_batches(PLAN_SCHEMA, endless())
    )
    connection = http.client.HTTPConnection(client.service.host, client.service.port, timeout=10)
    body = json.dumps({"table_id": client.load()["table_id"], "version": 1, "predicate": None})
    connection.request("POST", "/v1/tables/plan", body, {"Authorization": f"Bearer {client.service.token}"})
    assert connection.getresponse().read(100_000)
    connection.close()
    assert closed.wait(10)


def test_many_requests_at_once(client: Client) -> None:
    table = client.load()

    def ask(number: int) -> int:
        predicate = {"op": "=", "column": "ds", "value": f"2025-01-{(1, 2, 10)[number % 3]:02d}"}
        return len(client.call("tables/plan", table_id=table["table_id"], version=1, predicate=predicate).rows)

    with ThreadPoolExecutor(60) as pool:
        assert set(pool.map(ask, range(120))) == {2}


# Procedures


def test_procedures_describe_themselves(client: Client) -> None:
    described = client.call("procedures/list").json["procedures"]
    assert [p["name"] for p in described] == [p.name for p in PROCEDURES]
    for procedure in described:
        assert set(procedure) == {"name", "description", "parameters", "columns", "touches"}
        named = {each["name"] for each in (*procedure["parameters"], *procedure["columns"])}
        assert set(procedure["touches"]) <= named
        names = [p["name"] for p in procedure["parameters"]]
        assert names[0] in ("table", "view") or "table" not in names, "what it is about comes first"
        assert all(set(p) == {"name", "type", "required", "default", "comment"} for p in procedure["parameters"])
        assert all(set(c) == {"name", "type", "nullable", "comment"} for c in procedure["columns"])


def test_one_procedure_is_described_and_an_unknown_name_is_explained(client: Client) -> None:
    (found,) = client.call("procedures/list", procedure="STATUS").json["procedures"]
    assert found["name"] == "status"
    unknown = client.call("procedures/list", procedure="repair_partition")
    assert (unknown.status, unknown.error["code"]) == (404, "CATALOG_EXT_PROCEDURE_NOT_FOUND")
    assert "Did you mean repair_partitions?" in unknown.error["message"]


def call(client: Client, procedure: str, **arguments: object) -> Answer:
    return client.call("procedures/call", procedure=procedure, arguments=arguments)


def test_a_table_is_registered_repaired_and_unregistered_by_calls(client: Client, tmp_path: Path) -> None:
    root = tmp_path / "called"
    write(root, "ds=2025-01-01/1.csv", "stray.csv")
    registered = call(
        client, "register_table", table="lake.s.called", location=str(root), format="csv",
        partition_columns={"ds": "DATE"}, schema="x INT", options={"header": "true"},
    ).rows  # fmt: skip
    assert registered == [
        {
            "table": "s.called", "location": f"file://{root}", "format": "csv", "partition_columns": "ds DATE",
            "partition_mode": "virtual", "columns": 1, "metastore": "none",
        }
    ]  # fmt: skip
    preview = call(client, "repair_partitions", table="s.called", mode="sync", where="ds >= '2025-01-01'", dry_run=True)
    assert preview.table.schema == REPAIR_SCHEMA
    done = call(client, "REPAIR_PARTITIONS", table="`s`.`called`", where=None)
    assert done.rows == preview.rows
    assert [(r["action"], r["path"]) for r in done.rows] == [("skip", "stray.csv"), ("add", "ds=2025-01-01")]
    assert (
        call(client, "repair_partitions", table="s.called", strict=True).error["code"] == "CATALOG_EXT_REPAIR_REFUSED"
    )
    assert call(client, "unregister_table", table="s.called").rows == [{"table": "s.called"}]
    assert call(client, "repair_partitions", table="s.called").error["code"] == "CATALOG_EXT_TABLE_NOT_FOUND"


def test_a_repair_by_call_syncs_and_takes_leave_to_drop_everything(
    client: Client, catalog: Catalog, tmp_path: Path
) -> None:
    root = tmp_path / "emptied"
    register(catalog, root, table="s.emptied")
    write(root, f"{EU}/1.csv")
    call(client, "repair_partitions", table="s.emptied")
    shutil.rmtree(root / "ds=2025-01-01")
    refused = call(client, "repair_partitions", table="s.emptied")
    assert (refused.status, refused.error["code"]) == (400, "CATALOG_EXT_MASS_DROP")
    preview = call(client, "repair_partitions", table="s.emptied", dry_run=True).rows
    assert [row["action"] for row in preview] == ["refuse", "drop"]
    assert "allow_mass_drop => true" in preview[0]["reason"]
    dropped = call(client, "repair_partitions", table="s.emptied", allow_mass_drop=True).rows
    assert [(row["action"], row["partition"]) for row in dropped] == [("drop", EU)]


def test_null_says_that_it_means_nothing(client: Client) -> None:
    refused = call(client, "repair_partitions", table="s.t", mode=None)
    assert refused.error["message"] == (
        "The argument mode of procedure repair_partitions (add: only register new partitions; drop: only remove "
        "vanished ones; sync: both, and record changed files) cannot be NULL. Leave it out for 'sync'."
    )


@pytest.mark.parametrize(
    ("procedure", "arguments", "status"),
    [
        ("nosuch", {}, 404),
        ("repair_partitions", {}, 400),
        ("repair_partitions", {"table": "s.t", "nosuch": 1}, 400),
        ("repair_partitions", {"table": "s.t", "dry_run": "yes"}, 400),
        ("repair_partitions", {"table": "s.t", "mode": "msck"}, 400),
        ("repair_partitions", {"table": "s.t", "mode": None}, 400),
        ("repair_partitions", {"table": "s.t", "dry_run": None}, 400),
        ("repair_partitions", {"table": None}, 400),
        ("register_table", {"table": "s.x", "location": "/nowhere", "format": None}, 400),
        ("drop_partitions", {"table": "s.t", "where": None}, 400),
        ("repair_partitions", {"table": "s.t", "where": "nosuch = 1"}, 400),
        ("repair_partitions", {"table": 7}, 400),
        ("register_table", {"table": "s.t", "location": "/nowhere"}, 409),
        ("register_table", {"table": "s.x", "location": "/nowhere"}, 404),
        ("register_table", {"table": "nosuch.x", "location": "/nowhere"}, 404),
        ("register_table", {"table": "s.x", "location": "/nowhere", "partition_columns": {"ds": 5}}, 400),
        ("register_table", {"table": "s.x", "location": "/nowhere", "partition_columns": ["ds"]}, 400),
        ("import_table", {"table": "s.x"}, 400),
    ],
)
def test_calls_that_are_wrong_say_so(client: Client, procedure: str, arguments: dict[str, object], status: int) -> None:
    answer = call(client, procedure, **arguments)
    assert answer.status == status, answer.body
    assert answer.error["message"]


def test_a_table_of_the_clients_own_catalog_is_taken_over_but_never_hidden(client: Client, tmp_path: Path) -> None:
    write(tmp_path / "own", "ds=2025-01-01/1.csv")
    arguments = {"table": "s.own", "location": str(tmp_path / "own"), "format": "csv", "schema": "v INT"}

    def register(location: str | None) -> Answer:
        table = {"location": location}
        return client.call("procedures/call", procedure="register_table", arguments=arguments, session_table=table)

    for elsewhere in (None, f"{tmp_path}/elsewhere", "gs://b/own"):
        refused = register(elsewhere)
        assert (refused.status, refused.error["code"]) == (409, "CATALOG_EXT_TABLE_ALREADY_EXISTS")
        assert refused.error["parameters"] == {"table": "s.own", "session_location": elsewhere or ""}
    nowhere = client.call(
        "procedures/call", procedure="register_table", arguments={"table": "s.own"}, session_table={"location": None}
    ).error
    assert (nowhere["code"], "needs the argument location" in nowhere["message"]) == ("CATALOG_EXT_INVALID_INPUT", True)
    assert register(f"file:{tmp_path}//own/").status == 200
    again = register(f"file:{tmp_path}/own").error
    assert (again["code"], again["parameters"]) == ("CATALOG_EXT_TABLE_ALREADY_EXISTS", {"table": "s.own"})
    assert call(client, "unregister_table", table="s.own").status == 200


# The page


@pytest.fixture(scope="module")
def page() -> str:
    return (Path(__file__).parents[2] / "docs" / "spec" / "service.md").read_text(encoding="utf-8")


def test_a_columns_default_is_kept(client: Client) -> None:
    column = {"name": "n", "type": "int", "nullable": False, "comment": None, "default": "1 + 1"}
    created = client.call(
        "tables/create", namespace="s", name="defaults", table_type="MANAGED", format="parquet",
        columns=[column], partition_columns=[column | {"name": "k"}, {"name": "plain", "type": "string"}],
    )  # fmt: skip
    assert created.status == 200, created.body
    loaded = client.load("defaults")
    assert (loaded["columns"], loaded["partition_columns"][0]) == ([column], column | {"name": "k"})
    assert "default" not in loaded["partition_columns"][1]


def test_the_page_names_every_operation_and_no_other(page: str) -> None:
    table = page.partition("## Operations")[2].partition("**A table**")[0]
    assert set(re.findall(r"^\| `([a-z_/]+)` \|", table, re.MULTILINE)) == OPERATIONS


def test_the_page_names_the_columns_of_every_stream(page: str) -> None:
    for schema in (PLAN_SCHEMA, PARTITION_SCHEMA, GROUP_SCHEMA):
        assert all(f"`{field.name}`" in page for field in schema)


@pytest.mark.parametrize("procedure", PROCEDURES, ids=lambda p: p.name)
def test_the_page_describes_every_procedure(page: str, procedure: Procedure) -> None:
    row = next(line for line in page.splitlines() if line.startswith(f"| `{procedure.name}` |"))
    _, _, parameters, columns, _ = row.split("|")
    assert set(re.findall(r"`(\w+)`", parameters)) >= {p.name for p in procedure.parameters}
    described = procedure.describe()["columns"]
    if "as above" not in columns:
        assert columns.strip(" `") == ", ".join(f"{c['name']} {c['type']}" for c in described)


# Views


def test_table_is_loaded_at_a_tag(client: Client, catalog: Catalog) -> None:
    catalog.tag("s.t", 0, "empty")
    loaded = client.call("tables/load", namespace="s", name="t", tag="empty").json
    assert (loaded["version"], loaded["totals"]["files"]) == (0, 0)
    for wrong, code in (({"tag": "x"}, "VERSION_NOT_FOUND"), ({"tag": "empty", "version": 0}, "INVALID_INPUT"),
                        ({"tag": 7}, "INVALID_INPUT")):  # fmt: skip
        assert code in json.dumps(client.call("tables/load", namespace="s", name="t", **wrong).json)


@pytest.mark.parametrize(
    "name",
    [
        "files",
        "history",
        "partition_history",
        "partitions",
        "repairs",
        "tags",
        "transactions",
    ],
)
def test_a_metadata_table_is_described_with_its_table_as_its_rows_are(client: Client, name: str) -> None:
    table = client.load()
    loaded = client.call("tables/load", namespace="s", name="t", metadata=name).json
    described = loaded["metadata"]
    assert loaded == {
        **table, "metadata": described,
        "metadata_tables": [
            "files", "history", "partition_history", "partitions", "repairs", "skipped", "tags", "transactions",
        ],
    }  # fmt: skip
    rows = client.call("tables/metadata", table_id=table["table_id"], name=name).table
    types = {"int64": "bigint", "string": "string", "timestamp[ms, tz=UTC]": "timestamp", "bool": "boolean"}
    columns = [(field.name, types[str(field.type)]) for field in rows.schema]
    if described["predicate"]:
        columns.insert(1, ("values", "struct<ds:date,region:string>"))
    statistics = "map<string,struct<min:string,max:string,nulls:bigint>>"
    assert [(c["name"], c["type"]) for c in described["columns"]] == [
        (column, statistics if column == "statistics" else of) for column, of in columns
    ]
    assert all(column["nullable"] and column["comment"] is None for column in described["columns"])
    assert (described["values"], described["locations"], described["file_paths"], described["predicate"]) == {
        "files": ("values", ["path"], ["file_path"], True), "partitions": ("values", ["location"], [], True),
        "partition_history": ("values", ["location"], [], True),
    }.get(name, (None, [], [], False))  # fmt: skip
    assert described["numbers"] == {
        "files": ["rows", "size", "version"], "partitions": ["bytes", "files", "rows"],
    }.get(name, [])  # fmt: skip


@pytest.mark.parametrize("name", ["files", "partitions"])
def test_some_columns_and_groups_of_a_metadata_table(client: Client, name: str) -> None:
    table_id = client.load()["table_id"]

    def asked(**fields: object) -> Answer:
        return client.call("tables/metadata", table_id=table_id, name=name, **fields)

    whole = asked(columns=None, groups=None).rows
    assert asked(columns=["rows", "partition"]).table.schema.names == ["partition", "rows"]
    none = asked(numbers={"op": "<", "column": "rows", "value": "0"}).rows
    assert (none, asked(numbers={"op": "true"}).rows) == ([], whole)
    nothing = asked(columns=[]).table
    assert (nothing.schema.names, nothing.num_rows) == ([], len(whole))
    number = {"files": "size", "partitions": "bytes"}[name]
    aggregates = [{"function": "count", "column": None}, {"function": "sum", "column": number}]
    groups = asked(groups={"keys": ["region"], "aggregates": aggregates}).table
    assert groups.schema.names == ["partition", "value_0", "value_1"]
    assert sum(groups.column("value_0").to_pylist()) == len(whole)
    assert sum(groups.column("value_1").to_pylist()) == sum(row[number] for row in whole)
    each = asked(groups={"keys": None, "aggregates": []}).rows
    assert {row["partition"] for row in each} == {row["partition"] for row in whole}
    of_all = asked(groups={"keys": [], "aggregates": aggregates}, predicate={"op": "false"}).rows
    assert [row["value_0"] or 0 for row in of_all] == [0] * len(of_all)
    assert of_all


@pytest.mark.parametrize("fields", [
    {"columns": ["nosuch"]}, {"columns": ["values"]}, {"name": "history", "numbers": {"op": "true"}},
    {"numbers": {"op": "is_null", "column": "path"}}, {"numbers": {"op": "is_null", "column": "region"}},
    {"numbers": {"op": "like", "column": "rows", "value": "1%"}},
    {"numbers": {"op": "=", "column": "rows", "value": "x"}},
    {"name": "history", "columns": ["version"]}, {"name": "history", "version": 1},
    {"name": "partition_history", "version": 1}, {"name": "partition_history", "columns": ["nosuch"]},
    {"name": "partition_history", "numbers": {"op": "is_null", "column": "rows"}},
    {"name": "partition_history", "groups": {"keys": [], "aggregates": []}},
    {"name": "history", "groups": {"keys": [], "aggregates": []}}, {"columns": [], "groups": {"keys": []}},
    {"groups": {"keys": ["nosuch"]}}, {"groups": {"keys": [7]}}, {"groups": {"surprise": 1}},
    {"groups": {"aggregates": [{"function": "sum", "column": None}]}},
    {"groups": {"aggregates": [{"function": "sum", "column": "partition"}]}},
    {"groups": {"aggregates": [{"function": "avg", "column": "rows"}]}},
    {"groups": {"aggregates": [{"function": "max", "column": "rows", "surprise": 1}]}},
])  # fmt: skip
def test_what_a_metadata_table_does_not_have_is_400(client: Client, fields: dict[str, object]) -> None:
    table_id = client.load()["table_id"]
    assert client.call("tables/metadata", **{"table_id": table_id, "name": "files", **fields}).status == 400


def test_metadata_table_without_keys_has_no_values_and_chars_are_text(client: Client) -> None:
    column = {"name": "a", "type": "int"}
    for name, keys in (("bare", []), ("chars", [{"name": "k x", "type": "char(3)"}, {"name": "l", "type": "time(6)"}])):
        fields = {**FIELDS["tables/create"], "name": name, "table_type": "MANAGED", "columns": [column]}
        assert client.call("tables/create", **{**fields, "partition_columns": keys}).status == 200
    bare, chars = (
        client.call("tables/load", namespace="s", name=name, metadata="partitions").json["metadata"]
        for name in ("bare", "chars")
    )
    assert (bare["values"], [c["name"] for c in bare["columns"]][:2], bare["predicate"]) == (
        None, ["partition", "location"], True,
    )  # fmt: skip
    assert chars["columns"][1]["type"] == "struct<`k x`:string,l:time(6)>"


def test_unknown_metadata_table_is_null_beside_the_known_names(client: Client) -> None:
    loaded = client.call("tables/load", namespace="s", name="t", metadata="Files").json
    assert (loaded["metadata"], loaded["metadata_tables"][0], loaded["name"]) == (None, "files", "t")
    gone = client.call("tables/load", namespace="s", name="never", metadata="files")
    assert (gone.status, gone.error["code"]) == (404, "CATALOG_EXT_TABLE_NOT_FOUND")


def test_a_view_is_loaded_where_a_table_would_be(client: Client, catalog: Catalog) -> None:
    ds = {"name": "ds", "type": "date", "nullable": True, "comment": None}
    put = {
        **FIELDS["views/put"], "name": "seen", "kind": "create", "columns": [{"name": "a", "type": "int"}, ds],
        "partition_columns": ["DS"], "properties": {"p": "q"}, "current_namespace": ["s"], "tables": ["s.t"],
    }  # fmt: skip
    made = client.call("views/put", **put).json
    assert client.load("seen") == made
    assert catalog.views.load("s.seen").query.own_catalog == "lake"
    assert (made["table_type"], made["partition_columns"], made["view"]["text"]) == ("VIEW", [ds], "SELECT 1 AS a")
    assert (client.call("views/list", namespace="s").json, "seen" in catalog.list_tables("s")) == (
        {"views": ["seen"]},
        False,
    )
    new = {"spec": {"ds": "2025-01-01"}, "dependencies": [{"relation": "lake.s.t", "partitions": ["ds=1"]}]}
    added = client.call("views/partitions/add", namespace="s", name="seen", if_not_exists=False, partitions=[new])
    assert added.json == {"version": 1, "partitions_added": 1, "partitions_removed": 0}
    pinned = {"table_id": made["table_id"], "version": 1, "predicate": None}
    assert [row["partition"] for row in client.call("partitions/list", **pinned).rows] == ["ds=2025-01-01"]
    called = client.call("procedures/call", procedure="view_dependencies", arguments={"view": "lake.s.seen"})
    assert called.rows == [{"partition": "ds=2025-01-01", "relation": "lake.s.t", "relation_partition": "ds=1"}]
    again = client.call("views/put", **put)
    assert (again.status, again.error["code"]) == (409, "CATALOG_EXT_VIEW_ALREADY_EXISTS")
    located = client.call(
        "views/partitions/add",
        namespace="s",
        name="seen",
        partitions=[{"spec": {"ds": "2025-01-02"}, "location": "/x"}],
    )
    assert (located.status, located.error["code"]) == (400, "CATALOG_EXT_VIEW_PARTITION_LOCATION")
    gone = client.call("views/partitions/drop", namespace="s", name="seen", partitions=[{"spec": {"ds": "2026-01-01"}}])
    assert (gone.status, gone.error["code"]) == (404, "CATALOG_EXT_PARTITION_NOT_FOUND")
    assert client.call("views/drop", namespace="s", name="seen").json == {"dropped": True}
    assert client.call("views/drop", namespace="s", name="seen").error["code"] == "CATALOG_EXT_VIEW_NOT_FOUND"
