"""The tables of the index as SQLAlchemy metadata; ``docs/spec/index.md`` describes their meaning.

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
"""The number of partition columns with an encoded, indexed key column. Later partition columns are evaluated from the
partition's name."""

PARTITION_NUMBER_BITS = 40
"""``partition_id`` is ``table_id`` shifted left by so many bits, plus the partition's number in its table."""

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
    sa.Column("deleted_before_version", sa.BigInteger, nullable=False, server_default=sa.text("0")),
    sa.Column("has_descriptors", sa.SmallInteger, nullable=False, server_default=sa.text("0")),
    sa.UniqueConstraint("namespace_id", "name"),
    # A table's number is part of its partitions' ids. Without AUTOINCREMENT, SQLite would give the number of the last
    # dropped table, whose rows may still exist, to a new table.
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

table_definitions = sa.Table(
    "table_definitions", metadata,
    key("table_id"), key("end_version"),
    sa.Column("format", ExactText(32), nullable=False),
    *map(text, ("location", "columns", "partition_columns", "options")),
)  # fmt: skip
"""Definitions that an ALTER TABLE has replaced, with the version that it made: they belong to earlier versions. The
definition of a table's newest version is in ``tables``."""

version_holds = sa.Table(
    "version_holds", metadata,
    key("table_id"),
    sa.Column("kind", ExactText(16), primary_key=True),
    sa.Column("name", name_type(), primary_key=True),
    big("version"),
    text("owner"),
    big("since_ms"),
    big("until_ms", nullable=True),
    sqlite_with_rowid=False,
)  # fmt: skip
"""Versions that vacuum keeps. The name is unique among the holds of its kind; ``owner`` is the user."""

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
    # Every write asks for the partitions that have their own location (outside the default directory). The database
    # index is partial, since few tables have such partitions.
    sa.Index(
        None, "table_id", "end_version",
        sqlite_where=sa.text("location IS NOT NULL"), postgresql_where=sa.text("location IS NOT NULL"),
    ),
    # Before files are deleted or registered, a query looks in all tables for partitions in the same directories.
    sa.Index(
        "ix_partitions_location", "location", mysql_length=400, mariadb_length=400,
        sqlite_where=sa.text("location IS NOT NULL"), postgresql_where=sa.text("location IS NOT NULL"),
        # SP-GiST, because PostgreSQL's B-tree refuses values above 2,700 bytes.
        postgresql_using="spgist",
    ),
    # Only tables with partitions that have their own descriptor (another format or schema than the table) use this
    # database index.
    sa.Index(
        "ix_partitions_described", "table_id", "descriptor_id",
        sqlite_where=sa.text("descriptor_id IS NOT NULL"), postgresql_where=sa.text("descriptor_id IS NOT NULL"),
    ),
    # This database index is for vacuum. It has only ended rows, which are few if versions expire regularly.
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
"""Descriptors (format and schema) of partitions that differ from their table: a row for each different descriptor of a
table, referred to by number."""

partition_sums = sa.Table(
    "partition_sums", metadata,
    key("table_id"),
    sa.Column("depth", sa.SmallInteger, primary_key=True, autoincrement=False),
    sa.Column("k1", ExactText(MAX_KEY_BYTES), primary_key=True),
    key("version"),
    *map(big, ("n_partitions", "n_files", "n_bytes", "n_rows", "n_uncounted")),
    sqlite_with_rowid=False,
)  # fmt: skip
"""For each version, the changes of a table's totals (``depth`` 0) and of the totals by the value of the first partition
column (``depth`` 1)."""

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
    # Messages are delivered in the order of their numbers, so SQLite must not reuse a number.
    sqlite_autoincrement=True,
)  # fmt: skip

dropped_tables = sa.Table(
    "dropped_tables", metadata,
    key("table_id"),
    big("dropped_at_ms"),
    text("name", nullable=True), text("location", nullable=True), text("directory", nullable=True),
)  # fmt: skip
"""Dropped tables whose rows, or (if ``location`` is set) whose files, are not removed yet."""

