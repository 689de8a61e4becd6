"""The columns of the lists that the command line and notebooks share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from catalog_ext.metastore.runtime.wording import counted, format_bytes
from catalog_ext.overview.formats import moment
from catalog_ext.overview.layout import ListColumn

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog_ext.metastore.commit.transaction import Transaction
    from catalog_ext.metastore.index.tables.tables import TableVersion
    from catalog_ext.metastore.model.changes import Summary


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


def in_words(summary: Summary) -> str:
    """Return a commit's changes as a text: ``partitions +1 ~2, files +3 -1, 120 rows, 4.5 KiB``."""
    parts = []
    for what in ("partitions", "files"):
        signs = (("added", "+"), ("removed", "-"), ("changed", "~"))
        counts = [f"{sign}{count:,}" for word, sign in signs if (count := _count(summary, f"{what}_{word}"))]
        if counts:
            parts.append(f"{what} {' '.join(counts)}")
    if rows := _count(summary, "rows"):
        parts.append(counted(rows, "row"))
    if in_bytes := _count(summary, "bytes"):
        parts.append(format_bytes(in_bytes))
    gone = [counted(rows, "row")] if (rows := _count(summary, "rows_removed")) else []
    gone += [format_bytes(in_bytes)] if (in_bytes := _count(summary, "bytes_removed")) else []
    if gone:
        parts.append(f"{' and '.join(gone)} removed")
    parts.extend(altered_parts(summary))
    return ", ".join(parts)


def altered_parts(summary: Mapping[str, Any]) -> list[str]:
    """Return a text on the changed parts of the definition, for a version that ALTER TABLE made; else an empty list."""
    changed = summary.get("changed")
    # The summary of a repair has the number of changed partitions under this name.
    return [f"{changed} changed"] if isinstance(changed, str) else []


def _count(summary: Summary, name: str) -> int:
    value = summary.get(name)
    return value if isinstance(value, int) else 0


SINCE = ListColumn("since_ms", "since (UTC)", cell=moment, rank=1)
STATUS = (
    ListColumn("kind"), ListColumn("table"), ListColumn("id", rank=2), ListColumn("state"), SINCE,
    ListColumn("detail", wraps=True),
)  # fmt: skip
HISTORY = (
    ListColumn("version", right=True),
    ListColumn("operation", wraps=True),
    ListColumn("committed_at_ms", "committed (UTC)", cell=moment),
    ListColumn("user", rank=1),
    ListColumn("summary", "changes", cell=in_words, wraps=True),
)
TAGS = (
    ListColumn("name"), ListColumn("version", right=True), ListColumn("until_ms", "until (UTC)", cell=moment),
    ListColumn("user", rank=1), ListColumn("readable"),
)  # fmt: skip
TRANSACTIONS = (
    ListColumn("transaction_id", "transaction"),
    ListColumn("operation"),
    ListColumn("state"),
    ListColumn("began_at_ms", "began (UTC)", cell=moment),
    ListColumn("owner", rank=1),
)
