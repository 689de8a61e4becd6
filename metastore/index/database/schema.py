"""The tables of the index, as SQLAlchemy sees them; ``docs/spec/index.md`` says what they mean.

The migrations make them and do not import this module; a test compares the two on each database.
"""

from __future__ import annotations

import sqlalchemy as sa

from catalog_ext.metastore.index.database.column_types import ExactText
from catalog_ext.metastore.index.database.constants import ALIVE as ALIVE
from catalog_ext.metastore.model.key_encoding import MAX_KEY_BYTES

KEY_COLUMNS = 8
"""How many partition columns have an encoded, indexed key; those after them are evaluated from the partition's name."""

PARTITION_NUMBER_BITS = 40
"""``partition_id`` is ``table_id`` shifted by this, plus the partition's number in its table."""

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# SQLite gives numbers by itself only to a column of the type INTEGER.
_Number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _name() -> ExactText:
    return ExactText(512)  # 128 characters


def _big(name: str, *, nullable: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, nullable=nullable)


def _text(name: str, *, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, ExactText(), nullable=nullable)


def _key(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, primary_key=True, autoincrement=False)


def _id(name: str, *, primary_key: bool = False, nullable: bool = False) -> sa.Column[str]:
    """Return a transaction's id, or a hash: 32 hexadecimal digits."""
    return sa.Column(name, ExactText(32), primary_key=primary_key, nullable=nullable)


namespaces = sa.Table(
    "namespaces", metadata,
    sa.Column("namespace_id", _Number, primary_key=True, autoincrement=True),
    sa.Column("name", _name(), nullable=False),
    _text("location", nullable=True),
    _text("comment", nullable=True),
    _text("properties"),
    _big("created_at_ms"),
    sa.UniqueConstraint("name"),
    sqlite_autoincrement=True,
)  # fmt: skip

