"""What a commit leaves to be deleted on the store, kept with its transaction until the clean-up."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import sqlalchemy as sa

from catalog_ext.metastore.commit.file_identity import indexed_file
from catalog_ext.metastore.commit.removals import Removal, removal_from_json, removal_to_json
from catalog_ext.metastore.index.database.rows import FILE, file_of
from catalog_ext.metastore.index.database.schema import ALIVE, files, partitions, transaction_files
from catalog_ext.metastore.index.database.texts import name_hash
from catalog_ext.metastore.index.read.spellings import Spellings, by_name
from catalog_ext.metastore.index.write.transaction_files import FILES_PER_DOCUMENT, add_documents
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.json import to_json

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from catalog_ext.metastore.model.tables import DataFile, Table

_PARTITIONS_AT_ONCE = 500
_REMOVALS_AT_ONCE = 20 * FILES_PER_DOCUMENT


class Removals:
    """The files and the empty directories that one transaction has to delete, by their URIs."""

    def __init__(self, connection: sa.Connection, transaction_id: str) -> None:
        self._connection = connection
        self._id = transaction_id
        self._taken: list[Removal] = []
        self._as_found: set[str] = set()
        self._written = False

    @property
    def are_none(self) -> bool:
        """Whether nothing was taken."""
        return not (self._taken or self._written)

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

    def pass_over(self, directory: str, removals: Iterable[Removal]) -> None:
        """Take none of these files of a directory after what was taken of them as they were found there."""
        self._as_found.update(f"{directory}/{removal.path}" for removal in removals)

    def add_files(self, directories: Mapping[int, str]) -> None:
        """Take the living files of partitions, whose directories are given by their numbers."""
        f = files.c
        for some in batched(directories, _PARTITIONS_AT_ONCE):
            statement = sa.select(f.partition_id, *FILE).where(f.partition_id.in_(some), f.end_version == ALIVE)
            for partition_id, *row in self._connection.execute(statement).all():
                self.add_ended(directories[partition_id], [file_of(row)])

    def add_ended(self, directory: str, ended: Iterable[DataFile]) -> None:
        """Take files of a directory as the index has them, but those that were taken as they were found."""
        for file in ended:
            uri = f"{directory}/{file.path}"
            if uri not in self._as_found:
                self.add(indexed_file(uri, file))

    def spare(self, table: Table) -> None:
        """Take back what partitions of the table still have: several may have come to lie in one directory.

        To be called when the changes of the commit and all that it removes are written.
        """
        if not self._written:
            return
        p, t = partitions.c, transaction_files.c
        # Of those that this version ends, too: at least one of two in one directory has a location of its own.
        own = sa.exists().where(
            p.table_id == table.table_id, p.location.is_not(None), p.end_version >= table.version
        )  # fmt: skip
        mine = (t.transaction_id == self._id, t.removal == 1)
        if not self._connection.execute(sa.select(own)).scalar():
            return
        spellings = Spellings(self._connection)
        for number in self._connection.execute(sa.select(t.number).where(*mine)).scalars().all():
            which = sa.and_(*mine, t.number == number)
            document = self._connection.execute(sa.select(t.payload).where(which)).scalar_one()
            found = [removal_from_json(value) for value in json.loads(document)]
            kept = self._living(table, {removal.path.rpartition("/")[0] for removal in found}, spellings)
            left = [removal for removal in found if removal.is_directory or removal.path not in kept]
            if len(left) < len(found):
                payload = to_json([removal_to_json(removal) for removal in left])
                changed = sa.update(transaction_files).where(which).values(n_files=len(left), payload=payload)
                self._connection.execute(changed)

    def _living(self, table: Table, directories: Collection[str], spellings: Spellings) -> set[str]:
        """Return the living files of partitions that lie in the directories, by URI; the directories' names count."""
        wanted = by_name(directories, spellings.of(directories))
        p, f, root = partitions.c, files.c, f"{table.definition.location}/"
        columns = sa.select(p.name, p.location, f.path).join(files, f.partition_id == p.partition_id)
        living = columns.where(p.table_id == table.table_id, p.end_version == ALIVE, f.end_version == ALIVE)
        found: set[str] = set()
        for some in batched(sorted(wanted), _PARTITIONS_AT_ONCE):
            hashes = [name_hash(uri.removeprefix(root)) for uri in some if uri.startswith(root)]
            for which in (p.location.in_(some), sa.and_(p.location.is_(None), p.name_hash.in_(hashes))):
                for name, location, path in self._connection.execute(living.where(which)):
                    found.update(f"{place}/{path}" for place in wanted.get(table.directory(name, location), ()))
        return found

    def flush(self) -> None:
        """Write what was taken since the last time."""
        if self._taken:
            documents = (
                (len(some), to_json([removal_to_json(removal) for removal in some]))
                for some in batched(self._taken, FILES_PER_DOCUMENT)
            )
            add_documents(self._connection, self._id, documents, removal=True)
            self._written = True
            self._taken = []
