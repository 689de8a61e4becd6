"""Create the index: namespaces, tables, versions, partitions, files and the outbox.

Revision ID: 0001
Revises:
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql, postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

MAX_KEY_BYTES = 255
KEY_COLUMNS = 8

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _exact(key_bytes: int | None = None) -> sa.types.TypeEngine[str]:
    binary = mysql.VARBINARY(key_bytes) if key_bytes else mysql.MEDIUMBLOB()
    return sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql").with_variant(binary, "mysql", "mariadb")


def _big(name: str, *, nullable: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=nullable)


def _text(name: str, *, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, _exact(), nullable=nullable)


def _create_namespaces() -> None:
    op.create_table(
        "namespaces",
        sa.Column("namespace_id", _NUMBER, nullable=False, autoincrement=True),
        sa.Column("name", _exact(512), nullable=False),
        _text("location", nullable=True),
        _text("comment", nullable=True),
        _text("properties"),
        _big("created_at_ms"),
        sa.PrimaryKeyConstraint("namespace_id", name="pk_namespaces"),
        sa.UniqueConstraint("name", name="uq_namespaces_name"),
        sqlite_autoincrement=True,
    )


def _create_tables() -> None:
    op.create_table(
        "tables",
        sa.Column("table_id", _NUMBER, nullable=False, autoincrement=True),
        _big("namespace_id"),
        sa.Column("name", _exact(512), nullable=False),
        sa.Column("table_type", _exact(16), nullable=False),
        sa.Column("format", _exact(32), nullable=False),
        *(_text(n) for n in ("location", "columns", "partition_columns", "options", "properties")),
        _text("comment", nullable=True),
        _text("owner"),
        *(_big(n) for n in ("created_at_ms", "version", "total_partitions", "total_files", "total_bytes")),
        *(_big(n) for n in ("counted_rows", "uncounted_partitions", "next_partition_number", "next_file_id")),
        sa.Column("has_long_keys", sa.SmallInteger(), nullable=False),
        sa.PrimaryKeyConstraint("table_id", name="pk_tables"),
        sa.ForeignKeyConstraint(
            ["namespace_id"], ["namespaces.namespace_id"], name="fk_tables_namespace_id_namespaces"
        ),
        sa.UniqueConstraint("namespace_id", "name", name="uq_tables_namespace_id_name"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "table_versions",
        sa.Column("table_id", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("version", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("operation", _exact(64), nullable=False),
        _big("committed_at_ms"),
        _text("summary"),
        sa.PrimaryKeyConstraint("table_id", "version", name="pk_table_versions"),
    )
    op.create_table(
        "dropped_tables",
        sa.Column("table_id", sa.BigInteger(), nullable=False, autoincrement=False),
        _big("dropped_at_ms"),
        sa.PrimaryKeyConstraint("table_id", name="pk_dropped_tables"),
    )


def _create_partitions() -> None:
    op.create_table(
        "partitions",
        sa.Column("partition_id", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("begin_version", sa.BigInteger(), nullable=False, autoincrement=False),
        _big("end_version"),
        _big("table_id"),
        _text("name"),
        sa.Column("name_hash", _exact(32), nullable=False),
        *(sa.Column(f"k{i}", _exact(MAX_KEY_BYTES), nullable=True) for i in range(1, KEY_COLUMNS + 1)),
        _text("location", nullable=True),
        sa.Column("in_metastore", sa.SmallInteger(), nullable=False),
        _big("n_files"),
        _big("n_bytes"),
        _big("n_rows", nullable=True),
        _big("created_at_ms"),
        sa.PrimaryKeyConstraint("partition_id", "begin_version", name="pk_partitions"),
        sa.UniqueConstraint(
            "table_id", "name_hash", "end_version", name="uq_partitions_table_id_name_hash_end_version"
        ),
    )
    op.create_index(
        "ix_partitions_table_id_k1_k2_k3_k4_end_version_begin_version",
        "partitions",
        ["table_id", "k1", "k2", "k3", "k4", "end_version", "begin_version"],
    )
    for i in range(2, KEY_COLUMNS + 1):
        op.create_index(
            f"ix_partitions_table_id_k{i}_end_version_begin_version",
            "partitions",
            ["table_id", f"k{i}", "end_version", "begin_version"],
            sqlite_where=sa.text(f"k{i} IS NOT NULL"),
            postgresql_where=sa.text(f"k{i} IS NOT NULL"),
        )


def _create_files() -> None:
    op.create_table(
        "files",
        sa.Column("partition_id", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("file_id", sa.BigInteger(), nullable=False, autoincrement=False),
        _big("begin_version"),
        _big("end_version"),
        _text("path"),
        _big("size"),
        _big("modified_ms"),
        _big("n_rows", nullable=True),
        sa.PrimaryKeyConstraint("partition_id", "file_id", name="pk_files"),
        sqlite_with_rowid=False,
    )


def _create_outbox() -> None:
    op.create_table(
        "outbox",
        sa.Column("outbox_id", _NUMBER, nullable=False, autoincrement=True),
        _big("table_id", nullable=True),
        sa.Column("namespace", _exact(512), nullable=False),
        sa.Column("table_name", _exact(512), nullable=True),
        sa.Column("operation", _exact(64), nullable=False),
        _text("payload"),
        _big("created_at_ms"),
        _big("attempts"),
        _big("next_attempt_at_ms"),
        _text("last_error", nullable=True),
        sa.PrimaryKeyConstraint("outbox_id", name="pk_outbox"),
        sqlite_autoincrement=True,
    )


def upgrade() -> None:
    _create_namespaces()
    _create_tables()
    _create_partitions()
    _create_files()
    _create_outbox()


def downgrade() -> None:
    for table in ("outbox", "files", "partitions", "dropped_tables", "table_versions", "tables", "namespaces"):
        op.drop_table(table)
