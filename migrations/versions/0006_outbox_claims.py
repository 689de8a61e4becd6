"""Add who delivers a message, and how often the metastore refused it.

Revision ID: 0006
Revises: 0005
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql, postgresql

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    exact = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
    op.add_column(
        "outbox",
        sa.Column("claimed_by", exact.with_variant(mysql.VARBINARY(32), "mysql", "mariadb"), nullable=True),
    )
    op.add_column("outbox", sa.Column("refusals", sa.BigInteger(), nullable=False, server_default=sa.text("0")))
    op.create_index("ix_outbox_table_id", "outbox", ["table_id"])


def downgrade() -> None:
    op.drop_index("ix_outbox_table_id", "outbox")
    for name in ("refusals", "claimed_by"):
        op.drop_column("outbox", name)
