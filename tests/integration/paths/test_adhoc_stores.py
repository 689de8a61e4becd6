"""Ad-hoc paths on S3: what listings cost, and what a store refuses."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.errors import LocationNotFoundError, PathNotFoundError, StorageAccessDeniedError
from catalog_ext.metastore.predicates.parser import parse_predicate
from catalog_ext.metastore.storage.store import Storage
from catalog_ext.paths.adhoc import PathPlan, PathRequest, load_path
from tests.integration.storage.test_storage_s3 import Bucket

if TYPE_CHECKING:
    from tests.servers.stores import S3Server

pytestmark = pytest.mark.slow

KEYS = ("year", "month", "day")
YEARS, MONTHS, DAYS = range(2020, 2025), range(1, 7), range(1, 5)
DIRECTORIES = len(YEARS) * (1 + len(MONTHS) * (1 + len(DAYS)))


@dataclass(frozen=True)
class Tree:
    """A tree of three levels of keys, with a file a day."""

    bucket: Bucket

    def path(self, pattern: str) -> str:
        return f"s3://{self.bucket.name}/data/{pattern}"

    def planned(self, pattern: str, where: str | None = None) -> tuple[list[str], int]:
        """The partitions found, and the LIST requests that it took."""
        before = self.bucket.server.list_requests()
        predicate = None if where is None else parse_predicate(where)
        batches = PathPlan(self.path(pattern), KEYS, predicate=predicate).run(Storage(self.bucket.options))
        names = [name for batch in batches for name in batch.column("partition").to_pylist()]
        return names, self.bucket.server.list_requests() - before


@pytest.fixture(scope="module", params=["s3_server", "moto_server"])
def tree(request: pytest.FixtureRequest) -> Tree:
    server: S3Server = request.getfixturevalue(request.param)
    bucket = Bucket(server, server.make_bucket(f"adhoc-{secrets.token_hex(4)}"))
    bucket.put(f"data/year={y}/month={m:02d}/day={d}/x.txt" for y in YEARS for m in MONTHS for d in DAYS)
    return Tree(bucket)


@pytest.mark.parametrize("pattern", ["year=*/month=*/day=*/*.txt", "year=*", "**/*.txt", ""])
def test_a_filter_pays_for_what_it_selects(tree: Tree, pattern: str) -> None:
    names, lists = tree.planned(pattern, "year = '2024' AND month = '03'")
    assert names == [f"year=2024/month=03/day={d}" for d in DAYS]
    assert lists <= 5

    names, lists = tree.planned(pattern, "year = '2024' AND day = '2'")
    assert names == [f"year=2024/month={m:02d}/day=2" for m in MONTHS]
    assert lists <= 4 + 2 * len(MONTHS)


@pytest.mark.parametrize("pattern", ["year=*/month=*/day=*/*.txt", "**", ""])
def test_without_a_filter_whole_trees_are_listed(tree: Tree, pattern: str) -> None:
    names, lists = tree.planned(pattern)
    assert len(names) == len(YEARS) * len(MONTHS) * len(DAYS)
    assert lists < DIRECTORIES / 3


def test_a_pattern_that_chooses_is_followed_level_by_level(tree: Tree) -> None:
    names, lists = tree.planned("year={2020,2023}/month=02/day=?/*.txt")
    assert names == [f"year={y}/month=02/day={d}" for y in (2020, 2023) for d in DAYS]
    assert lists <= 2 + 2 * len(DAYS)


def test_a_sample_costs_the_same_whatever_the_size(tree: Tree) -> None:
    before = tree.bucket.server.list_requests()
    loaded = load_path(Storage(tree.bucket.options), PathRequest(tree.path("year=*/month=*/day=*/*.txt")))
    assert [column.name for column in loaded.partition_columns] == list(KEYS)
    assert loaded.format == "text"
    assert tree.bucket.server.list_requests() - before <= 1 + 10 * 3
    before = tree.bucket.server.list_requests()
    one = PathRequest(tree.path(""), options={"schema.sample-files": "1"})
    assert load_path(Storage(tree.bucket.options), one).columns[0].name == "value"
    assert tree.bucket.server.list_requests() - before <= 5


def test_what_a_store_refuses(tree: Tree, s3_server: S3Server) -> None:
    with pytest.raises(PathNotFoundError, match="month=13"):
        tree.planned("year=2024/month={12..13}/day=*", "month > '12'")
    with pytest.raises(PathNotFoundError):
        tree.planned("year=1999")
    with pytest.raises(LocationNotFoundError, match="bucket"):
        load_path(Storage(tree.bucket.options), PathRequest("s3a://no-such-bucket/x/*.txt"))
    if tree.bucket.server is s3_server:
        denied = Storage({**tree.bucket.options, "secret_key": "wrong"})
        with pytest.raises(StorageAccessDeniedError, match="credentials"):
            load_path(denied, PathRequest(tree.path("year=*")))
