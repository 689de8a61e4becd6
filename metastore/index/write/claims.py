"""How long claims are kept, by which later transactions learn of a conflict with one that has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from catalog_ext.metastore.commit.transaction import State
from catalog_ext.metastore.index.database.clock import database_now_ms
from catalog_ext.metastore.index.database.schema import table_versions, tables, transaction_claims, transactions

if TYPE_CHECKING:
    from sqlalchemy import Connection

CLAIMS_KEPT_MS = 3_600_000
"""Claims outlive their transaction by an hour: a statement may have read the table before it begins its own."""


def forget_claims(connection: Connection, table_id: int) -> None:
    """Remove claims that no transaction meets any more: those up to the oldest base version, an hour old.

    The caller holds the lock of the table's row.
    """
    v, t = table_versions.c, transactions.c
    now = database_now_ms(connection.dialect.name).scalar_subquery()
    old = sa.select(v.version).where(v.table_id == table_id, v.committed_at_ms < now - CLAIMS_KEPT_MS)
    version = connection.execute(old.order_by(v.version.desc()).limit(1)).scalar()
    live = sa.select(sa.func.min(t.base_version)).where(
        t.table_id == table_id, t.state.in_([str(State.OPEN), str(State.RESERVED)])
    )
    oldest = connection.execute(live).scalar()
    limit = version if oldest is None or version is None else min(version, oldest)
    if not limit:
        return
    c, r = transaction_claims.c, tables.c
    connection.execute(sa.delete(transaction_claims).where(c.table_id == table_id, c.version <= limit))
    connection.execute(sa.update(tables).where(r.table_id == table_id, r.claims_from < limit).values(claims_from=limit))
