"""How the page of conformance is made of the tests' markers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.conformance import recording, report
from tests.conformance.requirements import REQUIREMENTS, SRS_045

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "import pytest\n"
MARK = '@pytest.mark.requirement("Flink.DropPartition"{})\n'


def reported(folder: Path, text: str) -> list[report.Shown]:
    tests = folder / "tests"
    tests.mkdir()
    (tests / "test_some.py").write_text(HEAD + text, encoding="utf-8")
    return report.shown(tests)


def test_every_requirement_of_the_documents_has_an_id() -> None:
    assert len(SRS_045) == len(set(SRS_045)) == 56
    assert len(REQUIREMENTS) == 152


def test_the_statement_is_the_first_sql_of_the_test(tmp_path: Path) -> None:
    (row,) = reported(
        tmp_path,
        MARK.format("")
        + 'def test_it(spark):\n    """SELECT is no statement here."""\n    name = "t"\n'
        + '    spark.sql(f"ALTER TABLE {name}\\n  DROP PARTITION (k = 1)")\n    spark.sql("SELECT 1")\n',
    )
    assert (row.path, row.test) == ("tests/test_some.py", "test_it")
    assert row.statement == "ALTER TABLE {name} DROP PARTITION (k = 1)"
    assert re.fullmatch(row.pattern or "", "ALTER TABLE t DROP PARTITION (k = 1)")
    assert not re.fullmatch(row.pattern or "", "ALTER TABLE t DROP PARTITION (k = 2)")
    assert report.unrecorded([row], {}) == [row.key]
    sent = {row.key: report.Sent("test_it", "ALTER TABLE `t` DROP PARTITION (k = 1)")}
    assert report.unrecorded([row], sent) == []
    assert "| `` ALTER TABLE `t` DROP PARTITION (k = 1) `` |" in report.page([row], sent)


def test_what_was_recorded_and_is_wanted_no_more_is_named(tmp_path: Path) -> None:
    rows = reported(tmp_path, MARK.format("") + 'def test_it(spark):\n    spark.sql("DROP TABLE t")\n')
    assert report.unrecorded(rows, {"gone": report.Sent("x", "y")}) == ["gone"]


def test_names_that_differ_from_run_to_run(tmp_path: Path) -> None:
    text = f"SELECT 1\n  FROM lake.`{tmp_path}/x/year=*` JOIN 's3a://b-17.x/y' JOIN 'hdfs://127.0.0.1:9/z'"
    place = tmp_path.name.rstrip("0123456789")
    assert recording.normalized(text, tmp_path.parent) == (
        f"SELECT 1 FROM lake.`/data/{place}/x/year=*` JOIN 's3a://bucket/y' JOIN 'hdfs://namenode/z'"
    )


def test_a_marker_chooses_another_statement_or_code(tmp_path: Path) -> None:
    rows = reported(
        tmp_path,
        MARK.format(', statement="SHOW", differs="a | b"')
        + MARK.format(', statement="df.write"')
        + 'def test_it(spark, df):\n    spark.sql("SELECT 1")\n    spark.sql("SHOW PARTITIONS t")\n'
        "    df.write.save()\n",
    )
    assert [row.statement for row in rows] == ["df.write.save()", "SHOW PARTITIONS t"]
    assert r"| a \| b |" in report.page(rows, {})


@pytest.mark.parametrize("marker", [MARK.format(', statement="DROP"'), '@pytest.mark.requirement("Flink.Nothing")\n'])
def test_a_marker_that_says_what_is_not_so(tmp_path: Path, marker: str) -> None:
    with pytest.raises(report.ConformanceError, match=r"test_some\.py::test_it"):
        reported(tmp_path, marker + 'def test_it(spark):\n    spark.sql("SELECT 1")\n')


def test_what_nothing_shows_is_missing(tmp_path: Path) -> None:
    rows = reported(
        tmp_path, MARK.format("") + 'def test_it(spark):\n    spark.sql("ALTER TABLE t DROP PARTITION (k)")\n'
    )
    assert set(report.missing(rows)) == set(REQUIREMENTS) - {"Flink.DropPartition"}
