"""``catalog-ext serve`` as a process of its own: what it prints, its token file, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def served(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A service on a free port; killed at the end unless the test has ended it."""
    command = [sys.executable, "-m", "catalog_ext.cli.main", "--metastore", "none", "serve", "--port", "0"]
    process = subprocess.Popen(
        [*command, "--token-file", str(tmp_path / "token"), "--json"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    yield process
    process.kill()
    process.communicate()


def _ping(uri: str, token: str) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{uri}/v1/ping", b"{}", headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        result: dict[str, Any] = json.load(answer)
    return result


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_a_signal(served: subprocess.Popen[str], tmp_path: Path, how: signal.Signals) -> None:
    assert served.stdout is not None
    printed = json.loads(served.stdout.readline())
    token_file = tmp_path / "token"
    token = token_file.read_text().strip()
    assert stat.S_IMODE(token_file.stat().st_mode) == 0o600
    assert _ping(printed["uri"], token)["service"] == "catalog-ext"
    with pytest.raises(urllib.error.HTTPError, match="401"):
        _ping(printed["uri"], "wrong")
    spark = printed["spark"]
    assert spark["spark.sql.catalog.lake.uri"] == printed["uri"]
    assert spark["spark.sql.catalog.lake.token-file"] == str(token_file)
    assert spark["spark.jars"].endswith(".jar")
    assert token not in json.dumps(printed)
    served.send_signal(how)
    _, errors = served.communicate(timeout=30)
    assert served.returncode == 0
    assert errors == "stopped\n"
