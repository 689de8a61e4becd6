"""HiveServer2 4.0.1 writes a partition in the middle of a statement of ours, without locks: its row stays."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

import catalog_ext
from catalog_ext.metastore.commit.fault_points import armed
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.predicates.tree import Comparison, Operator
from tests.kit.repair_cases import write
from tests.kit.writes import begin, crash_at, stage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from tests.servers.hive_releases import ReleaseMetastore
    from tests.servers.hive_server import HiveServer

pytestmark = pytest.mark.slow

OLD, OURS, HIVES = 1, 2, 30


def overwrite(catalog: Catalog, table: str) -> None:
    begun = begin(catalog, WriteKind.OVERWRITE_PARTITIONS, table=table)
    catalog.writes.transactions.commit(begun.transaction_id, [stage(begun, "ds=a", b"%d\n" % OURS)])


def delete(catalog: Catalog, table: str) -> None:
    there = catalog.load_table(table)
    catalog.writes.delete(there.table_id, there.version, Comparison(Operator.EQ, "ds", "a"), truncate=False)


STATEMENTS: dict[str, tuple[Callable[[Catalog, str], None], set[int]]] = {
    "overwrite": (overwrite, {OURS, HIVES}), "delete": (delete, {HIVES}),
}  # fmt: skip
"""Each with the rows of the partition that both sides have after a repair."""


def test_rows_that_hive_inserts_between_our_steps_stay(
    hive_4_metastore: ReleaseMetastore, hive_server: HiveServer, tmp_path: Path
) -> None:
    hive_server.run(["CREATE DATABASE IF NOT EXISTS between_steps"])
    with catalog_ext.connect(
        index=str(tmp_path / "index.db"), metastore=hive_4_metastore.uri, warehouse=str(tmp_path / "warehouse")
    ) as catalog:
        for name, (statement, rows) in STATEMENTS.items():
            for point, owner in (("reserve.after", "dead"), ("apply.after", "live")):
                table, root = f"between_steps.{name}_{owner}", tmp_path / f"{name}_{owner}"
                write(root, "ds=a/000000_0", "ds=b/000000_0", content=b"%d\n" % OLD)
                hive_server.run([
                    f"CREATE EXTERNAL TABLE {table} (x INT) PARTITIONED BY (ds STRING) STORED AS TEXTFILE "
                    f"LOCATION 'file://{root}' TBLPROPERTIES ('external.table.purge' = 'true')",
                    f"MSCK REPAIR TABLE {table}",
                ])  # fmt: skip
                catalog.import_table(table)
                insert = f"INSERT INTO TABLE {table} PARTITION (ds = 'a') SELECT {HIVES}"
                ours = partial(statement, catalog, table)
                if owner == "live":

                    def run_hive(_: str, insert: str = insert) -> None:
                        hive_server.run([insert])

                    with armed(point, run_hive):
                        ours()
                else:
                    crash_at(point, ours)
                    hive_server.run([insert])
                    catalog.recover(table, older_than=0)
                catalog.repair_partitions(table)
                assert catalog.deliver().pending == 0
                (found,) = hive_server.run([f"SELECT x FROM {table} WHERE ds = 'a'"])
                assert {int(x) for (x,) in found} == rows, (name, point, owner)
                files = catalog.files(table, where="ds = 'a'").to_pylist()
                stored = [int((root / "ds=a" / file["path"]).read_text()) for file in files]
                assert sorted(stored) == sorted(rows), (name, point, owner)
