"""Procedures that give tables and partitions the state of an earlier version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from catalog_ext.metastore.errors import InvalidInputError
from catalog_ext.metastore.model.as_of import time_of
from catalog_ext.procedures.procedure import DRY_RUN, TABLE, Parameter, Procedure, columns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog_ext.metastore.model.as_of import Version

_TIMES = (
    Parameter("timestamp", "string", "a time, such as 2025-01-31T09:00:00+01:00 (UTC without an offset), whose newest "
        "version is meant"),
    Parameter("tag", "string", "a tag of the earlier version"),
)  # fmt: skip
_ENTRIES = columns("action, partition, files bigint, rows bigint, bytes bigint, reason, version bigint")


def _with_version(arguments: Mapping[str, Any], *, required: bool) -> dict[str, Any]:
    """Return the arguments with one ``version`` for ``version``, ``timestamp`` and ``tag``.

    Raises:
        InvalidInputError: More than one of them is given, or none although one is required.
    """
    number, at, tag = (arguments[name] for name in ("version", "timestamp", "tag"))
    given: list[Version] = [each for each in (number, None if at is None else time_of(at), tag) if each is not None]
    if len(given) > 1 or (required and not given):
        raise InvalidInputError("Name the earlier version by one of the arguments version, timestamp and tag.")
    others = {name: value for name, value in arguments.items() if name not in ("timestamp", "tag")}
    return {**others, "version": given[0] if given else None}


PROCEDURES = (
    Procedure(
        "rollback",
        "Gives a table, or the partitions that match a condition, the files of an earlier version, if they still exist",
        (
            TABLE, Parameter("version", "bigint", "number of the earlier version, as in t.history"), *_TIMES,
            Parameter("where", "string", "SQL condition on partition columns; the whole table if omitted"), DRY_RUN,
        ),
        _ENTRIES, lambda catalog, arguments: catalog.rollback(**_with_version(arguments, required=True)),
        touches=("table",),
    ),
    Procedure(
        "restore_partition",
        "Gives one partition, which may have been dropped, the files of an earlier version, if they still exist",
        (
            TABLE, Parameter("partition", "string", "name of the partition, such as ds=2025-01-31", required=True),
            Parameter("version", "bigint",
                "number of the earlier version; the state before the partition's last change if omitted"),
            *_TIMES, DRY_RUN,
        ),
        _ENTRIES, lambda catalog, arguments: catalog.restore_partition(**_with_version(arguments, required=False)),
        touches=("table",),
    ),
)  # fmt: skip
