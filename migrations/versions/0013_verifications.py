"""Add when partitions were last compared with the store.

Revision ID: 0013
Revises: 0012
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql, postgresql

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Nothing is known of the repairs before: they have kept no list of what they could not look at.
    exact = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
    op.create_table(
        "verifications",
        sa.Column("table_id", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("name_hash", exact.with_variant(mysql.VARBINARY(32), "mysql", "mariadb"), nullable=False),
        sa.Column("verified_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("table_id", "name_hash", name="pk_verifications"),
    )


def downgrade() -> None:
    op.drop_table("verifications")
