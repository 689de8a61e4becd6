"""The tables of the index for SQLAlchemy; ``docs/spec/index.md`` describes their meaning.

The migrations create the tables and do not import this module; a test compares the two on each database.
"""

from __future__ import annotations

import sqlalchemy as sa

from catalog_ext.metastore.index.database.column_types import (
    NUMBER,
    ExactText,
    big,
    id_column,
    key,
    metadata,
    name_type,
    text,
)
from catalog_ext.metastore.index.database.sqlite_file import ALIVE as ALIVE
from catalog_ext.metastore.model.key_encoding import MAX_KEY_BYTES

KEY_COLUMNS = 8
"""How many partition columns have an encoded, indexed key; those after them are evaluated from the partition's name."""

PARTITION_NUMBER_BITS = 40
"""``partition_id`` is ``table_id`` shifted by this, plus the partition's number in its table."""

namespaces = sa.Table(
    "namespaces", metadata,
    sa.Column("namespace_id", NUMBER, primary_key=True, autoincrement=True),
    sa.Column("name", name_type(), nullable=False),
    text("location", nullable=True),
    text("comment", nullable=True),
    text("properties"),
    big("created_at_ms"),
    sa.UniqueConstraint("name"),
    sqlite_autoincrement=True,
)  # fmt: skip

tables = sa.Table(
    "tables", metadata,
    sa.Column("table_id", NUMBER, primary_key=True, autoincrement=True),
    sa.Column("namespace_id", sa.BigInteger, sa.ForeignKey("namespaces.namespace_id"), nullable=False),
    sa.Column("name", name_type(), nullable=False),
    sa.Column("table_type", ExactText(16), nullable=False),
    sa.Column("format", ExactText(32), nullable=False),
    *map(text, ("location", "columns", "partition_columns", "options", "properties")),
    text("comment", nullable=True),
    text("owner"),
    *map(big, (
        "created_at_ms", "version", "total_partitions", "total_files", "total_bytes", "counted_rows",
        "uncounted_partitions", "next_partition_number", "next_file_id",
    )),
    sa.Column("has_long_keys", sa.SmallInteger, nullable=False),
    sa.Column("oldest_version", sa.BigInteger, nullable=False, server_default=sa.text("0")),
    sa.Column("claims_from", sa.BigInteger, nullable=False, server_default=sa.text("0")),
    sa.Column("floor_version", sa.BigInteger, nullable=False, server_default=sa.text("0")),
    sa.Column("has_descriptors", sa.SmallInteger, nullable=False, server_default=sa.text("0")),
    sa.UniqueConstraint("namespace_id", "name"),
    # A table's number is part of its partitions' ids: it must not come again.
    sqlite_autoincrement=True,
)  # fmt: skip

table_versions = sa.Table(
    "table_versions", metadata,
    key("table_id"), key("version"),
    sa.Column("operation", ExactText(64), nullable=False),
    big("committed_at_ms"),
    text("summary"),
    id_column("transaction_id", nullable=True),
    big("first_file_id", nullable=True),
)  # fmt: skip

partitions = sa.Table(
    "partitions", metadata,
    key("partition_id"), key("begin_version"),
    big("end_version"),
    big("table_id"),
    text("name"),
    sa.Column("name_hash", ExactText(32), nullable=False),
    *(sa.Column(f"k{i}", ExactText(MAX_KEY_BYTES), nullable=True) for i in range(1, KEY_COLUMNS + 1)),
    text("location", nullable=True),
    sa.Column("in_metastore", sa.SmallInteger, nullable=False),
    big("n_files"), big("n_bytes"), big("n_rows", nullable=True), big("created_at_ms"),
    big("descriptor_id", nullable=True),
    sa.UniqueConstraint("table_id", "name_hash", "end_version"),
    sa.Index(None, "table_id", "k1", "k2", "k3", "k4", "end_version", "begin_version"),
    sa.Index(None, "table_id", "begin_version"),
    # Every write asks for the partitions at locations of their own; few tables have any.
    sa.Index(
        None, "table_id", "end_version",
        sqlite_where=sa.text("location IS NOT NULL"), postgresql_where=sa.text("location IS NOT NULL"),
    ),
    # Before files are deleted or registered every table is asked for partitions in their directories.
    sa.Index(
        "ix_partitions_location", "location", mysql_length=400, mariadb_length=400,
        sqlite_where=sa.text("location IS NOT NULL"), postgresql_where=sa.text("location IS NOT NULL"),
        # A B-tree takes no value above 2,700 bytes.
        postgresql_using="spgist",
    ),
    # Only tables that have partitions with their own descriptors use this index.
    sa.Index(
        "ix_partitions_described", "table_id", "descriptor_id",
        sqlite_where=sa.text("descriptor_id IS NOT NULL"), postgresql_where=sa.text("descriptor_id IS NOT NULL"),
    ),
    # What has ended is few, unless nothing expires.
    sa.Index(
        "ix_partitions_ended", "table_id", "end_version", "partition_id",
        sqlite_where=sa.text(f"end_version < {ALIVE}"), postgresql_where=sa.text(f"end_version < {ALIVE}"),
    ),
    *(
        sa.Index(
            None, "table_id", f"k{i}", "end_version", "begin_version",
            sqlite_where=sa.text(f"k{i} IS NOT NULL"), postgresql_where=sa.text(f"k{i} IS NOT NULL"),
        )
        for i in range(2, KEY_COLUMNS + 1)
    ),
)  # fmt: skip

