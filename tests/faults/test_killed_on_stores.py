"""Processes that are killed with ``kill -9`` on S3 and HDFS, at steps of writes, partition commands and removals.

``CATALOG_EXT_TEST_KILLS=all`` kills at every step of every statement, on a local disk too, with the index on SQLite,
PostgreSQL and MariaDB.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.commit.fault_points import DROP_POINTS, POINTS, VACUUM_POINTS
from catalog_ext.metastore.commit.transaction import State
from catalog_ext.metastore.index import Index
from catalog_ext.metastore.storage.entries import ListedFile
from catalog_ext.metastore.storage.listing import list_tree
from catalog_ext.metastore.storage.locations import Location
from tests.faults import commands
from tests.faults.scenarios import RELOCATE, SCENARIOS
from tests.faults.test_killed import KILLED, RESERVED, SOME, check, faults
from tests.faults.writer import Order, Server, run_all, stand
from tests.kit.index_cases import empty_index
from tests.kit.promotion_cases import s3_options

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.write_cases import Stand
    from tests.servers.databases import DatabaseServer
    from tests.servers.stores import S3Server

ALL = os.environ.get("CATALOG_EXT_TEST_KILLS") == "all"
ADDING = [point for point in SOME if not point.startswith("clean.")]
OF_COMMANDS = ("check.after", "reserve.after", "promote.file", "promote.after", "apply.after", "clean.removed")
LISTED = {"s3": ("overwrite",), "hdfs": ("overwrite", "rename", "load", "drop table", "vacuum")}
"""What is killed in each run. The stores share the steps; each renames, deletes and lists in its own way."""
EVERY = (*SCENARIOS, *commands.COMMANDS, "drop table", "vacuum")
STORES = ("s3", "hdfs", *(("file",) if ALL else ()))
DATABASES = ("sqlite", *(("postgres", "mariadb") if ALL else ()))


@pytest.fixture
def place(request: pytest.FixtureRequest, store: str, tmp_path: Path) -> Order:
    """An order without an index, for the store."""
    name = f"killed-{secrets.token_hex(4)}"
    if store == "file":
        return Order("", f"file://{tmp_path}/{name}")
    if store == "hdfs":
        return Order("", f"{request.getfixturevalue('hdfs_server').uri}/{name}")
    server: S3Server = request.getfixturevalue("s3_server")
    keys = Server(server.direct_endpoint, server.access_key, server.secret_key, server.region)
    return Order("", f"s3a://{server.make_bucket(name)}", storage=s3_options(server), server=keys)


def points_of(statement: str) -> tuple[str, ...]:
    if statement in ("drop table", "vacuum"):
        return DROP_POINTS if statement == "drop table" else VACUUM_POINTS
    if statement in commands.COMMANDS:
        moves = statement in commands.MOVING
        return OF_COMMANDS if moves else ("check.after", "reserve.after", "apply.before", "apply.after")
    if statement == "overwrite":
        return POINTS if ALL else SOME
    return tuple(ADDING)


@pytest.mark.parametrize("database", DATABASES)
@pytest.mark.parametrize(
    ("store", "statement"), [(store, one) for store in STORES for one in (EVERY if ALL else LISTED[store])]
)
def test_process_that_is_killed_loses_no_row(
    request: pytest.FixtureRequest, tmp_path: Path, place: Order, store: str, statement: str, database: str
) -> None:
    points = [point for point in points_of(statement) if (store, point) != ("s3", "drop.aside")]
    orders = []
    for number, point in enumerate(points):
        if database == "sqlite":
            (tmp_path / f"{number}.db").write_bytes(empty_index())
            url = f"sqlite:///{tmp_path}/{number}.db"
        else:
            server: DatabaseServer = request.getfixturevalue(f"{database}_server")
            url = server.create_index()
        order = replace(place, index=url, location=f"{place.location}/{number}", scenario=statement)
        prepare(order)
        orders.append(replace(order, faults=faults(point) if statement in SCENARIOS else ((point, "kill", 1),)))
    assert dict(zip(points, run_all(orders), strict=True)) == dict.fromkeys(points, KILLED)
    for order, point in zip(orders, points, strict=True):
        if statement in SCENARIOS:
            check(order, point)
            continue
        with Index.open(order.index) as index:
            left = stand(index, order)
            assert left.engine.recover(older_than_s=0).failed == ()
            if statement in commands.COMMANDS:
                reported = "success" if POINTS.index(point) >= RESERVED else "failure"
                commands.check(left, commands.COMMANDS[statement], reported, point=point)
            else:
                check_removal(left, order)
    if database != "sqlite":
        for order in orders:
            server.drop_database(order.index)


def prepare(order: Order) -> None:
    with Index.open(order.index) as index:
        ready = stand(index, order)
        if order.scenario in commands.COMMANDS:
            commands.prepare(ready, order.location, order.scenario)
            return
        SCENARIOS.get(order.scenario, RELOCATE).prepare(ready, order.location)
        if order.scenario == "vacuum":
            assert RELOCATE.write(ready, order.location) == "success"


def check_removal(left: Stand, order: Order) -> None:
    assert all(t.state in (State.FINISHED, State.ABORTED) for t in left.index.transactions.all())
    if order.scenario == "vacuum":
        left.engine.vacuum(left.table(), 0)
        assert left.rows() == left.listed() == RELOCATE.after
        assert left.strays() == []
        return
    assert list(left.index.dropped_tables.undeleted()) == []
    root = Location.parse(order.location)
    if left.storage.store_has_directories(root):
        beside = [entry.location.name for entry in left.storage.list_directory(root.parent)]
        assert not [name for name in beside if name == root.name or name.startswith("_catalog_ext_dropped_")]
    else:
        listed = list_tree(left.storage, root, descend=lambda _: True, depth_hint=1)
        assert not [event for event in listed if isinstance(event, ListedFile)]
