"""A client of the service that is written from the contract, without the connector's code."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from catalog_ext.service.answers import ARROW_STREAM

if TYPE_CHECKING:
    from catalog_ext.service.server import Service
    from tests.servers.recorded_service import RecordedService

END_MARKER = b"\xff\xff\xff\xff\x00\x00\x00\x00"


@dataclass
class Answer:
    """An answer of the service.

    Attributes:
        blanks: How many blanks come before the body, as a keepalive.
        silent_for: Seconds between them and the body.
        index: Which index it says that it is of.
    """

    status: int
    type: str
    body: bytes
    blanks: int = 0
    silent_for: float = 0
    index: str | None = None

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        assert self.type == "application/json"
        assert set(self.json) == {"error"}
        assert set(self.json["error"]) == {"code", "message", "retryable", "kind", "sqlstate", "parameters"}
        return self.json["error"]  # type: ignore[no-any-return]

    @property
    def rows(self) -> list[dict[str, Any]]:
        assert self.status == 200, self.body
        return self.table.to_pylist()

    @property
    def table(self) -> pa.Table:
        assert self.type == ARROW_STREAM
        assert self.body.endswith(END_MARKER)
        return pa.ipc.open_stream(self.body).read_all()


class Client:
    def __init__(self, service: Service | RecordedService) -> None:
        self.service = service
        self.user: str | None = None
        self.contract: str | None = None
        self.index: str | None = None

    def send(
        self, path: str, body: bytes = b"{}", *, token: str | None = "", method: str = "POST", scheme: str = "Bearer"
    ) -> Answer:
        connection = http.client.HTTPConnection(self.service.uri.removeprefix("http://"), timeout=30)
        headers = {"Content-Type": "application/json"}
        if token is not None:
            headers["Authorization"] = f"{scheme} {token or self.service.token}"
        if self.user is not None:
            headers["X-Catalog-Ext-User"] = self.user
        if self.contract is not None:
            headers["X-Catalog-Ext-Contract"] = self.contract
        if self.index is not None:
            headers["X-Catalog-Ext-Index"] = self.index
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            index = answer.headers.get("X-Catalog-Ext-Index")
            return Answer(answer.status, answer.headers.get_content_type(), answer.read(), index=index)
        finally:
            connection.close()

    def call(self, operation: str, /, **fields: object) -> Answer:
        return self.send(f"/v1/{operation}", json.dumps(fields).encode())

    def load(self, name: str = "t") -> dict[str, Any]:
        answer = self.call("tables/load", namespace="s", name=name)
        assert answer.status == 200, answer.body
        return answer.json  # type: ignore[no-any-return]
