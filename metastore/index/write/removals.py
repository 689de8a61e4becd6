"""What a commit leaves to be deleted on the store, kept with its transaction until the clean-up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from catalog_ext.metastore.index.database.schema import ALIVE, files
from catalog_ext.metastore.index.write.transaction_files import FILES_PER_DOCUMENT, add_documents
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.json import to_json

if TYPE_CHECKING:
    from collections.abc import Mapping

_PARTITIONS_AT_ONCE = 500
_REMOVALS_AT_ONCE = 20 * FILES_PER_DOCUMENT


class Removals:
    """The URIs of files and (with a slash at the end) of empty directories that one transaction has to delete."""

    def __init__(self, connection: sa.Connection, transaction_id: str) -> None:
        self._connection = connection
        self._id = transaction_id
        self._uris: list[str] = []

    def add(self, uri: str) -> None:
        """Take a URI; many are written from time to time."""
        self._uris.append(uri)
        if len(self._uris) == _REMOVALS_AT_ONCE:
            self.flush()

    def add_files(self, directories: Mapping[int, str]) -> None:
        """Take the living files of partitions, whose directories are given by their numbers."""
        f = files.c
        for some in batched(directories, _PARTITIONS_AT_ONCE):
            statement = sa.select(f.partition_id, f.path).where(f.partition_id.in_(some), f.end_version == ALIVE)
            for partition_id, path in self._connection.execute(statement).all():
                self.add(f"{directories[partition_id]}/{path}")

    def flush(self) -> None:
        """Write what was taken since the last time."""
        if self._uris:
            documents = ((len(some), to_json(some)) for some in batched(self._uris, FILES_PER_DOCUMENT))
            add_documents(self._connection, self._id, documents, removal=True)
            self._uris = []
