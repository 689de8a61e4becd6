"""Writes to S3 by pending uploads: what they cost, what they leave, and what a repair finds after them."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import pytest

import catalog_ext
from catalog_ext.metastore.commit.fault_points import InjectedFault, armed
from catalog_ext.metastore.commit.transaction import State
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import ConflictError, LocationNotFoundError, StagedFileMissingError
from catalog_ext.metastore.index import Index
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.predicates.tree import Comparison, Operator
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.storage.uploads import Uploads
from catalog_ext.metastore.transactions.taken_files import take_files
from tests.faults.writer import Order, Server, stand
from tests.kit.index_cases import empty_index
from tests.kit.promotion_cases import s3_options
from tests.kit.write_cases import Stand, definition

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator
    from pathlib import Path

    from tests.servers.stores import S3Server

FILES = {f"k={n}": f"{n}\n" for n in range(8)}


@pytest.fixture
def s3_stand(tmp_path: Path, s3_server: S3Server) -> Iterator[tuple[Stand, str]]:
    """An engine, and the location of the table ``s.t``."""
    location = f"s3a://{s3_server.make_bucket(f'writes-{secrets.token_hex(4)}')}/t"
    server = Server(s3_server.direct_endpoint, s3_server.access_key, s3_server.secret_key, s3_server.region)
    (tmp_path / "index.db").write_bytes(empty_index())
    order = Order(f"sqlite:///{tmp_path}/index.db", location, storage=s3_options(s3_server), server=server)
    with Index.open(order.index) as index:
        made = stand(index, order)
        made.create(definition(location))
        yield made, location


def requests(server: S3Server, before: Counter[str]) -> dict[str, int]:
    return {name: count for name, count in (server.counts() - before).items() if count}


def test_a_write_takes_one_request_a_file_and_leaves_nothing_to_repair(
    s3_stand: tuple[Stand, str], s3_server: S3Server, tmp_path: Path
) -> None:
    stand, location = s3_stand
    stand.write(FILES)
    begun = stand.begin()
    staged = stand.put(begun, FILES)
    assert stand.listed() == FILES, "uploads that are not completed are not seen"
    before = s3_server.counts()
    stand.engine.commit(begun.transaction_id, staged)
    sent = requests(s3_server, before)
    assert sum(sent.values()) <= len(FILES) + 1, sent
    stand.write({"k=1": "9\n"}, WriteKind.OVERWRITE_PARTITIONS)
    stand.engine.delete(stand.table(), Comparison(Operator.EQ, "k", "2"), truncate=False)
    rows = {name: content * 2 for name, content in FILES.items() if name != "k=2"} | {"k=1": "9\n"}
    assert stand.rows() == stand.listed() == rows
    assert stand.strays() == []
    with catalog_ext.connect(
        index=f"sqlite:///{tmp_path}/index.db", metastore=None, warehouse=location, storage=s3_options(s3_server)
    ) as catalog:
        assert len(catalog.repair_partitions("s.t")) == 0


def test_a_table_is_created_and_replaced(s3_stand: tuple[Stand, str]) -> None:
    stand, location = s3_stand
    made = definition(f"{location}-new", name="new")
    new = TableIdentifier("s", "new")
    stand.write(FILES, WriteKind.CREATE, definition=made, operation="CTAS")
    assert stand.rows(new) == stand.listed(new) == FILES
    replaced = {"k=1": "9\n"}
    stand.write(replaced, WriteKind.REPLACE, table=stand.table(new), definition=made, operation="RTAS")
    assert stand.rows(new) == stand.listed(new) == replaced
    assert stand.strays(new) == []


def test_a_relocating_overwrite(s3_stand: tuple[Stand, str]) -> None:
    stand, _ = s3_stand
    stand.write({"k=1": "1\n"})
    stand.write({"k=1": "2\n", "k=2": "2\n"}, WriteKind.OVERWRITE_PARTITIONS, options={"overwrite-mode": "relocate"})
    assert stand.rows() == stand.listed() == {"k=1": "2\n", "k=2": "2\n"}
    assert len(stand.strays()) == 1
    assert stand.engine.vacuum(stand.table(), 0).failed == ()
    assert stand.strays() == []


def test_vacuum_leaves_the_uploads_of_another_index(s3_stand: tuple[Stand, str], tmp_path: Path) -> None:
    stand, location = s3_stand
    (tmp_path / "other.db").write_bytes(empty_index())
    with Index.open(f"sqlite:///{tmp_path}/other.db") as index:
        other = Stand(index, stand.storage, upload=stand.upload)
        other.create(definition(location, external=True))
        begun = other.begin()
        staged = other.put(begun, {"k=1": "1\n", "k=2": "2\n"})
        # A retention below zero: the store's clock need not be the database's.
        report = stand.engine.vacuum(stand.table(), -60)
        assert [str(entry.action) for entry in report.entries] == ["skipped", "skipped"]
        assert all(begun.transaction_id in entry.reason for entry in report.skipped)
        other.engine.commit(begun.transaction_id, staged)
        assert other.rows() == {"k=1": "1\n", "k=2": "2\n"}
        other.put(other.begin(), {"k=1": "3\n"})
    report = stand.engine.vacuum(stand.table(), -60, unknown_writes=True)
    assert [str(entry.action) for entry in report.entries] == ["abort upload"]
    assert list(stand.storage.uploads_to(Location.parse(location)).pending(Location.parse(location))) == []


def test_conflict_leaves_no_upload_on_a_store_that_cannot_list_uploads(
    s3_stand: tuple[Stand, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stand, location = s3_stand
    stand.write({"k=1": "1\n"})
    begun = stand.begin(WriteKind.OVERWRITE_PARTITIONS)
    staged = stand.put(begun, {"k=1": "2\n", "k=2": "2\n"})
    stand.write({"k=1": "3\n"})
    # As MinIO, which lists the uploads of a whole key alone.
    monkeypatch.setattr(Uploads, "pending", lambda *_: iter(()))
    with pytest.raises(ConflictError):
        stand.engine.commit(begun.transaction_id, staged)
    monkeypatch.undo()
    assert list(stand.storage.uploads_to(Location.parse(location)).pending(Location.parse(location))) == []
    assert stand.rows() == stand.listed() == {"k=1": "1\n3\n"}


def test_a_bucket_that_is_gone_is_an_error_and_leaves_nothing(s3_stand: tuple[Stand, str]) -> None:
    stand, _ = s3_stand
    missing = definition(f"s3a://missing-{secrets.token_hex(4)}/t", name="missing")
    with pytest.raises(LocationNotFoundError, match="bucket"):
        stand.begin(WriteKind.CREATE, definition=missing)
    assert stand.index.transactions.all(states=(State.OPEN,)) == []


@pytest.mark.parametrize("point", ["reserve.before", "reserve.after", "promote.file", "apply.before"])
@pytest.mark.parametrize("other_ends", [True, False])
def test_two_loads_of_the_same_objects_load_them_once(
    s3_stand: tuple[Stand, str], point: str, other_ends: bool
) -> None:
    """A copy leaves the object where it is, so that both could have it."""
    stand, location = s3_stand
    place = Location.parse(f"{location}-in")
    for n in range(2):
        stand.storage.write_file(place.join(f"{n}.csv"), f"{n}\n".encode())
    files = stand.storage.list_directory(place)
    outcomes: list[str] = []

    def load(partition: str) -> None:
        try:
            take_files(stand.engine, stand.table(), partition, files, replaces=False)
            outcomes.append("loaded")
        except (ConflictError, StagedFileMissingError) as error:
            outcomes.append(type(error).__name__)

    def other(_: str) -> None:
        with armed("clean.before", lambda _: None if other_ends else fail()):
            load("k=2")

    def fail() -> None:
        raise InjectedFault("clean.before")

    with armed(point, other):
        load("k=1")
    assert sum(one == "loaded" for one in outcomes) == 1
    stand.engine.recover(older_than_s=0)
    assert "".join(sorted("".join(stand.rows().values()))) == "\n\n01"
    assert stand.rows() == stand.listed()
    assert stand.strays() == []
