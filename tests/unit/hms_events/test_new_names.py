"""Tables that others rename one after another: swaps, and a table written anew that takes the place of another one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.kit.repair_cases import indexed, write
from tests.unit.hms_events.test_following import add, hive_table
from tests.unit.hms_events.test_following import catalog as catalog
from tests.unit.hms_events.test_following import root as root
from tests.unit.hms_events.test_following import server as server

if TYPE_CHECKING:
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from catalog_ext.metastore.hive.mapping.model import HiveTable
    from tests.kit.fakes_metastore_log import LoggingMetastore

SWAP = (("t", "tmp"), ("u", "t"), ("tmp", "u"))
SWAPPED = {"t": "u", "u": "t"}


def names(catalog: Catalog) -> dict[str, str]:
    """The tables of ``s``, and the directories where they lie."""
    found = catalog.index.tables.all("s")
    return {name: catalog.load_table(f"s.{name}").definition.location.rsplit("/", 1)[1] for name in found}


@pytest.fixture
def both(catalog: Catalog, server: LoggingMetastore, root: Path) -> dict[str, int]:
    """``s.t`` and ``s.u``, both followed; their ids, by where they lie."""
    other = root.parent / "u"
    write(other, "ds=a/other")
    server.create_table(hive_table(other, "u"))
    add(server, other, "a", table="u")
    catalog.import_table("s.u")
    catalog.follower.look()
    return {name: catalog.load_table(f"s.{name}").table_id for name in "tu"}


def rename(server: LoggingMetastore, *hops: tuple[str, str]) -> None:
    for name, to in hops:
        server.rename_table("s", name, "s", to)


def check_same_tables(catalog: Catalog, both: dict[str, int], expected: dict[str, str]) -> None:
    """Return if the names are these, and the tables those that they were: with their history."""
    assert names(catalog) == expected
    for name, lies_at in expected.items():
        assert catalog.load_table(f"s.{name}").table_id == both[lies_at]


def test_a_swap(catalog: Catalog, server: LoggingMetastore, both: dict[str, int]) -> None:
    rename(server, *SWAP)
    outcome = catalog.follower.look()
    check_same_tables(catalog, both, SWAPPED)
    assert indexed(catalog, "s.t") == {"ds=a": {"other": 1}}
    assert indexed(catalog, "s.u") == {"ds=a": {"one": 1}}
    assert {each.action for each in outcome.tables} == {"renamed"}
    assert catalog.follower.look().tables == []


@pytest.mark.parametrize("carried_out", [False, True])
@pytest.mark.parametrize("step", [0, 1, 2])
def test_a_swap_whose_follower_is_killed(
    catalog: Catalog, server: LoggingMetastore, both: dict[str, int], monkeypatch: pytest.MonkeyPatch, step: int,
    carried_out: bool,
) -> None:  # fmt: skip
    rename(server, *SWAP)
    real, calls = catalog.index.alterations.rename, iter(range(100))

    def dying(*args: object, **more: object) -> object:
        dies = next(calls) == step
        done = real(*args, **more) if carried_out or not dies else None  # type: ignore[arg-type]
        if dies:
            raise KeyboardInterrupt
        return done

    monkeypatch.setattr(catalog.index.alterations, "rename", dying)
    with pytest.raises(KeyboardInterrupt):
        catalog.follower.look()
    catalog.follower.look()
    check_same_tables(catalog, both, SWAPPED)


@pytest.mark.parametrize("at_once", [1, 2])
def test_a_swap_in_the_middle_of_which_the_follower_looks(
    catalog: Catalog, server: LoggingMetastore, both: dict[str, int], monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    """What an event calls a table may be its name no more when the metastore is asked for it."""
    rest = list(SWAP[1:])
    real = server.events_after

    def overtaken(*args: int, **more: bool) -> object:
        found = real(*args, **more)
        for _ in range(at_once if found else 0):
            rename(server, *rest[:1])
            del rest[:1]
        return found

    rename(server, SWAP[0])
    monkeypatch.setattr(server, "events_after", overtaken)
    for _ in range(3):
        catalog.follower.look()
    check_same_tables(catalog, both, SWAPPED)


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_table_that_has_left_its_new_name_already(
    catalog: Catalog, server: LoggingMetastore, root: Path, monkeypatch: pytest.MonkeyPatch, goes_on: bool
) -> None:
    rename(server, ("t", "tmp"))
    real = server.get_table
    left: list[str] = []

    def leaving(database: str, name: str) -> HiveTable:
        if name == "tmp" and not left:
            left.append(name)
            rename(server, ("tmp", "v")) if goes_on else server.drop_table("s", "tmp")
        return real(database, name)

    monkeypatch.setattr(server, "get_table", leaving)
    catalog.follower.look()
    catalog.follower.look()
    assert names(catalog) == ({"v": "t"} if goes_on else {})


def test_a_table_written_anew_takes_the_name_of_the_old_one(
    catalog: Catalog, server: LoggingMetastore, both: dict[str, int]
) -> None:
    """An event of the new one comes first: it is not looked at before the name is free."""
    server.insert("s", "u", "ds=a")
    rename(server, ("t", "t_old"), ("u", "t"))
    catalog.follower.look()
    check_same_tables(catalog, both, {"t": "u", "t_old": "t"})


def test_a_table_takes_the_name_of_one_that_was_dropped(
    catalog: Catalog, server: LoggingMetastore, both: dict[str, int]
) -> None:
    server.insert("s", "u", "ds=a")
    server.drop_table("s", "t")
    rename(server, ("u", "t"))
    outcome = catalog.follower.look()
    check_same_tables(catalog, both, {"t": "u"})
    assert {each.table: each.action for each in outcome.tables} == {"s.u": "renamed", "s.t": "removed"}


def test_two_tables_have_had_one_name(
    catalog: Catalog, server: LoggingMetastore, both: dict[str, int], tmp_path: Path
) -> None:
    rename(server, ("t", "first"))
    server.create_table(replace(hive_table(tmp_path / "new"), name="t"))
    rename(server, ("t", "second"))
    catalog.follower.look()
    check_same_tables(catalog, both, {"first": "t", "u": "u"})
