"""What overwrites take of many partitions is listed, ended and deleted some at a time: no outcome depends on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.index.write import applier, partition_rows, row_writes
from catalog_ext.metastore.predicates.tree import Comparison, IsNull, Operator, Or
from catalog_ext.metastore.transactions import new_files
from catalog_ext.metastore.transactions.steps import clean, promote, replaced_directories, undo
from tests.kit.repair_cases import indexed, local_catalog, register, walked, write
from tests.kit.writes import insert

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from catalog_ext.catalog import Catalog

DAYS = [f"ds=2025-01-0{day}/region={region}" for day in range(1, 4) for region in ("eu", "us")]
NULL = "ds=__HIVE_DEFAULT_PARTITION__/region=eu"
SIZES = (
    (replaced_directories, "_LISTED_AT_ONCE"), (new_files, "_ASKED_AT_ONCE"), (row_writes, "_AT_ONCE"),
    (applier, "_ROWS_HELD"), (partition_rows, "_STREAMED_AT_ONCE"), (promote, "FILES_AT_ONCE"), (undo, "FILES_AT_ONCE"),
    (clean, "FILES_AT_ONCE"),
)  # fmt: skip
SOME = Or((Comparison(Operator.GE, "ds", "2025-01-02"), IsNull("ds")))


def delete(catalog: Catalog) -> None:
    there = catalog.load_table("s.t")
    catalog.writes.delete(there.table_id, there.version, SOME, truncate=False)


def truncate(catalog: Catalog) -> None:
    there = catalog.load_table("s.t")
    catalog.writes.delete(there.table_id, there.version, None, truncate=True)


def overwrite(catalog: Catalog) -> None:
    insert(catalog, DAYS[3], "ds=2025-01-03/region=new", kind=WriteKind.OVERWRITE, predicate=SOME)


def overwrite_everything(catalog: Catalog) -> None:
    insert(catalog, DAYS[0], "ds=2025-02-01/region=new", kind=WriteKind.OVERWRITE)


class Outcome(NamedTuple):
    """The table after a write, files without the write's id: in the index, on the store, and what the history says."""

    indexed: dict[str, list[str]]
    walked: dict[str, list[str]]
    elsewhere: bool
    row: tuple[object, ...]


def named(held: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    return {partition: sorted(name.split("-")[0] for name in names) for partition, names in held.items()}


def outcome(folder: Path, do_write: Callable[[Catalog], None]) -> Outcome:
    folder.mkdir()
    root = folder / "t"
    with local_catalog(folder) as catalog:
        write(root, *(f"{name}/old.csv" for name in (*DAYS, NULL)), f"{DAYS[2]}/second.csv")
        register(catalog, root)
        catalog.alter_table_properties("s.t", {"external.table.purge": "true"})
        catalog.repair_partitions("s.t")
        write(folder, "elsewhere/old.csv")
        place = (folder / "elsewhere").as_uri()
        catalog.partition_commands.add("s.t", [({"ds": "2025-01-03", "region": "far"}, place)])
        # What the index does not know goes with what is replaced.
        write(root, f"{DAYS[4]}/foreign.csv", f"{NULL}/foreign.csv")
        do_write(catalog)
        (newest, *_) = catalog.history("s.t")
        report = catalog.repair_partitions("s.t", dry_run=True)
        assert [*report.added, *report.dropped, *report.changed] == []
        row = (newest.operation, newest.summary.get("partitions_removed"), newest.summary.get("files_removed"))
        there = (folder / "elsewhere/old.csv").exists()
        return Outcome(named(indexed(catalog)), named(walked(root, 2)), there, row)


@pytest.mark.slow
@pytest.mark.parametrize("do_write", [delete, truncate, overwrite, overwrite_everything], ids=lambda w: w.__name__)
def test_small_batches_do_what_a_large_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, do_write: Callable[[Catalog], None]
) -> None:
    expected = outcome(tmp_path / "large", do_write)
    for size in (1, 2, 3):
        for module, name in SIZES:
            monkeypatch.setattr(module, name, size)
        assert outcome(tmp_path / f"by-{size}", do_write) == expected
