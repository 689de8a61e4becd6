"""Partitions whose directories are symbolic links into another table's directory, on a local disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import TableLayoutError
from tests.kit.repair_cases import indexed, walked
from tests.kit.writes import insert
from tests.unit.partitions.test_partition_commands import equals, external, managed, names

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from catalog_ext.catalog import Catalog

REFUSED = r"k=2.*of table s\.t is a link to .*/k=1', which lies in table s\.u"


@pytest.fixture
def other(catalog: Catalog) -> Path:
    """The directory of another managed table, with a partition k=1 that has a file."""
    root = managed(catalog, "u")
    insert(catalog, "k=1", table="s.u")
    return root


@pytest.fixture
def root(catalog: Catalog, other: Path) -> Path:
    """A managed table whose partition k=2 is a link to the other table's, found by a repair."""
    root = managed(catalog)
    insert(catalog, "k=1")
    (root / "k=2").symlink_to(other / "k=1")
    catalog.repair_partitions("s.t")
    assert names(catalog) == ["k=1", "k=2"]
    return root


ACTIONS: dict[str, Callable[[Catalog], object]] = {
    "append": lambda c: insert(c, "k=2"),
    "overwrite": lambda c: insert(c, "k=2", kind=WriteKind.OVERWRITE_PARTITIONS),
    "overwrite in place": lambda c: insert(c, "k=2", kind=WriteKind.OVERWRITE_PARTITIONS, overwrite_mode="in-place"),
    "overwrite of all": lambda c: insert(c, "k=1", kind=WriteKind.OVERWRITE, overwrite_mode="in-place"),
    "drop": lambda c: c.partition_commands.drop("s.t", [equals("k", "2")]),
    "drop of all": lambda c: c.partition_commands.drop("s.t", [equals("k", "0", ">")]),
    "rename": lambda c: c.partition_commands.rename("s.t", {"k": "2"}, {"k": "3"}),
    "exchange": lambda c: c.partition_commands.exchange("s.v", "s.t", [{"k": "2"}]),
}


@pytest.mark.slow
@pytest.mark.parametrize("action", list(ACTIONS))
def test_what_would_touch_another_tables_files_is_refused(
    catalog: Catalog, root: Path, other: Path, action: str
) -> None:
    managed(catalog, "v")
    before, theirs, files = indexed(catalog), indexed(catalog, "s.u"), walked(other, 1)
    with pytest.raises(TableLayoutError, match=REFUSED):
        ACTIONS[action](catalog)
    assert (indexed(catalog), indexed(catalog, "s.u"), walked(other, 1)) == (before, theirs, files)
    assert walked(root, 1)["k=1"] == before["k=1"]
    # The remedy: without the link there is nothing of the other table's to be touched.
    (root / "k=2").unlink()
    catalog.repair_partitions("s.t", mode="sync", allow_mass_drop=True)
    insert(catalog, "k=2")
    catalog.partition_commands.drop("s.t", [equals("k", "2")])
    assert walked(other, 1) == files


def test_an_external_tables_partition_may_be_dropped_since_its_files_stay(
    catalog: Catalog, other: Path, tmp_path: Path
) -> None:
    root = external(catalog, tmp_path)
    (root / "k=2").symlink_to(other / "k=1")
    catalog.repair_partitions("s.t")
    files = walked(other, 1)
    with pytest.raises(TableLayoutError, match=REFUSED):
        insert(catalog, "k=2")
    catalog.partition_commands.drop("s.t", [equals("k", "2")])
    assert (names(catalog), walked(other, 1)) == ([], files)


def test_links_to_what_is_no_tables_are_written_to(catalog: Catalog, tmp_path: Path) -> None:
    root = managed(catalog)
    (tmp_path / "roomy").mkdir()
    (root / "k=2").symlink_to(tmp_path / "roomy")
    asked = catalog.index.query_count
    insert(catalog, "k=1")
    plain = catalog.index.query_count - asked
    asked = catalog.index.query_count
    insert(catalog, "k=2", kind=WriteKind.OVERWRITE_PARTITIONS)
    assert len(list((tmp_path / "roomy").iterdir())) == 1
    insert(catalog, "k=1")
    asked = catalog.index.query_count
    insert(catalog, "k=1")
    assert catalog.index.query_count - asked <= plain, "a write without links asks nothing more"
