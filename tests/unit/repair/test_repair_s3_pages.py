"""A listing on S3 that ends in the middle of a prefix: what was not seen is not gone, what was seen is not all."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from catalog_ext.catalog import connect
from catalog_ext.metastore.errors import StorageAccessDeniedError
from tests.kit.repair_cases import indexed
from tests.servers.paged_keys import PagedKeys

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_ext.catalog import Catalog

KEYS = [f"t/a={one}/b={number // 10:02d}/f{number:05d}" for one in range(3) for number in range(255)]


@pytest.fixture
def store() -> Iterator[PagedKeys]:
    with PagedKeys(KEYS, of_page=100) as paged:
        yield paged


@pytest.fixture
def catalog(store: PagedKeys, tmp_path: Path) -> Iterator[Catalog]:
    with connect(index=str(tmp_path / "index.db"), metastore=None, storage=store.options) as catalog:
        catalog.create_namespace("s")
        catalog.register_table(
            "s.t", location="s3a://bucket/t", schema="x BIGINT", partition_columns={"a": "INT", "b": "STRING"}
        )
        yield catalog


REPEATED = r"(<(Contents|CommonPrefixes)>.*?</\2>)"


@pytest.mark.slow
def test_keys_that_a_store_lists_twice_are_registered_once(store: PagedKeys, catalog: Catalog) -> None:
    """SeaweedFS and LocalStack have repeated keys and common prefixes, on one page or on the next."""
    store.alter = lambda text: re.sub(REPEATED, r"\1\1", text)
    report = catalog.repair_partitions("s.t")
    assert (len(report.added), catalog.load_table("s.t").totals.files) == (78, len(KEYS))
    assert sum(map(len, indexed(catalog).values())) == len(KEYS)
    again = catalog.repair_partitions("s.t")
    assert [*again.added, *again.changed, *again.dropped] == []


def break_second_page(store: PagedKeys) -> None:
    store.fault = lambda asked: (403, "AccessDenied") if asked[:2] == ("t/a=1/", 1) else None


@pytest.mark.slow
def test_nothing_is_dropped_or_changed_below_it(store: PagedKeys, catalog: Catalog) -> None:
    catalog.repair_partitions("s.t")
    before = indexed(catalog)
    assert sum(map(len, before.values())) == len(KEYS)
    break_second_page(store)
    store.keys.remove("t/a=1/b=00/f00000")
    store.keys.remove("t/a=2/b=00/f00000")
    report = catalog.repair_partitions("s.t")
    assert [entry.path for entry in report.changed] == ["a=2/b=00/f00000"]
    assert [entry.path for entry in report.skipped] == ["a=1"]
    assert not report.dropped
    after = indexed(catalog)
    assert {name: files for name, files in after.items() if name != "a=2/b=00"} == {
        name: files for name, files in before.items() if name != "a=2/b=00"
    }


@pytest.mark.slow
def test_nothing_is_added_below_it(store: PagedKeys, catalog: Catalog) -> None:
    break_second_page(store)
    catalog.repair_partitions("s.t")
    assert {name.partition("/")[0] for name in indexed(catalog)} == {"a=0", "a=2"}
    store.fault = lambda _: None
    assert len(catalog.repair_partitions("s.t").added) == 26
    assert sum(map(len, indexed(catalog).values())) == len(KEYS)


@pytest.mark.slow
def test_a_prefix_that_is_the_table_is_an_error(store: PagedKeys, catalog: Catalog) -> None:
    catalog.repair_partitions("s.t")
    before = indexed(catalog)
    store.fault = lambda asked: (403, "AccessDenied") if asked[:2] == ("t/", 0) else None
    with pytest.raises(StorageAccessDeniedError):
        catalog.repair_partitions("s.t")
    assert indexed(catalog) == before
