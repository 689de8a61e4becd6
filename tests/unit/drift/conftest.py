from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import catalog_ext
from tests.kit.made_once import MadeOnce, making
from tests.kit.repair_cases import write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from tests.kit.fakes_metastore import FakeMetastore


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> MadeOnce:
    """The table ``s.t`` with two partitions that all sides have."""
    folder = tmp_path_factory.mktemp("drift")
    with making(folder) as made, _connected(folder) as catalog:
        catalog.create_namespace("s")
        root = folder / "t"
        write(root, "ds=1/a.csv", "ds=2/a.csv")
        catalog.register_table(
            "s.t", location=str(root), partition_columns={"ds": "STRING"}, schema="x INT, y STRING", format="csv",
            properties={"owner-team": "data"},
        )  # fmt: skip
        catalog.repair_partitions("s.t")
        assert catalog.deliver().pending == 0
    return made


@pytest.fixture
def tmp_path(made: MadeOnce, metastore: FakeMetastore) -> Path:
    """The folder of the table and the index, as it was made."""
    return made.again(metastore)


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    """A catalog with a metastore, and the table ``s.t`` with two partitions that all sides have."""
    with _connected(tmp_path) as catalog:
        yield catalog


def _connected(folder: Path) -> Catalog:
    return catalog_ext.connect(
        index=str(folder / "index.db"), metastore="thrift://fake:9083", warehouse=str(folder / "warehouse")
    )
