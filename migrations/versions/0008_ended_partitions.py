"""Find the partitions that have ended without reading those that are alive; and the transactions of a version.

Revision ID: 0008
Revises: 0007
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_ENDED = sa.text("end_version < 9223372036854775807")


def upgrade() -> None:
    op.create_index(
        "ix_partitions_ended", "partitions", ["table_id", "end_version", "partition_id"],
        sqlite_where=_ENDED, postgresql_where=_ENDED,
    )  # fmt: skip
    op.create_index("ix_transactions_table_id_version", "transactions", ["table_id", "version"])


def downgrade() -> None:
    op.drop_index("ix_transactions_table_id_version", "transactions")
    op.drop_index("ix_partitions_ended", "partitions")
