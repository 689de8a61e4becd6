"""A newer schema: the migrations of this tree, then ``tests/migrations/pretend_revision.py``."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.index.database import migration
from catalog_ext.metastore.index.database.migration import known_revisions

if TYPE_CHECKING:
    from collections.abc import Iterator

_PRETEND = Path(__file__).parents[1] / "migrations" / "pretend_revision.py"
# `quick_indexes` replaces it while the unit tests of a module run: new indexes are then copies of a migrated one.
_MIGRATE = migration.migrate


@contextlib.contextmanager
def migrations_run() -> Iterator[None]:
    """Run the migrations themselves, also where unit tests of the process copy a migrated index."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(migration, "migrate", _MIGRATE)
        yield


@contextlib.contextmanager
def next_release() -> Iterator[str]:
    """Let this process be of a release with one more revision, and give the revision's name."""
    head = migration.head_revision()
    following = f"{int(head) + 1:04}"
    with tempfile.TemporaryDirectory() as folder, migrations_run(), pytest.MonkeyPatch.context() as patch:
        migrations = Path(folder) / "migrations"
        shutil.copytree(migration._MIGRATIONS, migrations, ignore=shutil.ignore_patterns("__pycache__"))
        source = _PRETEND.read_text(encoding="utf-8").replace("PRETEND", following).replace("HEAD", head)
        (migrations / "versions" / f"{following}_pretend.py").write_text(source, encoding="utf-8")
        patch.setattr(migration, "_MIGRATIONS", migrations)
        known_revisions.cache_clear()
        try:
            yield following
        finally:
            known_revisions.cache_clear()
