"""The engine of writes on a local folder and a SQLite index: what a write does, and what it leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from metastore.index import Index
from metastore.transactions.model import WriteKind
from tests.repair_cases import empty_index
from tests.write_cases import Stand, definition

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Stand]:
    (tmp_path / "index.db").write_bytes(empty_index())
    with Index.open(str(tmp_path / "index.db")) as index:
        stand = Stand(index)
        stand.create(definition(tmp_path / "t"))
        yield stand


def check(stand: Stand, rows: dict[str, str]) -> None:
    assert stand.rows() == rows
    assert stand.listed() == rows
    assert stand.strays() == []


def test_an_append_adds_partitions_and_files(stand: Stand) -> None:
    outcome = stand.write({"k=1": "1\n", "k=2": "2\n2\n"})
    assert (outcome.version, outcome.partitions_added, outcome.files_added, outcome.rows) == (1, 2, 2, 3)
    assert outcome.bytes == 6
    outcome = stand.write({"k=2": "3\n"})
    assert (outcome.version, outcome.partitions_added, outcome.partitions_changed) == (2, 0, 1)
    check(stand, {"k=1": "1\n", "k=2": "2\n2\n3\n"})


def test_an_overwrite_replaces_the_partitions_that_receive_rows(stand: Stand) -> None:
    stand.write({"k=1": "1\n", "k=2": "2\n"})
    outcome = stand.write({"k=2": "3\n", "k=3": "4\n"}, WriteKind.OVERWRITE_PARTITIONS)
    assert (outcome.partitions_added, outcome.partitions_changed, outcome.files_removed) == (1, 1, 1)
    check(stand, {"k=1": "1\n", "k=2": "3\n", "k=3": "4\n"})
