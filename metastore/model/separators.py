"""The separator of a delimited text file, from the option ``sep`` of Spark's CSV reader."""

from __future__ import annotations

import re

_ESCAPE = re.compile(r"\\([trbf\"'\\])")
_ESCAPED = {"t": "\t", "r": "\r", "b": "\b", "f": "\f"}


def separator_of(text: str) -> str:
    """Return the separator that Spark reads from the option's text (``CSVExprUtils.toDelimiterStr``).

    An escape that Spark refuses stays unchanged: Spark reports it when it reads the files.
    """
    return _ESCAPE.sub(lambda m: _ESCAPED.get(m[1], m[1]), text)
