"""The golden files, of which some are prepared as cases of tests in either language; ``README.md`` lists them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class NameCase:
    """A typed value and the name of its directory.

    Attributes:
        text: It is cast to the type; None is NULL.
        refused: ``always``, ``directories`` (on stores that have some), or ``''``.
        upload_name: The name on stores without directories, where others refuse the value.
    """

    type: str
    text: str | None
    name: str | None
    refused: str
    upload_name: str | None

    def __str__(self) -> str:
        return f"{self.type}-{ascii(self.text)[:24]}-{len(self.text or '')}"


@dataclass(frozen=True, slots=True)
class ValueCase:
    """The name of a directory and the typed value in it, as text; None is NULL."""

    type: str
    name: str
    value: str | None
    refused: bool

    def __str__(self) -> str:
        return f"{self.type}-{ascii(self.name)[:40]}"


def read(name: str) -> dict[str, Any]:
    """The content of a golden file."""
    content: dict[str, Any] = json.loads((_HERE / name).read_text(encoding="utf-8"))
    return content


def _name_case(case: dict[str, Any]) -> NameCase:
    text = None if case["value"] is None else case["value"] * case.get("times", 1)
    return NameCase(case["type"], text, case["name"], case.get("refused", ""), case.get("upload_name"))


NAMES = [_name_case(case) for case in read("partition_names.json")["names"]]
VALUES = [
    ValueCase(case["type"], case["name"], case.get("value"), case.get("refused", False))
    for case in read("partition_values.json")["values"]
]
ORDER: dict[str, list[str]] = read("partition_values.json")["order"]
"""Values of a type, as text, in ascending order; NULL comes before all."""
_IDENTIFIERS = read("identifiers.json")
IDENTIFIERS: dict[str, bool] = {
    **dict.fromkeys(_IDENTIFIERS["valid"], True),
    **dict.fromkeys(_IDENTIFIERS["invalid"], False),
    **{character * _IDENTIFIERS["longest"]: True for character in _IDENTIFIERS["characters"]},
    **{character * (_IDENTIFIERS["longest"] + 1): False for character in _IDENTIFIERS["characters"]},
}
"""Names of tables and namespaces, and whether they may be some."""

KEY_TYPES: list[dict[str, Any]] = read("key_types.json")["types"]
"""What the index can say of keys of a type; see the file."""
