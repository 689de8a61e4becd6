"""The command line before a reader that does not read to the end."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from tests.kit.repair_cases import EU, catalog_of_files

if TYPE_CHECKING:
    from pathlib import Path


def test_a_reader_that_leaves_early(tmp_path: Path) -> None:
    with catalog_of_files(tmp_path, tmp_path / "t", f"{EU}/a.csv"):
        program = [sys.executable, "-m", "catalog_ext.cli.main", "--index", str(tmp_path / "index.db")]
        program += ["--metastore", "none", "files", "s.t", "-o", "json"]
        with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.close()
            assert process.stderr is not None
            assert process.stderr.read() == b""
            assert process.wait() == 1
