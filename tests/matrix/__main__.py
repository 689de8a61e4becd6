"""Runs tests on each Spark in an environment of its own, one after the other: ``python -m tests.matrix [4.0 …]``.

The Python that a Spark's tests are all run with is another one for each Spark, so that each is seen; its other Pythons
get a statement of each kind. What is found goes to ``results.json`` and docs/compatibility.md.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from catalog_ext.metastore.errors import EnvironmentSetupError
from release.project import PROJECT
from tests.matrix import differences
from tests.matrix.environments import FOLDER, NEWEST, SPARKS, environment
from tests.matrix.page import PART

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.matrix.environments import Spark

SMOKE = {"a statement of each kind": ("tests/integration/test_smoke.py",)}
PARTS = {
    **SMOKE,
    "conformance": ("tests/conformance",),
    "the main job": ("tests/integration/test_main_job.py",),
    "writes": ("tests/integration/writes/test_writes_sql.py", "tests/integration/writes/test_writes_files.py"),
    "streaming": ("tests/integration/streams/test_streaming.py",),
    "clients": ("tests/integration/clients/test_clients_servers.py",),
    "behaviours": (
        "tests/integration/spark/test_spark_behaviours.py",
        "tests/integration/paths/test_adhoc_paths.py",
        "tests/integration/spark/test_session_catalog.py",
        "tests/integration/spark/test_session_catalog_jobs.py",
        "tests/integration/spark/test_session_catalog_hive.py",
    ),
    "unit": ("tests/unit",),
}


def main(minors: Sequence[str]) -> int:
    """0 when all went well; 1 when a test failed, a difference has no reason, or an environment is not to be had."""
    unknown = set(minors) - set(SPARKS)
    if unknown:
        _say(f"There is no Spark {', '.join(sorted(unknown))} here: give some of {', '.join(SPARKS)}.")
        return 1
    # The others are compared with it.
    chosen = [
        s for s in SPARKS.values() if not minors or s.minor in minors or (s is NEWEST and not _outcomes(s).is_dir())
    ]
    return max(_of_spark(spark) for spark in chosen)


def _of_spark(spark: Spark) -> int:
    status, found = 0, PART.found()
    runs = found["runs"].setdefault(spark.minor, {})
    for python in sorted(spark.pythons, key=lambda python: python != spark.whole):
        try:
            interpreter = environment(spark, python)
        except EnvironmentSetupError as error:
            _say(f"Spark {spark.version} with Python {python} was not tried: {error}")
            status = 1
            continue
        parts = _run(spark, python, interpreter, PARTS if python == spark.whole else SMOKE)
        runs[python] = {"date": time.strftime("%Y-%m-%d", time.gmtime()), "parts": parts}
        # At once: all of them take an hour.
        PART.keep(found)
        status |= any(counts["failed"] or not counts["passed"] for counts in parts.values())
    if spark is not NEWEST and _outcomes(spark).is_dir():
        status |= _compare(spark, found["statements"])
        PART.keep(found)
    return int(status)


def _run(spark: Spark, python: str, interpreter: Path, parts: dict[str, tuple[str, ...]]) -> dict[str, Any]:
    """Return how many tests of each part passed, which failed, and how many were left out."""
    report = FOLDER / f"report-{spark.minor}-{python}.xml"
    report.unlink(missing_ok=True)
    # In one order: a statement gets what tests before it have left, and Sparks are compared by that.
    options = [
        "-p",
        "no:randomly",
        "--numprocesses=2",
        "--dist=loadfile",
        "--no-loadscope-reorder",
        f"--junitxml={report}",
    ]
    if python == spark.whole:
        shutil.rmtree(_outcomes(spark), ignore_errors=True)
        options += ["-p", "tests.matrix.outcomes", "--outcomes-to", str(_outcomes(spark))]
    paths = [path for part in parts.values() for path in part]
    _say(f"Spark {spark.version}, Python {python}: {', '.join(parts)}")
    environ = {**os.environ, "PYTHONPATH": str(PROJECT)}
    subprocess.run([str(interpreter), "-m", "pytest", *options, *paths], cwd=PROJECT, env=environ, check=False)
    if not report.is_file():
        return {part: {"passed": 0, "failed": ["no report: pytest did not start"], "skipped": 0} for part in parts}
    return {part: _counts(report, paths) for part, paths in parts.items()}


def _counts(report: Path, paths: tuple[str, ...]) -> dict[str, Any]:
    modules = tuple(path.removesuffix(".py").replace("/", ".") for path in paths)
    counts: dict[str, Any] = {"passed": 0, "failed": [], "skipped": 0}
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        module = case.get("classname") or case.get("name") or ""
        if not module.startswith(modules):
            continue
        results = {child.tag for child in case}
        if results & {"failure", "error"}:
            name = f"{module.replace('.', '/')}.py::{case.get('name')}"
            counts["failed"] += [name] if name not in counts["failed"] else []
        else:
            counts["skipped" if "skipped" in results else "passed"] += 1
    return counts


def _outcomes(spark: Spark) -> Path:
    return FOLDER / f"outcomes-{spark.minor}"


def _compare(spark: Spark, statements: dict[str, Any]) -> int:
    here, newest = differences.read(_outcomes(spark)), differences.read(_outcomes(NEWEST))
    found = differences.differences(spark.minor, here, newest, differences.REASONS)
    statements[spark.minor] = {
        "compared": len(set(here) & set(newest)), "differences": [asdict(difference) for difference in found],
    }  # fmt: skip
    without = [difference for difference in found if difference.why is None]
    for difference in without:
        _say(f"{spark.minor} differs without a reason: {difference.statement}\n  here: {difference.here}\n"
             f"  {NEWEST.minor}: {difference.newest}")  # fmt: skip
    stale = differences.without_use(spark.minor, found, differences.REASONS)
    for reason in stale:
        _say(f"{spark.minor}: a reason explains nothing any more: {reason.why}")
    return int(bool(without or stale))


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
