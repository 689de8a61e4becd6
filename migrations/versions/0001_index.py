"""Create the tables of the index.

Revision ID: 0001
Revises:
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql, postgresql

if TYPE_CHECKING:
    from collections.abc import Iterable

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

ALIVE = 2**63 - 1
KEY_COLUMNS = 8
KEY_BYTES = 255
NAME_BYTES = 512

_TABLES = (
    "namespaces", "tables", "table_versions", "table_definitions", "version_holds", "dropped_tables", "settlements",
    "partitions", "partition_descriptors", "partition_sums", "files", "file_statistics", "outbox", "transactions",
    "transaction_files", "transaction_claims", "transaction_locations", "forgotten_transactions", "applications",
    "waiting_files", "repairs", "skipped_paths", "verifications", "followed_metastore", "followed_tables",
    "followed_suspects", "views", "view_sources", "view_partition_dependencies", "index_properties",
)  # fmt: skip


def upgrade() -> None:
    _create_tables()
    _create_table_history()
    _create_version_holds()
    _create_partitions()
    _create_partition_indexes()
    _create_files()
    _create_outbox()
    _create_transactions()
    _create_transaction_contents()
    _create_ended_writes()
    _create_repairs()
    _create_hms_events()
    _create_views()
    _create("index_properties", _text("name", 64), _text("value"), key="name")


def downgrade() -> None:
    for table in reversed(_TABLES):
        op.drop_table(table)


def _create_tables() -> None:
    _create(
        "namespaces",
        _counter("namespace_id"), _text("name", NAME_BYTES), _text("location", null=True), _text("comment", null=True),
        _text("properties"), _big("created_at_ms"),
        sa.UniqueConstraint("name", name="uq_namespaces_name"),
        key="namespace_id", sqlite_autoincrement=True,
    )  # fmt: skip
    _create(
        "tables",
        _counter("table_id"), _big("namespace_id"), _text("name", NAME_BYTES), _text("table_type", 16),
        _text("format", 32),
        *_texts("location", "columns", "partition_columns", "options", "properties"),
        _text("comment", null=True), _text("owner"),
        *_bigs("created_at_ms", "version", "total_partitions", "total_files", "total_bytes", "counted_rows"),
        *_bigs("uncounted_partitions", "next_partition_number", "next_file_id"),
        _flag("has_long_keys"),
        *(_big(name, default="0") for name in ("oldest_version", "claims_from", "deleted_before_version")),
        _flag("has_descriptors", default="0"),
        sa.ForeignKeyConstraint(
            ["namespace_id"], ["namespaces.namespace_id"], name="fk_tables_namespace_id_namespaces"
        ),
        sa.UniqueConstraint("namespace_id", "name", name="uq_tables_namespace_id_name"),
        key="table_id", sqlite_autoincrement=True,
    )  # fmt: skip


def _create_table_history() -> None:
    _create(
        "table_versions",
        _big("table_id"), _big("version"), _text("operation", 64), _big("committed_at_ms"), _text("summary"),
        _text("transaction_id", 32, null=True), _big("first_file_id", null=True),
        key="table_id, version",
    )  # fmt: skip
    _create(
        "table_definitions",
        _big("table_id"), _big("end_version"), _text("format", 32),
        *_texts("location", "columns", "partition_columns", "options"),
        key="table_id, end_version",
    )  # fmt: skip
    _create(
        "dropped_tables",
        _big("table_id"), _big("dropped_at_ms"), *_texts("name", "location", "directory", null=True),
        key="table_id",
    )  # fmt: skip
    _create(
        "settlements",
        _big("table_id"), _big("version"), _text("transaction_id", 32), _flag("delivers"), _big("committed_at_ms"),
        _big("settled_id"),
        key="table_id",
    )  # fmt: skip


def _create_version_holds() -> None:
    _create(
        "version_holds",
        _big("table_id"), _text("kind", 16), _text("name", NAME_BYTES), _big("version"), _text("owner"),
        _big("since_ms"), _big("until_ms", null=True),
        key="table_id, kind, name", sqlite_with_rowid=False,
    )  # fmt: skip


def _create_partitions() -> None:
    _create(
        "partitions",
        *_bigs("partition_id", "begin_version", "end_version", "table_id"), _text("name"), _text("name_hash", 32),
        *(_text(f"k{number}", KEY_BYTES, null=True) for number in range(1, KEY_COLUMNS + 1)),
        _text("location", null=True), _flag("in_metastore"), _big("n_files"), _big("n_bytes"),
        _big("n_rows", null=True), _big("created_at_ms"), _big("descriptor_id", null=True),
        sa.UniqueConstraint(
            "table_id", "name_hash", "end_version", name="uq_partitions_table_id_name_hash_end_version"
        ),
        key="partition_id, begin_version",
    )  # fmt: skip
    _create(
        "partition_descriptors",
        _big("table_id"), _big("descriptor_id"), _text("descriptor_hash", 32), _text("descriptor"),
        key="table_id, descriptor_id",
    )  # fmt: skip
    _create(
        "partition_sums",
        _big("table_id"), _flag("depth"), _text("k1", KEY_BYTES),
        *_bigs("version", "n_partitions", "n_files", "n_bytes", "n_rows", "n_uncounted"),
        key="table_id, depth, k1, version", sqlite_with_rowid=False,
    )  # fmt: skip


def _create_partition_indexes() -> None:
    """Create the indexes of ``partitions``; MariaDB and MySQL have no partial indexes, so there they hold every row."""
    alive = "end_version, begin_version"
    _index("partitions", f"table_id, k1, k2, k3, k4, {alive}")
    for number in range(2, KEY_COLUMNS + 1):
        _index("partitions", f"table_id, k{number}, {alive}", where=f"k{number} IS NOT NULL")
    _index("partitions", "table_id, begin_version")
    _index("partitions", "table_id, end_version", where="location IS NOT NULL")
    ended = f"end_version < {ALIVE}"
    _index("partitions", "table_id, end_version, partition_id", name="ix_partitions_ended", where=ended)
    described = "descriptor_id IS NOT NULL"
    _index("partitions", "table_id, descriptor_id", name="ix_partitions_described", where=described)
    located = sa.text("location IS NOT NULL")
    op.create_index(
        "ix_partitions_location", "partitions", ["location"], mysql_length=400, mariadb_length=400,
        sqlite_where=located, postgresql_where=located, postgresql_using="spgist",
    )  # fmt: skip


def _create_files() -> None:
    _create(
        "files",
        *_bigs("partition_id", "file_id", "begin_version", "end_version"), _text("path"), _big("size"),
        _big("modified_ms"), _big("n_rows", null=True), _big("etag_hash", null=True),
        key="partition_id, file_id", sqlite_with_rowid=False,
    )  # fmt: skip
    _create(
        "file_statistics",
        _big("partition_id"), _big("file_id"), _text("statistics"),
        key="partition_id, file_id", sqlite_with_rowid=False,
    )  # fmt: skip


def _create_outbox() -> None:
    _create(
        "outbox",
        _counter("outbox_id"), _big("table_id", null=True), _text("namespace", NAME_BYTES),
        _text("table_name", NAME_BYTES, null=True), _text("operation", 64), _text("payload"),
        *_bigs("created_at_ms", "attempts", "next_attempt_at_ms"), _text("last_error", null=True),
        _text("claimed_by", 32, null=True), _big("refusals", default="0"),
        key="outbox_id", sqlite_autoincrement=True,
    )  # fmt: skip
    _index("outbox", "table_id")


def _create_transactions() -> None:
    _create(
        "transactions",
        _text("transaction_id", 32), _big("table_id", null=True), _text("table_name"), _text("operation", 64),
        _text("state", 16), _text("owner"), *_bigs("base_version", "began_at_ms", "expires_at_ms"),
        _big("ended_at_ms", null=True), _text("plan"), _big("replaces", null=True), _text("app_id", null=True),
        _big("app_version", null=True), _big("version", null=True), _text("outcome"), _text("error", null=True),
        _flag("reserved", default="1"),
        key="transaction_id",
    )  # fmt: skip
    _index("transactions", "table_id, state")
    _index("transactions", "state, expires_at_ms")
    _index("transactions", "table_id, version")


def _create_transaction_contents() -> None:
    _create(
        "transaction_files",
        _text("transaction_id", 32), _big("number"), _flag("removal"), _big("n_files"), _text("payload"),
        key="transaction_id, number",
    )  # fmt: skip
    _create(
        "transaction_claims",
        _text("transaction_id", 32), _text("claim_hash", 32), _big("table_id"), _text("name"), _flag("exclusive"),
        _big("version", null=True),
        key="transaction_id, claim_hash",
    )  # fmt: skip
    _index("transaction_claims", "table_id, claim_hash")
    _index("transaction_claims", "table_id, version")
    _create(
        "transaction_locations",
        _text("transaction_id", 32), _text("name_hash", 32), _text("name"), _text("location"),
        key="transaction_id, name_hash",
    )  # fmt: skip


def _create_ended_writes() -> None:
    _create(
        "forgotten_transactions",
        _text("transaction_id", 32), _big("table_id"), _big("forgotten_at_ms"),
        key="transaction_id", sqlite_with_rowid=False,
    )  # fmt: skip
    _index("forgotten_transactions", "table_id, forgotten_at_ms")
    _create(
        "applications",
        _big("table_id"), _text("app_hash", 32), _text("app_id"), _big("app_version"), _text("transaction_id", 32),
        _big("version"),
        key="table_id, app_hash",
    )  # fmt: skip
    _create(
        "waiting_files",
        _big("table_id"), _text("name_hash", 32), _text("transaction_id", 32), _big("number"), _text("name"),
        _big("since_ms"), _big("n_files"), _text("payload"),
        key="table_id, name_hash, transaction_id, number",
    )  # fmt: skip


def _create_repairs() -> None:
    _create(
        "repairs",
        _counter("repair_id"), *_bigs("table_id", "began_at_ms", "ended_at_ms"), _text("mode", 16),
        _text("limited_to", null=True), _flag("strict"), _text("owner"),
        *_bigs("added", "dropped", "changed", "skipped", "version_before", "version_after"), _text("error", null=True),
        key="repair_id", sqlite_autoincrement=True,
    )  # fmt: skip
    _index("repairs", "table_id, ended_at_ms")
    _create(
        "skipped_paths",
        _big("table_id"), _big("position"), _text("path"), _text("partition_name"), _big("files", null=True),
        _big("bytes", null=True), _text("reason"), _big("skipped_at_ms"),
        key="table_id, position",
    )  # fmt: skip
    _create(
        "verifications",
        _big("table_id"), _text("name_hash", 32), _big("verified_at_ms"), _big("version"),
        key="table_id, name_hash",
    )  # fmt: skip


def _create_hms_events() -> None:
    _create(
        "followed_metastore",
        _big("follower_id"), _text("metastore_id", null=True), *_bigs("event_id", "newest_id", null=True),
        _text("source", 16, null=True), *_bigs("looked_at_ms", "compared_at_ms", null=True),
        *_texts("error", "holder", null=True), _big("held_until_ms"),
        key="follower_id",
    )  # fmt: skip
    _create(
        "followed_tables",
        _big("table_id"), _big("version"), _text("missing", null=True), _text("definition"),
        key="table_id",
    )  # fmt: skip
    _create(
        "followed_suspects",
        _text("name_hash", 32), _text("table_name"), _text("suspect", null=True),
        *_bigs("attempts", "next_attempt_at_ms", "since_ms"), _text("error"),
        key="name_hash",
    )  # fmt: skip


def _create_views() -> None:
    _create(
        "views", _big("table_id"), _text("query_text"), _text("details"), _flag("automatic"), key="table_id"
    )  # fmt: skip
    _create(
        "view_sources",
        _big("table_id"), _big("number"), _text("namespace", NAME_BYTES), _text("name", NAME_BYTES),
        _big("seen_table_id"), _big("seen_version"),
        key="table_id, number",
    )  # fmt: skip
    _create(
        "view_partition_dependencies",
        _big("partition_id"), _big("number"), _text("relation"), _text("partitions"),
        key="partition_id, number",
    )  # fmt: skip


def _create(table: str, *items: sa.schema.SchemaItem, key: str, **options: bool) -> None:
    """Create a table with its primary key, whose columns are separated by commas."""
    op.create_table(table, *items, sa.PrimaryKeyConstraint(*key.split(", "), name=f"pk_{table}"), **options)


def _index(table: str, columns: str, *, name: str | None = None, where: str | None = None) -> None:
    named = columns.split(", ")
    condition = None if where is None else sa.text(where)
    op.create_index(
        name or f"ix_{table}_{'_'.join(named)}", table, named, sqlite_where=condition, postgresql_where=condition
    )


def _text(name: str, key_bytes: int | None = None, *, null: bool = False) -> sa.Column[str]:
    """Return a column of text that is compared by its UTF-8 bytes; MariaDB and MySQL index only a limited length."""
    binary = mysql.VARBINARY(key_bytes) if key_bytes else mysql.MEDIUMBLOB()
    exact = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
    return sa.Column(name, exact.with_variant(binary, "mysql", "mariadb"), nullable=null)


def _texts(*names: str, null: bool = False) -> Iterable[sa.Column[str]]:
    return (_text(name, null=null) for name in names)


def _counter(name: str) -> sa.Column[int]:
    """Return a column whose values the database generates; SQLite does so only in a column of the type INTEGER."""
    return sa.Column(name, sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False, autoincrement=True)


def _big(name: str, *, null: bool = False, default: str | None = None) -> sa.Column[int]:
    server_default = None if default is None else sa.text(default)
    return sa.Column(name, sa.BigInteger(), nullable=null, autoincrement=False, server_default=server_default)


def _bigs(*names: str, null: bool = False) -> Iterable[sa.Column[int]]:
    return (_big(name, null=null) for name in names)


def _flag(name: str, *, default: str | None = None) -> sa.Column[int]:
    server_default = None if default is None else sa.text(default)
    return sa.Column(name, sa.SmallInteger(), nullable=False, autoincrement=False, server_default=server_default)