settlements = sa.Table(
    "settlements", metadata,
    key("table_id"),
    big("version"),
    id_column("transaction_id"),
    sa.Column("delivers", sa.SmallInteger, nullable=False),
    big("committed_at_ms"),
    big("settled_id"),
)  # fmt: skip
"""The progress of deferred deletes: the last partition of a table whose rows have got their end version."""

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
"""Ids of ended transactions whose rows vacuum has removed. They may have left files that no vacuum has found yet."""

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
"""Column statistics of files. They are not in ``files``, so that planning does not have to read past them."""

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
"""All repairs, also those that found nothing to change."""

skipped_paths = sa.Table(
    "skipped_paths", metadata,
    key("table_id"), key("position"), text("path"), text("partition_name"), big("files", nullable=True),
    big("bytes", nullable=True), text("reason"), big("skipped_at_ms"),
)  # fmt: skip
"""The first paths that the last repair of each table skipped, with the reasons."""

verifications = sa.Table(
    "verifications", metadata,
    key("table_id"), id_column("name_hash", primary_key=True), big("verified_at_ms"), big("version"),
)  # fmt: skip
"""The time of the last comparison of partitions with the store. The row without a name hash applies to all partitions
of a table without a row of their own."""

followed_metastore = sa.Table(
    "followed_metastore", metadata,
    key("follower_id"), text("metastore_id", nullable=True), big("event_id", nullable=True),
    big("newest_id", nullable=True), sa.Column("source", ExactText(16), nullable=True),
    big("looked_at_ms", nullable=True), big("compared_at_ms", nullable=True), text("error", nullable=True),
    text("holder", nullable=True), big("held_until_ms"),
)  # fmt: skip
"""The state of the follower, in a single row: the last processed event of the metastore, and the process that holds the
lease."""

followed_tables = sa.Table(
    "followed_tables", metadata,
    key("table_id"), big("version"), text("missing", nullable=True), text("definition"),
)  # fmt: skip
"""The last comparison of each table with the metastore: the table's version, the partitions that the metastore did not
have, and the metastore's definition."""

followed_suspects = sa.Table(
    "followed_suspects", metadata,
    id_column("name_hash", primary_key=True), text("table_name"), text("suspect", nullable=True), big("attempts"),
    big("next_attempt_at_ms"), big("since_ms"), text("error"),
)  # fmt: skip
"""Tables of the metastore that could not be synchronized, and tables that are refused (without a ``suspect``)."""

views = sa.Table(
    "views", metadata,
    key("table_id"), text("query_text"), text("details"), sa.Column("automatic", sa.SmallInteger, nullable=False),
)  # fmt: skip
"""The attributes that a view has in addition to its row of type VIEW in ``tables``."""

view_sources = sa.Table(
    "view_sources", metadata,
    key("table_id"),
    key("number"),
    sa.Column("namespace", name_type(), nullable=False),
    sa.Column("name", name_type(), nullable=False),
    big("seen_table_id"),
    big("seen_version"),
)  # fmt: skip
"""The tables from whose partitions those of a view are derived, and the version of each at the last refresh."""

view_partition_dependencies = sa.Table(
    "view_partition_dependencies", metadata,
    key("partition_id"), key("number"), text("relation"), text("partitions"),
)  # fmt: skip
"""The partitions of other tables from which a partition of a view was made when it was added."""

index_properties = sa.Table(
    "index_properties", metadata,
    sa.Column("name", ExactText(64), primary_key=True),
    text("value"),
)  # fmt: skip
"""Properties of the index itself by name, such as the counter that detects a restored copy."""


def living(rows: sa.FromClause, table_id: int) -> sa.ColumnElement[bool]:
    """Return the condition for rows of ``partitions`` in the newest version, for readers without the table's lock.

    A deferred delete (``write.deferred_deletes``) leaves rows without an end that began before
    ``deleted_before_version``; the condition excludes them. Under the table's lock no deferred delete is pending, and
    no such rows exist.
    """
    deleted_before = sa.select(tables.c.deleted_before_version).where(tables.c.table_id == table_id).scalar_subquery()
    return sa.and_(rows.c.end_version == ALIVE, rows.c.begin_version >= sa.func.coalesce(deleted_before, 0))


def partition_ids(table_id: int) -> tuple[int, int]:
    """Return the range of ``partition_id`` of a table: the least possible id, and the first id above the range."""
    low = table_id << PARTITION_NUMBER_BITS
    return low, low + (1 << PARTITION_NUMBER_BITS)