tables = sa.Table(
    "tables", metadata,
    sa.Column("table_id", _Number, primary_key=True, autoincrement=True),
    sa.Column("namespace_id", sa.BigInteger, sa.ForeignKey("namespaces.namespace_id"), nullable=False),
    sa.Column("name", _name(), nullable=False),
    sa.Column("table_type", ExactText(16), nullable=False),
    sa.Column("format", ExactText(32), nullable=False),
    _text("location"),
    _text("columns"),
    _text("partition_columns"),
    _text("options"),
    _text("properties"),
    _text("comment", nullable=True),
    _text("owner"),
    _big("created_at_ms"),
    _big("version"),
    _big("total_partitions"),
    _big("total_files"),
    _big("total_bytes"),
    _big("counted_rows"),
    _big("uncounted_partitions"),
    _big("next_partition_number"),
    _big("next_file_id"),
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
    sa.Column("table_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("version", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("operation", ExactText(64), nullable=False),
    _big("committed_at_ms"),
    _text("summary"),
    _id("transaction_id", nullable=True),
    _big("first_file_id", nullable=True),
)  # fmt: skip

partitions = sa.Table(
    "partitions", metadata,
    sa.Column("partition_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("begin_version", sa.BigInteger, primary_key=True, autoincrement=False),
    _big("end_version"),
    _big("table_id"),
    _text("name"),
    sa.Column("name_hash", ExactText(32), nullable=False),
    *(sa.Column(f"k{i}", ExactText(MAX_KEY_BYTES), nullable=True) for i in range(1, KEY_COLUMNS + 1)),
    _text("location", nullable=True),
    sa.Column("in_metastore", sa.SmallInteger, nullable=False),
    _big("n_files"),
    _big("n_bytes"),
    _big("n_rows", nullable=True),
    _big("created_at_ms"),
    _big("descriptor_id", nullable=True),
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
    # Asked of tables alone that have such partitions.
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
    _key("table_id"),
    _key("descriptor_id"),
    _id("descriptor_hash"),
    _text("descriptor"),
)  # fmt: skip
"""How partitions are read that are not read as their tables: each way once a table, by its number."""

partition_sums = sa.Table(
    "partition_sums", metadata,
    _key("table_id"),
    sa.Column("depth", sa.SmallInteger, primary_key=True, autoincrement=False),
    sa.Column("k1", ExactText(MAX_KEY_BYTES), primary_key=True),
    _key("version"),
    _big("n_partitions"),
    _big("n_files"),
    _big("n_bytes"),
    _big("n_rows"),
    _big("n_uncounted"),
    sqlite_with_rowid=False,
)  # fmt: skip
"""How each version changed the sums of a table's partitions, all of them (``depth`` 0) and by the first key (1)."""

files = sa.Table(
    "files", metadata,
    sa.Column("partition_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("file_id", sa.BigInteger, primary_key=True, autoincrement=False),
    _big("begin_version"),
    _big("end_version"),
    _text("path"),
    _big("size"),
    _big("modified_ms"),
    _big("n_rows", nullable=True),
    _big("etag_hash", nullable=True),
    sqlite_with_rowid=False,
)  # fmt: skip

outbox = sa.Table(
    "outbox", metadata,
    sa.Column("outbox_id", _Number, primary_key=True, autoincrement=True),
    _big("table_id", nullable=True),
    sa.Column("namespace", _name(), nullable=False),
    sa.Column("table_name", _name(), nullable=True),
    sa.Column("operation", ExactText(64), nullable=False),
    _text("payload"),
    _big("created_at_ms"),
    _big("attempts"),
    _big("next_attempt_at_ms"),
    _text("last_error", nullable=True),
    _id("claimed_by", nullable=True),
    sa.Column("refusals", sa.BigInteger, nullable=False, server_default=sa.text("0")),
    sa.Index(None, "table_id"),
    # Deliveries are in the order of their numbers: none may come again.
    sqlite_autoincrement=True,
)  # fmt: skip

dropped_tables = sa.Table(
    "dropped_tables", metadata,
    sa.Column("table_id", sa.BigInteger, primary_key=True, autoincrement=False),
    _big("dropped_at_ms"),
    _text("name", nullable=True),
    _text("location", nullable=True),
    _text("directory", nullable=True),
)  # fmt: skip
"""Tables whose name is gone, and whose rows or (where there is a location) files are still to be removed."""

settlements = sa.Table(
    "settlements", metadata,
    _key("table_id"),
    _big("version"),
    _id("transaction_id"),
    sa.Column("delivers", sa.SmallInteger, nullable=False),
    _big("committed_at_ms"),
    _big("settled_id"),
)  # fmt: skip
"""Deferred deletes: up to which partition the rows of a table with a floor have their ends."""

transactions = sa.Table(
    "transactions", metadata,
    _id("transaction_id", primary_key=True),
    _big("table_id", nullable=True),
    _text("table_name"),
    sa.Column("operation", ExactText(64), nullable=False),
    sa.Column("state", ExactText(16), nullable=False),
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
    sa.Column("reserved", sa.SmallInteger, nullable=False, server_default=sa.text("1")),
    sa.Index(None, "table_id", "state"),
    sa.Index(None, "table_id", "version"),
    sa.Index(None, "state", "expires_at_ms"),
)  # fmt: skip

transaction_files = sa.Table(
    "transaction_files", metadata,
    _id("transaction_id", primary_key=True),
    _key("number"),
    sa.Column("removal", sa.SmallInteger, nullable=False),
    _big("n_files"),
    _text("payload"),
)  # fmt: skip

transaction_claims = sa.Table(
    "transaction_claims", metadata,
    _id("transaction_id", primary_key=True),
    _id("claim_hash", primary_key=True),
    _big("table_id"),
    _text("name"),
    sa.Column("exclusive", sa.SmallInteger, nullable=False),
    _big("version", nullable=True),
    sa.Index(None, "table_id", "claim_hash"),
    sa.Index(None, "table_id", "version"),
)  # fmt: skip

transaction_locations = sa.Table(
    "transaction_locations", metadata,
    _id("transaction_id", primary_key=True),
    _id("name_hash", primary_key=True),
    _text("name"),
    _text("location"),
)  # fmt: skip

forgotten_transactions = sa.Table(
    "forgotten_transactions", metadata,
    _id("transaction_id", primary_key=True),
    _big("table_id"),
    _big("forgotten_at_ms"),
    sa.Index(None, "table_id", "forgotten_at_ms"),
    sqlite_with_rowid=False,
)  # fmt: skip
"""Transactions that have ended and have no row any more, and that may have left files which vacuum has not seen."""

applications = sa.Table(
    "applications", metadata,
    _key("table_id"),
    _id("app_hash", primary_key=True),
    _text("app_id"),
    _big("app_version"),
    _id("transaction_id"),
    _big("version"),
)  # fmt: skip

waiting_files = sa.Table(
    "waiting_files", metadata,
    _key("table_id"),
    _id("name_hash", primary_key=True),
    _id("transaction_id", primary_key=True),
    _key("number"),
    _text("name"),
    _big("since_ms"),
    _big("n_files"),
    _text("payload"),
)  # fmt: skip

file_statistics = sa.Table(
    "file_statistics", metadata,
    _key("partition_id"),
    _key("file_id"),
    _text("statistics"),
    sqlite_with_rowid=False,
)  # fmt: skip
"""Apart from ``files``, so that planning does not read over it."""

repairs = sa.Table(
    "repairs", metadata,
    sa.Column("repair_id", _Number, primary_key=True, autoincrement=True),
    _big("table_id"),
    _big("began_at_ms"),
    _big("ended_at_ms"),
    sa.Column("mode", ExactText(16), nullable=False),
    _text("limited_to", nullable=True),
    sa.Column("strict", sa.SmallInteger, nullable=False),
    _text("owner"),
    _big("added"),
    _big("dropped"),
    _big("changed"),
    _big("skipped"),
    _big("version_before"),
    _big("version_after"),
    _text("error", nullable=True),
    sa.Index(None, "table_id", "ended_at_ms"),
    sqlite_autoincrement=True,
)  # fmt: skip
"""Every repair that ran, also those that found nothing to change."""

skipped_paths = sa.Table(
    "skipped_paths", metadata,
    _key("table_id"),
    _key("position"),
    _text("path"),
    _text("partition_name"),
    _big("files"),
    _big("bytes"),
    _text("reason"),
    _big("skipped_at_ms"),
)  # fmt: skip
"""The first paths that the last repair of each table skipped, with the reasons."""

verifications = sa.Table(
    "verifications", metadata,
    _key("table_id"),
    _id("name_hash", primary_key=True),
    _big("verified_at_ms"),
    _big("version"),
)  # fmt: skip
"""When partitions were last compared with the store; the row without a hash is of all that have none of their own."""

followed_metastore = sa.Table(
    "followed_metastore", metadata,
    _key("follower_id"),
    _text("metastore_id", nullable=True),
    _big("event_id", nullable=True),
    _big("newest_id", nullable=True),
    sa.Column("source", ExactText(16), nullable=True),
    _big("looked_at_ms", nullable=True),
    _big("compared_at_ms", nullable=True),
    _text("error", nullable=True),
    _text("holder", nullable=True),
    _big("held_until_ms"),
)  # fmt: skip
"""How far the metastore is followed, and by whom: one row."""

followed_tables = sa.Table(
    "followed_tables", metadata,
    _key("table_id"),
    _big("version"),
    _text("missing", nullable=True),
    _text("definition"),
)  # fmt: skip
"""At which version a table was last compared with the metastore's, what that did not have then, and what it was."""

followed_doubts = sa.Table(
    "followed_doubts", metadata,
    _id("name_hash", primary_key=True),
    _text("table_name"),
    _text("doubt", nullable=True),
    _big("attempts"),
    _big("next_attempt_at_ms"),
    _big("since_ms"),
    _text("error"),
)  # fmt: skip
"""Tables of the metastore that could not be brought in step, and those that are refused (no ``doubt``)."""

views = sa.Table(
    "views", metadata,
    _key("table_id"),
    _text("query_text"),
    _text("details"),
    sa.Column("automatic", sa.SmallInteger, nullable=False),
)  # fmt: skip
"""What a row of ``tables`` of the type VIEW has besides it."""

view_sources = sa.Table(
    "view_sources", metadata,
    _key("table_id"),
    _key("number"),
    sa.Column("namespace", _name(), nullable=False),
    sa.Column("name", _name(), nullable=False),
    _big("seen_table_id"),
    _big("seen_version"),
)  # fmt: skip
"""The tables from whose partitions a view's own follow, and which version of them was looked at last."""

view_partition_dependencies = sa.Table(
    "view_partition_dependencies", metadata,
    _key("partition_id"),
    _key("number"),
    _text("relation"),
    _text("partitions"),
)  # fmt: skip
"""What a partition of a view was made of when it was added."""

index_properties = sa.Table(
    "index_properties", metadata,
    sa.Column("name", ExactText(64), primary_key=True),
    _text("value"),
)  # fmt: skip
"""What the index says of itself."""


def living(rows: sa.FromClause, table_id: int) -> sa.ColumnElement[bool]:
    """Return the clause for rows of ``partitions`` that nothing has ended, for who does not hold the table's lock.

    Under the lock a table has no floor (``write.deferred_deletes``): rows without an end are alive.
    """
    floor = sa.select(tables.c.floor_version).where(tables.c.table_id == table_id).scalar_subquery()
    return sa.and_(rows.c.end_version == ALIVE, rows.c.begin_version >= sa.func.coalesce(floor, 0))


def partition_ids(table_id: int) -> tuple[int, int]:
    """Return the least number that a partition of the table can have, and the least one above them all."""
    low = table_id << PARTITION_NUMBER_BITS
    return low, low + (1 << PARTITION_NUMBER_BITS)
