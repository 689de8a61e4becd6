"""The changes of a commit, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.metastore.runtime.wording import counted, format_bytes

if TYPE_CHECKING:
    from catalog_ext.metastore.model.changes import Summary


def in_words(summary: Summary) -> str:
    """Return the changes of a commit: ``partitions +1 ~2, files +3 -1, 120 rows, 4.5 KiB``."""
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
    return ", ".join(parts)


def _count(summary: Summary, name: str) -> int:
    value = summary.get(name)
    return value if isinstance(value, int) else 0
