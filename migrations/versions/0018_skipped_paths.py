"""Add the paths that the last repair of a table skipped.

Revision ID: 0018
Revises: 0017
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql, postgresql

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    exact = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
    text = exact.with_variant(mysql.MEDIUMBLOB(), "mysql", "mariadb")
    op.create_table(
        "skipped_paths",
        sa.Column("table_id", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("position", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("path", text, nullable=False),
        sa.Column("partition_name", text, nullable=False),
        sa.Column("files", sa.BigInteger(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("reason", text, nullable=False),
        sa.Column("skipped_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("table_id", "position", name="pk_skipped_paths"),
    )


def downgrade() -> None:
    op.drop_table("skipped_paths")
