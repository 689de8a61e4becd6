from __future__ import annotations

from pathlib import Path

import pytest

from tests.checks.settings_check import missing_keys, python_reads, reads, scala_reads

PROJECT = Path(__file__).resolve().parents[3]


def test_what_a_scala_source_reads() -> None:
    text = (
        'val a = options.get("first")\nval b = table.properties.get(Second)\n'
        "conf.getConfString(ReadOptions.Third, null)\n"
        'setting(Fourth, "alias")\nproperties.exists { case (key, _) => key.equalsIgnoreCase("fifth") }\n'
        'node.get("no-setting"); options.get(unknown); conf.getConfString(s"spark.sql.catalog.$name.x", null)\n'
    )
    found = [*scala_reads(text, "a.scala", {"Second": "second", "Third": "third", "Fourth": "fourth"})]
    assert {r.key for r in found} == {"first", "second", "third", "fourth", "fifth"}
    assert next(r for r in found if r.key == "third").place == "a.scala:3"


def test_what_a_python_module_reads() -> None:
    text = (
        'A = "by-constant"\ndefinition.properties.get(A)\nproperty_value(options, "by-function")\n'
        'X = Setting("a-setting", None)\noptions["subscript"]\noptions["written"] = 1\nrow.get("no-setting")\n'
    )
    assert {r.key for r in python_reads(text, "a.py")} == {"by-constant", "by-function", "a-setting", "subscript"}


def test_a_key_that_the_page_lacks_is_named(tmp_path: Path) -> None:
    (tmp_path / "metastore").mkdir()
    (tmp_path / "metastore" / "m.py").write_text('options.get("there")\noptions.get("Absent")\n', encoding="utf-8")
    (problem,) = missing_keys(reads(tmp_path), "| `there` |")
    assert problem == "metastore/m.py:2: reads 'Absent', which docs/configuration.md does not name"


@pytest.mark.slow
def test_the_check_finds_the_keys_of_both_languages() -> None:
    found = [*reads(PROJECT)]
    assert {
        "hive.strict.checks.no.partition.filter", "hive.mapred.mode", "startingVersion", "maxFilesPerTrigger",
        "maxBytesPerTrigger", "skipChangeCommits", "partitionOverwriteMode", "maxRecordsPerFile", "partition_strategy",
        "partition_columns_in_data_file", "partition.auto", "external.table.purge", "parquet.compression",
        "file_format",
    } <= {r.key for r in found}  # fmt: skip
    page = (PROJECT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert [*missing_keys(found, page)] == []
