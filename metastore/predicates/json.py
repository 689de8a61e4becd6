"""Conversion between predicates and the JSON objects of the service's requests (``docs/spec/service.md``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from catalog_ext.metastore.errors import InvalidPredicateError
from catalog_ext.metastore.model.values import value_text
from catalog_ext.metastore.predicates.tree import (
    And,
    Comparison,
    Constant,
    In,
    IsNull,
    Match,
    Not,
    Operator,
    Or,
    Predicate,
    StringMatch,
)

if TYPE_CHECKING:
    from catalog_ext.metastore.model.json import JsonObject
    from catalog_ext.metastore.model.values import Value

_MAX_DEPTH = 200


def predicate_from_json(node: object, depth: int = 0) -> Predicate:
    """Return the unbound predicate of a JSON object.

    Raises:
        InvalidPredicateError: The object does not have the form that ``docs/spec/service.md`` defines.
    """
    if not isinstance(node, Mapping) or depth > _MAX_DEPTH:
        raise _malformed(node)
    match node:
        case {"op": "true", **rest} if not rest:
            return Constant(value=True)
        case {"op": "false", **rest} if not rest:
            return Constant(value=False)
        case {"op": "and" | "or" as op, "args": list(args), **rest} if args and not rest:
            parsed = tuple(predicate_from_json(a, depth + 1) for a in args)
            return And(parsed) if op == "and" else Or(parsed)
        case {"op": "not", "arg": arg, **rest} if not rest:
            return Not(predicate_from_json(arg, depth + 1))
        case {"op": "is_null", "column": str(column), **rest} if not rest:
            return IsNull(column)
        case {"op": "is_not_null", "column": str(column), **rest} if not rest:
            return Not(IsNull(column))
        case {"op": "in", "column": str(column), "values": list(values), **rest} if not rest:
            return In(column, tuple(_literal(v, node) for v in values))
        case {"op": str(op), "column": str(column), "value": value, **rest} if not rest:
            return _leaf(op, column, _literal(value, node), node)
    raise _malformed(node)


def _leaf(op: str, column: str, value: str | None, node: Mapping[Any, Any]) -> Predicate:
    if op in tuple(Operator):
        return Comparison(Operator(op), column, value)
    if op in tuple(Match) and value is not None:
        return StringMatch(Match(op), column, value)
    raise _malformed(node)


def _literal(value: object, node: Mapping[Any, Any]) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise _malformed(node)


def predicate_to_json(predicate: Predicate) -> JsonObject:
    """Return the JSON object of an unbound predicate; convert a bound predicate with ``unbound`` first."""
    match predicate:
        case Constant(value):
            return {"op": "true" if value else "false"}
        case And(args) | Or(args) if not args:
            return {"op": "true" if isinstance(predicate, And) else "false"}
        case And(args) | Or(args):
            return {"op": "and" if isinstance(predicate, And) else "or", "args": [predicate_to_json(a) for a in args]}
        case Not(IsNull(column)):
            return {"op": "is_not_null", "column": column}
        case Not(arg):
            return {"op": "not", "arg": predicate_to_json(arg)}
        case IsNull(column):
            return {"op": "is_null", "column": column}
        case In(column, values):
            return {"op": "in", "column": column, "values": [_text(value) for value in values]}
        case StringMatch(kind, column, pattern):
            return {"op": str(kind), "column": column, "value": pattern}
        case Comparison(operator, column, value):
            return {"op": str(operator), "column": column, "value": _text(value)}


def _text(value: Value) -> str | None:
    return None if value is None else value_text(value)


def _malformed(predicate_json: object) -> InvalidPredicateError:
    return InvalidPredicateError(
        f"Not a predicate of the service's contract: {str(predicate_json)[:200]}. See docs/spec/service.md."
    )
