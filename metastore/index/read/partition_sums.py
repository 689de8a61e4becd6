"""What a table's partitions come to at a version, all of them or by the first key, without a look at each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from catalog_ext.metastore.index.database.column_types import total
from catalog_ext.metastore.index.database.schema import partition_sums, partitions
from catalog_ext.metastore.index.read.marked_rows import at_version, condition_of, raw
from catalog_ext.metastore.index.read.predicate_sql import predicate_sql
from catalog_ext.metastore.predicates.tree import TRUE, columns_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.model.values import Key
    from catalog_ext.metastore.predicates.tree import Predicate

SUMS = ("n_partitions", "n_files", "n_bytes", "n_rows", "n_uncounted")
"""The columns that are summed."""


def sums_by(dialect: str, table: Table, predicate: Predicate | None, keys: Sequence[Key]) -> sa.Subquery | None:
    """Return the query of the sums of the partitions that satisfy a predicate, by the values of some keys.

    Its columns are ``name``, that of one of the group's partitions, ``n_partitions``, ``n_files``, ``n_bytes``,
    ``n_rows`` (of those partitions whose rows are known), and ``n_uncounted``, how many the others are. Without
    keys it has one row, also of no partitions.

    Args:
        dialect: ``sqlite``, ``postgresql`` or ``mysql``.
        table: The table, at the version that is asked for.
        predicate: A bound predicate over the partition columns, None for all.
        keys: The partition columns that the sums are by; the index must distinguish their values.

    Returns:
        None where the index has no such sums.
    """
    all_keys, asked = table.definition.keys, columns_of(predicate or TRUE)
    by_first = bool(keys or asked)
    if by_first and (len(all_keys) < 2 or not {key.name for key in keys} | set(asked) <= {all_keys[0].name}):
        return None
    s = partition_sums.c
    condition = predicate_sql(
        predicate or TRUE, all_keys, dialect, lambda rows: at_version(rows, table), partition_sums
    )
    if not condition.exact or condition.ids is not None:
        return None
    named = condition_of(dialect, table, predicate)
    totals = [total(s[name]).label(name) for name in SUMS]
    where = (s.table_id == table.table_id, s.depth == int(by_first), s.version <= table.version, condition.clause)
    if not keys:
        one = sa.select(partitions.c.name).where(*at_version(partitions, table), named.clause).limit(1)
        named_one = sa.func.coalesce(one.scalar_subquery(), sa.literal("", partitions.c.name.type))
        return sa.select(raw(named_one).label("name"), *totals).where(*where).subquery()
    groups = sa.select(s.k1, *totals).where(*where).group_by(s.k1).having(sa.func.sum(s.n_partitions) > 0).subquery()
    name = sa.select(partitions.c.name).where(*at_version(partitions, table), partitions.c.k1 == groups.c.k1).limit(1)
    return sa.select(raw(name.scalar_subquery()).label("name"), *(groups.c[name] for name in SUMS)).subquery()
