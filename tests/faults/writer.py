"""A writer in a process of its own, which a test can kill at any step of the protocol.

The processes are forked from a server that has imported everything and started no thread, so that each takes a moment.
"""

from __future__ import annotations

import multiprocessing
import os
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from catalog_ext.metastore.commit.fault_points import armed
from catalog_ext.metastore.index import Index
from catalog_ext.metastore.storage.store import Storage
from tests.faults.commands import COMMANDS, attempt
from tests.faults.scenarios import SCENARIOS
from tests.kit.promotion_cases import UploadStore
from tests.kit.write_cases import TABLE, Stand

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from catalog_ext.metastore.commit.staged_files import Upload
    from catalog_ext.metastore.storage.locations import Location


@dataclass(frozen=True)
class Server:
    """How an S3 server is reached, for ``UploadStore``."""

    direct_endpoint: str
    access_key: str
    secret_key: str
    region: str


@dataclass(frozen=True)
class Order:
    """What a process is to do.

    Attributes:
        index: The index's URL.
        location: The table's.
        scenario: Name of the write, of the partition command, or of what is in ``REMOVALS``.
        faults: Points that are armed, with action and count.
        server: The S3 server, where the table is on one.
    """

    index: str
    location: str
    scenario: str = "overwrite"
    faults: tuple[tuple[str, str, int], ...] = ()
    storage: Mapping[str, Any] = field(default_factory=dict)
    server: Server | None = None


def stand(index: Index, order: Order) -> Stand:
    """The engine for an order."""
    storage = Storage(order.storage)
    return Stand(index, storage, upload=None if order.server is None else uploader(storage, order.server))


def uploader(storage: Storage, server: Server) -> Callable[[Location, bytes], Upload]:
    """Returns what begins an upload with a content and does not complete it."""

    def upload(target: Location, content: bytes) -> Upload:
        store = UploadStore(storage, target.parent, server)  # type: ignore[arg-type]
        with store.client() as client:
            place = store.send(client, target, [content])
        assert place.upload is not None
        return place.upload

    return upload


def _drop(writer: Stand) -> None:
    writer.engine.delete_dropped(writer.index.tables.drop(TABLE, deliver=False, deletes=True))


def _vacuum(writer: Stand) -> None:
    writer.engine.vacuum(writer.table(), 0)


REMOVALS: dict[str, Callable[[Stand], None]] = {"drop table": _drop, "vacuum": _vacuum}


def run(order: Order) -> None:
    """Does the write; the exit code says what its user saw."""
    with Index.open(order.index) as index, ExitStack() as faults:
        writer = stand(index, order)
        for point, action, nth in order.faults:
            faults.enter_context(armed(point, action, nth))
        if order.scenario in REMOVALS:
            REMOVALS[order.scenario](writer)
            reported = "success"
        elif order.scenario in COMMANDS:
            reported = attempt(writer, COMMANDS[order.scenario])
        else:
            reported = SCENARIOS[order.scenario].write(writer, order.location)
    os._exit({"success": 0, "failure": 3, "unknown": 4}[reported])


def run_all(orders: Sequence[Order], *, at_once: int = 4) -> list[int]:
    """The exit codes of a process for each order; a killed one's is -9."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.faults.writer"])
    codes: list[int] = []
    for start in range(0, len(orders), at_once):
        processes = [context.Process(target=run, args=(order,)) for order in orders[start : start + at_once]]
        for process in processes:
            process.start()
        for process in processes:
            process.join(120)
            assert process.exitcode is not None
            codes.append(process.exitcode)
    return codes
