"""What a service says of itself: /health, /ready and /metrics, and the events that are counted."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from catalog_ext.metastore import errors
from catalog_ext.metastore.errors import IndexUnavailableError
from catalog_ext.metastore.index.tables.incarnations import COUNTER
from catalog_ext.metastore.runtime import measures
from catalog_ext.service.index_probe import IndexProbe
from catalog_ext.service.operations import operations_of
from catalog_ext.service.server import Service, new_token
from tests.kit.next_revision import next_release
from tests.kit.repair_cases import EU, US, catalog_of_files
from tests.kit.service_client import Answer, Client
from tests.service.test_writes import Writer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from catalog_ext.metastore.index.read.state import IndexState

Labels = frozenset[tuple[str, str]]


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with catalog_of_files(tmp_path, tmp_path / "t", f"{EU}/1.csv", f"{US}/1.csv") as it:
        yield it


@pytest.fixture
def client(catalog: Catalog) -> Iterator[Client]:
    with Service(catalog, metrics_token=new_token()) as service:
        yield Client(service)


def get(client: Client, path: str, token: str | None = None) -> Answer:
    return client.send(path, b"", method="GET", token=token)


def samples(client: Client) -> dict[tuple[str, Labels], float]:
    answer = get(client, "/metrics", "")
    assert answer.status == 200
    assert answer.type == "text/plain"
    families = text_string_to_metric_families(answer.body.decode())
    return {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}


def value(client: Client, name: str, **labels: str) -> float:
    return samples(client)[f"catalog_ext_{name}", frozenset(labels.items())]


def test_health_and_readiness_need_no_token_and_say_nothing_of_the_catalog(client: Client) -> None:
    for path, said in (("/health", {"status": "ok"}), ("/ready", {"ready": True})):
        answer = get(client, path)
        assert (answer.status, answer.json) == (200, said)


def test_health_needs_no_index(client: Client, catalog: Catalog) -> None:
    before = catalog.index.query_count
    for _ in range(20):
        get(client, "/health")
    assert catalog.index.query_count == before


def test_metrics_need_a_token_of_which_one_opens_nothing_else(catalog: Catalog) -> None:
    mine = new_token()
    with Service(catalog, metrics_token=mine) as service, Service(catalog) as other:
        client = Client(service)
        assert get(client, "/metrics").status == 401
        assert get(client, "/metrics", mine).status == 200
        assert get(client, "/metrics", service.token).status == 200
        assert client.send("/v1/ping", token=mine).status == 401
        assert get(Client(other), "/metrics", mine).status == 401


def test_index_of_another_schema_is_not_ready_and_has_no_values(client: Client, tmp_path: Path) -> None:
    with next_release():
        answer = get(client, "/ready")
        assert answer.status == 503
        assert (answer.json["ready"], answer.json["code"]) == (False, "CATALOG_EXT_INDEX_NOT_AT_HEAD")
        assert answer.json["reason"].startswith("The schema of the index is of another release.")
        assert str(tmp_path) not in answer.body.decode()
        found = samples(client)
        assert found["catalog_ext_index_up", frozenset()] == 0
        assert ("catalog_ext_tables", frozenset()) not in found, "an outage is not an empty index"
        assert ("catalog_ext_deliveries_pending", frozenset()) not in found
        assert get(client, "/health").status == 200


def test_index_that_was_restored_is_ready_for_queries_alone(client: Client, catalog: Catalog, tmp_path: Path) -> None:
    assert value(client, "index_behind") == 0
    catalog.index.incarnations.before_deleting()
    catalog.index.properties.replace({COUNTER: "0"})
    catalog.look_whether_restored()
    answer = get(client, "/ready")
    assert (answer.status, answer.json["ready"], answer.json["writes"]) == (200, True, False)
    assert answer.json["code"] == "CATALOG_EXT_INDEX_RESTORED"
    assert str(tmp_path) not in answer.body.decode()
    assert value(client, "index_behind") == 1
    table = catalog.load_table("s.t")
    assert client.call("tables/plan", table_id=table.table_id, version=table.version).status == 200
    called = client.call("procedures/call", procedure="restored", arguments={"dry_run": True})
    assert called.table.column("action").to_pylist()[0] == "behind"
    called = client.call("procedures/call", procedure="restored", arguments={})
    assert called.table.column("action").to_pylist() == ["repaired"]
    assert get(client, "/ready").json == {"ready": True}
    assert value(client, "index_behind") == 0


def test_state_of_an_index_without_a_newer_table_says_that_it_is_older(catalog: Catalog, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "index.db")) as connection, connection:
        connection.execute("DROP TABLE followed_metastore")
    with next_release() as newer, pytest.raises(errors.IndexNotAtHeadError, match=f"this release wants {newer}"):
        catalog.index.state()


def test_probes_share_one_look(catalog: Catalog) -> None:
    goes_on = threading.Event()
    asked: list[float] = []

    def state() -> IndexState:
        asked.append(time.monotonic())
        goes_on.wait(10)
        return catalog.index.state()

    async def story() -> None:
        probe = IndexProbe(state, wait_s=0.2)
        late = await asyncio.gather(*(probe.look() for _ in range(3)))
        assert [type(look.error) for look in late] == [IndexUnavailableError] * 3
        assert len(asked) == 1, "a database that hangs is not asked by each probe"
        goes_on.set()
        deadline = time.monotonic() + 10
        while (look := await probe.look()).error is not None and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        assert look.state == catalog.index.state()
        assert len(asked) == 1

    asyncio.run(story())


def test_a_look_that_fails_unexpectedly_is_an_error_too(caplog: pytest.LogCaptureFixture) -> None:
    def state() -> IndexState:
        raise RuntimeError("why")

    look = asyncio.run(IndexProbe(state).look())
    assert look.error is not None
    assert "RuntimeError: why" in look.error.message
    assert "could not be looked at" in caplog.text


def test_a_look_is_one_query(catalog: Catalog) -> None:
    before = catalog.index.query_count
    catalog.index.state()
    assert catalog.index.query_count == before + 1


def test_the_index_is_shown_as_it_is(client: Client, tmp_path: Path) -> None:
    writer = Writer(client, tmp_path / "t")
    writer.begun()
    found = samples(client)
    sizes = {name: found[f"catalog_ext_{name}", frozenset()] for name in ("tables", "partitions", "files")}
    assert sizes == {"tables": 1, "partitions": 2, "files": 2}
    assert found["catalog_ext_transactions_open", frozenset({("state", "open")})] == 1
    assert found["catalog_ext_transactions_abandoned", frozenset()] == 0
    assert found["catalog_ext_index_pool_limit", frozenset()] == 30


def test_requests_are_counted_by_operation_and_their_errors_by_code(client: Client) -> None:
    client.load()
    client.call("tables/load", namespace="s", name="nosuch")
    client.send("/v1/tables/load", token=new_token())
    for n in range(5):
        client.send(f"/v1/nosuch{n}")
    found = samples(client)
    counts = {
        dict(labels)["operation"]: n
        for (name, labels), n in found.items()
        if name.endswith("duration_seconds_count") and labels
    }
    assert counts == {"tables/load": 3, "other": 5}
    refused = {
        tuple(sorted(dict(labels).values())): n for (name, labels), n in found.items() if "request_errors" in name and n
    }
    assert refused == {
        ("CATALOG_EXT_TABLE_NOT_FOUND", "tables/load"): 1, ("CATALOG_EXT_UNAUTHORIZED", "tables/load"): 1,
        ("CATALOG_EXT_NOT_FOUND", "other"): 5,
    }  # fmt: skip


def test_what_an_alert_counts_begins_at_zero(client: Client, catalog: Catalog) -> None:
    found = samples(client)
    unforeseen = {
        dict(labels)["operation"]: n
        for (name, labels), n in found.items()
        if name == "catalog_ext_request_errors_total"
    }
    # Prometheus sees no increase of a series that did not exist: the first unexpected error would fire no alert.
    assert unforeseen == dict.fromkeys((*operations_of(catalog), "other"), 0)
    runs = {
        (dict(labels)["task"], dict(labels)["outcome"]): n
        for (name, labels), n in found.items() if name == "catalog_ext_background_runs_total"
    }  # fmt: skip
    assert runs == {(task, outcome): 0 for task in ("recovery", "expiry") for outcome in ("done", "failed")}


def test_plans_commits_conflicts_and_repairs_are_counted(client: Client, catalog: Catalog, tmp_path: Path) -> None:
    writer = Writer(client, tmp_path / "t")
    table = client.load()
    plan: dict[str, Any] = {"predicate": None, "among": None, "limit": None, "bounds": [], "staleness": None}
    assert len(client.call("tables/plan", table_id=table["table_id"], version=table["version"], **plan).rows) == 2
    first, second = (writer.begun("overwrite_partitions") for _ in range(2))
    assert writer.commit(first, writer.stage(first, EU, rows=3)).status == 200
    assert writer.commit(second, writer.stage(second, EU)).status == 409
    catalog.repair_partitions("s.t")
    (tmp_path / "t" / US / "1.csv").unlink()
    catalog.repair_partitions("s.t")
    assert value(client, "planning_duration_seconds_count") == 1
    assert value(client, "planned_files_total") == 2
    assert value(client, "commits_total", kind="overwrite_partitions", outcome="committed") == 1
    assert value(client, "commits_total", kind="overwrite_partitions", outcome="conflict") == 1
    assert value(client, "committed_rows_total") == 3
    assert value(client, "committed_files_total", change="removed") == 1
    assert value(client, "repairs_total", outcome="in_sync") == 1
    assert value(client, "repairs_total", outcome="changed") == 1


def test_errors_of_metastore_store_and_index_are_counted_by_their_codes(client: Client, tmp_path: Path) -> None:
    subjects = {
        measures.Subject.INDEX: IndexUnavailableError("x"),
        measures.Subject.METASTORE: errors.MetastoreUnavailableError("x"),
        measures.Subject.STORAGE: errors.StorageUnavailableError("x"),
    }
    for subject, error in subjects.items():
        measures.failed(subject, error)
        assert value(client, f"{subject}_errors_total", code=error.code) == 1
    with closing(sqlite3.connect(tmp_path / "index.db")) as connection, connection:
        connection.execute("ALTER TABLE namespaces RENAME TO gone")
    assert client.call("namespaces/list").status == 500
    assert value(client, "index_errors_total", code=errors.IndexDatabaseError.code) == 1
    with closing(sqlite3.connect(tmp_path / "index.db")) as connection, connection:
        connection.execute("ALTER TABLE gone RENAME TO namespaces")


def test_labels_are_of_the_code_and_never_of_the_data(client: Client, tmp_path: Path) -> None:
    writer = Writer(client, tmp_path / "t")
    for n in range(3):
        writer.write("append", EU, operation=f"operation {n}")
    known = {
        "operation", "code", "kind", "outcome", "change", "state", "task", "version", "le", "reason",
    }  # fmt: skip
    found = samples(client)
    assert {name for _, labels in found for name, _ in labels} <= known
    assert not [
        labels for _, labels in found if "operation 0" in dict(labels).values() or "s.t" in dict(labels).values()
    ]


def test_a_service_that_has_stopped_counts_no_more(catalog: Catalog) -> None:
    with Service(catalog) as one:
        assert len(measures._listeners) == 1
        assert value(Client(one), "repairs_total", outcome="in_sync") == 0
    assert measures._listeners == ()


def test_failing_listener_is_logged_and_others_are_called(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[measures.Event] = []

    def fails(_: measures.Event) -> None:
        raise RuntimeError("why")

    event = measures.Delivered("delivered")
    with measures.listening(fails), measures.listening(heard.append):
        measures.emit(event)
    measures.emit(event)
    assert heard == [event]
    assert "Delivered could not be counted" in caplog.text
