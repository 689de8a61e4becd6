"""Add the directories of dropped tables whose files are still to be deleted.

Revision ID: 0005
Revises: 0004
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql, postgresql

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def _text(name: str) -> sa.Column[str]:
    exact = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
    return sa.Column(name, exact.with_variant(mysql.MEDIUMBLOB(), "mysql", "mariadb"), nullable=True)


def upgrade() -> None:
    for name in ("name", "location"):
        op.add_column("dropped_tables", _text(name))


def downgrade() -> None:
    for name in ("location", "name"):
        op.drop_column("dropped_tables", name)
