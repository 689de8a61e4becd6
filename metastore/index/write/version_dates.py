"""Corrects versions that a wrong clock has dated in the future, and that would not grow old until then."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import sqlalchemy as sa

from catalog_ext.metastore.index.database.clock import database_now_ms
from catalog_ext.metastore.index.database.schema import table_versions

if TYPE_CHECKING:
    from catalog_ext.metastore.index.database.database import Database

_FAR_MS = 3_600_000
"""A clock that is about right is not set back by more."""

logger = logging.getLogger(__name__)


def correct_future_dates(database: Database, table_id: int) -> None:
    """Date the table's versions of a time far from come, and all of one to come, as if they were committed now.

    Later ones have their time, too (``insert_version``), so that none would be forgotten, nor its claims, before it.
    """
    v = table_versions.c
    now = database_now_ms(database.dialect).scalar_subquery()
    with database.reading() as connection:
        far = sa.select(v.version).where(v.table_id == table_id, v.committed_at_ms > now + _FAR_MS).limit(1)
        if connection.execute(far).first() is None:
            return
    ahead = sa.update(table_versions).where(v.table_id == table_id, v.committed_at_ms > now)
    count = database.write(lambda connection: connection.execute(ahead.values(committed_at_ms=now)).rowcount)
    logger.warning(
        "%d versions of the table with the number %d were dated in the future, by a wrong clock of the index's "
        "database; they are dated now, and are kept for the retention from now on.", count, table_id,
    )  # fmt: skip
