"""Ad-hoc paths on the local disk: what a pattern matches, its keys, and what a predicate leaves out."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from catalog_ext.metastore.errors import (
    CatalogExtError,
    InvalidPatternError,
    PathLayoutError,
    PathNotFoundError,
    UnsupportedFormatError,
)
from catalog_ext.metastore.model.types import parse_type
from catalog_ext.metastore.predicates.parser import parse_predicate
from catalog_ext.metastore.storage.store import Storage
from catalog_ext.paths.adhoc import PathPlan, PathRequest, load_path, spread
from catalog_ext.scan.path_keys import CastKey
from tests.kit.repair_cases import write
from tests.servers.paged_keys import PagedKeys

if TYPE_CHECKING:
    from catalog_ext.metastore.storage.entries import Entry
    from catalog_ext.metastore.storage.locations import Location

MONTHS = [f"year={y}/month={m:02d}" for y in (2023, 2024) for m in (1, 2, 10)]


class CountingStorage(Storage):
    """Counts the directories that are listed, by their paths."""

    def __init__(self) -> None:
        super().__init__()
        self.listed: Counter[str] = Counter()

    def list_directory(self, location: str | Location) -> list[Entry]:
        self.listed[str(location)] += 1
        return super().list_directory(location)


@pytest.fixture
def storage() -> CountingStorage:
    return CountingStorage()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "t"
    write(folder, *(f"{month}/{n}.csv" for month in MONTHS for n in (1, 2)))
    write(folder, "year=2024/_temporary/x.csv", "year=2024/month=01/_SUCCESS", "_delta/x.csv", "readme.txt")
    return folder


def planned(
    storage: Storage, path: Path | str, where: str | None = None, keys: tuple[str, ...] | None = ("year", "month"),
    **more: Any,
) -> list[str]:  # fmt: skip
    """``partition:file`` of each row."""
    predicate = None if where is None else parse_predicate(where)
    batches = PathPlan(str(path), keys, predicate=predicate, **more).run(storage)
    rows = [row for batch in batches for row in batch.to_pylist()]
    for row in rows:
        assert row["size"] == Path(row["location"].removeprefix("file://"), row["path"]).stat().st_size
    return [f"{row['partition']}:{row['path']}" for row in rows]


def of(*months: str, files: tuple[str, ...] = ("1.csv", "2.csv")) -> list[str]:
    return [f"{month}:{file}" for month in months for file in files]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("year=*/month=*/*.csv", of(*MONTHS)),
        ("year=*", of(*MONTHS)),
        ("year=*/**", of(*MONTHS)),
        ("**/2.csv", of(*MONTHS, files=("2.csv",))),
        ("year=202?/month=0?/1.csv", of(*MONTHS[:2], *MONTHS[3:5], files=("1.csv",))),
        ("year=*/month={01,02}/*.csv", of(*MONTHS[:2], *MONTHS[3:5])),
        ("year={2023..2024}/month=10", of(MONTHS[2], MONTHS[5])),
        ("year=2024/month={02,1*}", of(*MONTHS[4:])),
        ("year=2024", of(*MONTHS[3:])),
        ("year=2024/month=01/2.csv", of(MONTHS[3], files=("2.csv",))),
        ("year=2024/month=01/{1,2}.csv", of(MONTHS[3])),
    ],
)
def test_what_a_pattern_matches(storage: Storage, root: Path, pattern: str, expected: list[str]) -> None:
    assert planned(storage, root / pattern) == expected


def test_a_plain_folder_means_every_file_below(storage: Storage, root: Path) -> None:
    assert planned(storage, root / "year=2024") == of(*MONTHS[3:])
    (root / "readme.txt").unlink()
    assert planned(storage, root) == of(*MONTHS)
    assert planned(storage, f"file://{root}/") == of(*MONTHS)


def test_hidden_names_are_read_where_they_are_written_out(storage: Storage, root: Path) -> None:
    assert planned(storage, root / "year=2024/_temporary/x.csv", keys=("year",)) == ["year=2024:x.csv"]
    assert planned(storage, root / "_*/*.csv", keys=()) == [":x.csv"]


@pytest.mark.parametrize("pattern", ["year=*/month=*/*.csv", "year=*", "**/*.csv", "year={2023,2024}/month=*"])
def test_a_filter_on_a_key_is_applied_before_listing(storage: CountingStorage, root: Path, pattern: str) -> None:
    assert planned(storage, root / pattern, "year = '2023' AND month < '10'") == of(*MONTHS[:2])
    assert not any("year=2024" in place or "month=10" in place for place in storage.listed)
    assert max(storage.listed.values()) == 1


def test_only_the_levels_that_a_filter_decides_are_listed_one_by_one(storage: CountingStorage, root: Path) -> None:
    assert planned(storage, root / "year=*/month=*/*.csv", "year = '2023'") == of(*MONTHS[:3])
    assert list(storage.listed) == [f"file://{root}"]
    assert planned(storage, root / "year=*/month=*/*.csv") == of(*MONTHS)
    assert sum(storage.listed.values()) == 1


def test_values_are_compared_unescaped_and_null_is_null(storage: Storage, tmp_path: Path) -> None:
    write(tmp_path, "k=a%20b/1.csv", "k=__HIVE_DEFAULT_PARTITION__/1.csv", "k=/1.csv")
    assert planned(storage, tmp_path / "k=*", "k = 'a b'", ("k",)) == ["k=a%20b:1.csv"]
    assert planned(storage, tmp_path / "k=*", "k IS NULL", ("k",)) == ["k=__HIVE_DEFAULT_PARTITION__:1.csv"]
    assert planned(storage, tmp_path / "k=*", "k = ''", ("k",)) == ["k=:1.csv"]


def test_a_key_may_be_compared_as_a_number(storage: CountingStorage, root: Path) -> None:
    write(root, "year=latest/month=01/1.csv")
    casts = [CastKey("year as int", "year", parse_type("int")), CastKey("month as int", "month", parse_type("int"))]
    predicate = "`year as int` >= 2024 AND `month as int` IN (1, 10)"
    found = planned(storage, root / "year=*/month=*/*.csv", predicate, casts=casts)
    # Spark says what becomes of a value that is no number.
    assert found == [*of(MONTHS[3], MONTHS[5]), "year=latest/month=01:1.csv"]
    assert not any("2023" in place for place in storage.listed)


def test_what_is_pruned_is_not_looked_at(storage: Storage, root: Path) -> None:
    pattern = root / "year={2023,2024,2025}/month=*/*.csv"
    with pytest.raises(PathNotFoundError, match="1 of the 3 paths") as missing:
        planned(storage, pattern)
    assert "year=2025" in missing.value.parameters["missing"]
    assert planned(storage, pattern, "year < '2024'") == of(*MONTHS[:3])
    assert planned(storage, pattern, "year = '1999'") == []

    write(root, "year=2025/day=1/1.csv")
    with pytest.raises(PathLayoutError, match=r"year, month in .*; year, day in "):
        planned(storage, root / "year=*")
    assert planned(storage, root / "year=*", "year < '2024'") == of(*MONTHS[:3])


@pytest.mark.parametrize(
    ("pattern", "error", "words"),
    [
        ("nowhere", PathNotFoundError, "nothing lies at"),
        ("year=*/day=*", PathNotFoundError, r"year=\*/day=\*"),
        ("year={2023,2030}/month={01,02}", PathNotFoundError, "2 of the 4"),
        ("year={2024..2023}", InvalidPatternError, "reversed.*at character"),
        ("year={a..b}", InvalidPatternError, "not integers"),
        ("month={01", InvalidPatternError, "without its }"),
        ("empty", PathNotFoundError, "no file under it"),
    ],
)
def test_what_is_refused(storage: Storage, root: Path, pattern: str, error: type[CatalogExtError], words: str) -> None:
    (root / "empty").mkdir()
    with pytest.raises(error, match=words) as refused:
        planned(storage, root / pattern)
    assert str(root) in refused.value.message
    if error is PathNotFoundError:
        assert "Failed to check existence of a key" in refused.value.message
    if "2030" not in pattern:
        with pytest.raises(error, match=words):
            load_path(storage, PathRequest(f"{root}/{pattern}"))


def test_keys_in_any_order_with_folders_between(storage: Storage, tmp_path: Path) -> None:
    write(tmp_path, "a=1/plain/b=2/1.csv", "B=3/A=4/1.csv", "x/y/a=5/b=6/z/1.csv")
    loaded = load_path(storage, PathRequest(f"{tmp_path}/**/*.csv"))
    assert [(c.name, c.type) for c in loaded.partition_columns] == [("B", "string"), ("A", "string")]
    assert sorted(planned(storage, tmp_path / "**/*.csv", keys=("a", "b"))) == [
        "a=1/b=2:1.csv", "a=4/b=3:1.csv", "a=5/b=6:1.csv",
    ]  # fmt: skip
    assert planned(storage, tmp_path / "**/*.csv", keys=None) == [":1.csv"] * 3


def test_keys_above_the_wildcards_count_too(storage: Storage, root: Path) -> None:
    loaded = load_path(storage, PathRequest(f"{root}/year=2024/month=*/*.csv"))
    assert [c.name for c in loaded.partition_columns] == ["year", "month"]
    assert str(loaded.root) == f"file://{root}/year=2024"
    assert not load_path(storage, PathRequest(f"{root}/year=2024", partitioning=False)).partition_columns


def test_a_key_twice_in_a_path(storage: Storage, tmp_path: Path) -> None:
    write(tmp_path, "k=1/K=2/1.csv")
    with pytest.raises(PathLayoutError, match="has the key 'K' twice"):
        load_path(storage, PathRequest(f"{tmp_path}/**"))
    with pytest.raises(PathLayoutError, match="twice"):
        planned(storage, tmp_path, keys=("k",))


def test_format_is_chosen_by_the_suffix(storage: Storage, tmp_path: Path) -> None:
    write(tmp_path, "c/k=1/x.csv.gz", "t/x.txt", "m/x.csv", "m/x.json", "n/data")
    assert load_path(storage, PathRequest(f"{tmp_path}/t")).format == "text"
    given = "a INT"
    assert load_path(storage, PathRequest(f"{tmp_path}/c", schema=given)).format == "csv"
    assert load_path(storage, PathRequest(f"{tmp_path}/n", schema=given)).format == "parquet"
    assert load_path(storage, PathRequest(f"{tmp_path}/n", "ORC", schema=given)).format == "orc"
    with pytest.raises(UnsupportedFormatError, match=r"several formats: csv .*json"):
        load_path(storage, PathRequest(f"{tmp_path}/m", schema=given))
    with pytest.raises(UnsupportedFormatError, match="'avro'"):
        load_path(storage, PathRequest(f"{tmp_path}/n", "avro", schema=given))


def test_key_is_left_out_of_read_columns_but_not_of_given_ones(storage: Storage, tmp_path: Path) -> None:
    (tmp_path / "k=1").mkdir()
    (tmp_path / "k=1" / "1.csv").write_text("k,v\n9,8\n")
    header = {"header": "true"}
    assert [c.name for c in load_path(storage, PathRequest(str(tmp_path), options=header)).columns] == ["v"]
    with_schema = load_path(storage, PathRequest(str(tmp_path), schema="k INT, v INT", options=header))
    assert [c.name for c in with_schema.columns] == ["k", "v"]
    plain = load_path(storage, PathRequest(str(tmp_path), options=header, partitioning=False))
    assert [c.name for c in plain.columns] == ["k", "v"]


def test_a_sample_goes_down_a_few_paths_only(storage: CountingStorage, tmp_path: Path) -> None:
    write(tmp_path, *(f"a={a}/b={b}/c={c}/1.txt" for a in range(12) for b in range(6) for c in range(3)))
    loaded = load_path(storage, PathRequest(f"{tmp_path}/a=*/b=*/c=*/*.txt"))
    assert [c.name for c in loaded.partition_columns] == ["a", "b", "c"]
    assert sum(storage.listed.values()) == 1 + 10 * 3
    storage.listed.clear()
    options = {"schema.sample-files": "2"}
    assert load_path(storage, PathRequest(f"{tmp_path}/a=*/b=*/c=*/*.txt", options=options)).options == {}
    assert sum(storage.listed.values()) == 1 + 2 * 3


def test_a_sample_is_found_among_many_empty_directories(storage: CountingStorage, tmp_path: Path) -> None:
    for number in range(400):
        (tmp_path / f"a={number:03d}" / "b=1").mkdir(parents=True)
    write(tmp_path, "a=399/b=1/1.txt")
    assert load_path(storage, PathRequest(f"{tmp_path}/a=*/b=*/*.txt")).format == "text"
    assert sum(storage.listed.values()) < 300


def test_spread() -> None:
    assert list(spread("abcdef", 3)) == list("acebdf")
    assert list(spread("ab", 5)) == ["a", "b"]
    assert list(spread("", 5)) == []


@pytest.mark.parametrize("pattern", ["", "/*", "/k=*/*", "/**"])
def test_markers_and_empty_files_are_read_as_spark_reads_them(
    storage: CountingStorage, tmp_path: Path, pattern: str
) -> None:
    """A ``k=1_$folder$`` beside the directories was a file without keys, an empty file no Parquet file."""
    root = tmp_path / "t"
    write(root, "k=1_$folder$", "k=1/_$folder$", "k=1/a_$folder$", "k=1/empty.parquet", content=b"")
    pq.write_table(pa.table({"x": [1]}), root / "k=1" / "whole.parquet")
    table = load_path(storage, PathRequest(f"{root}{pattern}"))
    assert [c.name for c in (*table.columns, *table.partition_columns)] == ["x", "k"]
    assert planned(storage, f"{root}{pattern}", keys=("k",)) == ["k=1:empty.parquet", "k=1:whole.parquet"]


def test_s3_keys_that_no_reader_finds_are_left_out() -> None:
    keys = ["t/k=1/a.csv", "t//k=2/a.csv", "t/k=1//b.csv", "t/./k=3/a.csv", "t/k=1/full/"]
    with PagedKeys(keys) as store:
        for pattern in ("", "/*", "/**"):
            batches = PathPlan(f"s3a://bucket/t{pattern}", ("k",)).run(Storage(store.options))
            rows = [(row["partition"], row["path"]) for batch in batches for row in batch.to_pylist()]
            assert rows == [("k=1", "a.csv")], pattern
