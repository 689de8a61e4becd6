"""The partitions that the metastore names, in the scratch file: what no page of the index takes out, it has alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.drift.store_side import key_of
from catalog_ext.metastore.model.batches import batched

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from catalog_ext.metastore.hive.mapping.model import HiveTable
    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore
    from catalog_ext.scan.scratch import Scratch

_IN_QUERY = 500


class NamedPartitions:
    """Keeps the names, by key.

    Args:
        client: The metastore.
        table: Its table.
        scratch: Keeps them.

    Raises:
        CatalogExtError: The metastore does not answer.
    """

    def __init__(self, client: HiveMetastore, table: HiveTable, scratch: Scratch) -> None:
        self._scratch = scratch
        scratch.execute("CREATE TABLE named (key TEXT PRIMARY KEY, name TEXT) WITHOUT ROWID")
        names = client.partition_names(table.database, table.name)
        scratch.insert("named", ((key_of(name), name) for name in names), columns=2, ignore=True)

    def take(self, keys: Sequence[str]) -> set[str]:
        """Return those of the keys that are named, and forget them."""
        taken: set[str] = set()
        for some in batched(keys, _IN_QUERY):
            marks = ",".join("?" * len(some))
            rows = self._scratch.rows(f"SELECT key FROM named WHERE key IN ({marks})", tuple(some))
            taken.update(key for (key,) in rows)
            self._scratch.execute(f"DELETE FROM named WHERE key IN ({marks})", tuple(some))
        return taken

    def rest(self) -> Iterator[str]:
        """Yield the names that were not taken."""
        return (name for (name,) in self._scratch.rows("SELECT name FROM named ORDER BY key"))
