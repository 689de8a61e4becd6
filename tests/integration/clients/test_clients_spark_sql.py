"""``bin/spark-sql`` on a standing service: a script, and what a person sees of errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from catalog_ext.spark.session import CATALOG_CLASS
from tests.integration.standing_service import conf_folder, program, run

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.standing_service import StandingService

pytestmark = pytest.mark.spark

_SCRIPT = """
CREATE NAMESPACE lake.s;
CREATE TABLE lake.s.t (id BIGINT, ds STRING) PARTITIONED BY (ds) TBLPROPERTIES ('partition-columns' = 'virtual');
INSERT INTO lake.s.t VALUES (1, 'a'), (2, 'b');
SELECT *, ds FROM lake.s.t ORDER BY id;
SHOW PARTITIONS lake.s.t;
MSCK REPAIR TABLE lake.s.t;
CALL lake.system.repair_partitions(table => 's.t', mode => 'sync');
USE lake.s;
SET use_hive_partitioning = 0;
SELECT * FROM t ORDER BY id;
SELECT ds FROM t;
CALL system.repair_partitions(table => 's.t', mode => 'mend');
SHOW TABLES IN unauthorized.s;
SHOW TABLES IN unreachable.s;
SELECT 'end';
"""
_TOKEN = "x" * 40


def test_a_script_and_its_errors(standing_service: StandingService, tmp_path: Path) -> None:
    conf = conf_folder(
        standing_service,
        {
            "spark.sql.catalog.unauthorized": CATALOG_CLASS,
            "spark.sql.catalog.unauthorized.uri": standing_service.uri,
            "spark.sql.catalog.unauthorized.token": _TOKEN,
            "spark.sql.catalog.unreachable": CATALOG_CLASS,
            "spark.sql.catalog.unreachable.uri": "http://127.0.0.1:1",
            "spark.sql.catalog.unreachable.token": _TOKEN,
        },
    )
    script = tmp_path / "script.sql"
    script.write_text(_SCRIPT)
    command = [program("bin/spark-sql"), "--master", "local[2]", "--hiveconf", "hive.cli.errors.ignore=true"]
    done = run([*command, "-f", str(script)], conf, tmp_path)
    printed = ["1\ta", "2\tb", "ds=a", "ds=b", "use_hive_partitioning\t0", "1", "2", "end"]
    assert done.stdout.splitlines() == printed, done.stderr
    errors = [line for line in done.stderr.splitlines() if line.startswith("[")]
    expected = [
        ("UNRESOLVED_COLUMN.WITH_SUGGESTION", "`ds`"),
        ("CATALOG_EXT_INVALID_INPUT", "mend"),
        ("CATALOG_EXT_UNAUTHORIZED", "'token-file'"),
        ("CATALOG_EXT_SERVICE_UNAVAILABLE", "start it (catalog-ext serve"),
    ]
    assert len(errors) == len(expected), errors
    for error, (condition, words) in zip(errors, expected, strict=True):
        assert error.startswith(f"[{condition}]")
        assert words in error
    # What a person has done wrong comes without a Java trace.
    assert "\tat org.apache" not in done.stderr.partition("[CATALOG_EXT_UNAUTHORIZED]")[0]
    assert _TOKEN not in done.stderr
    # log4j2.properties is in force: the connector logs its commits, Hadoop does not log what is as it should be.
    assert "INSERT of lake.s.t made version 1" in done.stderr
    assert "NativeCodeLoader" not in done.stderr
    # And the service logs them in its own log, which does not contain its token.
    assert "2 rows" in standing_service.log
    assert standing_service.token_file.read_text().strip() not in standing_service.log
