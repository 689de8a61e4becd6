"""Random histories with a backup at a random moment, more statements, and the steps of docs/operations.md.

``CATALOG_EXT_TEST_HISTORIES=10000`` runs as many histories on a local disk and on S3 each.
"""

from __future__ import annotations

import os
import random
import secrets
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from catalog_ext.catalog import connect
from catalog_ext.metastore.commit.fault_points import armed
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import CatalogExtError
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import Namespace
from catalog_ext.metastore.predicates.tree import Comparison, Operator
from catalog_ext.metastore.storage.entries import ListedFile
from catalog_ext.metastore.storage.listing import list_tree
from catalog_ext.metastore.storage.locations import Location
from tests.faults.writer import Server, uploader
from tests.kit.promotion_cases import s3_options
from tests.kit.write_cases import Stand, definition
from tests.kit.writes import begin
from tests.unit.transactions.test_incarnations import copied

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from tests.servers.stores import S3Server

HISTORIES = int(os.environ.get("CATALOG_EXT_TEST_HISTORIES", "0"))
POINTS = (
    "begin.after", "promote.before", "promote.after", "apply.before", "publish.before", "clean.before",
    "clean.removed", "clean.after",
)  # fmt: skip
TABLES = ("t", "u")


@dataclass(frozen=True)
class Place:
    """Where a history takes place.

    Attributes:
        folder: Has the index and its backup.
        warehouse: Its URI; the tables lie below.
        storage: Settings of the store.
        server: The S3 server; None on a local disk.
        options: Of every overwrite.
    """

    folder: Path
    warehouse: str
    storage: Mapping[str, Any] = field(default_factory=dict)
    server: Server | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    def opened(self, index: str = "index.db") -> Catalog:
        return connect(
            index=str(self.folder / index), metastore=None, warehouse=self.warehouse, storage=dict(self.storage)
        )

    def stand(self, catalog: Catalog) -> Stand:
        upload = None if self.server is None else uploader(catalog.storage, self.server)
        return Stand(catalog.index, catalog.storage, upload=upload)

    def make_tables(self, catalog: Catalog) -> None:
        catalog.index.namespaces.create(Namespace("s"), deliver=False)
        for name in TABLES:
            self.stand(catalog).create(definition(f"{self.warehouse}/{name}", name=name))

    def files(self, catalog: Catalog) -> set[str]:
        """The data files on the store, hidden ones too."""
        events = list_tree(catalog.storage, Location.parse(self.warehouse), descend=lambda _: True, depth_hint=1)
        found = {f"{event.directory}/{event.name}" for event in events if isinstance(event, ListedFile)}
        return {path for path in found if path.endswith(".csv")}

    def living(self, catalog: Catalog) -> set[str]:
        """The files that the tables have."""
        found: set[str] = set()
        for name in TABLES:
            table = catalog.load_table(f"s.{name}")
            for row in catalog.index.files.plan(table, None).read_all().to_pylist():
                base = row["location"] or f"{table.definition.location}/{row['partition']}"
                found.add(f"{base}/{row['path']}".removeprefix(f"{Location.parse(self.warehouse)}/"))
        return found

    def acknowledged(self, catalog: Catalog) -> dict[str, dict[str, list[str]]]:
        """The rows of each table by partition, sorted; partitions without rows are left out."""
        rows = {name: self.stand(catalog).rows(TableIdentifier("s", name)) for name in TABLES}
        return {name: {p: sorted(text.split()) for p, text in of.items() if text} for name, of in rows.items()}

    def write(self, catalog: Catalog, table: str, text: str, kind: WriteKind, k: int) -> None:
        begun = begin(catalog, kind, table=f"s.{table}", **self.options)
        staged = self.stand(catalog).put(begun, {f"k={k}": f"{text}\n"})
        catalog.writes.transactions.commit(begun.transaction_id, staged)


def local(folder: Path, options: Mapping[str, str] | None = None) -> Place:
    return Place(folder, str(Location.parse(str(folder))), options=options or {})


def on_s3(folder: Path, server: S3Server) -> Place:
    bucket = server.make_bucket(f"histories-{secrets.token_hex(4)}")
    direct = Server(server.direct_endpoint, server.access_key, server.secret_key, server.region)
    return Place(folder, f"s3a://{bucket}/w", s3_options(server), direct)


def statement(rng: random.Random, place: Place, catalog: Catalog, text: str) -> None:
    """Run a random statement; one that the tables do not allow (a partition is missing) changes nothing."""
    name, k = rng.choice(TABLES), rng.randint(1, 3)
    table, one = f"s.{name}", Comparison(Operator.EQ, "k", str(k))
    other = f"s.{TABLES[1 - TABLES.index(name)]}"
    kind = rng.choice(("append", "append", "overwrite", "truncate", "delete", "drop", "rename", "exchange", "repair"))
    try:
        if kind in ("append", "overwrite"):
            place.write(
                catalog, name, text, WriteKind.APPEND if kind == "append" else WriteKind.OVERWRITE_PARTITIONS, k
            )
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


def run_history(place: Place, seed: int) -> None:
    """Run statements, restore a backup from the middle, and compare rows and files with those before.

    Where overwrites relocate, repair cannot know which directory is a partition's: only the files are compared then.
    """
    rng = random.Random(seed)
    with place.opened() as catalog:
        place.make_tables(catalog)
        run = partial(statement, rng, place, catalog)
        for number in range(rng.randint(1, 4)):
            run(f"before{number}")
        with armed(rng.choice(POINTS), copied(place.folder)):
            run("during")
        if not (place.folder / "backup.db").exists():
            copied(place.folder)("")
        for number in range(rng.randint(1, 3)):
            run(f"after{number}")
        rows, living, store = place.acknowledged(catalog), place.living(catalog), place.files(catalog)
    with place.opened("backup.db") as catalog:
        catalog.restored(dry_run=True)
        for entry in catalog.restored():
            if entry.action == "failed":
                # The operator looks, and says that so many partitions are gone indeed.
                assert "mass" in entry.detail, entry.detail
                catalog.repair_partitions(entry.subject, allow_mass_drop=True)
        assert place.files(catalog) == store
        catalog.recover(older_than="0s")
        for name in TABLES:
            catalog.vacuum(f"s.{name}", retention=0, allow_short_retention=True)
        assert living <= place.files(catalog)
        if not place.options:
            assert place.acknowledged(catalog) == rows
            statement(rng, place, catalog, "later")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(HISTORIES or 6))
def test_restored_index_has_every_acknowledged_row(tmp_path: Path, seed: int) -> None:
    run_history(local(tmp_path), seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(HISTORIES or 4))
def test_restored_index_keeps_every_file_of_relocating_overwrites(tmp_path: Path, seed: int) -> None:
    run_history(local(tmp_path, {"overwrite_mode": "relocate"}), seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(HISTORIES or 2))
def test_restored_index_on_s3_has_every_acknowledged_row(tmp_path: Path, s3_server: S3Server, seed: int) -> None:
    run_history(on_s3(tmp_path, s3_server), seed)
