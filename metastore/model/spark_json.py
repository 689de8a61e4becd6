"""Reads and writes types and fields in Spark's schema JSON, as in table parameters and in footers of Parquet files."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from catalog_ext.metastore.errors import InvalidTypeError
from catalog_ext.metastore.model.types import DataType, Field, parse_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from catalog_ext.metastore.model.json import JsonObject

_CHAR_VARCHAR = "__CHAR_VARCHAR_TYPE_STRING"
_COLLATIONS = "__COLLATIONS"
"""The metadata key for collations; its value maps a string's path in the type (``name``, ``name.element``) to one."""
_TO_JSON = {"int": "integer", "bigint": "long", "smallint": "short", "tinyint": "byte"}
_FROM_JSON = {json_name: name for name, json_name in _TO_JSON.items()} | {"null": "void"}


def field_to_json(field: Field) -> JsonObject:
    """Return the JSON object of a field; as in Spark, CHAR, VARCHAR and collations are stored in its metadata."""
    metadata: dict[str, object] = {} if field.comment is None else {"comment": field.comment}
    if field.type.some(lambda each: each.name in ("char", "varchar")):
        metadata[_CHAR_VARCHAR] = str(field.type)
    collations = dict(_collations(field.type, field.name))
    if collations:
        metadata[_COLLATIONS] = collations
    return {"name": field.name, "type": _type_to_json(field.type), "nullable": field.nullable, "metadata": metadata}


def field_from_json(item: JsonObject) -> Field:
    """Return the field from its JSON object.

    Raises:
        InvalidTypeError: Tables cannot have the field's type.
        KeyError: The object is not a field.
    """
    metadata = item.get("metadata") or {}
    raw = metadata.get(_CHAR_VARCHAR)
    data_type = parse_type(raw) if raw else _type_from_json(item["type"])
    if not raw and metadata.get(_COLLATIONS):
        data_type = _collated(data_type, item["name"], metadata[_COLLATIONS])
    return Field(item["name"], data_type, bool(item["nullable"]), metadata.get("comment"))


def _collations(data_type: DataType, path: str) -> Iterator[tuple[str, str]]:
    """Return the collations in a field's type by path; struct fields store their collations in their own metadata."""
    if data_type.collation is not None:
        # Spark writes the provider in front: ``spark`` for collations whose names begin with UTF8_, ``icu`` for all
        # others.
        provider = "spark" if data_type.collation.startswith("UTF8_") else "icu"
        yield path, f"{provider}.{data_type.collation}"
    for step, child in zip(_STEPS.get(data_type.name, ()), data_type.children, strict=False):
        yield from _collations(child, f"{path}.{step}")


def _collated(data_type: DataType, path: str, collations: Mapping[str, str]) -> DataType:
    if path in collations and data_type.is_string:
        # Parse the type with its collation: this normalizes the name's spelling, and leaves the default binary
        # collation out.
        return parse_type(f"{data_type} collate {collations[path].rpartition('.')[2]}")
    steps = _STEPS.get(data_type.name, ())
    children = (_collated(c, f"{path}.{s}", collations) for s, c in zip(steps, data_type.children, strict=False))
    return replace(data_type, children=tuple(children))


_STEPS = {"array": ("element",), "map": ("key", "value")}


def _type_to_json(data_type: DataType) -> Any:  # noqa: ANN401 -- JSON
    match data_type.name:
        case "char" | "varchar" | "string":
            return "string"
        case "array":
            return {"type": "array", "elementType": _type_to_json(data_type.children[0]), "containsNull": True}
        case "map":
            key, value = map(_type_to_json, data_type.children)
            return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
        case "struct":
            return {"type": "struct", "fields": [field_to_json(f) for f in data_type.fields]}
        case name:
            return _TO_JSON.get(name, str(data_type))


def _type_from_json(item: Any) -> DataType:  # noqa: ANN401 -- JSON
    match item:
        case str(name):
            return parse_type(_FROM_JSON.get(name, name))
        case {"type": "array", "elementType": element}:
            return DataType("array", children=(_type_from_json(element),))
        case {"type": "map", "keyType": key, "valueType": value}:
            return DataType("map", children=(_type_from_json(key), _type_from_json(value)))
        case {"type": "struct", "fields": list(fields)}:
            return DataType("struct", fields=tuple(field_from_json(f) for f in fields))
        case {"type": "udt", "sqlType": stored}:
            return _type_from_json(stored)
    raise InvalidTypeError(f"{str(item)[:120]!r} is not a type that tables here can have.")
