"""ETags of objects that the index has without one: those of indexes and writes from before ETags were kept, and copies.

They are written in place and change no version: the file is the same, and what is known of it is more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from catalog_ext.metastore.commit.transaction import transaction_id_in
from catalog_ext.metastore.index.database.schema import ALIVE, files, partitions
from catalog_ext.metastore.index.database.texts import name_hash

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog_ext.metastore.index.database.database import Database
    from catalog_ext.metastore.model.tables import DataFile, Table


class Etags:
    """ETags of files that the index has without one."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def note(self, table: Table, found: Sequence[tuple[str, DataFile]]) -> None:
        """Keep the ETags of files that have none in the index and are as they were listed.

        Args:
            table: The table.
            found: Some hundred files as a listing has shown them, each with the name of its partition.
        """
        p, f = partitions.c, files.c
        wanted = {(name, file.path): file for name, file in found}
        statement = (
            sa.select(p.name, f.partition_id, f.file_id, f.path, f.size, f.modified_ms)
            .join(files, f.partition_id == p.partition_id)
            .where(
                p.table_id == table.table_id, p.name_hash.in_(sorted({name_hash(name) for name, _ in wanted})),
                p.end_version == ALIVE, f.end_version == ALIVE, f.etag_hash.is_(None),
                f.path.in_(sorted({path for _, path in wanted})),
            )
        )  # fmt: skip
        key = (f.partition_id == sa.bindparam("p"), f.file_id == sa.bindparam("f"), f.etag_hash.is_(None))
        update = sa.update(files).where(*key).values(etag_hash=sa.bindparam("etag"))

        def work(connection: sa.Connection) -> None:
            noted = [
                {"p": partition_id, "f": file_id, "etag": file.etag}
                for name, partition_id, file_id, path, size, modified_ms in connection.execute(statement)
                if (file := wanted.get((name, path))) is not None and _is_as_listed(file, size, modified_ms)
            ]
            if noted:
                connection.execute(update, noted)

        self._database.write(work)


def _is_as_listed(file: DataFile, size: int, modified_ms: int) -> bool:
    # The index has the time of the commit for an object that a write has uploaded.
    return size == file.size and (modified_ms == file.modified_ms or transaction_id_in(file.path) is not None)
