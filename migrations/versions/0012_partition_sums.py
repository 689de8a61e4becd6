"""Keep the sums of a table's partitions, all of them and by the first key, so that counts need not read every one.

Revision ID: 0012
Revises: 0011
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql, postgresql

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_ALIVE = 2**63 - 1
_SUMMED = ("n_partitions", "n_files", "n_bytes", "n_rows", "n_uncounted")
# What each version added to the sums is what it began, less what it ended.
_CHANGES = f"""
    SELECT table_id, k1, k2, begin_version AS version, 1 AS n_partitions, n_files, n_bytes,
        COALESCE(n_rows, 0) AS n_rows, CASE WHEN n_rows IS NULL THEN 1 ELSE 0 END AS n_uncounted
    FROM partitions
    UNION ALL
    SELECT table_id, k1, k2, end_version, -1, -n_files, -n_bytes,
        -COALESCE(n_rows, 0), CASE WHEN n_rows IS NULL THEN -1 ELSE 0 END
    FROM partitions WHERE end_version < {_ALIVE}
"""


def upgrade() -> None:
    key = (
        sa.Text()
        .with_variant(postgresql.TEXT(collation="C"), "postgresql")
        .with_variant(mysql.VARBINARY(255), "mysql", "mariadb")
    )
    op.create_table(
        "partition_sums",
        sa.Column("table_id", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("depth", sa.SmallInteger, nullable=False, autoincrement=False),
        sa.Column("k1", key, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False, autoincrement=False),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in _SUMMED),
        sa.PrimaryKeyConstraint("table_id", "depth", "k1", "version", name="pk_partition_sums"),
        sqlite_with_rowid=False,
    )
    # An earlier run may have been interrupted after it.
    op.execute("DELETE FROM partition_sums")
    sums = ", ".join(f"SUM({name})" for name in _SUMMED)
    columns = ", ".join(("table_id", "depth", "k1", "version", *_SUMMED))
    for depth, first_key, condition in ((0, "''", ""), (1, "k1", "WHERE k2 IS NOT NULL")):
        op.execute(
            f"INSERT INTO partition_sums ({columns}) SELECT table_id, {depth}, {first_key}, version, {sums} "
            f"FROM ({_CHANGES}) changes {condition} GROUP BY table_id, {'k1, ' if depth else ''}version"
        )


def downgrade() -> None:
    op.drop_table("partition_sums")
