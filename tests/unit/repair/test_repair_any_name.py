"""Whatever is named however on a store: a repair registers what it can and gives the reason for the rest."""

from __future__ import annotations

import os
import tempfile
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from catalog_ext.catalog import connect
from tests.kit.examples import examples
from tests.kit.name_cases import GOOD, KEYS, check_repair, posix_components, s3_keys
from tests.kit.partition_contents import IGNORED, S3_KEYS, SKIPPED
from tests.kit.repair_cases import indexed, local_catalog, skipped
from tests.servers.paged_keys import PagedKeys

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_ext.catalog import Catalog

_numbers = count()


@pytest.fixture(scope="module")
def store() -> Iterator[PagedKeys]:
    with PagedKeys([]) as paged:
        yield paged


@pytest.fixture(scope="module")
def s3_catalog(store: PagedKeys, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    folder = tmp_path_factory.mktemp("any-name")
    with connect(index=str(folder / "index.db"), metastore=None, storage=store.options) as catalog:
        catalog.create_namespace("s")
        yield catalog


@pytest.mark.slow
@settings(max_examples=examples(30))
@given(st.lists(s3_keys, max_size=6))
@example(["/day=1/h=a/f"])
@example(["/day=1/f", "day=1//h=a/f", "day=1/h=a//f", "//day=1/h=a/f", "day=1/h=a/full/"])
@example(["/day=1"])
@example(["./day=1/h=a/f", "day=1/../h=a/f", "day=1/h=a/../f"])
def test_any_s3_key(store: PagedKeys, s3_catalog: Catalog, keys: list[str]) -> None:
    number = next(_numbers)
    store.keys = sorted({f"t{number}/{key}" for key in (*keys, GOOD)}, key=str.encode)
    s3_catalog.register_table(
        f"s.t{number}", location=f"s3a://bucket/t{number}", format="csv", schema="x INT", partition_columns=KEYS
    )
    check_repair(s3_catalog, f"s.t{number}", {key.partition("/")[2] for key in store.keys} - {""})


@pytest.mark.slow
@settings(max_examples=examples(30))
@given(st.lists(st.lists(posix_components, min_size=1, max_size=4), max_size=6))
@example([["day=1", "h=a", b"\xff"], ["day=1", b"h=\xff", "f"]])
def test_any_posix_name(paths: list[list[str | bytes]]) -> None:
    with tempfile.TemporaryDirectory() as folder, local_catalog(Path(folder)) as catalog:
        root = os.path.join(os.fsencode(folder), b"t")
        for path in ([*GOOD.split("/")], *paths):
            *above, name = (part if isinstance(part, bytes) else part.encode()[:255] for part in path)
            place = os.path.join(root, *above)
            try:
                os.makedirs(place, exist_ok=True)
                with open(os.path.join(place, name), "wb") as file:
                    file.write(b"x")
            except (FileExistsError, NotADirectoryError, IsADirectoryError):
                continue
        catalog.register_table("s.t", location=f"{folder}/t", format="csv", schema="x INT", partition_columns=KEYS)
        there = {
            os.fsdecode(os.path.relpath(os.path.join(directory, name), root))
            for directory, _, names in os.walk(root)
            for name in names
        }
        check_repair(catalog, "s.t", {path.encode("utf-8", "backslashreplace").decode() for path in there})


def test_pipes_devices_sockets_links_and_loops_have_a_reason(tmp_path: Path) -> None:
    leaf = tmp_path / "t" / "day=1" / "h=a"
    leaf.mkdir(parents=True)
    os.mkfifo(leaf / "pipe")
    (leaf / "device").symlink_to("/dev/zero")
    (leaf / "nowhere").symlink_to("nothing")
    (leaf / "itself").symlink_to("itself")
    (leaf / "loop").symlink_to(tmp_path / "t")
    (leaf / "good.csv").write_bytes(b"1")
    with local_catalog(tmp_path) as catalog:
        catalog.register_table(
            "s.t", location=str(tmp_path / "t"), format="csv", schema="x INT", partition_columns=KEYS
        )
        reasons = skipped(catalog.repair_partitions("s.t", verify=True))
        assert indexed(catalog) == {"day=1/h=a": {"good.csv": 1}}
    assert {path.rpartition("/")[2]: reason for path, reason in reasons.items()} == {
        "pipe": "not a file: a named pipe",
        "device": "not a file: a device",
        "nowhere": "a symbolic link to something that is not there",
        "itself": "a symbolic link that leads to itself",
        "loop": "lies deeper than the 2 partition columns",
    }


def test_name_that_is_not_text_leaves_its_partition_complete(tmp_path: Path) -> None:
    """Its partition was reported as one whose listing is incomplete, so that each run looked at it again."""
    leaf = tmp_path / "t" / "day=1" / "h=a"
    leaf.mkdir(parents=True)
    (leaf / os.fsdecode(b"\xff.csv")).write_bytes(b"1")
    with local_catalog(tmp_path) as catalog:
        catalog.register_table(
            "s.t", location=str(tmp_path / "t"), format="csv", schema="x INT", partition_columns=KEYS
        )
        report = catalog.repair_partitions("s.t")
        assert skipped(report) == {"day=1/h=a/\\udcff.csv": "the name is not valid UTF-8 or holds a NUL"}
        assert catalog.repair_partitions("s.t").in_sync


@pytest.mark.parametrize("what", S3_KEYS)
def test_s3_key_of_the_page(store: PagedKeys, s3_catalog: Catalog, what: str) -> None:
    key, expected = S3_KEYS[what]
    number = next(_numbers)
    store.keys = sorted([f"t{number}/{key}", f"t{number}/k=1/whole.parquet"], key=str.encode)
    s3_catalog.register_table(
        f"s.t{number}", location=f"s3a://bucket/t{number}", schema="x BIGINT", partition_columns={"k": "INT"}
    )
    report = s3_catalog.repair_partitions(f"s.t{number}")
    assert list(indexed(s3_catalog, f"s.t{number}")["k=1"]) == ["whole.parquet"]
    assert (SKIPPED if report.skipped else IGNORED) == expected
