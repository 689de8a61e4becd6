"""What benchmarks start beside themselves: processes that measure, and real metastores."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.servers.databases import PostgresServer
from tests.servers.metastores_on_postgres import metastores_on_postgres

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers.hive_releases import Release

PROJECT = Path(__file__).resolve().parents[2]


def child(module: str, *arguments: str) -> dict[str, Any]:
    """Return what a process of a module prints, whose last line is JSON."""
    command = [sys.executable, "-m", f"tests.benchmarks.{module}", *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=PROJECT)
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


@contextmanager
def metastore(folder: Path, release: Release | None) -> Iterator[tuple[str, str]]:
    """A metastore with a log: its database's URL, and its own."""
    postgres_folder = folder / "postgres"
    postgres_folder.mkdir(parents=True)
    for each in (folder.parent, folder, postgres_folder):
        each.chmod(0o755)  # PostgreSQL refuses root and runs as another user
    postgres = PostgresServer(postgres_folder)
    try:
        url = postgres.create_database()
        with metastores_on_postgres(url, folder / "metastore", 1, log=True, release=release, heap="2g") as servers:
            yield url, servers[0].uri
    finally:
        postgres.stop()
