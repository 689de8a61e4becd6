"""A store that says SlowDown in the middle of a commit is asked again; what it refuses for long is finished later."""

from __future__ import annotations

import contextlib
import secrets
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.commit.partition_plans import RenamePartition
from catalog_ext.metastore.commit.transaction import State
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import CommitStateUnknownError, StorageUnavailableError
from catalog_ext.metastore.index import Index
from catalog_ext.metastore.runtime.retry import Backoff
from catalog_ext.metastore.storage.store import Storage
from tests.faults.writer import Order, Server, stand
from tests.integration.faulty_store import BusyStore
from tests.kit.index_cases import empty_index
from tests.kit.promotion_cases import s3_options
from tests.kit.write_cases import Stand, definition

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.servers.counting_proxy import S3Request
    from tests.servers.stores import S3Server

OLD = {f"k={n}": f"old {n}\n" for n in range(6)}
NEW = {f"k={n}": f"new {n}\n" for n in range(6)}


@pytest.fixture
def busy(tmp_path: Path, s3_server: S3Server) -> Iterator[tuple[Stand, BusyStore]]:
    """An engine whose requests pass the proxy, and the proxy; staged files are sent to the server itself."""
    location = f"s3a://{s3_server.make_bucket(f'busy-{secrets.token_hex(4)}')}/t"
    server = Server(s3_server.direct_endpoint, s3_server.access_key, s3_server.secret_key, s3_server.region)
    (tmp_path / "index.db").write_bytes(empty_index())
    with BusyStore(s3_server.direct_endpoint, lambda _: False) as proxy:
        options = s3_options(s3_server) | {"endpoint": proxy.endpoint}
        order = Order(f"sqlite:///{tmp_path}/index.db", location, storage=options, server=server)
        with Index.open(order.index) as index:
            uploads = stand(index, order).upload
            made = Stand(index, Storage(options, backoff=Backoff(retries=1, first_s=0.01)), upload=uploads)
            made.create(definition(location))
            made.write(OLD)
            yield made, proxy


def check(stand: Stand, rows: dict[str, str]) -> None:
    assert stand.rows() == stand.listed() == rows
    assert stand.strays() == []
    assert {t.state for t in stand.index.transactions.all()} <= {State.FINISHED, State.ABORTED}


@pytest.mark.parametrize("operation", ["COMPLETE_UPLOAD", "DELETE_MANY", "COPY", "LIST_UPLOADS", "HEAD"])
def test_a_store_that_is_busy_for_a_moment_is_asked_again(busy: tuple[Stand, BusyStore], operation: str) -> None:
    stand, proxy = busy
    asked: set[str] = set()

    def once(request: S3Request) -> bool:
        first = request.operation == operation and request.key not in asked
        asked.add(request.key if first else "")
        return first

    proxy.refuses = once
    stand.write(NEW, WriteKind.OVERWRITE_PARTITIONS)
    stand.engine.command(stand.table(), RenamePartition("k=1", "k=9"), "RENAME PARTITION")
    proxy.refuses = lambda _: False
    stand.engine.recover(older_than_s=0)
    check(stand, {name: rows for name, rows in NEW.items() if name != "k=1"} | {"k=9": NEW["k=1"]})


@pytest.mark.parametrize("let_through", [0, 3])
def test_a_promotion_that_the_store_refuses_is_finished_later(busy: tuple[Stand, BusyStore], let_through: int) -> None:
    stand, proxy = busy
    done: set[str] = set()

    def refuses(request: S3Request) -> bool:
        if request.operation != "COMPLETE_UPLOAD" or request.key in done:
            return False
        if len(done) < let_through:
            done.add(request.key)
            return False
        return True

    proxy.refuses = refuses
    with pytest.raises(CommitStateUnknownError, match="too busy"):
        stand.write(NEW, WriteKind.OVERWRITE_PARTITIONS)
    assert proxy.refused
    assert stand.rows() == OLD
    assert [t.state for t in stand.index.transactions.all()].count(State.RESERVED) == 1
    (still,) = stand.engine.recover(older_than_s=0).failed
    assert "too busy" in (still.error or "")
    proxy.refuses = lambda _: False
    assert stand.engine.recover(older_than_s=0).failed == ()
    check(stand, NEW)


def test_a_clean_up_that_the_store_refuses_is_finished_later(busy: tuple[Stand, BusyStore]) -> None:
    stand, proxy = busy
    proxy.refuses = lambda request: request.operation in ("DELETE", "DELETE_MANY")
    stand.write(NEW, WriteKind.OVERWRITE_PARTITIONS)
    assert proxy.refused
    assert stand.rows() == NEW, "it is committed"
    assert stand.listed() != NEW, "what it has replaced is there"
    assert len(stand.engine.recover(older_than_s=0).failed) == 1
    proxy.refuses = lambda _: False
    stand.engine.recover(older_than_s=0)
    check(stand, NEW)


def test_a_write_that_is_given_up_while_the_store_is_busy_leaves_nothing(busy: tuple[Stand, BusyStore]) -> None:
    stand, proxy = busy
    proxy.refuses = lambda request: request.operation == "COMPLETE_UPLOAD"
    with pytest.raises(CommitStateUnknownError):
        stand.write(NEW, WriteKind.OVERWRITE_PARTITIONS)
    (reserved,) = [t for t in stand.index.transactions.all() if t.state is State.RESERVED]
    proxy.refuses = lambda request: request.operation in ("ABORT_UPLOAD", "DELETE_MANY", "LIST_UPLOADS")
    with pytest.raises(StorageUnavailableError, match="too busy"):
        stand.engine.undo(reserved.transaction_id)
    proxy.refuses = lambda _: False
    stand.engine.recover(older_than_s=0)
    check(stand, OLD)


@pytest.mark.parametrize("operation", ["COPY", "DELETE_MANY"])
def test_a_move_that_the_store_refuses_is_finished_later(busy: tuple[Stand, BusyStore], operation: str) -> None:
    stand, proxy = busy
    proxy.refuses = lambda request: request.operation == operation
    with contextlib.suppress(CommitStateUnknownError):
        stand.engine.command(stand.table(), RenamePartition("k=1", "k=9"), "RENAME PARTITION")
    assert proxy.refused
    proxy.refuses = lambda _: False
    stand.engine.recover(older_than_s=0)
    check(stand, {name: rows for name, rows in OLD.items() if name != "k=1"} | {"k=9": OLD["k=1"]})
