"""The forms of a service's log."""

from __future__ import annotations

import json
import logging
import sys
from typing import TYPE_CHECKING

import pytest
from opentelemetry import trace

from catalog_ext.cli.log_lines import TEXT, JsonLines, TextLines, write_log
from catalog_ext.conf.keys import LOG_FORMAT
from catalog_ext.metastore.errors import InvalidConfigurationError
from tests.kit.repair_cases import EU, US, catalog_of_files
from tests.kit.spans import recorded_spans

if TYPE_CHECKING:
    from pathlib import Path


def written(record: logging.LogRecord) -> dict[str, object]:
    line = JsonLines().format(record)
    assert "\n" not in line
    assert line.isascii()
    found: dict[str, object] = json.loads(line)
    return found


def record(message: str, *values: object, **more: object) -> logging.LogRecord:
    made = logging.LogRecord("catalog_ext.x", logging.WARNING, "x.py", 1, message, values, None)
    made.created = 1735689600.5
    made.__dict__.update(more)
    return made


def test_a_line_is_one_object_whatever_is_in_it() -> None:
    assert written(record("table %s\n{\"a\": 1}", "é\u202e")) == {
        "time": "2025-01-01T00:00:00.500+00:00", "level": "warning", "logger": "catalog_ext.x",
        "message": 'table é\u202e\n{"a": 1}',
    }  # fmt: skip


def test_a_line_of_text_is_one_line_whatever_names_are_in_it() -> None:
    forged = "t\n2025-01-01 00:00:00,000 CRITICAL root: forged \x1b[2J"
    line = TextLines(TEXT).format(record("table %s", forged))
    assert line.endswith("table t⟨U+000A⟩2025-01-01 00:00:00,000 CRITICAL root: forged ⟨U+001B⟩[2J")
    assert "\n" not in line
    try:
        raise ValueError("why")
    except ValueError:
        traced = TextLines(TEXT).format(record("it failed", exc_info=sys.exc_info()))
    assert traced.splitlines()[0].endswith("it failed")
    assert traced.splitlines()[-1] == "ValueError: why"


def test_an_exception_is_in_its_line() -> None:
    try:
        raise ValueError("why")
    except ValueError:
        found = written(record("it failed", exc_info=sys.exc_info()))
    assert str(found["exception"]).endswith("ValueError: why")


def test_a_line_names_the_trace_that_it_is_of() -> None:
    with recorded_spans(), trace.get_tracer("t").start_as_current_span("s") as span:
        found = written(record("x"))
    assert str(found["traceparent"]).split("-")[1] == format(span.get_span_context().trace_id, "032x")


def test_a_repair_that_changes_something_is_one_line_with_its_numbers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with catalog_of_files(tmp_path, tmp_path / "t", f"{EU}/1.csv", f"{US}/1.csv") as catalog:
        (tmp_path / "t" / US / "1.csv").unlink()
        with caplog.at_level(logging.INFO, "catalog_ext"):
            catalog.repair_partitions("s.t")
            catalog.repair_partitions("s.t")
    (line,) = [written(r) for r in caplog.records if "REPAIR" in r.getMessage()]
    assert (line["table"], line["operation"], line["partitions_changed"]) == ("s.t", "REPAIR", 1)
    assert isinstance(line["version"], int)
    assert isinstance(line["duration_ms"], int)


def test_who_wants_text_gets_lines_that_nothing_breaks() -> None:
    ours = logging.getLogger("catalog_ext")
    kept, level, handler = ours.handlers, ours.level, logging.StreamHandler()
    try:
        ours.handlers = [handler]
        write_log("info", "text")
        assert isinstance(handler.formatter, TextLines)
    finally:
        ours.handlers, ours.level = kept, level


def test_another_format_is_refused() -> None:
    assert LOG_FORMAT.read({}) == "text"
    assert LOG_FORMAT.read({"log-format": "JSON"}) == "json"
    with pytest.raises(InvalidConfigurationError, match=r"'xml'.*'text' or 'json'"):
        LOG_FORMAT.read({"log-format": "xml"})
