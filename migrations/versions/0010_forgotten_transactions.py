"""Keep the ids of transactions whose rows are forgotten, until vacuum has looked for what they left.

Revision ID: 0010
Revises: 0009
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql, postgresql

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    kind = (
        sa.Text()
        .with_variant(postgresql.TEXT(collation="C"), "postgresql")
        .with_variant(mysql.VARBINARY(32), "mysql", "mariadb")
    )
    op.create_table(
        "forgotten_transactions",
        sa.Column("transaction_id", kind, nullable=False),
        sa.Column("table_id", sa.BigInteger, nullable=False),
        sa.Column("forgotten_at_ms", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("transaction_id", name="pk_forgotten_transactions"),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_forgotten_transactions_table_id_forgotten_at_ms",
        "forgotten_transactions",
        ["table_id", "forgotten_at_ms"],
    )


def downgrade() -> None:
    op.drop_table("forgotten_transactions")
