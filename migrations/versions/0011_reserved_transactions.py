"""Remember which transactions have passed `reserve`: of the others no file has ever had a final name.

Revision ID: 0011
Revises: 0010
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Existing transactions have no such record: files that they may have promoted are removed with them, as before.
    op.add_column("transactions", sa.Column("reserved", sa.SmallInteger(), nullable=False, server_default=sa.text("1")))


def downgrade() -> None:
    op.drop_column("transactions", "reserved")
