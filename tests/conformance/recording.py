"""Records the statements that docs/conformance.md prints, and holds later runs to them.

A test with the marker ``requirement`` whose statement has placeholders sends the real one to Spark.
``pytest --record-statements`` keeps it in ``statements.json``; in any other run the test fails if it sends it no more.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from tests.conformance import report
from tests.servers.hive_cli import HiveCli

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_OPTION = "--record-statements"
_NEW = pytest.StashKey[dict[str, report.Sent]]()
# What is another one in every run: folders, buckets, ports, and numbers that make names unique.
_VOLATILE = (
    (re.compile(r"(s3a?://)[\w.-]+"), r"\1bucket"),
    (re.compile(r"(hdfs://)[\w.:-]+"), r"\1namenode"),
    (re.compile(r"\b(lake\.\w+\.t)(?:\d+|[0-9a-f]{8})\b"), r"\1"),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(_OPTION, action="store_true", help="keep what the tests of requirements send to Spark")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_NEW] = {}


@pytest.fixture(autouse=True)
def sent_statements(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keeps or checks the statements of a test that shows a requirement."""
    if request.node.get_closest_marker("requirement") is None:
        yield
        return
    path = request.node.path.relative_to(report.PROJECT).as_posix()
    shown = [s for s in report.shown_in(request.node.path, path) if s.test == request.node.originalname and s.pattern]
    texts: list[str] = []
    with _listening(texts):
        yield
    sent = [normalized(text, tmp_path_factory.getbasetemp()) for text in texts]
    if request.config.getoption(_OPTION):
        new = request.config.stash[_NEW]
        for one in shown:
            found = next((t for t in sent if re.fullmatch(one.pattern or "", t, re.DOTALL)), None)
            if found is not None:
                new.setdefault(one.key, report.Sent(request.node.name, found))
        return
    recorded = report.recorded()
    for one in shown:
        known = recorded.get(one.key)
        if known is not None and known.case == request.node.name and known.statement not in sent:
            pytest.fail(
                f"docs/conformance.md prints for {one.requirement} what this test sends no more: {known.statement}\n"
                f"Run it with {_OPTION}, then: python -m tests.conformance.report"
            )


class _listening:
    """Notes the text of every statement that the process sends to Spark, or to Hive's command line."""

    def __init__(self, texts: list[str]) -> None:
        self._texts = texts

    def __enter__(self) -> None:
        # Here, so that tests without Spark need not load it.
        from pyspark.sql import SparkSession

        self._plain = plain = SparkSession.sql
        self._plain_run = plain_run = HiveCli.run
        texts = self._texts

        def run(cli: HiveCli, statements: Sequence[str], *args: object, **options: object) -> object:
            texts.extend(statements)
            return plain_run(cli, statements, *args, **options)

        HiveCli.run = run

        def sql(session: SparkSession, sqlQuery: str, *args: object, **options: object) -> object:
            texts.append(sqlQuery)
            return plain(session, sqlQuery, *args, **options)

        SparkSession.sql = sql

    def __exit__(self, *_: object) -> None:
        from pyspark.sql import SparkSession

        SparkSession.sql = self._plain
        HiveCli.run = self._plain_run


def normalized(text: str, folder: Path) -> str:
    """The statement on one line, with stable names in place of what differs from run to run.

    Args:
        text: What was sent.
        folder: The run's folder for temporary files.
    """
    text = re.sub(re.escape(str(folder)) + r"/([A-Za-z_]+)[\w.-]*", r"/data/\1", text)
    for pattern, stable in _VOLATILE:
        text = pattern.sub(stable, text)
    return " ".join(text.split())


def pytest_sessionfinish(session: pytest.Session) -> None:
    new = session.config.stash[_NEW]
    if new:
        wanted = {s.key for s in report.shown(report.PROJECT / "tests") if s.pattern is not None}
        kept = {**report.recorded(), **new}
        rows = {key: {"case": kept[key].case, "statement": kept[key].statement} for key in sorted(wanted & set(kept))}
        report.RECORDED.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
