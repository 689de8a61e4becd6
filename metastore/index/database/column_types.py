"""Column types of the index's tables, and the metadata object that holds the tables.

Every text of the index is compared by its UTF-8 bytes: SQLite's ``BINARY``, PostgreSQL's ``COLLATE "C"``, and binary
strings on MariaDB and MySQL, whose text collations pad with blanks and fold some characters together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql

if TYPE_CHECKING:
    from collections.abc import Callable


class ExactText(sa.types.TypeDecorator[str]):
    """SQL type for text that is compared by its UTF-8 bytes.

    Args:
        key_bytes: The greatest length in bytes of a text in an indexed column, which MariaDB and MySQL need; None for a
            text of any length that is in no index.
    """

    impl = sa.Text
    cache_ok = True

    def __init__(self, key_bytes: int | None = None) -> None:
        super().__init__()
        self.key_bytes = key_bytes

    def load_dialect_impl(self, dialect: sa.Dialect) -> sa.types.TypeEngine[Any]:
        """Return the database's type for the column: text, or on MariaDB and MySQL binary."""
        if dialect.name == "postgresql":
            return postgresql.TEXT(collation="C")
        if _is_binary(dialect):
            return mysql.VARBINARY(self.key_bytes) if self.key_bytes else mysql.MEDIUMBLOB()
        return sa.Text()

    def bind_processor(self, dialect: sa.Dialect) -> Callable[[Any], Any] | None:
        """Return no converter if the database has a text type: SQLAlchemy then skips the call for each value."""
        return super().bind_processor(dialect) if _is_binary(dialect) else None

    def result_processor(self, dialect: sa.Dialect, coltype: object) -> Callable[[Any], Any] | None:
        """Return no converter if the database has a text type."""
        return super().result_processor(dialect, coltype) if _is_binary(dialect) else None

    def process_bind_param(self, value: str | None, dialect: sa.Dialect) -> str | bytes | None:
        """Encode the text as UTF-8 bytes for a binary column."""
        if value is not None and _is_binary(dialect):
            return value.encode("utf-8")
        return value

    def process_result_value(self, value: str | bytes | None, dialect: sa.Dialect) -> str | None:
        """Decode the bytes of a binary column to text."""
        return value.decode("utf-8") if isinstance(value, bytes) else value


def _is_binary(dialect: sa.Dialect) -> bool:
    return dialect.name in ("mysql", "mariadb")


metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# SQLite generates row numbers only for a primary key column of the type INTEGER.
NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def name_type() -> ExactText:
    """Return the column type for names: 128 characters of up to four bytes."""
    return ExactText(512)


def big(name: str, *, nullable: bool = False) -> sa.Column[int]:
    """Return a BIGINT column."""
    return sa.Column(name, sa.BigInteger, nullable=nullable)


def text(name: str, *, nullable: bool = False) -> sa.Column[str]:
    """Return a column for texts of any length."""
    return sa.Column(name, ExactText(), nullable=nullable)


def key(name: str) -> sa.Column[int]:
    """Return an integer column that is part of the primary key."""
    return sa.Column(name, sa.BigInteger, primary_key=True, autoincrement=False)


def id_column(name: str, *, primary_key: bool = False, nullable: bool = False) -> sa.Column[str]:
    """Return a column for a transaction's id or a hash: 32 hexadecimal digits."""
    return sa.Column(name, ExactText(32), primary_key=primary_key, nullable=nullable)


def total(column: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    """Return the sum of a column as a whole number; 0 without rows, or if every value is NULL."""
    # Without the cast, sums of BIGINT are NUMERIC on PostgreSQL and DECIMAL on MariaDB, and not integers.
    return sa.cast(sa.func.coalesce(sa.func.sum(column), 0), sa.BigInteger)
