"""Sums that are whole numbers on every database."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa


def total(column: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    """Return the sum of a column; 0 of no rows, and where all of them are NULL."""
    # Sums of BIGINT are NUMERIC on PostgreSQL and DECIMAL on MariaDB.
    return sa.cast(sa.func.coalesce(sa.func.sum(column), 0), sa.BigInteger)
