"""A small service of the contract over local directories, for tests of the connector alone.

It keeps tables in memory, lists a table's directories when it is added, and counts requests by operation. With
``prune=False`` it ignores predicates, which proves that the connector evaluates filters itself.
"""

from __future__ import annotations

import json
import os
import threading
from collections import Counter
from dataclasses import dataclass, field, replace
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa

from catalog_ext.conf.resolution import resolve
from catalog_ext.metastore import errors
from catalog_ext.metastore.errors import InvalidConfigurationError
from catalog_ext.service.messages.core import Request
from catalog_ext.service.messages.settings import given_of, settings_json, use_of
from tests.integration.fake_writes import FakeWrites

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
PLAN_SCHEMA = pa.schema([
    ("partition_id", pa.int64()), ("partition", pa.utf8()), ("location", pa.utf8()), ("path", pa.utf8()),
    ("size", pa.int64()), ("modified_ms", pa.int64()), ("rows", pa.int64()),
])  # fmt: skip
PARTITIONS_SCHEMA = pa.schema([
    ("partition_id", pa.int64()), ("partition", pa.utf8()), ("location", pa.utf8()), ("files", pa.int64()),
    ("bytes", pa.int64()), ("rows", pa.int64()), ("created_ms", pa.int64()),
])  # fmt: skip
REPORT_SCHEMA = pa.schema([
    ("action", pa.utf8()), ("partition", pa.utf8()), ("path", pa.utf8()), ("files", pa.int64()),
    ("bytes", pa.int64()), ("reason", pa.utf8()),
])  # fmt: skip
PARTITION_COMMANDS = {f"partitions/{command}" for command in ("add", "drop", "rename", "relocate", "exchange")} | {
    "statistics/put"
}
"""They are remembered and change nothing here."""
ARROW = "application/vnd.apache.arrow.stream"


