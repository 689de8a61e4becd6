"""Procedures that make and remove tags."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from catalog_ext.procedures.procedure import TABLE, Parameter, Procedure, columns

if TYPE_CHECKING:
    from catalog_ext.metastore.index.write.version_holds import Tag

_NAME = Parameter("name", "string", "name of the tag", required=True)
_COLUMNS = columns("name, version bigint, until timestamp, user, readable")


def _row(tag: Tag) -> dict[str, Any]:
    until = None if tag.until_ms is None else tag.until_ms * 1000
    return {"name": tag.name, "version": tag.version, "until": until, "user": tag.user, "readable": tag.readable}


PROCEDURES = (
    Procedure(
        "tag", "Gives a version of a table a name, and keeps the version: vacuum does not remove it",
        (
            TABLE, Parameter("version", "bigint", "the version; t.history lists them", required=True), _NAME,
            Parameter("until", "string", "when the tag ends, such as 2027-01-31 (UTC); at untag if omitted"),
        ),
        _COLUMNS, lambda catalog, arguments: [_row(catalog.tag(**arguments))], touches=("table",),
    ),
    Procedure(
        "untag", "Removes a tag; vacuum then removes the version like any other", (TABLE, _NAME), _COLUMNS,
        lambda catalog, arguments: [_row(catalog.untag(**arguments))], touches=("table",),
    ),
)  # fmt: skip
