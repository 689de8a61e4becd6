"""A catalog's folder that is made once per module; each test gets a fresh copy at the same path."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.kit.fakes_metastore import FakeMetastore, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass(frozen=True)
class MadeOnce:
    """A folder as it was made: its folders, its files with their times, and what the metastore had then."""

    folder: Path
    folders: list[Path]
    files: dict[Path, tuple[bytes, int]]
    metastore: FakeMetastore

    def again(self, metastore: FakeMetastore | None = None) -> Path:
        """Return the folder as it was made; a metastore has what that one had."""
        shutil.rmtree(self.folder)
        for path in self.folders:
            path.mkdir(parents=True, exist_ok=True)
        for path, (content, modified_ns) in self.files.items():
            path.write_bytes(content)
            os.utime(path, ns=(modified_ns, modified_ns))
        if metastore is not None:
            metastore.take_over(self.metastore)
        return self.folder


@contextmanager
def making(folder: Path) -> Iterator[MadeOnce]:
    """Keep what is made in the folder until the block ends; a catalog with a ``thrift://`` URI has the metastore."""
    made = MadeOnce(folder, [folder], {}, FakeMetastore())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("catalog_ext.conf.resolved.Settings.connect_metastore", serving(lambda _: made.metastore))
        yield made
    for path in folder.rglob("*"):
        if path.is_dir():
            made.folders.append(path)
        else:
            made.files[path] = path.read_bytes(), path.stat().st_mtime_ns
