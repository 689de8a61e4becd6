"""Keep the locations of partitions that the tasks of an open write have asked for.

Revision ID: 0009
Revises: 0008
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql, postgresql

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def _exact(name: str, key_bytes: int | None = None) -> sa.Column[str]:
    binary = mysql.VARBINARY(key_bytes) if key_bytes else mysql.MEDIUMBLOB()
    kind = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql").with_variant(binary, "mysql", "mariadb")
    return sa.Column(name, kind, nullable=False)


def upgrade() -> None:
    op.create_table(
        "transaction_locations",
        _exact("transaction_id", 32),
        _exact("name_hash", 32),
        _exact("name"),
        _exact("location"),
        sa.PrimaryKeyConstraint("transaction_id", "name_hash", name="pk_transaction_locations"),
    )


def downgrade() -> None:
    op.drop_table("transaction_locations")
