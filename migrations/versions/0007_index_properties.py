"""Add what the index says of itself: its metastore and its warehouse.

Revision ID: 0007
Revises: 0006
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql, postgresql

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def _exact(key_bytes: int | None = None) -> sa.types.TypeEngine[str]:
    binary = mysql.VARBINARY(key_bytes) if key_bytes else mysql.MEDIUMBLOB()
    return sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql").with_variant(binary, "mysql", "mariadb")


def upgrade() -> None:
    op.create_table(
        "index_properties",
        sa.Column("name", _exact(64), nullable=False),
        sa.Column("value", _exact(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_index_properties"),
    )


def downgrade() -> None:
    op.drop_table("index_properties")
