"""Makes commits, transactions and what is in flight lists that show themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from catalog_ext.notebook.rows import Rows
from catalog_ext.overview.formats import moment
from catalog_ext.overview.layout import Column
from catalog_ext.overview.lists import HISTORY, STATUS, commit_fields

if TYPE_CHECKING:
    from collections.abc import Iterable

    from catalog_ext.metastore.commit.transaction import Transaction
    from catalog_ext.metastore.index.tables.tables import TableVersion
    from catalog_ext.writes.status import StatusEntry

_TRANSACTIONS = (
    Column("transaction_id", "transaction"),
    Column("operation"),
    Column("state"),
    Column("began_at_ms", "began (UTC)", cell=moment),
    Column("owner", rank=1),
)


def commits_shown(commits: Iterable[TableVersion]) -> Rows[TableVersion]:
    """Return a table's commits as a list that shows itself."""
    return Rows(commits, HISTORY, commit_fields, "There is no commit.")


def entries_shown(entries: Iterable[StatusEntry]) -> Rows[StatusEntry]:
    """Return what is in flight as a list that shows itself."""
    return Rows(entries, STATUS, lambda entry: entry._asdict(), "Nothing is under way.")


def transactions_shown(transactions: Iterable[Transaction]) -> Rows[Transaction]:
    """Return transactions as a list that shows itself."""
    return Rows(transactions, _TRANSACTIONS, _transaction_fields, "There is no transaction.")


def _transaction_fields(of: Transaction) -> dict[str, Any]:
    return {column.name: getattr(of, column.name) for column in _TRANSACTIONS}
