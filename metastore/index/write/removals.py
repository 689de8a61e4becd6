"""What a commit leaves to be deleted on the store, kept with its transaction until the clean-up."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import sqlalchemy as sa

from catalog_ext.metastore.commit.removals import Removal, removal_to_json
from catalog_ext.metastore.index.database.schema import ALIVE, files
from catalog_ext.metastore.index.write.transaction_files import FILES_PER_DOCUMENT, add_documents
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.json import to_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_PARTITIONS_AT_ONCE = 500
_REMOVALS_AT_ONCE = 20 * FILES_PER_DOCUMENT


class Removals:
    """The files and the empty directories that one transaction has to delete, by their URIs."""

    def __init__(self, connection: sa.Connection, transaction_id: str) -> None:
        self._connection = connection
        self._id = transaction_id
        self._taken: list[Removal] = []
        self._as_found: set[str] = set()

    def add(self, removal: Removal) -> None:
        """Take what is to be deleted; much is written from time to time."""
        self._taken.append(removal)
        if len(self._taken) == _REMOVALS_AT_ONCE:
            self.flush()

    def add_in(self, directory: str, removals: Iterable[Removal]) -> None:
        """Take files of a directory, given by their names in it, as they were found there.

        Of the same ones, what the index says is not taken after it.
        """
        for removal in removals:
            uri = f"{directory}/{removal.path}"
            self._as_found.add(uri)
            self.add(replace(removal, path=uri))

    def add_files(self, directories: Mapping[int, str]) -> None:
        """Take the living files of partitions, whose directories are given by their numbers."""
        f = files.c
        for some in batched(directories, _PARTITIONS_AT_ONCE):
            statement = sa.select(f.partition_id, f.path, f.size, f.modified_ms).where(
                f.partition_id.in_(some), f.end_version == ALIVE
            )
            for partition_id, path, size, modified_ms in self._connection.execute(statement).all():
                uri = f"{directories[partition_id]}/{path}"
                if uri not in self._as_found:
                    self.add(Removal(uri, size, modified_ms))

    def flush(self) -> None:
        """Write what was taken since the last time."""
        if self._taken:
            documents = (
                (len(some), to_json([removal_to_json(removal) for removal in some]))
                for some in batched(self._taken, FILES_PER_DOCUMENT)
            )
            add_documents(self._connection, self._id, documents, removal=True)
            self._taken = []
