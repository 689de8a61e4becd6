"""Add how far the metastore is followed, and what of it is in doubt.

Revision ID: 0015
Revises: 0014
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql, postgresql

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    exact = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
    hash_ = exact.with_variant(mysql.VARBINARY(32), "mysql", "mariadb")
    word = exact.with_variant(mysql.VARBINARY(16), "mysql", "mariadb")
    text = exact.with_variant(mysql.MEDIUMBLOB(), "mysql", "mariadb")
    op.create_table(
        "followed_metastore",
        sa.Column("follower_id", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("metastore_id", text, nullable=True),
        sa.Column("event_id", sa.BigInteger(), nullable=True),
        sa.Column("newest_id", sa.BigInteger(), nullable=True),
        sa.Column("source", word, nullable=True),
        sa.Column("looked_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("compared_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("error", text, nullable=True),
        sa.Column("holder", text, nullable=True),
        sa.Column("held_until_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("follower_id", name="pk_followed_metastore"),
    )
    op.create_table(
        "followed_tables",
        sa.Column("table_id", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("missing", text, nullable=True),
        sa.Column("definition", text, nullable=False),
        sa.PrimaryKeyConstraint("table_id", name="pk_followed_tables"),
    )
    op.create_table(
        "followed_doubts",
        sa.Column("name_hash", hash_, nullable=False),
        sa.Column("table_name", text, nullable=False),
        sa.Column("doubt", text, nullable=True),
        sa.Column("attempts", sa.BigInteger(), nullable=False),
        sa.Column("next_attempt_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("since_ms", sa.BigInteger(), nullable=False),
        sa.Column("error", text, nullable=False),
        sa.PrimaryKeyConstraint("name_hash", name="pk_followed_doubts"),
    )


def downgrade() -> None:
    op.drop_table("followed_doubts")
    op.drop_table("followed_tables")
    op.drop_table("followed_metastore")
