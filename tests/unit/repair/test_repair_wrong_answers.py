"""A proxy answers a LIST in the store's place: every repair keeps what it could not list."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from catalog_ext.catalog import connect
from catalog_ext.events.notifications import StoreEvent
from catalog_ext.metastore.errors import IncompleteListingError
from tests.kit.repair_cases import indexed
from tests.servers.paged_keys import PagedKeys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from catalog_ext.catalog import Catalog

NAMES = [f"k={number}" for number in range(5)]


@pytest.fixture(scope="module")
def store() -> Iterator[PagedKeys]:
    with PagedKeys([f"t/{name}/f" for name in NAMES] + ["elsewhere/f"]) as paged:
        yield paged


@pytest.fixture
def catalog(store: PagedKeys, tmp_path: Path) -> Iterator[Catalog]:
    store.instead = lambda _: None
    with connect(index=str(tmp_path / "index.db"), metastore=None, storage=store.options) as catalog:
        catalog.create_namespace("s")
        catalog.register_table(
            "s.t", location="s3a://bucket/t", schema="x BIGINT", partition_columns={"k": "INT"}, format="csv"
        )
        catalog.repair_partitions("s.t")
        catalog.partition_commands.add("s.t", [({"k": "9"}, "s3a://bucket/elsewhere")])
        yield catalog


def take_event(catalog: Catalog) -> object:
    places = ("t/k=3", "elsewhere")
    return catalog.events.take([StoreEvent(f"s3a://bucket/{at}/f", True, None, None, None, True) for at in places])


LIMITED: dict[str, Callable[[Catalog], object]] = {
    "repair --where": lambda catalog: catalog.repair_partitions("s.t", where="k IN (3, 9)"),
    "repair of all": lambda catalog: catalog.repair_partitions("s.t"),
    "event": take_event,
}


@pytest.mark.slow
@pytest.mark.parametrize("body", ["", "<html/>"])
@pytest.mark.parametrize("how", LIMITED)
def test_nothing_is_dropped_when_a_proxy_answers(store: PagedKeys, catalog: Catalog, how: str, body: str) -> None:
    before = indexed(catalog)
    assert len(before) == len(NAMES) + 1
    store.instead = lambda asked: (200, body) if asked.prefix in ("t/k=3/", "t/", "elsewhere/") else None
    try:
        LIMITED[how](catalog)
    except IncompleteListingError:
        assert how != "event", "of single partitions the failure is reported"
    assert indexed(catalog) == before
