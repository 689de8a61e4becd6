"""What a write that is checked may meet, by one question: partitions that are there, and what hardly ever is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from catalog_ext.metastore.commit.transaction import State
from catalog_ext.metastore.index.database.prepared import Prepared
from catalog_ext.metastore.index.database.schema import partitions, transactions
from catalog_ext.metastore.index.database.texts import name_hash
from catalog_ext.metastore.index.write.transactions import moving_exists, relocated
from catalog_ext.metastore.model.batches import batched

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog_ext.metastore.index.database.database import Database
    from catalog_ext.metastore.model.tables import Table

_AT_ONCE = 500
_CLEANS, _MOVES, _RELOCATED = "cleans", "moves", "relocated"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is in a table, and in flight, beside a write.

    Attributes:
        partitions: Those of the names asked for that are partitions of the table at its version.
        cleans: Whether a committed write of the table may still have to delete what it has replaced.
        moves: Whether a partition command of any table that moves files is in flight, or was undone and may not have
            put all of them back.
        relocated: Whether a relocating overwrite has made one of the table's versions.
    """

    partitions: frozenset[str]
    cleans: bool
    moves: bool
    relocated: bool


def surroundings(database: Database, table: Table, names: Sequence[str]) -> Surroundings:
    """Return what is in a table and in flight, by a query for each 500 names."""
    hashes = {name_hash(name): name for name in names}
    found: set[str] = set()
    with database.reading() as connection:
        for some in batched(hashes, _AT_ONCE):
            asked = {"table_id": table.table_id, "at": table.version, "hashes": list(some)}
            found.update(row["what"] for row in _AROUND.rows(connection, asked))
    there = frozenset(hashes[what] for what in found if what in hashes)
    return Surroundings(there, _CLEANS in found, _MOVES in found, _RELOCATED in found)


def _around() -> sa.CompoundSelect[Any]:
    p, t = partitions.c, transactions.c
    table_id: sa.BindParameter[int] = sa.bindparam("table_id")
    at: sa.BindParameter[int] = sa.bindparam("at")
    there = sa.select(p.name_hash.label("what")).where(
        p.table_id == table_id,
        p.end_version > at,
        p.begin_version <= at,
        p.name_hash.in_(sa.bindparam("hashes", expanding=True)),
    )
    cleans = sa.exists().where(t.table_id == table_id, t.state == str(State.COMMITTED))
    unusual = {_CLEANS: cleans, _MOVES: moving_exists(), _RELOCATED: relocated(table_id).exists()}
    # Of the column's type, so that it is read as the hashes are.
    marks = [sa.select(sa.literal(what, p.name_hash.type).label("what")).where(is_so) for what, is_so in unusual.items()]
    return sa.union_all(there, *marks)


_AROUND = Prepared(_around())
