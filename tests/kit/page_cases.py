"""An index with an example of every state, and an HTTP client of the page."""

from __future__ import annotations

import http.client
import json
import random
import re
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import sqlalchemy as sa

import catalog_ext
from catalog_ext.metastore.index.database.schema import repairs, table_versions, waiting_files
from catalog_ext.metastore.index.write.repairs import RepairRecord, Verified
from catalog_ext.metastore.model.changes import AddPartition, DropPartition
from catalog_ext.metastore.model.partition_names import escape_path_name
from catalog_ext.metastore.model.tables import DataFile
from catalog_ext.service.server import Service
from tests.kit.index_cases import create
from tests.kit.transaction_cases import begin, plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from email.message import Message
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.tables import Table

TOKEN = "the-token-of-the-tests-which-is-long-enough"
HOSTILE = (
    "<script>alert(1)</script>", "'\"><img src=x onerror=alert(2)>", "line\nbreak", "\u202egnp.exe", "${7*7}{{7*7}}",
    "&lt;b&gt;", "x' OR '1'='1", "\\", "ünïcødé 🦀", "a" * 250,
)  # fmt: skip
"""Values of a partition column that a page may not take for anything but text."""

_DAY_MS = 86_400_000
_MB = 2**20


@dataclass(frozen=True)
class Answer:
    """What the page answers."""

    status: int
    headers: Message
    text: str

    @property
    def cookies(self) -> list[str]:
        return self.headers.get_all("set-cookie") or []