partition_descriptors = sa.Table(
    "partition_descriptors", metadata,
    key("table_id"), key("descriptor_id"), id_column("descriptor_hash"), text("descriptor"),
)  # fmt: skip
"""How partitions are read that are not read as their tables: each way once a table, by its number."""

partition_sums = sa.Table(
    "partition_sums", metadata,
    key("table_id"),
    sa.Column("depth", sa.SmallInteger, primary_key=True, autoincrement=False),
    sa.Column("k1", ExactText(MAX_KEY_BYTES), primary_key=True),
    key("version"),
    *map(big, ("n_partitions", "n_files", "n_bytes", "n_rows", "n_uncounted")),
    sqlite_with_rowid=False,
)  # fmt: skip
"""How each version changed the sums of a table's partitions, all of them (``depth`` 0) and by the first key (1)."""

files = sa.Table(
    "files", metadata,
    key("partition_id"), key("file_id"),
    big("begin_version"),
    big("end_version"),
    text("path"),
    big("size"),
    big("modified_ms"),
    big("n_rows", nullable=True),
    big("etag_hash", nullable=True),
    sqlite_with_rowid=False,
)  # fmt: skip

outbox = sa.Table(
    "outbox", metadata,
    sa.Column("outbox_id", NUMBER, primary_key=True, autoincrement=True),
    big("table_id", nullable=True),
    sa.Column("namespace", name_type(), nullable=False),
    sa.Column("table_name", name_type(), nullable=True),
    sa.Column("operation", ExactText(64), nullable=False),
    text("payload"),
    *map(big, ("created_at_ms", "attempts", "next_attempt_at_ms")),
    text("last_error", nullable=True),
    id_column("claimed_by", nullable=True),
    sa.Column("refusals", sa.BigInteger, nullable=False, server_default=sa.text("0")),
    sa.Index(None, "table_id"),
    # Deliveries are in the order of their numbers: none may come again.
    sqlite_autoincrement=True,
)  # fmt: skip

dropped_tables = sa.Table(
    "dropped_tables", metadata,
    key("table_id"),
    big("dropped_at_ms"),
    text("name", nullable=True), text("location", nullable=True), text("directory", nullable=True),
)  # fmt: skip
"""Tables whose name is gone, and whose rows or (where there is a location) files are still to be removed."""

settlements = sa.Table(
    "settlements", metadata,
    key("table_id"),
    big("version"),
    id_column("transaction_id"),
    sa.Column("delivers", sa.SmallInteger, nullable=False),
    big("committed_at_ms"),
    big("settled_id"),
)  # fmt: skip
"""Deferred deletes: up to which partition the rows of a table with a floor have their ends."""

transactions = sa.Table(
    "transactions", metadata,
    id_column("transaction_id", primary_key=True),
    big("table_id", nullable=True),
    text("table_name"),
    sa.Column("operation", ExactText(64), nullable=False),
    sa.Column("state", ExactText(16), nullable=False),
    text("owner"),
    *map(big, ("base_version", "began_at_ms", "expires_at_ms")),
    big("ended_at_ms", nullable=True),
    text("plan"),
    big("replaces", nullable=True),
    text("app_id", nullable=True),
    big("app_version", nullable=True),
    big("version", nullable=True),
    text("outcome"),
    text("error", nullable=True),
    sa.Column("reserved", sa.SmallInteger, nullable=False, server_default=sa.text("1")),
    sa.Index(None, "table_id", "state"),
    sa.Index(None, "table_id", "version"),
    sa.Index(None, "state", "expires_at_ms"),
)  # fmt: skip

transaction_files = sa.Table(
    "transaction_files", metadata,
    id_column("transaction_id", primary_key=True),
    key("number"),
    sa.Column("removal", sa.SmallInteger, nullable=False),
    big("n_files"),
    text("payload"),
)  # fmt: skip

transaction_claims = sa.Table(
    "transaction_claims", metadata,
    id_column("transaction_id", primary_key=True),
    id_column("claim_hash", primary_key=True),
    big("table_id"),
    text("name"),
    sa.Column("exclusive", sa.SmallInteger, nullable=False),
    big("version", nullable=True),
    sa.Index(None, "table_id", "claim_hash"),
    sa.Index(None, "table_id", "version"),
)  # fmt: skip

transaction_locations = sa.Table(
    "transaction_locations", metadata,
    id_column("transaction_id", primary_key=True), id_column("name_hash", primary_key=True), text("name"),
    text("location"),
)  # fmt: skip

forgotten_transactions = sa.Table(
    "forgotten_transactions", metadata,
    id_column("transaction_id", primary_key=True),
    big("table_id"),
    big("forgotten_at_ms"),
    sa.Index(None, "table_id", "forgotten_at_ms"),
    sqlite_with_rowid=False,
)  # fmt: skip
"""Transactions that have ended and have no row any more, and that may have left files which vacuum has not seen."""

