"""Add views: their text, the tables that their partitions follow, and what a partition depends on.

Revision ID: 0004
Revises: 0003
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql, postgresql

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def _exact(key_bytes: int | None = None) -> sa.types.TypeEngine[str]:
    binary = mysql.VARBINARY(key_bytes) if key_bytes else mysql.MEDIUMBLOB()
    return sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql").with_variant(binary, "mysql", "mariadb")


def _key(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=False, autoincrement=False)


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, _exact(), nullable=False)


def upgrade() -> None:
    op.create_table(
        "views",
        _key("table_id"),
        _text("query_text"),
        _text("details"),
        sa.Column("automatic", sa.SmallInteger(), nullable=False),
        sa.PrimaryKeyConstraint("table_id", name="pk_views"),
    )
    op.create_table(
        "view_sources",
        _key("table_id"),
        _key("number"),
        sa.Column("namespace", _exact(512), nullable=False),
        sa.Column("name", _exact(512), nullable=False),
        sa.Column("seen_table_id", sa.BigInteger(), nullable=False),
        sa.Column("seen_version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("table_id", "number", name="pk_view_sources"),
    )
    op.create_table(
        "view_partition_dependencies",
        _key("partition_id"),
        _key("number"),
        _text("relation"),
        _text("partitions"),
        sa.PrimaryKeyConstraint("partition_id", "number", name="pk_view_partition_dependencies"),
    )


def downgrade() -> None:
    # A release without views would take their rows for tables.
    of_views = "(SELECT table_id FROM views)"
    if sa.inspect(op.get_bind()).has_table("views"):  # not where an earlier run on MariaDB was interrupted after this
        for table in ("partitions", "table_versions", "outbox", "tables"):
            op.execute(f"DELETE FROM {table} WHERE table_id IN {of_views}")
    for table in ("view_partition_dependencies", "view_sources", "views"):
        op.drop_table(table)
