"""The database's time as a part of statements."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from catalog_ext.metastore.index.database.clock import NOW_MS
from catalog_ext.metastore.index.write.transaction_rows import ROW, WITH_TABLE


@pytest.mark.parametrize("statement", [sa.select(NOW_MS), ROW, WITH_TABLE], ids=["time", "row", "with table"])
def test_a_statement_with_the_time_is_compiled_once(statement: sa.Select[tuple[object, ...]]) -> None:
    engine = sa.create_engine("sqlite://")
    cache: dict[object, object] = {}
    for _ in range(2):
        statement._compile_w_cache(engine.dialect, compiled_cache=cache, column_keys=[])  # type: ignore[arg-type]
    assert len(cache) == 1, "without a cache key it is compiled at every execution"