applications = sa.Table(
    "applications", metadata,
    key("table_id"), id_column("app_hash", primary_key=True), text("app_id"), big("app_version"),
    id_column("transaction_id"), big("version"),
)  # fmt: skip

waiting_files = sa.Table(
    "waiting_files", metadata,
    key("table_id"),
    id_column("name_hash", primary_key=True),
    id_column("transaction_id", primary_key=True),
    key("number"),
    text("name"),
    big("since_ms"),
    big("n_files"),
    text("payload"),
)  # fmt: skip

file_statistics = sa.Table(
    "file_statistics", metadata,
    key("partition_id"), key("file_id"),
    text("statistics"),
    sqlite_with_rowid=False,
)  # fmt: skip
"""Apart from ``files``, so that planning does not read over it."""

repairs = sa.Table(
    "repairs", metadata,
    sa.Column("repair_id", NUMBER, primary_key=True, autoincrement=True),
    *map(big, ("table_id", "began_at_ms", "ended_at_ms")),
    sa.Column("mode", ExactText(16), nullable=False),
    text("limited_to", nullable=True),
    sa.Column("strict", sa.SmallInteger, nullable=False),
    text("owner"),
    *map(big, ("added", "dropped", "changed", "skipped", "version_before", "version_after")),
    text("error", nullable=True),
    sa.Index(None, "table_id", "ended_at_ms"),
    sqlite_autoincrement=True,
)  # fmt: skip
"""Every repair that ran, also those that found nothing to change."""

skipped_paths = sa.Table(
    "skipped_paths", metadata,
    key("table_id"), key("position"), text("path"), text("partition_name"), big("files"), big("bytes"),
    text("reason"), big("skipped_at_ms"),
)  # fmt: skip
"""The first paths that the last repair of each table skipped, with the reasons."""

verifications = sa.Table(
    "verifications", metadata,
    key("table_id"), id_column("name_hash", primary_key=True), big("verified_at_ms"), big("version"),
)  # fmt: skip
"""When partitions were last compared with the store; the row without a hash is of all that have none of their own."""

followed_metastore = sa.Table(
    "followed_metastore", metadata,
    key("follower_id"), text("metastore_id", nullable=True), big("event_id", nullable=True),
    big("newest_id", nullable=True), sa.Column("source", ExactText(16), nullable=True),
    big("looked_at_ms", nullable=True), big("compared_at_ms", nullable=True), text("error", nullable=True),
    text("holder", nullable=True), big("held_until_ms"),
)  # fmt: skip
"""How far the metastore is followed, and by whom: one row."""

followed_tables = sa.Table(
    "followed_tables", metadata,
    key("table_id"), big("version"), text("missing", nullable=True), text("definition"),
)  # fmt: skip
"""At which version a table was last compared with the metastore's, what that did not have then, and what it was."""

followed_doubts = sa.Table(
    "followed_doubts", metadata,
    id_column("name_hash", primary_key=True), text("table_name"), text("doubt", nullable=True), big("attempts"),
    big("next_attempt_at_ms"), big("since_ms"), text("error"),
)  # fmt: skip
"""Tables of the metastore that could not be synchronized, and those that are refused (no ``doubt``)."""

views = sa.Table(
    "views", metadata,
    key("table_id"), text("query_text"), text("details"), sa.Column("automatic", sa.SmallInteger, nullable=False),
)  # fmt: skip
"""What a row of ``tables`` of the type VIEW has besides it."""

view_sources = sa.Table(
    "view_sources", metadata,
    key("table_id"),
    key("number"),
    sa.Column("namespace", name_type(), nullable=False),
    sa.Column("name", name_type(), nullable=False),
    big("seen_table_id"),
    big("seen_version"),
)  # fmt: skip
"""The tables from whose partitions a view's own follow, and which version of them was looked at last."""

view_partition_dependencies = sa.Table(
    "view_partition_dependencies", metadata,
    key("partition_id"), key("number"), text("relation"), text("partitions"),
)  # fmt: skip
"""What a partition of a view was made of when it was added."""

index_properties = sa.Table(
    "index_properties", metadata,
    sa.Column("name", ExactText(64), primary_key=True),
    text("value"),
)  # fmt: skip
"""What the index says of itself."""


def living(rows: sa.FromClause, table_id: int) -> sa.ColumnElement[bool]:
    """Return the clause for rows of ``partitions`` that nothing has ended, for readers without the table's lock.

    Under the lock a table has no floor (``write.deferred_deletes``): rows without an end are alive.
    """
    floor = sa.select(tables.c.floor_version).where(tables.c.table_id == table_id).scalar_subquery()
    return sa.and_(rows.c.end_version == ALIVE, rows.c.begin_version >= sa.func.coalesce(floor, 0))


def partition_ids(table_id: int) -> tuple[int, int]:
    """Return the least number that a partition of the table can have, and the least one above them all."""
    low = table_id << PARTITION_NUMBER_BITS
    return low, low + (1 << PARTITION_NUMBER_BITS)
