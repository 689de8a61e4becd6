"""Add the version with which everything before it has ended, and how far its rows say so.

Revision ID: 0014
Revises: 0013
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql, postgresql

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    exact = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
    op.add_column("tables", sa.Column("floor_version", sa.BigInteger(), nullable=False, server_default=sa.text("0")))
    op.create_table(
        "settlements",
        sa.Column("table_id", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("transaction_id", exact.with_variant(mysql.VARBINARY(32), "mysql", "mariadb"), nullable=False),
        sa.Column("delivers", sa.SmallInteger(), nullable=False),
        sa.Column("committed_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("settled_id", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("table_id", name="pk_settlements"),
    )


def downgrade() -> None:
    left = op.get_bind().execute(sa.text("SELECT count(*) FROM settlements")).scalar()
    if left:
        # What has ended would come back. `catalog-ext migrate` has settled all of them just before.
        raise RuntimeError(f"{left} tables of the index are being written. End all writers, and migrate again.")
    op.drop_table("settlements")
    op.drop_column("tables", "floor_version")
