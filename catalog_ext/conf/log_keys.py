"""The settings of what a standing service logs."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, cast

from catalog_ext.conf.setting import Scope, Setting, word

LogFormat: TypeAlias = Literal["text", "json"]

_word = word("text", "json")


def _format(text: str) -> LogFormat:
    return cast("LogFormat", _word(text))


LOG_FORMAT: Setting[LogFormat] = Setting(
    "log-format", "text",
    "How `catalog-ext serve` writes its log; as JSON each line is an object. `--log-format` goes before it.",
    "`text` or `json`", _format, (Scope.ENVIRONMENT,),
)  # fmt: skip

LOG_SETTINGS: tuple[Setting[Any], ...] = (LOG_FORMAT,)
"""All of them, in the order of the reference page."""
