"""Add how partitions are read that are not read as their tables.

Revision ID: 0016
Revises: 0015
"""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql, postgresql

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

_ALIVE = 2**63 - 1
_DESCRIBED = sa.text("descriptor_id IS NOT NULL")


def upgrade() -> None:
    exact = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
    op.create_table(
        "partition_descriptors",
        sa.Column("table_id", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("descriptor_id", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("descriptor_hash", exact.with_variant(mysql.VARBINARY(32), "mysql", "mariadb"), nullable=False),
        sa.Column("descriptor", exact.with_variant(mysql.MEDIUMBLOB(), "mysql", "mariadb"), nullable=False),
        sa.PrimaryKeyConstraint("table_id", "descriptor_id", name="pk_partition_descriptors"),
    )
    none = sa.text("0")
    op.add_column("tables", sa.Column("has_descriptors", sa.SmallInteger(), nullable=False, server_default=none))
    op.add_column("partitions", sa.Column("descriptor_id", sa.BigInteger(), nullable=True))
    op.create_index(
        "ix_partitions_described", "partitions", ["table_id", "descriptor_id"],
        sqlite_where=_DESCRIBED, postgresql_where=_DESCRIBED,
    )  # fmt: skip


def check_downgrade(bind: sa.Connection) -> None:
    """Return if the release before can go on with the index; asked before the first revision goes down."""
    _check_writes(bind)
    _check_outbox(bind)
    if not _has_descriptors(bind):
        return
    alive = f"SELECT count(*) FROM partitions WHERE descriptor_id IS NOT NULL AND end_version = {_ALIVE}"
    left = bind.execute(sa.text(alive)).scalar()
    if left:
        # The release before reads every partition as its table.
        raise RuntimeError(
            f"{left} partitions of the index are not read as their tables. Overwrite or drop them, and migrate again."
        )


def _has_descriptors(bind: sa.Connection) -> bool:
    return "descriptor_id" in {column["name"] for column in sa.inspect(bind).get_columns("partitions")}


def downgrade() -> None:
    bind = op.get_bind()
    if _has_descriptors(bind):
        # Versions that had such partitions are refused from now on, as those that have expired.
        last = (
            "SELECT max(end_version) FROM partitions WHERE partitions.table_id = tables.table_id "
            "AND descriptor_id IS NOT NULL"
        )
        bind.execute(sa.text(f"UPDATE tables SET oldest_version = ({last}) WHERE oldest_version < ({last})"))
    op.drop_index("ix_partitions_described", "partitions")
    op.drop_column("partitions", "descriptor_id")
    op.drop_column("tables", "has_descriptors")
    op.drop_table("partition_descriptors")


def _check_writes(bind: sa.Connection) -> None:
    """Return unless a write is under way that the release before would undo or end in another way.

    Of a LOAD DATA it would delete the files that are not moved yet, and of a write with Hive's locks leave the locks.
    """
    in_flight = sa.text("SELECT plan FROM transactions WHERE state NOT IN ('finished', 'aborted')")
    plans = (json.loads(row.plan) for row in bind.execute(in_flight))
    left = sum(1 for plan in plans if _locks(plan) or (plan.get("moves") and not plan.get("command")))
    if left:
        raise RuntimeError(
            f"{left} writes of the index are not ended that the release before cannot end: LOAD DATA, or with Hive's "
            "locks. End all writers, run 'catalog-ext recover --older-than 0s', and migrate again."
        )


def _locks(plan: dict[str, Any]) -> bool:
    return "hive_locks" in plan and plan["hive_locks"]["mode"] != "none"


def _check_outbox(bind: sa.Connection) -> None:
    """Return unless a message waits of which the release before would carry out a part."""
    messages = sa.text("SELECT payload FROM outbox WHERE operation IN ('alter_table', 'sync_partitions')")
    left = sum(1 for row in bind.execute(messages) if _says_more(json.loads(row.payload)))
    if left:
        raise RuntimeError(
            f"{left} messages of the outbox say how partitions are read, or set a SerDe's settings, which the release "
            "before leaves out. Run 'catalog-ext outbox retry' until 'catalog-ext outbox' lists none of them, and "
            "migrate again."
        )


def _says_more(payload: dict[str, Any]) -> bool:
    partitions = [*payload.get("add", ()), *payload.get("alter", ())]
    own = any(payload.get(field) for field in ("kept", "settings", "descriptors"))
    return own or any("descriptor" in partition for partition in partitions)
