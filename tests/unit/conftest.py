from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.fakes_metastore import FakeMetastore
from tests.index_cases import quick_indexes as quick_indexes
from tests.repair_cases import local_catalog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_ext.catalog import Catalog


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    """A catalog on the index alone, with the namespace ``s``; a module that wants another defines its own."""
    with local_catalog(tmp_path) as catalog:
        yield catalog


@pytest.fixture
def metastore(monkeypatch: pytest.MonkeyPatch) -> FakeMetastore:
    """A metastore in memory, which every catalog of the test has that is given a ``thrift://`` URI."""
    fake = FakeMetastore()
    monkeypatch.setattr("catalog_ext.metastore_sync.connection.connect", lambda *_, **__: fake)
    return fake
