"""Finds earlier versions of tables, for queries with VERSION AS OF and TIMESTAMP AS OF."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import sqlalchemy as sa

from catalog_ext.metastore.errors import TableNotFoundError, VersionNotFoundError
from catalog_ext.metastore.index.database.part import IndexPart
from catalog_ext.metastore.index.database.schema import partition_sums, table_versions, tables
from catalog_ext.metastore.index.read.history import History
from catalog_ext.metastore.index.read.marked_rows import is_held, version_expired, version_not_found
from catalog_ext.metastore.index.tables.definition_history import DefinitionHistory
from catalog_ext.metastore.index.write.partition_sums import ALL
from catalog_ext.metastore.index.write.version_holds import VersionHolds, tag_not_found
from catalog_ext.metastore.model.tables import Totals

if TYPE_CHECKING:
    from catalog_ext.metastore.model.tables import Table


class VersionLookup(IndexPart):
    """Finds versions of a table, and the table's totals at them."""

    def at_version(self, table: Table, version: int) -> Table:
        """Return the table at a version, with its definition and its totals at that version.

        Raises:
            VersionNotFoundError: The table has no such version.
            VersionExpiredError: Vacuum has removed the version.
            TableNotFoundError: The table is gone.
        """
        t, v, s = tables.c, table_versions.c, partition_sums.c
        there = sa.exists().where(v.table_id == table.table_id, v.version == version)
        held = is_held(table.table_id, version)
        state = sa.select(t.oldest_version, t.version, there.label("there"), held.label("held")).where(
            t.table_id == table.table_id
        )
        counts = (s.n_partitions, s.n_files, s.n_bytes, s.n_rows, s.n_uncounted)
        sums = sa.select(*(sa.cast(sa.func.coalesce(sa.func.sum(count), 0), sa.BigInteger) for count in counts)).where(
            s.table_id == table.table_id, s.depth == ALL, s.version <= version
        )
        with self._database.reading() as connection:
            row = connection.execute(state).one_or_none()
            if row is None:
                raise TableNotFoundError(
                    f"The table {table.identifier} was dropped meanwhile.", {"table": str(table.identifier)}
                )
            if 0 <= version < row.oldest_version and not row.held:
                raise version_expired(str(table.identifier), version, row.oldest_version)
            if not row.there:
                raise version_not_found(table, f"version {version}", row.oldest_version, row.version)
            partitions, files, size, rows, uncounted = tuple(connection.execute(sums).one())
        then = DefinitionHistory(self._database).at(table, version)
        return replace(then, totals=Totals(partitions, files, size, None if uncounted else rows))

    def at_tag(self, table: Table, name: str) -> Table:
        """Return the table at the version of a tag, with its totals at that version.

        Raises:
            VersionNotFoundError: The table has no tag of that name.
            VersionExpiredError: The tag has ended, and vacuum has removed the version.
            TableNotFoundError: The table is gone.
        """
        tags = {tag.name: tag for tag in VersionHolds(self._database).tags(table)}
        if name not in tags:
            raise tag_not_found(table, name, list(tags))
        return self.at_version(table, tags[name].version)

    def at_time(self, table: Table, at_ms: int) -> Table:
        """Return the table at its newest version that was committed at a time or before it, by the index's clock.

        The time is in milliseconds since the epoch, UTC. Before its first commit a table has version 0, without
        partitions, from its creation on.

        Raises:
            VersionNotFoundError: The table is younger.
            VersionExpiredError: Vacuum has removed the version.
            TableNotFoundError: The table is gone.
        """
        if at_ms < table.created_at_ms:
            at, created = (_utc(ms) for ms in (at_ms, table.created_at_ms))
            raise VersionNotFoundError(
                f"Table {table.identifier} has no version at {at}: it was created at {created}.",
                {"table": str(table.identifier), "time": at},
            )
        version = History(self._database).version_at(table.table_id, at_ms)
        with self._database.reading() as connection:
            oldest = connection.execute(
                sa.select(tables.c.oldest_version).where(tables.c.table_id == table.table_id)
            ).scalar()
        if oldest is not None and version < oldest:
            # The history of the versions between held ones is gone, so the version found need not be the newest one
            # at that time.
            raise version_expired(str(table.identifier), version, oldest)
        return self.at_version(table, version)


def _utc(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, timezone.utc).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + " UTC"
