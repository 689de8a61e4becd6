"""Add the repairs that ran.

Revision ID: 0003
Revises: 0002
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql, postgresql

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def _exact(key_bytes: int | None = None) -> sa.types.TypeEngine[str]:
    binary = mysql.VARBINARY(key_bytes) if key_bytes else mysql.MEDIUMBLOB()
    return sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql").with_variant(binary, "mysql", "mariadb")


def _big(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=False)


def upgrade() -> None:
    number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "repairs",
        sa.Column("repair_id", number, nullable=False, autoincrement=True),
        _big("table_id"),
        _big("began_at_ms"),
        _big("ended_at_ms"),
        sa.Column("mode", _exact(16), nullable=False),
        sa.Column("limited_to", _exact(), nullable=True),
        sa.Column("strict", sa.SmallInteger(), nullable=False),
        sa.Column("owner", _exact(), nullable=False),
        _big("added"),
        _big("dropped"),
        _big("changed"),
        _big("skipped"),
        _big("version_before"),
        _big("version_after"),
        sa.Column("error", _exact(), nullable=True),
        sa.PrimaryKeyConstraint("repair_id", name="pk_repairs"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_repairs_table_id_ended_at_ms", "repairs", ["table_id", "ended_at_ms"])


def downgrade() -> None:
    op.drop_table("repairs")