class Visitor:
    """A browser without a screen: it keeps cookies, and follows no redirect."""

    def __init__(self, service: Service) -> None:
        self.address = f"{service.host}:{service.port}"
        self.token = service.token
        self.cookies: dict[str, str] = {}

    def get(self, path: str, **chosen: str | int) -> Answer:
        return self.ask("GET", f"{path}?{urlencode(chosen)}" if chosen else path)

    def page(self, path: str, **chosen: str | int) -> str:
        answer = self.get(path, **chosen)
        assert answer.status == 200, answer
        return answer.text

    def form_key(self, path: str = "/ui/sign-in", of: str = "sign-in") -> str:
        form = re.search(rf'action="/ui/{of}">.*?name="key" value="(\w+)"', self.page(path), re.DOTALL)
        assert form is not None
        return form[1]

    def sign_in(self, token: str | None = None, to: str = "", **headers: str) -> Answer:
        return self.post("/ui/sign-in", {"key": self.form_key(), "to": to, "token": token or self.token}, **headers)

    def post(self, path: str, fields: Mapping[str, str], **headers: str) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.ask("POST", path, urlencode(fields), {"Content-Type": "application/x-www-form-urlencoded", **named})

    def ask(
        self, method: str, path: str, body: str | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:  # fmt: skip
        kept = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        connection = http.client.HTTPConnection(self.address, timeout=60)
        try:
            connection.request(method, path, body, {**({"Cookie": kept} if kept else {}), **(headers or {})})
            answer = connection.getresponse()
            found = Answer(answer.status, answer.headers, answer.read().decode())
        finally:
            connection.close()
        for cookie in found.cookies:
            name, _, value = cookie.partition(";")[0].partition("=")
            self.cookies.pop(name, None)
            if "Max-Age=0" not in cookie:
                self.cookies[name] = value
        return found


@contextmanager
def looking_at(catalog: Catalog, *, signed_in: bool = True) -> Iterator[Visitor]:
    """A visitor of a catalog's page."""
    with Service(catalog, page=True) as service:
        visitor = Visitor(service)
        if signed_in:
            assert visitor.sign_in().status == 303
        yield visitor


def fill(index: Index, table: Table, names: Iterable[str], *, size: int = 40 * _MB, rows: int | None = 1000) -> Table:
    """The table, with partitions of a file each."""
    changes = [AddPartition(name, (DataFile("part-0.parquet", size, 1, rows),)) for name in names]
    index.commits.apply_changes(table.table_id, changes, operation="INSERT", deliver=False)
    return index.tables.load(table.identifier)


@contextmanager
def catalog_with_everything(folder: Path) -> Iterator[Catalog]:
    """A catalog whose index has something of everything, and whose metastore is down."""
    with catalog_ext.connect(
        index=str(folder / "index.db"), metastore="thrift://127.0.0.1:1", warehouse=str(folder / "warehouse")
    ) as catalog:
        fill_with_everything(catalog)
        yield catalog


def fill_with_everything(catalog: Catalog) -> None:
    """Tables with a history, holes, hostile names, writes, waiting partitions, deliveries in vain, repairs."""
    index = catalog.index
    trips = _trips(index)
    _hostile(index)
    for name, keys in (("riders", {}), ("weather", {"year": "int", "month": "int"}), ("zones", {"borough": "string"})):
        table = create(index, name, keys, "sales")
        names = {
            "riders": [""], "weather": [f"year={y}/month={m}" for y in (2023, 2024, 2025) for m in range(1, 13)],
            "zones": [f"borough={b}" for b in ("bronx", "queens", "staten%20island")],
        }[name]  # fmt: skip
        fill(index, table, names, size=3 * _MB)
    _under_way(index, trips)


def _trips(index: Index) -> Table:
    rng = random.Random(3)
    trips = create(index, "trips", {"ds": "date", "region": "string"}, "sales")
    first, regions = date(2025, 3, 1), ("apac", "emea", "latam", "na-east", "na-west")
    for month in range(8):
        changes: list[AddPartition | DropPartition] = []
        for day in range(30):
            at = first + timedelta(month * 30 + day)
            if month == 4 and 9 < day < 15:
                continue
            for region in regions:
                if rng.random() < (0.35 if region == "latam" else 0.03):
                    continue
                sizes = [
                    int(rng.lognormvariate(17.3 if region != "emea" else 15, 1.1)) for _ in range(rng.randint(1, 6))
                ]
                files = tuple(
                    DataFile(f"part-{month}-{i}.parquet", size, 1, size // 90) for i, size in enumerate(sizes)
                )
                changes.append(AddPartition(f"ds={at}/region={region}", files))
        index.commits.apply_changes(
            trips.table_id, changes, operation="INSERT" if month % 3 else "INSERT OVERWRITE",
            summary={"user": "ada" if month % 2 else "bo"}, deliver=month == 7,
        )  # fmt: skip
    now = index.now_ms()
    for version, days in enumerate((240, 210, 178, 151, 118, 90, 60, 31, 0)):
        _date(index, trips.table_id, version, now - days * _DAY_MS - 7_200_000)
    record = RepairRecord(trips.table_id, 4200, "sync", None, 0, "ada@host:71", 3, 1, 2, 5, 4, 4, None)
    index.repairs.add(record)
    index.repairs.add(
        RepairRecord(trips.table_id, 900, "add", "ds >= '2025-06-01'", 1, "bo@host:72", 0, 0, 0, 1, 6, 6,
                     "The store refuses to list s3a://lake/trips/ds=2025-06-01/: Access Denied")
    )  # fmt: skip
    with _writing(index) as connection:
        for number, days in ((1, 100), (2, 20)):
            end = now - days * _DAY_MS
            connection.execute(
                sa.update(repairs).where(repairs.c.repair_id == number).values(began_at_ms=end - 4200, ended_at_ms=end)
            )
    trips = index.tables.load(trips.identifier)
    index.verifications.note(trips, Verified(now - 3 * _DAY_MS, trips.version), None)
    return trips


def _hostile(index: Index) -> None:
    names = [f"v={escape_path_name(value)}/n={i}" for i, value in enumerate(HOSTILE)]
    fill(index, create(index, "hostile", {"v": "string", "n": "int"}, "sales"), names)


def _under_way(index: Index, trips: Table) -> None:
    for owner in ("ada/nightly-load@etl-1#m:4711", "<b>mallory</b>/\u202ejob@etl-2#m:12"):
        begin(index, trips, plan(trips), "ds=2025-11-01/region=emea", owner=owner)
    now = index.now_ms()
    with _writing(index) as connection:
        for hour in (22, 23):
            connection.execute(sa.insert(waiting_files).values(
                table_id=trips.table_id, name=f"ds=2025-10-30/region=h{hour}", name_hash=f"{hour:032x}",
                transaction_id="e" * 32, number=0, since_ms=now - hour * 60_000, n_files=2,
                payload=json.dumps([
                    {"partition": f"ds=2025-10-30/region=h{hour}", "name": f"part-{i}", "size": 5, "rows": 1,
                     "statistics": {}, "upload": None}
                    for i in range(2)
                ]),
            ))  # fmt: skip
    for message in index.outbox.pending():
        assert index.outbox.claim(message.outbox_id, "c" * 32, 1000)
        index.outbox.failed(
            message.outbox_id, "c" * 32, "The metastore refused <b>partitions</b>: Duplicate entry \"ds='2025'\"",
            60_000, refused=True,
        )  # fmt: skip


def _date(index: Index, table_id: int, version: int, at_ms: int) -> None:
    v = table_versions.c
    with _writing(index) as connection:
        connection.execute(
            sa.update(table_versions).where(v.table_id == table_id, v.version == version).values(committed_at_ms=at_ms)
        )


def _writing(index: Index) -> Any:
    return index._database.engine.begin()
