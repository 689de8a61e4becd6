"""Find the partitions in a directory, whatever their tables; remember which directory a dropped table had.

Revision ID: 0019
Revises: 0018
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql, postgresql

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

_LOCATED = sa.text("location IS NOT NULL")


def upgrade() -> None:
    op.create_index(
        "ix_partitions_location", "partitions", ["location"], mysql_length=400, mariadb_length=400,
        sqlite_where=_LOCATED, postgresql_where=_LOCATED, postgresql_using="spgist",
    )  # fmt: skip
    exact = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
    text = exact.with_variant(mysql.MEDIUMBLOB(), "mysql", "mariadb")
    op.add_column("dropped_tables", sa.Column("directory", text, nullable=True))


def downgrade() -> None:
    op.drop_column("dropped_tables", "directory")
    op.drop_index("ix_partitions_location", "partitions")
