"""Keep a hash of the ETag of each S3 object, by which a file that was rewritten in place is seen.

Revision ID: 0020
Revises: 0019
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("files", sa.Column("etag_hash", sa.BigInteger, nullable=True))


def downgrade() -> None:
    op.drop_column("files", "etag_hash")
