"""Keep a hash of the ETag of each S3 object, by which a file that was rewritten in place is seen.

Revision ID: 0020
Revises: 0019
"""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

_PLANS = "SELECT transaction_id, plan FROM transactions WHERE state NOT IN ('finished', 'aborted')"
_REMOVALS = "SELECT payload FROM transaction_files WHERE transaction_id = :id AND removal = 1"


def upgrade() -> None:
    op.add_column("files", sa.Column("etag_hash", sa.BigInteger, nullable=True))


def check_downgrade(bind: sa.Connection) -> None:
    """Return if the release before can end all writes; asked before the first revision goes down."""
    left = 0
    for row in bind.execute(sa.text(_PLANS)).all():
        removals = bind.execute(sa.text(_REMOVALS), {"id": row.transaction_id}).scalars()
        left += any(_has_etag(json.loads(text)) for text in (row.plan, *removals))
    if left:
        # The release before reads a file to delete as three values.
        raise RuntimeError(
            f"{left} writes of the index are not ended that record ETags. End all writers, run "
            "'catalog-ext recover --older-than 0s', and migrate again."
        )


def downgrade() -> None:
    op.drop_column("files", "etag_hash")


def _has_etag(value: object) -> bool:
    """Return whether a file is in a JSON value with its ETag: path, size, time, ETag."""
    if isinstance(value, dict):
        return any(map(_has_etag, value.values()))
    if not isinstance(value, list):
        return False
    is_file = len(value) == 4 and isinstance(value[0], str) and isinstance(value[3], int)
    return is_file or any(map(_has_etag, value))
