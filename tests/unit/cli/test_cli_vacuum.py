"""What ``catalog-ext vacuum`` says: what it removes, and what stays."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.commit.write_kinds import WriteKind
from tests.kit.repair_cases import local_catalog
from tests.kit.write_cases import Stand, definition
from tests.kit.writes import insert

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.cli.conftest import Run


@pytest.mark.slow
def test_what_is_kept_counts_as_no_removal(run: Run, without_metastore: Path) -> None:
    with local_catalog(without_metastore) as catalog:
        Stand(catalog.index).create(definition(without_metastore / "t", external=True))
        catalog.alter_table_properties("s.t", {"overwrite-mode": "relocate"})
        insert(catalog, "k=1")
        insert(catalog, "k=1", kind=WriteKind.OVERWRITE_PARTITIONS)
    vacuum = ("--index", "index.db", "vacuum", "s.t")
    code, kept, _ = run(*vacuum, "--dry-run")
    assert (code, "0 removals, 1 kept\n" in kept, "Run it without --dry-run" in kept) == (0, True, False)
    assert "ADD PARTITION … LOCATION where the partition itself is gone" in " ".join(kept.split())
    time.sleep(0.005)  # what is written is older than the retention then
    code, gone, _ = run(*vacuum, "--retention", "0s", "--force", "--dry-run")
    assert (code, "2 removals\n" in gone, "Run it without --dry-run" in gone) == (0, True, True)
