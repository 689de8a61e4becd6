"""What texts of settings mean, by ``tests/contract/settings.json``, to which every reader is held; null is an error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from catalog_ext.conf import setting
from catalog_ext.metastore.errors import InvalidConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

GOLDEN: dict[str, dict[str, int | float | bool | None]] = json.loads(
    (Path(__file__).parents[2] / "contract" / "settings.json").read_text(encoding="utf-8")
)
PARSERS: dict[str, Callable[[str], int | float | bool]] = {
    "size": setting.size,
    "duration": setting.duration,
    "timeout": setting.seconds,
    "flag": setting.flag,
    "boolean": setting.boolean,
    "truth": setting.truth,
    "count": setting.count,
    "long": setting.long_integer,
}


def test_every_kind_is_read() -> None:
    assert GOLDEN.keys() == PARSERS.keys()


@pytest.mark.parametrize(
    ("kind", "text", "value"), [(kind, text, value) for kind, texts in GOLDEN.items() for text, value in texts.items()]
)
def test_a_text_means_what_the_golden_file_says(kind: str, text: str, value: float | None) -> None:
    key: setting.Setting[int | float | bool] = setting.Setting("a.key", None, setting.Form("", PARSERS[kind]), (), "")
    if value is None:
        with pytest.raises(InvalidConfigurationError, match=r"'a\.key' cannot be"):
            key.value_of(text)
    else:
        assert key.value_of(text) == pytest.approx(value)
        assert type(key.value_of(text)) is type(value)
