"""The columns of the lists that the command line and notebooks share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from catalog_ext.overview.commit_changes import in_words
from catalog_ext.overview.formats import moment
from catalog_ext.overview.layout import Column

if TYPE_CHECKING:
    from catalog_ext.metastore.commit.transaction import Transaction
    from catalog_ext.metastore.index.tables.tables import TableVersion

SINCE = Column("since_ms", "since (UTC)", cell=moment, rank=1)
STATUS = (Column("kind"), Column("table"), Column("id", rank=2), Column("state"), SINCE, Column("detail", wraps=True))
HISTORY = (
    Column("version", right=True),
    Column("operation", wraps=True),
    Column("committed_at_ms", "committed (UTC)", cell=moment),
    Column("user", rank=1),
    Column("summary", "changes", cell=in_words, wraps=True),
)
TRANSACTIONS = (
    Column("transaction_id", "transaction"),
    Column("operation"),
    Column("state"),
    Column("began_at_ms", "began (UTC)", cell=moment),
    Column("owner", rank=1),
)


def commit_fields(commit: TableVersion) -> dict[str, Any]:
    """Return the fields of a commit, by the names of the columns."""
    return {
        "version": commit.version,
        "operation": commit.operation,
        "committed_at_ms": commit.committed_at_ms,
        "user": commit.summary.get("user"),
        "summary": commit.summary,
    }


def transaction_fields(transaction: Transaction) -> dict[str, Any]:
    """Return the fields of a transaction, by the names of the columns."""
    return {column.name: getattr(transaction, column.name) for column in TRANSACTIONS}
