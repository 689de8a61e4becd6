"""The kinds of columns of the index's tables, and the metadata that the tables belong to."""

from __future__ import annotations

import sqlalchemy as sa

from catalog_ext.metastore.index.database.column_types import ExactText

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# SQLite gives numbers by itself only to a column of the type INTEGER.
NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def name_type() -> ExactText:
    """Return the type of a name: 128 characters of up to four bytes."""
    return ExactText(512)


def big(name: str, *, nullable: bool = False) -> sa.Column[int]:
    """Return a column of whole numbers."""
    return sa.Column(name, sa.BigInteger, nullable=nullable)


def text(name: str, *, nullable: bool = False) -> sa.Column[str]:
    """Return a column of texts of any length."""
    return sa.Column(name, ExactText(), nullable=nullable)


def key(name: str) -> sa.Column[int]:
    """Return a number that is part of the primary key."""
    return sa.Column(name, sa.BigInteger, primary_key=True, autoincrement=False)


def id_column(name: str, *, primary_key: bool = False, nullable: bool = False) -> sa.Column[str]:
    """Return a transaction's id, or a hash: 32 hexadecimal digits."""
    return sa.Column(name, ExactText(32), primary_key=primary_key, nullable=nullable)
