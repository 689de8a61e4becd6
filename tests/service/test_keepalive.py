"""Answers that take longer than their client waits for a keepalive."""

from __future__ import annotations

import asyncio
import http.client
import json
import sqlite3
import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from catalog_ext.service.keepalive import HEADER, send_batches
from catalog_ext.service.server import Service
from tests.kit.repair_cases import local_catalog
from tests.kit.service_client import Answer, Client

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with local_catalog(tmp_path) as catalog, Service(catalog) as service:
        yield service


def ask(service: Service, operation: str, seconds: str, **fields: object) -> Answer:
    """What a client gets that waits for so long for a keepalive."""
    connection = http.client.HTTPConnection(service.uri.removeprefix("http://"), timeout=30)
    headers = {"Authorization": f"Bearer {service.token}", HEADER: seconds}
    with closing(connection):
        connection.request("POST", f"/v1/{operation}", json.dumps(fields), headers)
        answer = connection.getresponse()
        return Answer(answer.status, answer.headers.get_content_type(), answer.read())


def while_locked(service: Service, folder: Path, operation: str, **fields: object) -> Answer:
    """The answer to a request that waits a second for the index."""
    (index,) = folder.glob("*.db")
    with closing(sqlite3.connect(index, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        timer = threading.Timer(1, other.execute, ("ROLLBACK",))
        timer.start()
        try:
            return ask(service, operation, "0.1", **fields)
        finally:
            timer.join()


def test_a_late_answer_begins_with_blanks(service: Service, tmp_path: Path) -> None:
    answer = while_locked(service, tmp_path, "namespaces/create", namespace="later", properties={})
    assert (answer.status, answer.type) == (200, "application/octet-stream")
    assert answer.body.startswith(b"  ")
    assert "error" not in json.loads(answer.body)
    assert "later" in Client(service).call("namespaces/list").json["namespaces"]


def test_a_late_error_is_in_the_body(service: Service, tmp_path: Path) -> None:
    Client(service).call("namespaces/create", namespace="there", properties={})
    answer = while_locked(service, tmp_path, "namespaces/create", namespace="there", properties={})
    assert answer.status == 200
    assert answer.body.startswith(b" ")
    assert json.loads(answer.body)["error"]["code"] == "CATALOG_EXT_NAMESPACE_ALREADY_EXISTS"


def test_an_answer_in_time_is_as_without(service: Service) -> None:
    ask(service, "ping", "20").json["service"]
    assert ask(service, "namespaces/load", "20", namespace="nowhere").status == 404


@pytest.mark.parametrize("text", ["soon", "0", "-1", "nan", "inf"])
def test_a_header_that_is_no_duration_is_refused(service: Service, text: str) -> None:
    answer = ask(service, "ping", text)
    assert (answer.status, answer.error["code"]) == (400, "CATALOG_EXT_INVALID_INPUT")


def test_a_stream_that_stops_for_a_while_has_batches_without_rows() -> None:
    schema = pa.schema([("k", pa.string()), ("n", pa.int64())])
    sink = pa.BufferOutputStream()
    writer = pa.ipc.new_stream(sink, schema)
    batch = pa.RecordBatch.from_pydict({"k": ["a"], "n": [1]}, schema=schema)
    closed = []

    def parts() -> Generator[bytes, None, None]:
        try:
            time.sleep(0.5)
            yield bytes(batch.serialize())
            writer.close()
            yield b"\xff\xff\xff\xff\x00\x00\x00\x00"
        finally:
            closed.append(True)

    async def sent(seconds: float | None) -> list[bytes]:
        return [part async for part in send_batches(bytes(schema.serialize()), parts(), schema, seconds)]

    read = pa.ipc.open_stream(b"".join(asyncio.run(sent(0.1))))
    batches = list(read)
    assert len(batches) > 2
    assert pa.Table.from_batches(batches).to_pylist() == [{"k": "a", "n": 1}]
    assert len(asyncio.run(sent(None))) == 3
    assert closed == [True, True]
