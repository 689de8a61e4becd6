"""Add what writes need: transactions, their files and claims, applications, waiting files, statistics of files.

Revision ID: 0002
Revises: 0001
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql, postgresql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def _exact(key_bytes: int | None = None) -> sa.types.TypeEngine[str]:
    binary = mysql.VARBINARY(key_bytes) if key_bytes else mysql.MEDIUMBLOB()
    return sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql").with_variant(binary, "mysql", "mariadb")


def _big(name: str, *, nullable: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=nullable)


def _key(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=False, autoincrement=False)


def _text(name: str, *, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, _exact(), nullable=nullable)


def _id(name: str = "transaction_id", *, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, _exact(32), nullable=nullable)


def _create_transactions() -> None:
    op.create_table(
        "transactions",
        _id(),
        _big("table_id", nullable=True),
        _text("table_name"),
        sa.Column("operation", _exact(64), nullable=False),
        sa.Column("state", _exact(16), nullable=False),
        _text("owner"),
        _big("base_version"),
        _big("began_at_ms"),
        _big("expires_at_ms"),
        _big("ended_at_ms", nullable=True),
        _text("plan"),
        _big("replaces", nullable=True),
        _text("app_id", nullable=True),
        _big("app_version", nullable=True),
        _big("version", nullable=True),
        _text("outcome"),
        _text("error", nullable=True),
        sa.PrimaryKeyConstraint("transaction_id", name="pk_transactions"),
    )
    op.create_index("ix_transactions_table_id_state", "transactions", ["table_id", "state"])
    op.create_index("ix_transactions_state_expires_at_ms", "transactions", ["state", "expires_at_ms"])


def _create_contents() -> None:
    op.create_table(
        "transaction_files",
        _id(),
        _key("number"),
        sa.Column("removal", sa.SmallInteger(), nullable=False),
        _big("n_files"),
        _text("payload"),
        sa.PrimaryKeyConstraint("transaction_id", "number", name="pk_transaction_files"),
    )
    op.create_table(
        "transaction_claims",
        _id(),
        _id("claim_hash"),
        _big("table_id"),
        _text("name"),
        sa.Column("exclusive", sa.SmallInteger(), nullable=False),
        _big("version", nullable=True),
        sa.PrimaryKeyConstraint("transaction_id", "claim_hash", name="pk_transaction_claims"),
    )
    op.create_index("ix_transaction_claims_table_id_claim_hash", "transaction_claims", ["table_id", "claim_hash"])
    op.create_index("ix_transaction_claims_table_id_version", "transaction_claims", ["table_id", "version"])
    op.create_table(
        "applications",
        _key("table_id"),
        _id("app_hash"),
        _text("app_id"),
        _big("app_version"),
        _id(),
        _big("version"),
        sa.PrimaryKeyConstraint("table_id", "app_hash", name="pk_applications"),
    )


def _create_files() -> None:
    op.create_table(
        "waiting_files",
        _key("table_id"),
        _id("name_hash"),
        _id(),
        _key("number"),
        _text("name"),
        _big("since_ms"),
        _big("n_files"),
        _text("payload"),
        sa.PrimaryKeyConstraint("table_id", "name_hash", "transaction_id", "number", name="pk_waiting_files"),
    )
    op.create_table(
        "file_statistics",
        _key("partition_id"),
        _key("file_id"),
        _text("statistics"),
        sa.PrimaryKeyConstraint("partition_id", "file_id", name="pk_file_statistics"),
        sqlite_with_rowid=False,
    )


def upgrade() -> None:
    _create_transactions()
    _create_contents()
    _create_files()
    for column in ("oldest_version", "claims_from"):
        op.add_column("tables", sa.Column(column, sa.BigInteger(), nullable=False, server_default=sa.text("0")))
    op.add_column("table_versions", _id(nullable=True))
    op.add_column("table_versions", _big("first_file_id", nullable=True))
    op.create_index("ix_partitions_table_id_begin_version", "partitions", ["table_id", "begin_version"])
    located = sa.text("location IS NOT NULL")
    op.create_index(
        "ix_partitions_table_id_end_version",
        "partitions",
        ["table_id", "end_version"],
        sqlite_where=located,
        postgresql_where=located,
    )


def downgrade() -> None:
    op.drop_index("ix_partitions_table_id_end_version", "partitions")
    op.drop_index("ix_partitions_table_id_begin_version", "partitions")
    for column in ("first_file_id", "transaction_id"):
        op.drop_column("table_versions", column)
    for column in ("claims_from", "oldest_version"):
        op.drop_column("tables", column)
    for table in (
        "file_statistics", "waiting_files", "applications", "transaction_claims", "transaction_files", "transactions",
    ):  # fmt: skip
        op.drop_table(table)
