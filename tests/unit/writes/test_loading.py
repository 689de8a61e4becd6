"""LOAD DATA on an index on SQLite and a local store: what is loaded, from where, and what is refused."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import orc, parquet

from catalog_ext.metastore import errors
from catalog_ext.metastore.commit.fault_points import armed
from catalog_ext.metastore.commit.transaction import transaction_id_in
from tests.kit.repair_cases import indexed
from tests.kit.writes import insert
from tests.unit.partitions.test_partition_commands import consistent, external, managed

if TYPE_CHECKING:
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from catalog_ext.metastore.commit.transaction import WriteOutcome


def put(folder: Path, *names: str) -> Path:
    for number, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{number}\n")
    return folder


def load(
    catalog: Catalog, path: object, spec: dict[str, str | None] | None = None, *, overwrite: bool = False
) -> WriteOutcome:
    return catalog.loading.load(catalog.load_table("s.t"), str(path), spec, overwrite=overwrite)


def contents(root: Path, partition: str) -> list[str]:
    return sorted(path.read_text() for path in (root / partition).iterdir() if not path.name.startswith((".", "_")))


def test_files_of_a_directory_become_a_partition(catalog: Catalog, tmp_path: Path) -> None:
    root, place = managed(catalog), put(tmp_path / "in", "000000_0", "000001_0.gz", "_SUCCESS", ".000000_0.crc")
    outcome = load(catalog, place, {"K": "01"})
    assert (outcome.operation, outcome.partitions_added, outcome.files_added) == ("LOAD DATA", 1, 2)
    (names,) = indexed(catalog).values()
    assert {name.partition("-")[0] + name[-3:] for name in names} == {"000000_0000", "000001_0.gz"}
    assert contents(root, "k=1") == ["0\n", "1\n"]
    assert sorted(path.name for path in place.iterdir()) == ["_SUCCESS"], "its checksum goes with a file"
    assert catalog.history("s.t")[0].operation == "LOAD DATA"
    consistent(catalog)


def test_into_adds_and_overwrite_replaces(catalog: Catalog, tmp_path: Path) -> None:
    root = managed(catalog)
    insert(catalog, "k=1", "k=2")
    load(catalog, put(tmp_path / "a", "x.csv") / "x.csv", {"k": "1"})
    assert len(indexed(catalog)["k=1"]) == 2
    replaced = load(catalog, put(tmp_path / "b", "x.csv", "y.csv") / "*.csv", {"k": "1"}, overwrite=True)
    assert (replaced.files_added, replaced.files_removed) == (2, 2)
    assert replaced.rows is None, "LOAD DATA reads no file: how many rows it moved is unknown, not 0"
    assert contents(root, "k=1") == ["0\n", "1\n"]
    assert len(indexed(catalog)["k=2"]) == 1
    consistent(catalog)


def test_a_table_without_partitions_and_files_of_one_name(catalog: Catalog, tmp_path: Path) -> None:
    root = external(catalog, tmp_path, keys={})
    put(tmp_path / "in", "a/part.csv", "b/part.csv", "c/part.csv")
    load(catalog, f"{tmp_path}/in/{{a,b}}/part.csv")
    assert contents(root, "") == ["0\n", "1\n"]
    load(catalog, f"{tmp_path}/in/?/*", overwrite=True)
    assert contents(root, "") == ["2\n"]
    consistent(catalog)


def test_what_lies_in_an_external_partitions_directory_comes_with_it(catalog: Catalog, tmp_path: Path) -> None:
    root = external(catalog, tmp_path)
    put(root, "k=1/there.csv")
    assert load(catalog, put(tmp_path / "in", "x.csv"), {"k": "1"}).files_added == 2
    consistent(catalog)


@pytest.mark.parametrize(
    "name",
    [
        "part-00000-{id}-a0-c000.csv",
        "{id}",
        "{id}.{id}.csv",
        "a b:c%\u00e9.csv",
        "x" * 250,
        "(1).csv",
        "#x.csv",
        "~a.csv",
        " a.csv",
        "(.csv",
    ],
)
def test_a_file_that_another_write_has_made_is_this_ones(catalog: Catalog, tmp_path: Path, name: str) -> None:
    managed(catalog)
    place = tmp_path / "in"
    place.mkdir()
    (place / name.format(id="0123456789abcdef" * 2)).write_text("1\n")
    number = load(catalog, place, {"k": "1"}).transaction_id
    (found,) = indexed(catalog)["k=1"]
    assert transaction_id_in(found) == number
    catalog.vacuum("s.t", retention=0, allow_short_retention=True)
    consistent(catalog)


def test_an_overwrite_that_relocates(catalog: Catalog, tmp_path: Path) -> None:
    managed(catalog)
    insert(catalog, "k=1", "k=2")
    catalog.alter_table_properties("s.t", {"overwrite-mode": "relocate"})
    outcome = load(catalog, put(tmp_path / "in", "a.csv"), {"k": "1"}, overwrite=True)
    (at,) = catalog.index.partitions.located(catalog.load_table("s.t")).values()
    assert at.endswith(f"_catalog_ext_data/{outcome.transaction_id}/k=1")
    assert [len(files) for files in indexed(catalog).values()] == [1, 1]
    consistent(catalog)


@pytest.mark.parametrize("spec", [None, {"k": "1", "x": "2"}, {"j": "1"}, {}])
def test_specs_that_do_not_fit(catalog: Catalog, tmp_path: Path, spec: dict[str, str | None] | None) -> None:
    managed(catalog)
    place = put(tmp_path / "in", "x.csv")
    with pytest.raises(errors.InvalidPartitionSpecError):
        load(catalog, place, spec)
    assert (place / "x.csv").exists()


def test_a_partition_of_a_table_without_any(catalog: Catalog, tmp_path: Path) -> None:
    external(catalog, tmp_path, keys={})
    with pytest.raises(errors.InvalidPartitionSpecError, match="no partition columns"):
        load(catalog, put(tmp_path / "in", "x.csv"), {"k": "1"})


@pytest.mark.parametrize(
    ("path", "error", "words"),
    [
        ("nothing", errors.LocationNotFoundError, "Nothing lies at"),
        ("in/no*", errors.LocationNotFoundError, "Nothing lies at"),
        ("empty", errors.InvalidInputError, "no file at"),
        ("nested", errors.InvalidInputError, "holds the directory 'deeper'"),
        ("in/_hidden", errors.InvalidInputError, "hidden"),
        ("t/k=1", errors.TableLayoutError, "itself|lies in the directory of table s.t"),
        ("t/k=1/x.csv", errors.TableLayoutError, "itself|lies in the directory of table s.t"),
        ("link", errors.TableLayoutError, "itself|lies in the directory of table s.t"),
        ("o", errors.TableLayoutError, "table s.o"),
        ("own", errors.TableLayoutError, "of partition 'k=5' of table s.p"),
        ("own/x.csv", errors.TableLayoutError, "of partition 'k=5' of table s.p"),
    ],
)
def test_places_that_cannot_be_loaded_from(
    catalog: Catalog, tmp_path: Path, path: str, error: type[Exception], words: str
) -> None:
    external(catalog, tmp_path)
    external(catalog, tmp_path, "o", keys={})
    external(catalog, tmp_path, "p")
    put(tmp_path, "in/_hidden", "nested/deeper/x.csv", "nested/y.csv", "t/k=1/x.csv", "o/x.csv", "own/x.csv")
    catalog.partition_commands.add("s.p", [({"k": "5"}, f"{tmp_path}/own")])
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "t" / "k=1")
    before = sorted(str(place) for place in tmp_path.rglob("*") if place.is_file() and "index" not in place.name)
    with pytest.raises(error, match=words):
        load(catalog, tmp_path / path, {"k": "2"})
    after = sorted(str(place) for place in tmp_path.rglob("*") if place.is_file() and "index" not in place.name)
    assert after == before


def test_another_store_is_refused_with_what_to_do(catalog: Catalog) -> None:
    managed(catalog)
    with pytest.raises(errors.InvalidInputError, match="LOAD DATA LOCAL INPATH"):
        load(catalog, "s3a://bucket/in", {"k": "1"})


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_files_of_another_format_are_known_by_their_first_bytes(catalog: Catalog, tmp_path: Path, kind: str) -> None:
    managed(catalog, kind=kind)
    rows = pa.table({"x": pa.array([1], pa.int32())})
    place = put(tmp_path / "in", "a-is-text")
    parquet.write_table(rows, place / "b.parquet")
    orc.write_table(rows, place / "c.orc")
    for path in (place, place / ("c.orc" if kind == "parquet" else "b.parquet")):
        with pytest.raises(errors.UnsupportedFormatError, match=f"no {kind} file"):
            load(catalog, path, {"k": "1"})
    assert len(list(place.iterdir())) == 3
    assert load(catalog, place / f"*.{kind}", {"k": "1"}).files_added == 1


def test_error_of_a_copied_local_file_names_the_file_of_the_user(catalog: Catalog) -> None:
    root = managed(catalog, kind="parquet")
    copies = put(root / "_catalog_ext_staging" / "load-1", "mine.csv")
    with pytest.raises(errors.UnsupportedFormatError, match=r"^'mine\.csv' of the local path is no parquet") as caught:
        load(catalog, copies, {"k": "1"})
    assert "staging" not in f"{caught.value.message} {caught.value.parameters}"
    (copies / "mine.csv").unlink()
    with pytest.raises(
        errors.InvalidInputError, match="There is no file at the local path that could be loaded"
    ) as caught_too:
        load(catalog, copies, {"k": "1"})
    assert caught_too.value.parameters == {"table": "s.t", "location": "the local path"}


def test_a_source_that_goes_is_an_error_and_the_others_stay(catalog: Catalog, tmp_path: Path) -> None:
    root, place = managed(catalog), put(tmp_path / "in", "a.csv", "b.csv")
    with armed("promote.before", lambda _: (place / "b.csv").unlink()), pytest.raises(errors.StagedFileMissingError):
        load(catalog, place, {"k": "1"})
    assert [path.name for path in place.iterdir()] == ["a.csv"]
    assert indexed(catalog) == {}
    assert not (root / "k=1").exists()


def test_a_source_that_is_written_again_stays_as_it_is(catalog: Catalog, tmp_path: Path) -> None:
    managed(catalog)
    place = put(tmp_path / "in", "a.csv", "b.csv")

    def other(_: str) -> None:
        (place / "b.csv").write_text("other\n")

    with armed("promote.before", other), pytest.raises(errors.StorageError):
        load(catalog, place, {"k": "1"})
    assert {path.name: path.read_text() for path in place.iterdir()} == {"a.csv": "0\n", "b.csv": "other\n"}
    assert indexed(catalog) == {}


def test_two_loads_of_one_file_load_it_once(catalog: Catalog, tmp_path: Path) -> None:
    managed(catalog)
    place = put(tmp_path / "in", "a.csv")
    done: list[WriteOutcome] = []

    def other(_: str) -> None:
        done.append(load(catalog, place, {"k": "2"}))

    with armed("reserve.before", other), pytest.raises(errors.StagedFileMissingError):
        load(catalog, place, {"k": "1"})
    assert [len(files) for files in indexed(catalog).values()] == [1]
    assert [outcome.files_added for outcome in done] == [1]
    consistent(catalog)


def test_a_pattern_asks_once_where_tables_are(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    managed(catalog)
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.csv").write_text("1\n")
    asked: list[object] = []
    locations = catalog.index.tables.locations
    monkeypatch.setattr(catalog.index.tables, "locations", lambda: asked.append(1) or locations())
    load(catalog, tmp_path / "*.csv", {"k": "1"})
    assert (len(indexed(catalog)["k=1"]), len(asked)) == (3, 1)


@pytest.mark.slow
def test_many_files(catalog: Catalog, tmp_path: Path) -> None:
    """More than come with a reservation: they are recorded before it."""
    managed(catalog)
    assert load(catalog, put(tmp_path / "in", *(f"{n}.csv" for n in range(620))), {"k": "1"}).files_added == 620
    consistent(catalog)


def test_bucketed_tables_and_those_with_wildcards_are_refused(catalog: Catalog, tmp_path: Path) -> None:
    put(tmp_path, "all/k=1/a.csv")
    catalog.register_table(
        "s.t", location=f"{tmp_path}/all/*", format="csv", schema="x INT", partition_columns={"k": "INT"}
    )
    with pytest.raises(errors.OperationNotSupportedError, match="wildcards"):
        load(catalog, put(tmp_path / "in", "x.csv"), {"k": "1"})


def test_vacuum_removes_copies_of_a_driver_that_died(catalog: Catalog) -> None:
    root = managed(catalog)
    insert(catalog, "k=1")
    staging = root / "_catalog_ext_staging"
    put(
        staging,
        "load-dead/a.csv",
        "load-dead/.a.csv.crc",
        "load-copying/first.csv",
        "load-copying/second.csv",
        "x/a.csv",
    )
    named = put(staging, f"load-named/part-{'0123456789abcdef' * 2}.csv") / "load-named"
    week_ago = time.time() - 8 * 86_400
    for path in staging.rglob("*.c*"):
        if path.name != "second.csv":
            os.utime(path, (week_ago, week_ago))

    def left() -> list[str]:
        return sorted(path.relative_to(staging).parts[0] for path in staging.rglob("*.csv"))

    catalog.vacuum("s.t", dry_run=True)
    assert len(left()) == 5

    seen: list[str] = []

    def meanwhile(_: str) -> None:
        # What a write takes, it may have to put back.
        catalog.vacuum("s.t")
        seen.extend(left())

    with armed("reserve.before", meanwhile):
        load(catalog, put(root.parent / "in", "new.csv"), {"k": "2"})
    assert len(seen) == 5

    report = catalog.vacuum("s.t")
    assert left() == ["load-copying", "load-copying", "x"]
    assert not named.exists()
    assert not (staging / "load-dead").exists()
    assert {entry.reason for entry in report.entries} == {
        "copy of a local file for a LOAD DATA LOCAL that ended before it loaded the copy"
    }


@pytest.mark.parametrize("path", ["link", "link/x.csv", "above/o", "above/o/*.csv"])
def test_a_link_to_the_directory_of_another_table_is_refused(catalog: Catalog, tmp_path: Path, path: str) -> None:
    managed(catalog)
    external(catalog, tmp_path, "o", keys={})
    put(tmp_path, "o/x.csv")
    (tmp_path / "link").symlink_to(tmp_path / "o")
    (tmp_path / "above").symlink_to(tmp_path)
    with pytest.raises(errors.TableLayoutError, match=r"in the directory of table s\.o"):
        load(catalog, tmp_path / path, {"k": "1"})
    assert (tmp_path / "o" / "x.csv").exists()


def test_the_directory_of_a_table_that_is_known_by_a_link_is_refused(catalog: Catalog, tmp_path: Path) -> None:
    managed(catalog)
    put(tmp_path, "real/o/x.csv")
    (tmp_path / "linked").symlink_to(tmp_path / "real")
    external(catalog, tmp_path / "linked", "o", keys={})
    with pytest.raises(errors.TableLayoutError, match=r"in the directory of table s\.o"):
        load(catalog, tmp_path / "real" / "o", {"k": "1"})
    assert (tmp_path / "real" / "o" / "x.csv").exists()


@pytest.mark.parametrize("path", ["in", "in/x.csv"])
def test_a_file_that_is_a_link_is_refused(catalog: Catalog, tmp_path: Path, path: str) -> None:
    """Of one to a file of the partition that is overwritten nothing but the link would be left."""
    root = managed(catalog)
    insert(catalog, "k=1")
    (there,) = (root / "k=1").glob("part-*")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "x.csv").symlink_to(there)
    with pytest.raises(errors.CatalogExtError, match=r"is a symbolic link|lies in the directory of table s\.t"):
        load(catalog, tmp_path / path, {"k": "1"}, overwrite=True)
    assert there.exists()
    consistent(catalog)


def test_a_file_that_a_pattern_names_twice_is_loaded_once(catalog: Catalog, tmp_path: Path) -> None:
    managed(catalog)
    put(tmp_path, "in/x.csv", "in/y.csv")
    assert load(catalog, f"{tmp_path}/in/{{x.csv,*.csv}}", {"k": "1"}).files_added == 2
    consistent(catalog)


@pytest.mark.parametrize("path", ["k=1", "k=1/a.csv", "k=1/*", "*"])
@pytest.mark.parametrize("pattern", ["*", "**/*.csv", "k={1,2}/a.csv"])
def test_files_of_a_table_with_wildcards_are_refused(catalog: Catalog, tmp_path: Path, pattern: str, path: str) -> None:
    managed(catalog)
    put(tmp_path, "all/k=1/a.csv", "all/k=2/a.csv", "other/a.csv")
    where = {"location": f"{tmp_path}/all/{pattern}", "format": "csv", "schema": "x INT"}
    catalog.register_table("s.w", partition_columns={"k": "INT"}, **where)
    catalog.repair_partitions("s.w")
    with pytest.raises(errors.TableLayoutError, match=r"table s\.w"):
        load(catalog, tmp_path / "all" / path, {"k": "1"})
    assert (tmp_path / "all" / "k=1" / "a.csv").exists()
    assert load(catalog, tmp_path / "other", {"k": "1"}).files_added == 1
