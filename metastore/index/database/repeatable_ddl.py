"""Makes migrations repeatable on MySQL and MariaDB, which commit each DDL statement by itself.

If a migration is interrupted (a kill, a lost connection, a power failure), some statements of a revision have run, and
the database does not have the revision's number yet. A repeated migration skips the statements that have run already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from alembic.ddl.mysql import MySQLImpl

if TYPE_CHECKING:
    from alembic.runtime.migration import MigrationContext


class RepeatableImpl(MySQLImpl):
    """Alembic's DDL for MySQL and MariaDB that skips a CREATE of an existing object and a DROP of a missing one.

    The class registers no dialect name, so other users of Alembic in the process do not get it.
    """

    def create_table(self, table: sa.Table, **kw: Any) -> None:  # noqa: ANN401 -- Alembic's
        """Create a table and its indexes, unless the table exists with the same columns.

        If it has other columns, it belongs to another program: CREATE TABLE runs, and the database refuses it.
        """
        if self._columns(table.name) != {column.name for column in table.columns}:
            super().create_table(table, **kw)
        for index in table.indexes:
            self.create_index(index)

    def drop_table(self, table: sa.Table, **kw: Any) -> None:  # noqa: ANN401 -- Alembic's
        """Drop a table, if it exists."""
        if self._columns(table.name):
            super().drop_table(table, **kw)

    def create_index(self, index: sa.Index, **kw: Any) -> None:  # noqa: ANN401 -- Alembic's
        """Create an index, unless it exists."""
        if not self._has_index(index):
            super().create_index(index, **kw)

    def drop_index(self, index: sa.Index, **kw: Any) -> None:  # noqa: ANN401 -- Alembic's
        """Drop an index, if it exists."""
        if self._has_index(index):
            super().drop_index(index, **kw)

    def add_column(self, table_name: str, column: sa.Column[Any], **kw: Any) -> None:  # noqa: ANN401 -- Alembic's
        """Add a column, unless the table has it."""
        if column.name not in self._columns(table_name):
            super().add_column(table_name, column, **kw)

    def drop_column(self, table_name: str, column: sa.Column[Any], **kw: Any) -> None:  # noqa: ANN401 -- Alembic's
        """Drop a column, if the table has it."""
        if column.name in self._columns(table_name):
            super().drop_column(table_name, column, **kw)

    def _columns(self, table: str) -> set[str]:
        """Return the column names of a table; an empty set if it does not exist."""
        inspector = self._inspector()
        return {column["name"] for column in inspector.get_columns(table)} if inspector.has_table(table) else set()

    def _has_index(self, index: sa.Index) -> bool:
        assert index.table is not None, "an index is of a table"
        inspector, table = self._inspector(), index.table.name
        return inspector.has_table(table) and index.name in {one["name"] for one in inspector.get_indexes(table)}

    def _inspector(self) -> sa.Inspector:
        # An inspector caches its answers, so each call makes a new one.
        assert self.connection is not None, "migrations are carried out, and not printed"
        return sa.inspect(self.connection)


def make_repeatable(migration: MigrationContext) -> None:
    """Let a migration on MySQL or MariaDB resume after an interruption; no effect on databases that roll back DDL."""
    old = migration.impl
    if migration.dialect.name in ("mysql", "mariadb"):
        migration.impl = RepeatableImpl(
            old.dialect, old.connection, old.as_sql, old.transactional_ddl, old.output_buffer, old.context_opts
        )
