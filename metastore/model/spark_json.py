"""Types and fields as Spark's schema JSON has them: in table parameters and in the footers of Parquet files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from catalog_ext.metastore.errors import InvalidTypeError
from catalog_ext.metastore.model.types import DataType, Field, parse_type

if TYPE_CHECKING:
    from catalog_ext.metastore.model.json import JsonObject

_CHAR_VARCHAR = "__CHAR_VARCHAR_TYPE_STRING"
_TO_JSON = {"int": "integer", "bigint": "long", "smallint": "short", "tinyint": "byte"}
_FROM_JSON = {json_name: name for name, json_name in _TO_JSON.items()} | {"null": "void"}


def field_to_json(field: Field) -> JsonObject:
    """Return the JSON object of a field; CHAR and VARCHAR are kept in its metadata, as Spark does."""
    metadata = {} if field.comment is None else {"comment": field.comment}
    if _has_char(field.type):
        metadata[_CHAR_VARCHAR] = str(field.type)
    return {"name": field.name, "type": _type_to_json(field.type), "nullable": field.nullable, "metadata": metadata}


def field_from_json(item: JsonObject) -> Field:
    """Return the field of a JSON object.

    Raises:
        InvalidTypeError: Its type is none that tables can have.
        KeyError: The object is no field.
    """
    metadata = item.get("metadata") or {}
    raw = metadata.get(_CHAR_VARCHAR)
    data_type = parse_type(raw) if raw else _type_from_json(item["type"])
    return Field(item["name"], data_type, bool(item["nullable"]), metadata.get("comment"))


def _has_char(data_type: DataType) -> bool:
    nested = (*data_type.children, *(f.type for f in data_type.fields))
    return data_type.name in ("char", "varchar") or any(map(_has_char, nested))


def _type_to_json(data_type: DataType) -> Any:  # noqa: ANN401 -- JSON
    match data_type.name:
        case "char" | "varchar":
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
