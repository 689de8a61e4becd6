"""How a property is found: by its key, without regard to case."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def property_value(properties: Mapping[str, str], key: str) -> str | None:
    """Return the text of the property, or None; the very key goes before one that differs in case."""
    if key in properties:
        return properties[key]
    lower = key.lower()
    return next((text for name, text in properties.items() if name.lower() == lower), None)
