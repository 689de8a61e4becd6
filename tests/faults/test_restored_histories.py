"""Random histories with a backup at a random moment, more statements, and the steps of docs/operations.md.

``CATALOG_EXT_TEST_HISTORIES=10000`` runs as many histories.
"""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.commit.fault_points import armed
from catalog_ext.metastore.commit.plan import WriteKind
from catalog_ext.metastore.errors import CatalogExtError
from catalog_ext.metastore.predicates.tree import Comparison, Operator
from tests.unit.transactions.test_incarnations import copied, files, made, opened, rows, write

if TYPE_CHECKING:
    from pathlib import Path

    from catalog_ext.catalog import Catalog

HISTORIES = int(os.environ.get("CATALOG_EXT_TEST_HISTORIES", "6"))
POINTS = (
    "begin.after", "promote.before", "promote.after", "commit.before", "deliver.before", "clean.before",
    "clean.removed", "clean.after",
)  # fmt: skip
TABLES = ("t", "u")


def statement(rng: random.Random, catalog: Catalog, text: str) -> None:
    """Run a random statement; one that the tables do not allow (a partition is missing) changes nothing."""
    name, k = rng.choice(TABLES), rng.randint(1, 3)
    table, one = f"s.{name}", Comparison(Operator.EQ, "k", str(k))
    other = f"s.{TABLES[1 - TABLES.index(name)]}"
    kind = rng.choice(("append", "append", "overwrite", "truncate", "delete", "drop", "rename", "exchange", "repair"))
    try:
        if kind in ("append", "overwrite"):
            write(catalog, name, text, WriteKind.APPEND if kind == "append" else WriteKind.OVERWRITE_PARTITIONS, k)
        elif kind in ("truncate", "delete"):
            found = catalog.load_table(table)
            catalog.writes.delete(found.table_id, found.version, one, truncate=kind == "truncate")
        elif kind == "drop":
            catalog.partition_commands.drop(table, [one])
        elif kind == "rename":
            catalog.partition_commands.rename(table, {"k": str(k)}, {"k": str(k % 3 + 1)})
        elif kind == "exchange":
            catalog.partition_commands.exchange(table, other, [{"k": str(k)}])
        else:
            catalog.repair_partitions(table)
    except CatalogExtError as error:
        if error.code == "CATALOG_EXT_INDEX_RESTORED":
            raise


def acknowledged(catalog: Catalog) -> dict[str, dict[str, list[str]]]:
    """The rows of each table by partition, sorted; partitions without rows are left out."""
    return {name: {p: sorted(text.split()) for p, text in rows(catalog, name).items() if text} for name in TABLES}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(HISTORIES))
def test_restored_index_has_every_acknowledged_row(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    with opened(tmp_path) as catalog:
        made(catalog, tmp_path, *TABLES)
        for number in range(rng.randint(1, 4)):
            statement(rng, catalog, f"before{number}")
        with armed(rng.choice(POINTS), copied(tmp_path)):
            statement(rng, catalog, "during")
        if not (tmp_path / "backup.db").exists():
            copied(tmp_path)("")
        for number in range(rng.randint(1, 3)):
            statement(rng, catalog, f"after{number}")
        reality, store = acknowledged(catalog), files(tmp_path)
    with opened(tmp_path, "backup.db") as catalog:
        catalog.restored(dry_run=True)
        for entry in catalog.restored():
            if entry.action == "failed":
                # The operator looks, and says that so many partitions are gone indeed.
                assert "mass" in entry.detail, entry.detail
                catalog.repair_partitions(entry.subject, allow_mass_drop=True)
        assert files(tmp_path) == store
        assert acknowledged(catalog) == reality
        catalog.recover(older_than="0s")
        for name in TABLES:
            catalog.vacuum(f"s.{name}", retention=0, allow_short_retention=True)
        assert acknowledged(catalog) == reality
        statement(rng, catalog, "later")
