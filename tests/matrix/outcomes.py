"""A plugin of pytest that notes each statement that a test sends to Spark, and what it got: ``--outcomes-to FOLDER``.

Each process writes a file of JSON lines of its own. Two Sparks are compared by them (``tests/matrix/differences.py``).
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

_OPTION = "--outcomes-to"
_OF_STATEMENTS = ("tests/conformance/", "tests/integration/test_smoke.py")
"""Whose statements are noted: those that have a statement of each kind of docs/sql.md, and of docs/conformance.md."""
# What is another one in every run of the same Spark.
_VOLATILE = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "<uuid>"),
    (re.compile(r"datetime\.datetime\(20[2-9]\d(?:, \d+)+(?:, tzinfo=[^)]*\))?\)"), "<time>"),
    (re.compile(r"\b20[2-9]\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?Z?"), "<time>"),
    (re.compile(r"\b[A-Z][a-z]{2} [A-Z][a-z]{2} \d\d \d\d:\d\d:\d\d [A-Z]+ \d{4}"), "<time>"),
    (re.compile(r"\b[0-9a-f]{12,}\b"), "<hex>"),
    (re.compile(r"\b\d{12,}\b"), "<number>"),
    (re.compile(r"#\d+[L]?\b"), "#n"),
    (re.compile(r"(127\.0\.0\.1|localhost):\d+"), r"\1:<port>"),
    (re.compile(r"\[(plan_id|id)=\d+\]"), r"[\1=n]"),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(_OPTION, type=Path, metavar="FOLDER", help="note what statements get, for a comparison of Sparks")


@pytest.fixture(autouse=True)
def noted_statements(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Notes what a test sends to Spark, if it is asked to."""
    folder: Path | None = request.config.getoption(_OPTION)
    if folder is None or not request.node.nodeid.startswith(_OF_STATEMENTS):
        yield
        return
    notes = _Notes(request.node.nodeid, tmp_path_factory.getbasetemp())
    notes.listen(monkeypatch)
    yield
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{os.getpid()}.jsonl").open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(entry, ensure_ascii=False) + "\n" for entry in notes.entries)


class _Notes:
    """What one test sends.

    Attributes:
        entries: Of each statement: the test, its text, its occurrence number, and its outcome.
    """

    def __init__(self, test: str, folder: Path) -> None:
        self._test = test
        self._folder = folder
        self._counts: Counter[str] = Counter()
        self.entries: list[dict[str, Any]] = []

    def listen(self, monkeypatch: pytest.MonkeyPatch) -> None:
        # Here, so that tests without Spark need not load it.
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
        from pyspark.sql.classic.dataframe import DataFrame

        plain_sql, plain_collect = SparkSession.sql, DataFrame.collect
        entries: dict[int, dict[str, Any]] = {}

        def sql(session: SparkSession, sqlQuery: str, *args: object, **options: object) -> object:
            entry = self._entry(sqlQuery)
            try:
                frame = plain_sql(session, sqlQuery, *args, **options)
            except PySparkException as error:
                entry["outcome"] = self._failure(error)
                raise
            entry["outcome"] = {"columns": frame.schema.simpleString()}
            entries[id(frame)] = {"entry": entry, "frame": frame}
            return frame

        def collect(frame: DataFrame) -> object:
            known = entries.get(id(frame))
            try:
                rows = plain_collect(frame)
            except PySparkException as error:
                if known:
                    known["entry"]["outcome"] = self._failure(error)
                raise
            if known:
                known["entry"]["outcome"]["rows"] = sorted(self._stable(str(tuple(row))) for row in rows)
            return rows

        monkeypatch.setattr(SparkSession, "sql", sql)
        monkeypatch.setattr(DataFrame, "collect", collect)

    def _entry(self, text: str) -> dict[str, Any]:
        statement = self._on_a_line(text)
        self._counts[statement] += 1
        entry = {"test": self._test, "statement": statement, "time": self._counts[statement], "outcome": {}}
        self.entries.append(entry)
        return entry

    def _failure(self, error: Any) -> dict[str, str]:
        return {"condition": error.getCondition() or type(error).__name__}

    def _stable(self, text: str) -> str:
        text = self._on_a_line(text)
        for pattern, stable in _VOLATILE:
            text = pattern.sub(stable, text)
        return text

    def _on_a_line(self, text: str) -> str:
        # Here: pytest rewrites the assertions of modules that it loads itself, and this one it loads before.
        from tests.conformance.recording import normalized

        return normalized(text, self._folder)
