"""Checks that a metastore is the one that the index belongs to, by an id that both store."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from catalog_ext.identity.record import METASTORE_ID
from catalog_ext.metastore.errors import MetastoreRefusedError, MetastoreReplacedError, MetastoreUnavailableError
from catalog_ext.metastore.hive.identity import give_id, metastore_id
from catalog_ext.metastore.hive.thrift.uris import not_sent

if TYPE_CHECKING:
    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore
    from catalog_ext.metastore.index import Index

_REPLACED = (
    "The metastore of the index {index} is not the one that it was: it has been lost or replaced, or has another one's "
    "address. Nothing is sent to it. If that is meant to be: catalog-ext --index '{index}' --metastore URIS adopt, "
    "then catalog-ext --index '{index}' publish --all. If not, bring the old one back: what is pending goes there."
)
_SILENT = (
    "The metastore does not say whether it is the one that the index {} belongs to, and gets nothing: {} Let its "
    "database default be read."
)


class KnownMetastore:
    """Compares a metastore server's id with the recorded one, once per connection.

    Args:
        index: The index; it records the id of the first metastore that it changes.
    """

    def __init__(self, index: Index) -> None:
        self._index = index
        self._lock = threading.Lock()
        self._losses = 0
        self._known_at: int | None = None

    def check(self, metastore: HiveMetastore, *, learns: bool) -> None:
        """Check that the metastore is the index's own.

        Args:
            metastore: The server.
            learns: Whether an index without a recorded id records the id of this metastore, which gets an id if it has
                none.

        Raises:
            MetastoreReplacedError: The server belongs to another metastore.
            MetastoreUnavailableError: The server does not answer, or refuses to show its id.
        """
        with self._lock:
            losses = self._losses
            if self._known_at != losses and self._is_own(metastore, learns=learns):
                self._known_at = losses

    def lost(self) -> None:
        """Note a lost connection: the next call checks the metastore's id again."""
        self._losses += 1

    def _is_own(self, metastore: HiveMetastore, *, learns: bool) -> bool:
        """Return whether the ids are equal; False if neither side has an id yet."""
        recorded = self._index.properties.load().get(METASTORE_ID)
        if recorded is None:
            if not learns:
                return False
            found = give_id(metastore)
            if found is None:
                return True
            recorded = self._index.properties.add_missing({METASTORE_ID: found})[METASTORE_ID]
        else:
            found = self._ask(metastore)
        if found != recorded:
            parameters = {"index": self._index.url, "recorded": recorded, "found": found or ""}
            raise MetastoreReplacedError(_REPLACED.format(index=self._index.url), not_sent(parameters))
        return True

    def _ask(self, metastore: HiveMetastore) -> str | None:
        try:
            return metastore_id(metastore)
        except MetastoreRefusedError as error:
            # Report the refusal as "unavailable": the call itself was not sent, and may be repeated.
            parameters = {"index": self._index.url}
            raise MetastoreUnavailableError(
                _SILENT.format(self._index.url, error.message), not_sent(parameters)
            ) from error
