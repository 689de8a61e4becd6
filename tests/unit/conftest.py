from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.hive.thrift.connect import MetastoreClient
from catalog_ext.metastore.runtime.java import find_java
from tests.kit.fakes_metastore import FakeMetastore, serving
from tests.kit.index_cases import quick_indexes as quick_indexes
from tests.kit.repair_cases import local_catalog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_ext.catalog import Catalog


_NO_JVM = """#!/bin/sh
[ "$1" = -version ] && echo 'openjdk version "17.0.15"' >&2 && exit
echo "a unit test starts no JVM" >&2
exit 1
"""


@pytest.fixture(scope="module", autouse=True)
def _no_jvm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Java is a script that says its version, and nothing more."""
    # One for all modules of the process.
    program = tmp_path_factory.getbasetemp() / "no-jvm" / "bin" / "java"
    if not program.exists():
        program.parent.mkdir(parents=True)
        program.write_text(_NO_JVM, encoding="utf-8")
        program.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_HOME", str(program.parent.parent))
        find_java.cache_clear()
        yield
    find_java.cache_clear()


@pytest.fixture(scope="module", autouse=True)
def _short_pauses() -> Iterator[None]:
    """Who finds no metastore asks again at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(MetastoreClient.__init__.__kwdefaults__, "first_delay", 0.001)
        yield


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    """A catalog on the index alone, with the namespace ``s``; a module that wants another defines its own."""
    with local_catalog(tmp_path) as catalog:
        yield catalog


@pytest.fixture
def metastore(monkeypatch: pytest.MonkeyPatch) -> FakeMetastore:
    """A metastore in memory, which every catalog of the test has that is given a ``thrift://`` URI."""
    fake = FakeMetastore()
    monkeypatch.setattr("catalog_ext.conf.resolved.Settings.connect_metastore", serving(lambda _: fake))
    return fake
