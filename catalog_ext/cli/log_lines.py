"""The log format of a long-running service: text lines for people, or JSON lines for log collectors."""

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
"""Loggers of other libraries, as the HTTP server, that have a format of their own until ``write_log`` replaces it."""


class JsonLines(logging.Formatter):
    """Formats a record as a JSON object on one line: time, level, logger, message, extra fields, and trace id."""

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
    """Formats a record as one line for people, with control characters escaped, since a name may come from a store."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the line without the traceback, which the base class appends on lines of its own."""
        return visible(super().formatMessage(record))


def write_log(level: str, log_format: LogFormat) -> None:
    """Send the log to standard error, with times.

    Args:
        level: The lowest level of catalog-ext's own records that are written.
        log_format: The format of the lines. With JSON, the records of all libraries have it.
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
