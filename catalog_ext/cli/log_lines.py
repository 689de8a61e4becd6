"""The log format of a standing service: text lines for people, or JSON lines for log collectors."""

from __future__ import annotations

import json
import logging
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from catalog_ext.metastore.runtime.error_kinds import FIELDS
from catalog_ext.metastore.runtime.tracing import current_traceparent
from catalog_ext.overview.formats import visible

if TYPE_CHECKING:
    from catalog_ext.conf.keys import LogFormat

TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_SERVERS = ("uvicorn", "uvicorn.error", "py.warnings")
"""Loggers of others that write lines of a form of their own; the service's server among them."""


class JsonLines(logging.Formatter):
    """Writes a record as one object on one line: time, level, logger, message, its fields, the trace that it is of."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, in ASCII."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, FIELDS, {}),
        }
        if (trace := current_traceparent()) is not None:
            line["traceparent"] = trace
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class TextLines(logging.Formatter):
    """Writes a record as a line for people: no name in it begins another line, or controls a terminal."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the line without its traceback, which has lines of its own."""
        return visible(super().formatMessage(record))


def write_log(level: str, log_format: LogFormat) -> None:
    """Log on standard error from now on, with times.

    Args:
        level: The least level of catalog-ext's own lines that are written.
        log_format: The form of the lines. With JSON, lines of every library have this form.
    """
    ours = logging.getLogger("catalog_ext")
    ours.setLevel(level.upper())
    if log_format == "text":
        for handler in ours.handlers:
            handler.setFormatter(TextLines(TEXT))
        return
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.captureWarnings(True)
    root = logging.getLogger()
    root.handlers = [handler]
    for name in ("catalog_ext", *_SERVERS):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [], True
