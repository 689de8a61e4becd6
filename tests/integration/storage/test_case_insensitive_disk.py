"""Tables on a file system where case does not count: two names of one directory are one place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.commit.partition_plans import AddPartitions, NewPartition, RenamePartition
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import TableLayoutError
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.runtime.local_paths import PhysicalPaths
from tests.kit.repair_cases import local_catalog
from tests.kit.write_cases import DYNAMIC, Stand, definition
from tests.servers.exfat import mounted_exfat

if TYPE_CHECKING:
    from pathlib import Path


def test_names_in_another_case_are_the_same_files(tmp_path: Path) -> None:
    with mounted_exfat(tmp_path) as disk, local_catalog(tmp_path) as catalog:
        stand, other = Stand(catalog.index), TableIdentifier("s", "b")
        stand.create(definition(disk / "Data" / "T"))
        assert PhysicalPaths().of(f"{disk}/data/t") == PhysicalPaths().of(f"{disk}/DATA/T")
        stand.write({"k=1": "1\n"})
        stand.create(definition(disk / "b", name="b", external=True))
        asked = AddPartitions((NewPartition("k=7", f"file://{disk}/DATA/t/K=1"),))
        stand.engine.command(stand.table(other), asked, "ADD PARTITION")
        with pytest.raises(TableLayoutError, match=r"table s\.b has it too"):
            stand.write({"k=1": "9\n"}, DYNAMIC)
        with pytest.raises(TableLayoutError, match=r"table s\.b lies at"):
            catalog.drop_table("s.t")
        assert stand.rows(other) == {"k=7": "1\n"}


def test_values_that_differ_in_case_get_no_common_directory(tmp_path: Path) -> None:
    with mounted_exfat(tmp_path) as disk, local_catalog(tmp_path) as catalog:
        stand = Stand(catalog.index)
        stand.create(definition(disk / "t", {"k": "string"}))
        stand.write({"k=a": "1\n"})
        for kind in (WriteKind.APPEND, DYNAMIC):
            with pytest.raises(TableLayoutError, match=r"'?k=A'? .*is also that of '?k=a"):
                stand.write({"k=A": "2\n"}, kind)
        with pytest.raises(TableLayoutError, match="does not distinguish case"):
            stand.write({"k=b": "3\n", "k=B": "4\n"})
        with pytest.raises(TableLayoutError):
            stand.engine.command(stand.table(), RenamePartition("k=a", "k=A"), "RENAME PARTITION")
        with pytest.raises(TableLayoutError, match="does not distinguish case"):
            stand.engine.command(stand.table(), AddPartitions((NewPartition("k=A"),)), "ADD PARTITION")
        stand.write({"k=a": "5\n"}, DYNAMIC)
        assert stand.rows() == stand.listed() == {"k=a": "5\n"}
        made = definition(disk / "c", {"k": "string"}, name="c")
        with pytest.raises(TableLayoutError, match="does not distinguish case"):
            stand.write({"k=a": "1\n", "k=A": "2\n"}, WriteKind.CREATE, definition=made, table=None)
