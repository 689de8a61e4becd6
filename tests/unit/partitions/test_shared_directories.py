"""Two partitions of a table in one directory: what becomes of the one takes no file of the other."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.commit.fault_points import armed
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import TableLayoutError
from catalog_ext.metastore.predicates.parser import parse_predicate
from catalog_ext.tables.locations import TableOverlapWarning
from tests.kit.repair_cases import indexed, local_catalog, register
from tests.kit.writes import insert

if TYPE_CHECKING:
    from collections.abc import Callable

    from catalog_ext.catalog import Catalog

K1 = parse_predicate("k = 1")


def _delete(catalog: Catalog) -> None:
    table = catalog.load_table("s.t")
    catalog.writes.delete(table.table_id, table.version, K1, truncate=False)


def _relocate_and_vacuum(catalog: Catalog) -> None:
    insert(catalog, "k=1", kind=WriteKind.OVERWRITE_PARTITIONS, overwrite_mode="relocate")
    catalog.vacuum("s.t", retention=0, allow_short_retention=True)


def _purge(catalog: Catalog) -> None:
    catalog.partition_commands.drop("s.t", [K1], purge=True)


def _readable(catalog: Catalog, name: str) -> list[bool]:
    table = catalog.load_table("s.t")
    location = catalog.index.partitions.located(table).get(name, f"{table.definition.location}/{name}")
    folder = Path(location.removeprefix("file://"))
    return [(folder / file).exists() for file in indexed(catalog)[name]]


@pytest.mark.parametrize("statement", [_delete, _relocate_and_vacuum, _purge])
@pytest.mark.parametrize("moved", ["k=1", "k=2"])
@pytest.mark.parametrize("by", ["data", "link"])
def test_what_ends_with_one_leaves_the_files_of_the_other(
    tmp_path: Path, statement: Callable[[Catalog], None], moved: str, by: str
) -> None:
    """By a link, where the partitions' directories have different names, the rows of the other were lost."""
    root = tmp_path / "data"
    (tmp_path / "link").symlink_to(root)
    with local_catalog(tmp_path) as catalog:
        register(catalog, root, {"k": "INT"})
        insert(catalog, "k=1", "k=2")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TableOverlapWarning)
            place = tmp_path / by / ("k=2" if moved == "k=1" else "k=1")
            catalog.partition_commands.relocate("s.t", {"k": moved[-1]}, str(place))
        before = indexed(catalog)["k=2"]
        statement(catalog)
        assert indexed(catalog)["k=2"] == before
        assert _readable(catalog, "k=2") == [True] * len(before)


@pytest.mark.parametrize("kind", [WriteKind.APPEND, WriteKind.OVERWRITE_PARTITIONS])
def test_rows_are_refused_where_another_partition_lies_by_a_link(tmp_path: Path, kind: WriteKind) -> None:
    """An overwrite deleted the rows of the other partition; a repair after an append doubled the new ones."""
    root = tmp_path / "data"
    (tmp_path / "link").symlink_to(root)
    with local_catalog(tmp_path) as catalog:
        register(catalog, root, {"k": "INT"})
        insert(catalog, "k=1", "k=2")
        catalog.partition_commands.drop("s.t", [K1])
        with pytest.warns(TableOverlapWarning):
            catalog.partition_commands.add("s.t", [({"k": "1"}, f"{tmp_path}/link/k=2")])
        for names in (["k=1"], ["k=2"], ["k=1", "k=2"]):
            with pytest.raises(TableLayoutError, match="each partition would also contain the other's rows"):
                insert(catalog, *names, kind=kind)
        assert _readable(catalog, "k=1") == _readable(catalog, "k=2") == [True]


def test_of_two_that_came_to_one_directory_at_once_a_drop_leaves_the_other(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "000000_0").write_text("7\n")
    with local_catalog(tmp_path) as catalog, local_catalog(tmp_path) as other:
        register(catalog, tmp_path / "data", {"k": "INT"})
        begun: list[str] = []

        def add_too(point: str) -> None:
            if not begun:
                begun.append(point)
                other.partition_commands.add("s.t", [({"k": "2"}, str(shared))])

        with armed("reserve.before", add_too), warnings.catch_warnings():
            warnings.simplefilter("ignore", TableOverlapWarning)
            catalog.partition_commands.add("s.t", [({"k": "1"}, str(shared))])
        catalog.partition_commands.drop("s.t", [K1], purge=True)
        assert _readable(catalog, "k=2") == [True]