class Refusal(Exception):
    """An answer of the contract's error form."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        error = next(kind for kind in vars(errors).values() if getattr(kind, "code", None) == f"CATALOG_EXT_{code}")
        self.body = {
            "error": {
                "code": error.code, "message": message, "retryable": False, "kind": str(error.kind),
                "sqlstate": error.sqlstate, "parameters": {"k": "v"},
            }
        }  # fmt: skip


@dataclass
class FakeFile:
    path: str
    size: int
    modified_ms: int
    rows: int | None = None


@dataclass
class FakePartition:
    partition_id: int
    name: str
    files: list[FakeFile]
    location: str | None = None

    def values(self) -> dict[str, str | None]:
        """Key to unescaped text; None for the default partition."""
        pairs = [part.partition("=") for part in self.name.split("/")] if self.name else []
        return {key: None if raw == DEFAULT_PARTITION else unquote(raw) for key, _, raw in pairs}


@dataclass
class FakeTable:
    table_id: int
    namespace: str
    name: str
    location: str
    format: str
    columns: Sequence[tuple[str, str]]
    partition_columns: Sequence[tuple[str, str]]
    partition_mode: str
    options: dict[str, str]
    properties: dict[str, str]
    table_type: str = "EXTERNAL"
    comment: str | None = None
    version: int = 1
    partitions: list[FakePartition] = field(default_factory=list)

    def describe(self) -> dict[str, Any]:
        """The contract's table object."""
        files = [file for partition in self.partitions for file in partition.files]
        rows = [file.rows for file in files]
        return {
            "table_id": self.table_id, "namespace": self.namespace, "name": self.name, "table_type": self.table_type,
            "format": self.format, "location": self.location, "columns": _columns(self.columns),
            "partition_columns": _columns(self.partition_columns), "partition_mode": self.partition_mode,
            "options": self.options, "properties": self.properties, "comment": self.comment, "owner": "ada",
            "settings": settings_json(f"{self.namespace}.{self.name}", self.properties, {}),
            "created_at_ms": 1763722800000, "version": self.version,
            "totals": {
                "partitions": len(self.partitions), "files": len(files), "bytes": sum(file.size for file in files),
                "rows": None if None in rows else sum(row or 0 for row in rows),
            },
        }  # fmt: skip

    def list_files(self) -> None:
        """Takes the partitions and files from the directories, in the order of the typed values."""
        root = Path(self.location.removeprefix("file://"))
        found: dict[str, list[FakeFile]] = {}
        for folder, folders, names in os.walk(root):
            folders[:] = [name for name in folders if "=" in name or name[0] not in "_."]
            name = (
                os.path.relpath(folder, root).replace(".", "", 1)
                if folder == str(root)
                else os.path.relpath(folder, root)
            )
            for file in sorted(name for name in names if name[0] not in "_."):
                stat = (Path(folder) / file).stat()
                found.setdefault(name, []).append(FakeFile(file, stat.st_size, stat.st_mtime_ns // 1_000_000))
        partitions = [FakePartition(i, name, files) for i, (name, files) in enumerate(found.items())]
        types = dict(self.partition_columns)
        self.partitions = sorted(
            partitions,
            key=lambda p: ([_order(text, types.get(key, "string")) for key, text in p.values().items()], p.name),
        )


class FakeService:
    """The contract over HTTP, on a free port of the loopback interface."""

    def __init__(self, *, prune: bool = True) -> None:
        self.prune = prune
        self.token = "secret"
        self.namespaces: dict[str, dict[str, str]] = {"default": {}, "sales": {"comment": "what we sell"}}
        self.tables: dict[tuple[str, str], FakeTable] = {}
        self.requests: Counter[str] = Counter()
        self.bodies: list[tuple[str, dict[str, Any]]] = []
        self.faults: dict[str, Callable[[], Any]] = {}
        self.writes = FakeWrites()
        self._ids = iter(range(1, 1_000_000))
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.uri = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def start(self) -> FakeService:
        """Itself, answering."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Answers no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def reset(self) -> None:
        """Forgets what was asked."""
        self.requests.clear()
        self.bodies.clear()

    def last(self, operation: str) -> dict[str, Any]:
        """The body of the latest request for ``operation``."""
        return next(body for name, body in reversed(self.bodies) if name == operation)

    def add_table(
        self,
        name: str,
        location: str | Path,
        columns: Mapping[str, str],
        keys: Mapping[str, str],
        *,
        file_format: str = "parquet",
        mode: str = "virtual",
        options: dict[str, str] | None = None,
        properties: dict[str, str] | None = None,
    ) -> FakeTable:
        """The table ``sales.<name>``, with the files that lie in the folder ``location`` now; none at a URI."""
        uri = str(location) if "://" in str(location) else f"file://{location}"
        table = FakeTable(
            next(self._ids), "sales", name, uri, file_format, list(columns.items()),
            list(keys.items()), mode, options or {}, properties or {},
        )  # fmt: skip
        if uri.startswith("file:"):
            table.list_files()
        self.tables["sales", name] = table
        return table

    def answer(self, operation: str, body: dict[str, Any]) -> Any:
        """A JSON object, or an Arrow table."""
        if fault := self.faults.get(operation):
            return fault()
        if operation in ("writes/heartbeat", "writes/stage", "writes/commit", "writes/abort"):
            return getattr(self.writes, operation.partition("/")[2])(**body)
        if operation in PARTITION_COMMANDS:
            return {"table_id": body["table_id"], "version": body["version"] + 1}
        handler = getattr(self, "_" + operation.replace("/", "_"), None)
        if handler is None:
            raise Refusal(404, "NOT_FOUND", f"no operation {operation}")
        return handler(**body)

    def _settings_load(self, table: str, properties: dict[str, str]) -> Any:
        return {"settings": settings_json(table, properties, {})}

    def _settings_resolve(self, **request: Any) -> Any:
        body = Request(request)
        try:
            return {"values": resolve(use_of(body), given_of(body, {}))}
        except InvalidConfigurationError as error:
            raise Refusal(400, error.code.removeprefix("CATALOG_EXT_"), error.message) from error

    def _ping(self) -> Any:
        return {"service": "catalog-ext", "contract": 1, "version": "0"}

    def _namespaces_list(self) -> Any:
        return {"namespaces": sorted(self.namespaces)}

    def _namespaces_load(self, namespace: str) -> Any:
        if namespace not in self.namespaces:
            raise Refusal(404, "NAMESPACE_NOT_FOUND", f"no namespace {namespace}")
        properties = dict(self.namespaces[namespace])
        return {
            "name": namespace, "location": properties.pop("location", f"file:///w/{namespace}.db"),
            "comment": properties.pop("comment", None), "properties": properties,
        }  # fmt: skip

    def _namespaces_create(self, namespace: str, properties: dict[str, str]) -> Any:
        if namespace in self.namespaces:
            raise Refusal(409, "NAMESPACE_ALREADY_EXISTS", f"there is a namespace {namespace}")
        self.namespaces[namespace] = properties
        return self._namespaces_load(namespace)

    def _namespaces_alter(self, namespace: str, set: dict[str, str], remove: list[str]) -> Any:
        self.namespaces[namespace].update(set)
        for key in remove:
            self.namespaces[namespace].pop(key, None)
        return self._namespaces_load(namespace)

    def _namespaces_drop(self, namespace: str, cascade: bool) -> Any:
        if any(table.namespace == namespace for table in self.tables.values()) and not cascade:
            raise Refusal(409, "NAMESPACE_NOT_EMPTY", f"namespace {namespace} has tables")
        del self.namespaces[namespace]
        return {"dropped": True}

    def _tables_list(self, namespace: str) -> Any:
        self._namespaces_load(namespace)
        return {"tables": sorted(name for space, name in self.tables if space == namespace)}

    def _views_list(self, namespace: str) -> Any:
        self._namespaces_load(namespace)
        return {"views": []}

    def _tables_load(self, namespace: str, name: str) -> Any:
        if "/" in name:
            raise Refusal(400, "INVALID_IDENTIFIER", f"'{name}' is no table name: it has a slash")
        return self._table(namespace, name).describe()

    def _table(self, namespace: str, name: str) -> FakeTable:
        self._namespaces_load(namespace)
        if (namespace, name) not in self.tables:
            raise Refusal(404, "TABLE_NOT_FOUND", f"no table {namespace}.{name}")
        return self.tables[namespace, name]

    def _tables_create(self, namespace: str, name: str, **rest: Any) -> Any:
        self._namespaces_load(namespace)
        if (namespace, name) in self.tables:
            raise Refusal(409, "TABLE_ALREADY_EXISTS", f"there is a table {namespace}.{name}")
        location = rest["location"] or f"file:///w/{namespace}.db/{name}"
        self.tables[namespace, name] = FakeTable(
            next(self._ids), namespace, name, location, rest["format"],
            [(c["name"], c["type"]) for c in rest["columns"]],
            [(c["name"], c["type"]) for c in rest["partition_columns"]],
            "declared", rest["options"], rest["properties"], rest["table_type"], rest["comment"],
        )  # fmt: skip
        return self.tables[namespace, name].describe()

    def _tables_alter(
        self, namespace: str, name: str, set: dict[str, str], remove: list[str], changes: list[Any],
        location: str | None,
    ) -> Any:  # fmt: skip
        table = self._table(namespace, name)
        table.properties.update(set)
        for key in remove:
            table.properties.pop(key, None)
        table.partition_mode = table.properties.get("partition-columns", table.partition_mode)
        return table.describe()

    def _tables_rename(self, namespace: str, name: str, to_namespace: str, to_name: str) -> Any:
        table = self._table(namespace, name)
        self._namespaces_load(to_namespace)
        if (to_namespace, to_name) in self.tables:
            raise Refusal(409, "TABLE_ALREADY_EXISTS", f"there is a table {to_namespace}.{to_name}")
        del self.tables[namespace, name]
        self.tables[to_namespace, to_name] = replace(table, namespace=to_namespace, name=to_name)
        return table.describe()

    def _tables_drop(self, namespace: str, name: str, purge: bool) -> Any:
        self._table(namespace, name)
        del self.tables[namespace, name]
        return {"dropped": True}

    def _tables_plan(self, table_id: int, version: int, predicate: Any) -> pa.Table:
        rows = [
            (p.partition_id, p.name, p.location, file.path, file.size, file.modified_ms, file.rows)
            for p in self._chosen(table_id, predicate)
            for file in p.files
        ]
        return pa.table(list(zip(*rows, strict=True)) or [[]] * 7, schema=PLAN_SCHEMA)

    def _partitions_list(self, table_id: int, version: int, predicate: Any) -> pa.Table:
        rows = [
            (p.partition_id, p.name, p.location, len(p.files), sum(f.size for f in p.files), None, 1763722800000)
            for p in self._chosen(table_id, predicate)
        ]
        return pa.table(list(zip(*rows, strict=True)) or [[]] * 7, schema=PARTITIONS_SCHEMA)

    def _writes_begin(self, table_id: int, **request: Any) -> Any:
        return self.writes.begin(self._by_id(table_id), **request)

    def _by_id(self, table_id: int) -> FakeTable:
        return next(table for table in self.tables.values() if table.table_id == table_id)

    def _chosen(self, table_id: int, predicate: Any) -> list[FakePartition]:
        table = self._by_id(table_id)
        if predicate is None or not self.prune:
            return table.partitions
        types = dict(table.partition_columns)
        return [p for p in table.partitions if evaluate(predicate, p.values(), types) is True]

    def _procedures_list(self) -> Any:
        def parameter(name: str, kind: str, default: Any = None, *, required: bool = False) -> dict[str, Any]:
            return {"name": name, "type": kind, "required": required, "default": default, "comment": f"the {name}"}

        repair = {
            "name": "repair_partitions", "description": "Brings the index in step with the store",
            "parameters": [
                parameter("table", "string", required=True), parameter("mode", "string", "add"),
                parameter("where", "string"), parameter("dry_run", "boolean", False),
                parameter("strict", "boolean", False),
            ],
            "columns": _columns([(f.name, "bigint" if f.type == pa.int64() else "string") for f in REPORT_SCHEMA]),
        }  # fmt: skip
        register = {
            "name": "register_table", "description": "Registers a path",
            "parameters": [
                parameter("table", "string", required=True), parameter("location", "string", required=True),
                parameter("format", "string", "parquet"), parameter("partition_columns", "map<string,string>"),
                parameter("options", "map<string,string>"),
            ],
            "columns": _columns([("table", "string"), ("columns", "int")]),
        }  # fmt: skip
        return {"procedures": [repair, register]}

    def _procedures_call(self, procedure: str, arguments: dict[str, Any]) -> pa.Table:
        if procedure == "register_table":
            schema = pa.schema([("table", pa.utf8()), ("columns", pa.int32())])
            return pa.table([[arguments["table"]], [len(arguments.get("partition_columns", {}))]], schema=schema)
        namespace, _, name = arguments["table"].removeprefix("lake.").partition(".")
        table = self._table(namespace, name)
        if arguments.get("strict"):
            raise Refusal(400, "REPAIR_REFUSED", "strict, and 'it''s' would be skipped")
        before = {p.name for p in table.partitions}
        table.list_files()
        table.version += 1
        added = [p for p in table.partitions if p.name not in before]
        rows = [("added", p.name, p.name, len(p.files), 1, None) for p in added]
        return pa.table(list(zip(*rows, strict=True)) or [[]] * 6, schema=REPORT_SCHEMA)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, *_: object) -> None:
                """Keeps the test output clean."""

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                operation = self.path.removeprefix("/v1/")
                service.requests[operation] += 1
                service.bodies.append((operation, body))
                if self.headers["Authorization"] != f"Bearer {service.token}":
                    self.send(401, "application/json", b"")
                    return
                try:
                    answer = service.answer(operation, body)
                except Refusal as refusal:
                    self.send(refusal.status, "application/json", json.dumps(refusal.body).encode())
                    return
                if isinstance(answer, pa.Table):
                    self.send(200, ARROW, ipc_bytes(answer))
                elif isinstance(answer, bytes):
                    self.send(200, ARROW, answer)
                else:
                    self.send(200, "application/json", json.dumps(answer).encode())

            def send(self, status: int, kind: str, content: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        return Handler


def ipc_bytes(table: pa.Table, batch_rows: int = 3) -> bytes:
    """The Arrow stream of ``table``, in small batches, so that partitions span batches."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=batch_rows)
    return sink.getvalue().to_pybytes()


def evaluate(predicate: Mapping[str, Any], values: Mapping[str, str | None], types: Mapping[str, str]) -> bool | None:
    """The predicate's three-valued result on one partition's values."""
    op = predicate["op"]
    if op in ("true", "false"):
        return op == "true"
    if op in ("and", "or"):
        results = [evaluate(arg, values, types) for arg in predicate["args"]]
        decisive = op == "or"
        return decisive if decisive in results else None if None in results else not decisive
    if op == "not":
        result = evaluate(predicate["arg"], values, types)
        return None if result is None else not result
    column = predicate["column"]
    kind = types[column]
    value = _typed(values[column], kind)
    if op == "is_null":
        return value is None
    if op == "is_not_null":
        return value is not None
    if op == "in":
        wanted = [_typed(text, kind) for text in predicate["values"]]
        return None if value is None else True if value in wanted else None if None in wanted else False
    wanted = _typed(predicate["value"], kind)
    if op == "<=>":
        return bool(value == wanted)
    if value is None or wanted is None:
        return None
    return bool(_COMPARISONS[op](value, wanted))


_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b, "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b, ">=": lambda a, b: a >= b, "starts_with": lambda a, b: a.startswith(b),
    "ends_with": lambda a, b: a.endswith(b), "contains": lambda a, b: b in a,
}  # fmt: skip


def _typed(text: str | None, kind: str) -> Any:
    if text is None or (text == "" and kind not in ("string",)):
        return None
    if kind in ("int", "bigint", "smallint", "tinyint") or kind.startswith("decimal"):
        return Decimal(text)
    if kind == "double":
        return float(text)
    if kind == "boolean":
        return text.lower() == "true"
    if kind == "timestamp":
        return text.removesuffix(".0")
    return text


def _order(text: str | None, kind: str) -> tuple[bool, Any]:
    value = _typed(text, kind)
    return (value is not None, value if value is not None else 0)


def _columns(columns: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    return [{"name": name, "type": kind, "nullable": True, "comment": None} for name, kind in columns]
