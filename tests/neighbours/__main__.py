"""Runs the tests of neighbours, also those with environments of their own: ``python -m tests.neighbours [dbt …]``.

What is found goes to ``results.json`` and docs/neighbours.md.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from importlib.metadata import version
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from catalog_ext.metastore.errors import EnvironmentSetupError
from release.project import PROJECT
from tests.neighbours.environments import FOLDER, NAMES, environment, versions
from tests.neighbours.page import PART

if TYPE_CHECKING:
    from collections.abc import Sequence

TESTS = "tests/integration/neighbours"
PACKAGES = {
    "dbt": ("dbt-core", "dbt-spark", "pyhive", "pyspark"),
    "airflow": ("apache-airflow", "apache-airflow-providers-apache-hive", "apache-airflow-providers-common-sql"),
    "dataframes": ("duckdb", "pandas", "polars", "pyarrow", "pyspark"),
    "pandera": ("pandera", "pyspark"),
}
"""By the name of a module of tests: the packages that the page names."""


def main(chosen: Sequence[str]) -> int:
    """0 when all went well; 1 when a test failed, or an environment is not to be had."""
    unknown = set(chosen) - set(PACKAGES)
    if unknown:
        _say(f"There are no tests of {', '.join(sorted(unknown))}: give some of {', '.join(PACKAGES)}.")
        return 1
    status, found = 0, PART.found()
    for name in chosen or PACKAGES:
        try:
            if name in NAMES:
                environment(name)
        except EnvironmentSetupError as error:
            _say(f"{name} was not tried: {error}")
            status = 1
            continue
        passed, failed = _run(name)
        there = versions(name) if name in NAMES else {package: version(package) for package in PACKAGES[name]}
        found[f"{TESTS}/test_{name}.py"] = {
            "date": time.strftime("%Y-%m-%d", time.gmtime()), "passed": passed, "failed": failed,
            "versions": {package: there[package] for package in PACKAGES[name]},
        }  # fmt: skip
        PART.keep(found)
        status |= bool(failed or not passed)
    return int(status)


def _run(name: str) -> tuple[int, list[str]]:
    """Return how many tests of a module have passed, and which failed."""
    FOLDER.mkdir(exist_ok=True)
    report = FOLDER / f"report-{name}.xml"
    report.unlink(missing_ok=True)
    _say(f"{name}: {TESTS}/test_{name}.py")
    command = [sys.executable, "-m", "pytest", "--neighbours", f"--junitxml={report}", f"{TESTS}/test_{name}.py"]
    subprocess.run(command, cwd=PROJECT, env={**os.environ, "PYTHONPATH": str(PROJECT)}, check=False)
    if not report.is_file():
        return 0, ["no report: pytest did not start"]
    cases = list(ElementTree.parse(report).getroot().iter("testcase"))
    failed = [str(case.get("name")) for case in cases if {child.tag for child in case} & {"failure", "error"}]
    left = [case for case in cases if {child.tag for child in case} & {"skipped"}]
    return len(cases) - len(failed) - len(left), failed


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
