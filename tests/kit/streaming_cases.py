"""An hourly table, and a streaming query that writes one epoch after the other."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.commit.partition_commit import DELAY, POLICY_CLASS, POLICY_KIND, TIME_PATTERN, TRIGGER
from tests.kit.index_cases import local_index
from tests.kit.write_cases import Stand, definition

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from catalog_ext.metastore.commit.transaction import WriteOutcome

HOURLY = {
    TRIGGER: "partition-time",
    DELAY: "1 h",
    TIME_PATTERN: "2025-01-01 $h:00:00",
    POLICY_KIND: "success-file,custom",
    POLICY_CLASS: "json:committed",
}
Calls = list[tuple[dict[str, str | None], str]]


class Stream:
    """A query that writes epoch after epoch."""

    def __init__(self, stand: Stand, app_id: str = "query", first: int = 0) -> None:
        self._stand = stand
        self._epoch = first - 1
        self.app_id = app_id

    def epoch(self, watermark_hour: int, files: Mapping[str, str], **more: object) -> WriteOutcome:
        self._epoch += 1
        at = int(datetime(2025, 1, 1, watermark_hour, tzinfo=timezone.utc).timestamp() * 1000)
        return self._stand.write(
            files, operation="STREAMING", app_id=self.app_id, app_version=self._epoch, watermark_ms=at, **more
        )

    def end(self) -> WriteOutcome | None:
        return self._stand.engine.waiting.release(self._stand.table(), self.app_id, "test", {})


def waiting(stand: Stand) -> list[str]:
    return sorted({w.partition for w in stand.index.waiting_files.all(stand.table().table_id)})


def announced(calls: Calls) -> list[str | None]:
    hours = [values["h"] for values, _ in calls]
    calls.clear()
    return hours


def unseen(stand: Stand) -> list[str]:
    """Hidden files, but for those that say that a partition is whole."""
    return [path for path in stand.strays() if not path.endswith("_SUCCESS")]


def below(root: Path) -> set[str]:
    """Every file and directory, up to the first hyphen of its name."""
    return {str(path.relative_to(root)).split("-")[0] for path in root.rglob("*")}


@contextmanager
def hourly(folder: Path) -> Iterator[tuple[Stand, Calls]]:
    """An engine with the table, and what its custom policy was called with."""
    made: Calls = []

    def committed(values: Mapping[str, str | None], location: str) -> None:
        made.append((dict(values), location))

    with local_index(folder) as index, pytest.MonkeyPatch.context() as patch:
        patch.setattr("json.committed", committed, raising=False)
        stand = Stand(index)
        stand.create(replace(definition(folder / "t", {"h": "int"}), properties=HOURLY))
        yield stand, made
