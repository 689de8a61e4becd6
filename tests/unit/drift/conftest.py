from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import catalog_ext
from tests.repair_cases import write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from tests.fakes_metastore import FakeMetastore


@pytest.fixture
def catalog(tmp_path: Path, metastore: FakeMetastore) -> Iterator[Catalog]:
    """A catalog with a metastore, and the table ``s.t`` with two partitions that all sides have."""
    with catalog_ext.connect(
        index=str(tmp_path / "index.db"), metastore="thrift://fake:9083", warehouse=str(tmp_path / "warehouse")
    ) as catalog:
        catalog.create_namespace("s")
        root = tmp_path / "t"
        write(root, "ds=1/a.csv", "ds=2/a.csv")
        catalog.register_table(
            "s.t", location=str(root), partition_columns={"ds": "STRING"}, schema="x INT, y STRING", format="csv",
            properties={"owner-team": "data"},
        )  # fmt: skip
        catalog.repair_partitions("s.t")
        assert catalog.deliver().pending == 0
        yield catalog
