"""Warnings of a repair: files that it registers and that may be a mistake, and names that a table ignores."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from catalog_ext.cli.main import main
from catalog_ext.events.notifications import StoreEvent
from catalog_ext.metastore.errors import (
    InvalidConfigurationError,
    InvalidInputError,
    RepairRefusedError,
    TableLayoutError,
)
from catalog_ext.tables.locations import TableOverlapWarning
from tests.kit.repair_cases import indexed, local_catalog, skipped, write
from tests.kit.write_cases import Stand, definition

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from catalog_ext.repair.report import RepairReport


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "t" / "k=a").mkdir(parents=True)
    pq.write_table(pa.table({"x": [1]}), tmp_path / "t" / "k=a" / "1.parquet")
    return tmp_path / "t"


@pytest.fixture
def catalog(tmp_path: Path, root: Path) -> Iterator[Catalog]:
    with local_catalog(tmp_path) as catalog:
        catalog.register_table("s.t", location=str(root), partition_columns={"k": "STRING"}, schema="x BIGINT")
        yield catalog


def warned(report: RepairReport) -> dict[str, str]:
    return {entry.path: entry.reason for entry in report.warnings}


@pytest.mark.parametrize("name", ["fix.csv", "rows.json.gz", "notes.md", "old.avro", "query.sql", "a.orc"])
def test_file_of_another_suffix_is_registered_with_warning(catalog: Catalog, root: Path, name: str) -> None:
    write(root, f"k=a/{name}", "k=a/part-00000", "k=a/part-00001.snappy", "k=a/part-0.2f3e")
    preview = catalog.repair_partitions("s.t", dry_run=True)
    (reason,) = warned(preview).values()
    assert list(warned(preview)) == [f"k=a/{name}"]
    assert reason.startswith("1 file of a parquet partition ends in .")
    report = catalog.repair_partitions("s.t", strict=True)
    assert warned(report) == warned(preview)
    assert name in indexed(catalog)["k=a"]
    assert not len(catalog.repair_partitions("s.t")), "the next repair has nothing to do and repeats nothing"


def test_empty_file_is_named_in_preview_and_verify(catalog: Catalog, root: Path) -> None:
    (root / "k=a" / "empty.parquet").touch()
    expected = {"k=a/empty.parquet": "1 file of 0 bytes: queries read no row of it"}
    assert warned(catalog.repair_partitions("s.t", dry_run=True)) == expected
    assert warned(catalog.repair_partitions("s.t", verify=True)) == expected
    assert not skipped(catalog.repair_partitions("s.t", verify="all"))


def test_values_that_differ_in_case_only_are_warned_of(catalog: Catalog, root: Path) -> None:
    write(root, "k=EU/1.parquet", "k=eu/1.parquet", "K=us/1.parquet", "k=us/1.parquet")
    reason = "its values differ from those of k=EU in case only: queries see two partitions"
    assert warned(catalog.repair_partitions("s.t")) == {"k=eu": reason}
    write(root, "k=eU/1.parquet")
    assert warned(catalog.repair_partitions("s.t")) == {"k=eU": reason}


def test_verify_all_names_registered_files_and_keeps_them(catalog: Catalog, root: Path) -> None:
    write(root, "k=a/fix.csv", "k=b/1.parquet", content=b"1,2")
    catalog.repair_partitions("s.t")
    assert not skipped(catalog.repair_partitions("s.t", verify=True)), "it looks at new and changed files alone"
    for mode in ("sync", "add"):
        report = catalog.repair_partitions("s.t", verify="all", mode=mode)
        assert sorted(skipped(report)) == ["k=a/fix.csv", "k=b/1.parquet"]
        assert all("it stays registered, and queries that read it fail" in why for why in skipped(report).values())
    assert indexed(catalog)["k=a"].keys() == {"1.parquet", "fix.csv"}
    assert list(skipped(catalog.repair_partitions("s.t", verify="all", where="k = 'b'"))) == ["k=b/1.parquet"]
    with pytest.raises(RepairRefusedError):
        catalog.repair_partitions("s.t", verify="all", strict=True)
    (root / "k=a" / "fix.csv").unlink()
    report = catalog.repair_partitions("s.t", verify="all")
    assert list(skipped(report)) == ["k=b/1.parquet"]
    assert [entry.path for entry in report.changed] == ["k=a/fix.csv"]


def test_verify_all_on_the_command_line(
    catalog: Catalog, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(root, "k=a/fix.csv")
    home = ["--index", str(tmp_path / "index.db"), "--metastore", "none"]
    assert main([*home, "repair", "s.t", "--json"]) == 0
    assert [entry["path"] for entry in json.loads(capsys.readouterr().out)["warnings"]] == ["k=a/fix.csv"]
    for verify, expected in (("--verify", []), ("--verify-all", ["k=a/fix.csv"])):
        assert main([*home, "repair", "s.t", verify, "--json"]) == 0
        assert [entry["path"] for entry in json.loads(capsys.readouterr().out)["skipped"]] == expected


def test_verify_takes_no_other_word(catalog: Catalog) -> None:
    with pytest.raises(InvalidInputError, match="verify cannot be 'every'"):
        catalog.repair_partitions("s.t", verify="every")


def test_readme_above_the_partitions_fails_no_strict_repair(catalog: Catalog, root: Path) -> None:
    write(root, "README.txt", "load.sql")
    report = catalog.repair_partitions("s.t", strict=True)
    assert set(warned(report)) == {"README.txt", "load.sql"}
    assert not report.skipped
    write(root, "stray.parquet")
    with pytest.raises(RepairRefusedError, match=r"stray\.parquet"):
        catalog.repair_partitions("s.t", strict=True)


def test_ignored_names_are_no_part_of_the_table(tmp_path: Path, root: Path) -> None:
    write(
        root, "README", "docs/a.parquet", "k=a/old.bak", "k=a/x.tmp", "k=a/_$folder$", "k=b_$folder$", "k=a/1_$folder$"
    )
    given = {"ignored-names": "README*, *.bak,*.tmp, docs"}
    with local_catalog(tmp_path) as catalog:
        catalog.register_table("s.i", location=str(root), properties=given)
        assert not catalog.repair_partitions("s.i", strict=True).warnings
        assert indexed(catalog, "s.i").keys() == {"k=a"}
        assert indexed(catalog, "s.i")["k=a"].keys() == {"1.parquet"}
        event = StoreEvent(f"file://{root}/k=a/x.tmp", removed=False, size=1, at_ms=1)
        assert catalog.events.take([event]).ignored == 1
        catalog.partition_maintenance.drop("s.i", "k = 'a'")
        catalog.partition_commands.add("s.i", [({"k": "a"}, None)])
        assert indexed(catalog, "s.i")["k=a"].keys() == {"1.parquet"}
        with pytest.warns(TableOverlapWarning):
            catalog.register_table("s.w", location=f"{root}/*/*", properties=given)
        catalog.repair_partitions("s.w", strict=True)
        assert {path for files in indexed(catalog, "s.w").values() for path in files} == {"k=a/1.parquet"}


@pytest.mark.parametrize("bad", ["*", "**", "?*", "*??", "a/b", "a,,b"])
def test_ignored_names_that_are_no_globs_are_refused(catalog: Catalog, root: Path, bad: str) -> None:
    with pytest.raises(InvalidConfigurationError, match="ignored-names"):
        catalog.register_table("s.i", location=str(root), properties={"ignored-names": bad})


def test_ignored_names_of_an_imported_table_that_are_no_globs(tmp_path: Path, root: Path) -> None:
    """A metastore may have any property: the error names it, as those of other settings."""
    with local_catalog(tmp_path) as catalog:
        bad = replace(definition(root, name="i", external=True), properties={"ignored-names": "a,,b"})
        Stand(catalog.index).create(bad)
        with pytest.raises(InvalidConfigurationError, match=r"'ignored-names' has the value 'a,,b'.*TBLPROPERTIES"):
            catalog.repair_partitions("s.i")


def test_log_of_a_streaming_sink_is_warned_of(catalog: Catalog, root: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Files of failed batches, which the log leaves out, are rows here."""
    write(root, "_spark_metadata/0")
    report = catalog.repair_partitions("s.t", strict=True)
    assert warned(report)["_spark_metadata"].startswith("the log of a streaming sink is not read")
    with pytest.warns(TableOverlapWarning):
        catalog.register_table("s.again", location=str(root))
    assert "the log of a streaming sink is not read" in caplog.text


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("_delta_log/00000000000000000000.json", "this directory is a Delta table"),
        (".hoodie/hoodie.properties", "this directory is a Hudi table"),
        ("metadata/v1.metadata.json", "this directory is an Iceberg table"),
    ],
)
def test_other_table_formats_are_warned_of(
    catalog: Catalog, root: Path, caplog: pytest.LogCaptureFixture, path: str, said: str
) -> None:
    """Files that such a table has replaced are rows here: a preview says so, and so does a registration."""
    (root / path).parent.mkdir()
    (root / path).write_text("{}")
    directory = path.partition("/")[0]
    assert warned(catalog.repair_partitions("s.t", dry_run=True))[directory].startswith(said)
    assert warned(catalog.repair_partitions("s.t"))[directory].startswith(said)
    # The keys cannot be found in paths among which there is a plain folder: the warning comes before the error.
    refused = pytest.raises(TableLayoutError) if directory == "metadata" else pytest.warns(TableOverlapWarning)
    with refused:
        catalog.register_table("s.again", location=str(root))
    assert caplog.text.count(said) == 1
    with pytest.warns(TableOverlapWarning):
        catalog.register_table("s.keyed", location=str(root), partition_columns={"k": "STRING"})
    assert caplog.text.count(said) == 2


def test_folder_of_another_kind_is_no_iceberg_table(catalog: Catalog, root: Path) -> None:
    (root / "metadata").mkdir()
    (root / "metadata" / "notes.json").write_text("{}")
    assert "metadata" not in warned(catalog.repair_partitions("s.t"))
