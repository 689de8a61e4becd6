"""A revision that no release has: ``tests/kit/next_revision.py`` puts it after the newest one.

It creates a table, adds a column and an index, converts rows, and refuses a downgrade that would lose a note.

Revision ID: PRETEND
Revises: HEAD
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "PRETEND"
down_revision = "HEAD"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "pretend_notes",
        sa.Column("table_id", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("kept", sa.SmallInteger(), nullable=False),
        sa.PrimaryKeyConstraint("table_id", name="pk_pretend_notes"),
    )
    op.add_column("tables", sa.Column("pretend_files", sa.BigInteger(), nullable=False, server_default=sa.text("0")))
    op.create_index("ix_partitions_pretend", "partitions", ["table_id", "n_files"])
    op.execute("UPDATE tables SET pretend_files = total_files")
    # MariaDB and MySQL have these rows already where an earlier run was interrupted after the next statement.
    op.execute("DELETE FROM pretend_notes")
    op.execute("INSERT INTO pretend_notes (table_id, kept) SELECT table_id, 0 FROM tables")


def check_downgrade(bind: sa.Connection) -> None:
    """Raise when a note is kept that the schema before has no place for."""
    if not sa.inspect(bind).has_table("pretend_notes"):
        return  # MariaDB and MySQL: an earlier run was interrupted after it had dropped the table
    kept = bind.execute(sa.text("SELECT count(*) FROM pretend_notes WHERE kept = 1")).scalar()
    if kept:
        raise RuntimeError(f"{kept} notes of the index would be lost. Delete them, and migrate again.")


def downgrade() -> None:
    op.drop_index("ix_partitions_pretend", "partitions")
    op.drop_column("tables", "pretend_files")
    op.drop_table("pretend_notes")
