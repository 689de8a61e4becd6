"""Forget statistics of files that older releases may have recorded wrongly.

ANALYZE believed every footer of other writers. Of ORC files without column statistics, also of this project's own, it
recorded that every value is NULL. Row counts are right and stay; ANALYZE measures the files again.

Revision ID: 0017
Revises: 0016
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql, postgresql

if TYPE_CHECKING:
    from collections.abc import Sequence

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

_OWN_NAME = f"part-%-{'_' * 32}-a%-c%"
"""The names of files that this project writes: task, transaction, attempt, number."""
_ALL_NULL = '%"max":null,"min":null,"nulls":%'
_AT_ONCE = 1000

_EXACT = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
_DOCUMENT = _EXACT.with_variant(mysql.MEDIUMBLOB(), "mysql", "mariadb")
_PATH = _EXACT.with_variant(mysql.VARBINARY(2048), "mysql", "mariadb")
_files = sa.table(
    "files", sa.column("partition_id"), sa.column("file_id"), sa.column("path", _PATH), sa.column("n_rows")
)
_statistics = sa.table(
    "file_statistics", sa.column("partition_id"), sa.column("file_id"), sa.column("statistics", _DOCUMENT)
)
_staged = sa.table(
    "transaction_files", sa.column("transaction_id", _EXACT), sa.column("number"), sa.column("removal"),
    sa.column("payload", _DOCUMENT),
)  # fmt: skip
_waiting = sa.table(
    "waiting_files", sa.column("table_id"), sa.column("name_hash", _EXACT), sa.column("transaction_id", _EXACT),
    sa.column("number"), sa.column("payload", _DOCUMENT),
)  # fmt: skip


def upgrade() -> None:
    bind = op.get_bind()
    f, s = _files.c, _statistics.c
    same = sa.and_(f.partition_id == s.partition_id, f.file_id == s.file_id)
    foreign = sa.select(sa.literal(1)).select_from(_files).where(same, sa.not_(_like(bind, f.path, _OWN_NAME)))
    bind.execute(sa.delete(_statistics).where(sa.exists(foreign.correlate(_statistics))))
    _correct_own(bind)
    staged = sa.select(_staged).where(_staged.c.removal == 0, _like(bind, _staged.c.payload, _ALL_NULL))
    _correct_payloads(bind, _staged, staged, ("transaction_id", "number", "removal"))
    waiting = sa.select(_waiting).where(_like(bind, _waiting.c.payload, _ALL_NULL))
    _correct_payloads(bind, _waiting, waiting, ("table_id", "name_hash", "transaction_id", "number"))


def downgrade() -> None:
    """Change nothing: what is unknown is so to the release before, too."""


def _correct_own(bind: sa.Connection) -> None:
    f, s = _files.c, _statistics.c
    join = _files.join(_statistics, sa.and_(f.partition_id == s.partition_id, f.file_id == s.file_id))
    every = (
        sa.select(s.partition_id, s.file_id, s.statistics, f.n_rows)
        .select_from(join)
        .where(_like(bind, f.path, "%.orc"), _like(bind, s.statistics, _ALL_NULL))
        .order_by(s.partition_id, s.file_id)
        .limit(_AT_ONCE)
    )
    after = (-1, -1)
    while True:
        later = sa.or_(s.partition_id > after[0], sa.and_(s.partition_id == after[0], s.file_id > after[1]))
        rows = bind.execute(every.where(later)).mappings().all()
        if not rows:
            return
        after = (rows[-1]["partition_id"], rows[-1]["file_id"])
        _correct(bind, rows)


def _correct(bind: sa.Connection, rows: Sequence[sa.RowMapping]) -> None:
    gone, changed = [], []
    for row in rows:
        found = json.loads(row["statistics"])
        kept = _believed(found, row["n_rows"])
        key = {"p": row["partition_id"], "f": row["file_id"]}
        if not kept:
            gone.append(key)
        elif kept != found:
            changed.append({**key, "kept": _document(bind, kept)})
    s = _statistics.c
    mine = (s.partition_id == sa.bindparam("p"), s.file_id == sa.bindparam("f"))
    if gone:
        bind.execute(sa.delete(_statistics).where(*mine), gone)
    if changed:
        bind.execute(sa.update(_statistics).where(*mine).values(statistics=sa.bindparam("kept")), changed)


def _correct_payloads(bind: sa.Connection, table: sa.TableClause, query: sa.Select[Any], key: Sequence[str]) -> None:
    """Correct the files of writes that have not ended; they are few."""
    for row in bind.execute(query).mappings().all():
        files = json.loads(row["payload"])
        for file in files:
            if file["name"].endswith(".orc"):
                file["statistics"] = _believed(file["statistics"], file["rows"])
        mine = [table.c[name] == row[name] for name in key]
        bind.execute(sa.update(table).where(*mine).values(payload=_document(bind, files)))


def _believed(statistics: dict[str, Any], rows: int | None) -> dict[str, Any]:
    """Return the statistics without columns of which they say that every value is NULL."""
    return {
        name: column
        for name, column in statistics.items()
        if not (rows and column["nulls"] == rows and column["min"] is None and column["max"] is None)
    }


def _document(bind: sa.Connection, value: object) -> str | bytes:
    text = json.dumps(value, separators=(",", ":"), sort_keys=True)
    return text.encode() if bind.dialect.name in ("mysql", "mariadb") else text


def _like(bind: sa.Connection, column: sa.ColumnElement[Any], pattern: str) -> sa.ColumnElement[bool]:
    kept_as_bytes = bind.dialect.name in ("mysql", "mariadb")
    value: str | bytes = pattern.encode() if kept_as_bytes else pattern
    return column.op("LIKE", is_comparison=True)(sa.literal(value, sa.LargeBinary() if kept_as_bytes else sa.Text()))
