"""The recorder that tests of the connector put before the real service."""

from __future__ import annotations

import http.client
import time
from typing import TYPE_CHECKING, Any

import pytest

from catalog_ext.metastore.errors import ConflictError
from tests.kit.repair_cases import write
from tests.kit.service_client import Answer, Client
from tests.servers.recorded_service import serve_recorded
from tests.servers.recorder import (
    PRUNED,
    changing,
    hanging_up,
    in_small_batches,
    late,
    losing,
    refusing,
    unpruned,
    without_end,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers.recorded_service import RecordedService

NAMES = ["k=01/r=a%2Fb", "k=1/r=a%2Fb", "k=2/r=x", "k=10/r=x"]
HALF = {"op": "=", "column": "k", "value": "2"}


@pytest.fixture(scope="module")
def module_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RecordedService]:
    folder = tmp_path_factory.mktemp("recorded")
    write(folder / "t", *(f"{name}/f.csv" for name in NAMES))
    with serve_recorded(folder) as service:
        service.add_table("t", folder / "t", {"id": "bigint"}, {"k": "int", "r": "string"}, file_format="csv")
        yield service


@pytest.fixture
def service(module_service: RecordedService) -> RecordedService:
    module_service.reset()
    return module_service


def call(service: RecordedService, operation: str, /, **fields: Any) -> Answer:
    return Client(service).call(operation, **fields)


def plan(service: RecordedService, operation: str = "tables/plan", predicate: Any = None) -> Answer:
    table = service.table("t")
    return call(service, operation, table_id=table.table_id, version=table.version, predicate=predicate)


def test_requests_and_answers_pass_as_they_are_and_are_noted(service: RecordedService) -> None:
    loaded = call(service, "tables/load", namespace="sales", name="t")
    assert (loaded.status, loaded.json["name"]) == (200, "t")
    assert [row["partition"] for row in plan(service, "partitions/list").rows] == NAMES
    assert call(service, "tables/load", namespace="sales", name="gone").error["code"] == "CATALOG_EXT_TABLE_NOT_FOUND"
    assert service.requests == {"tables/load": 2, "partitions/list": 1}
    assert service.last("tables/load") == {"namespace": "sales", "name": "gone"}
    assert service.last_answer("partitions/list").table.num_rows == len(NAMES)
    service.reset()
    assert service.requests == {}


def test_the_token_is_the_services(service: RecordedService) -> None:
    assert Client(service).send("/v1/ping", token="another").error["code"] == "CATALOG_EXT_UNAUTHORIZED"


def test_a_refusal_has_the_form_of_the_services(service: RecordedService) -> None:
    with service.answering(refusing(ConflictError("another was first")), "ping"):
        answer = call(service, "ping")
    assert (answer.status, answer.error["code"], answer.error["retryable"]) == (409, "CATALOG_EXT_CONFLICT", True)
    assert call(service, "ping").status == 200


def test_a_lost_answer_was_one(service: RecordedService) -> None:
    with service.answering(losing(refusing(ConflictError("x"))), "namespaces/create"):
        assert call(service, "namespaces/create", namespace="new", properties={}).status == 409
        assert call(service, "namespaces/create", namespace="new", properties={}).error["code"] == (
            "CATALOG_EXT_NAMESPACE_ALREADY_EXISTS"
        )


def test_a_connection_is_cut(service: RecordedService) -> None:
    with service.answering(hanging_up, "ping"), pytest.raises(http.client.RemoteDisconnected):
        call(service, "ping")
    assert service.requests == {"ping": 1}
    assert service.answers == []


def test_an_answer_is_late(service: RecordedService) -> None:
    before = time.monotonic()
    with service.answering(late(0.1), "ping"):
        assert call(service, "ping").status == 200
    assert time.monotonic() - before >= 0.1


def test_fields_of_an_answer_are_changed(service: RecordedService) -> None:
    with service.answering(changing(contract=2), "ping"):
        answer = call(service, "ping").json
    assert (answer["service"], answer["contract"]) == ("catalog-ext", 2)


@pytest.mark.parametrize("operation", PRUNED)
def test_predicates_are_ignored(service: RecordedService, operation: str) -> None:
    assert len(plan(service, operation, HALF).rows) == 1
    with service.answering(unpruned, *PRUNED):
        assert len(plan(service, operation, HALF).rows) == len(NAMES)


def test_streams_are_cut_and_divided(service: RecordedService) -> None:
    whole = plan(service)
    with service.answering(without_end, "tables/plan"):
        assert plan(service).body == whole.body[:-8]
    with service.answering(in_small_batches, "tables/plan"):
        divided = plan(service)
    assert divided.rows == whole.rows
    assert [len(chunk) for chunk in divided.table.column("path").chunks] == [3, 1]
