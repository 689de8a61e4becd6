"""Column types that keep text exactly, on each of the three databases.

Every text of the index is compared by its UTF-8 bytes: SQLite's ``BINARY``, PostgreSQL's ``COLLATE "C"``, and binary
strings on MariaDB and MySQL, whose text collations pad with blanks and fold some characters together.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql


class ExactText(sa.types.TypeDecorator[str]):
    """Text compared by its UTF-8 bytes.

    Args:
        key_bytes: The most bytes that it can have where it is part of an index (MariaDB and MySQL need to know);
            None for text of any length that is in no index.
    """

    impl = sa.Text
    cache_ok = True

    def __init__(self, key_bytes: int | None = None) -> None:
        super().__init__()
        self.key_bytes = key_bytes

    def load_dialect_impl(self, dialect: sa.Dialect) -> sa.types.TypeEngine[Any]:
        """Return the database's own type."""
        if dialect.name == "postgresql":
            return postgresql.TEXT(collation="C")
        if dialect.name in ("mysql", "mariadb"):
            return mysql.VARBINARY(self.key_bytes) if self.key_bytes else mysql.MEDIUMBLOB()
        return sa.Text()

    def process_bind_param(self, value: str | None, dialect: sa.Dialect) -> str | bytes | None:
        """Return bytes where the column is binary."""
        if value is not None and dialect.name in ("mysql", "mariadb"):
            return value.encode("utf-8")
        return value

    def process_result_value(self, value: str | bytes | None, dialect: sa.Dialect) -> str | None:
        """Text again."""
        return value.decode("utf-8") if isinstance(value, bytes) else value
