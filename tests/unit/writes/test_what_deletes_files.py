"""The table "What deletes files, and when" of ``docs/sql.md``, cell by cell."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import OperationNotSupportedError
from catalog_ext.metastore.model.tables import TableType
from catalog_ext.writes.writes import Batch
from tests.kit.repair_cases import local_catalog
from tests.kit.write_cases import K1, Stand, definition
from tests.kit.writes import insert, stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from catalog_ext.catalog import Catalog

PAGE = Path(__file__).parents[3] / "docs" / "sql.md"
MODES = [(TableType.MANAGED, "in-place"), (TableType.MANAGED, "relocate"),
         (TableType.EXTERNAL, "in-place"), (TableType.EXTERNAL, "relocate")]  # fmt: skip


def overwrite(catalog: Catalog) -> None:
    insert(catalog, "k=1", kind=WriteKind.OVERWRITE_PARTITIONS)


def load(catalog: Catalog) -> None:
    source = location(catalog).parent / "loaded.csv"
    source.write_text("9\n")
    catalog.loading.load(catalog.load_table("s.t"), str(source), {"k": "1"}, overwrite=True)


def replace_there(catalog: Catalog) -> None:
    replace_table(catalog, location(catalog))


def replace_elsewhere(catalog: Catalog) -> None:
    replace_table(catalog, location(catalog).parent / "new")


def replace_table(catalog: Catalog, place: Path) -> None:
    made = catalog.load_table("s.t").definition
    batch = Batch("RTAS", "test@host:1")
    begun, _ = catalog.writes.begin_creation(WriteKind.CREATE_OR_REPLACE, made, str(place), batch)
    catalog.writes.transactions.commit(begun.transaction_id, [stage(begun, "k=3")])


def location(catalog: Catalog) -> Path:
    return Path(catalog.load_table("s.t").definition.location.removeprefix("file://"))


def delete(catalog: Catalog, *, everything: bool = False) -> None:
    table = catalog.load_table("s.t")
    catalog.writes.delete(table.table_id, table.version, None if everything else K1, truncate=everything)


def truncate(catalog: Catalog) -> None:
    delete(catalog, everything=True)


def purge(catalog: Catalog) -> None:
    catalog.alter_table_properties("s.t", {"external.table.purge": "true"})
    truncate(catalog)


def drop(catalog: Catalog) -> None:
    catalog.partition_commands.drop("s.t", [K1])


def roll_back(catalog: Catalog) -> None:
    catalog.rollback("s.t", 0, {"k": "1"})


def add(catalog: Catalog) -> None:
    catalog.partition_commands.add("s.t", [({"k": "7"}, None)])


def set_location(catalog: Catalog) -> None:
    other = location(catalog).parent / "other"
    other.mkdir()
    catalog.partition_commands.relocate("s.t", {"k": "1"}, str(other))


def repair(catalog: Catalog) -> None:
    catalog.repair_partitions("s.t")


def drop_table(catalog: Catalog) -> None:
    catalog.drop_table("s.t")


def unregister(catalog: Catalog) -> None:
    catalog.unregister_table("s.t")


ROWS: list[Callable[[Catalog], None]] = [
    overwrite, load, delete, truncate, purge, drop, roll_back, add, set_location, repair, replace_there,
    replace_elsewhere, drop_table, unregister,
]  # fmt: skip
"""What the rows of the page's table do, in its order."""


def page() -> list[list[str]]:
    """The cells of the table, without its head."""
    _, _, section = PAGE.read_text().partition("### What deletes files, and when")
    lines = [line for line in section.partition("\n## ")[0].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with local_catalog(tmp_path) as catalog:
        yield catalog


def outcome(catalog: Catalog, files: set[Path], act: Callable[[Catalog], None]) -> str:
    """When the files of k=1 are deleted, in the words of the page."""
    try:
        act(catalog)
    except OperationNotSupportedError:
        return "refused"
    if not any(file.exists() for file in files):
        return "at once"
    if "t" in catalog.list_tables("s"):
        time.sleep(0.005)  # what is written is older than the retention then
        catalog.vacuum("s.t", retention=0, allow_short_retention=True)
    return "never" if all(file.exists() for file in files) else "by vacuum"


def test_the_page_has_a_row_for_each_statement() -> None:
    assert [len(cells) for cells in page()] == [5] * len(ROWS)


@pytest.mark.slow
@pytest.mark.parametrize("row", range(len(ROWS)), ids=[act.__name__ for act in ROWS])
def test_files_are_deleted_when_the_page_says(catalog: Catalog, tmp_path: Path, row: int) -> None:
    found = []
    for number, (kind, mode) in enumerate(MODES):
        root = tmp_path / str(number) / "t"
        made = definition(root, external=kind is TableType.EXTERNAL)
        Stand(catalog.index).create(made)
        catalog.alter_table_properties("s.t", {"overwrite-mode": mode})
        insert(catalog, "k=1", "k=2")
        found.append(outcome(catalog, set(root.glob("k=1/*.csv")), ROWS[row]))
        if "t" in catalog.list_tables("s"):
            catalog.unregister_table("s.t")
    assert found == page()[row][1:]
