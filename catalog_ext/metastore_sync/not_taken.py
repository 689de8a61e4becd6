"""Tables that the metastore has and the index has not taken, by names alone."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore
    from catalog_ext.metastore.index import Index

_NAMESPACES = 100
"""Namespaces that are compared, a call of the metastore each."""
_PENDING = 1000
"""Messages of the outbox that are read at a time."""


@dataclass(frozen=True, slots=True)
class NotTaken:
    """The tables of a namespace that the index has not.

    Attributes:
        names: Their names, in order.
    """

    namespace: str
    names: tuple[str, ...]


def not_taken(index: Index, metastore: HiveMetastore) -> Iterator[NotTaken]:
    """Yield what the metastore has in the namespaces of the index, and the index has not.

    Tables whose end the outbox has still to deliver do not count, and no more those that a follower has refused.

    Raises:
        MetastoreUnavailableError: It does not answer.
    """
    refused = {kept.table for kept in index.followed.doubts() if kept.doubt is None}
    # Read before the metastore: a message leaves the outbox when the metastore has done what it says.
    pending = set(_pending(index))
    databases = set(metastore.list_databases())
    for namespace in islice(filter(databases.__contains__, index.namespaces.all()), _NAMESPACES):
        ours = {*index.tables.all(namespace), *index.views.list_names(namespace)}
        unknown = {name for name in metastore.list_tables(namespace) if name not in ours}
        if unknown:
            names = sorted(name for name in unknown if f"{namespace}.{name}" not in refused | pending)
            if names:
                yield NotTaken(namespace, tuple(names))


def _pending(index: Index) -> Iterator[str]:
    """Yield the tables that messages of the outbox are about."""
    after = 0
    while page := index.outbox.pending(_PENDING, after=after):
        after = page[-1].outbox_id
        yield from (f"{each.namespace}.{each.table}" for each in page)
