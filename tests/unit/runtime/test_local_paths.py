"""Local directories that are one by a symbolic link or a bind mount."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.runtime.local_paths import PhysicalPaths

if TYPE_CHECKING:
    from pathlib import Path

_ASK = """
import sys
from tests.unit.runtime.test_local_paths import lies_within
print([lies_within(*pair.split(",")) for pair in sys.argv[1:]])
"""


def lies_within(place: str, root: str) -> bool:
    """Return whether a local directory is another one or lies in it."""
    paths = PhysicalPaths()
    return f"{paths.of(place)}/".startswith(f"{paths.of(root)}/")


def test_place_within_a_directory_is_found_by_link(tmp_path: Path) -> None:
    (tmp_path / "a" / "in").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "a")
    root = str(tmp_path)
    assert lies_within(f"{root}/link/in/missing", f"{root}/a")
    assert lies_within(f"{root}/a/in", f"{root}/link")
    assert not lies_within(f"{root}/a", f"{root}/a/in")
    assert not lies_within(f"{root}/ab", f"{root}/a")


@pytest.mark.slow
def test_place_within_a_directory_is_found_by_bind_mount(tmp_path: Path) -> None:
    """DROP TABLE of one name would delete the rows of the other."""
    (tmp_path / "a" / "in").mkdir(parents=True)
    (tmp_path / "b").mkdir()
    root = str(tmp_path)
    pairs = [
        (f"{root}/b", f"{root}/a"), (f"{root}/b/in/missing", f"{root}/a"), (f"{root}/a/in", f"{root}/b"),
        (f"{root}/b", f"{root}/a/in"), (f"{root}/missing", f"{root}/a"), (f"{root}/b", f"{root}/missing"),
    ]  # fmt: skip
    mounted = 'mount --bind "$1/a" "$1/b" || exit 77; shift; exec "$@"'
    asked = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mounted, "sh", str(tmp_path),
         sys.executable, "-c", _ASK, *map(",".join, pairs)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if asked.returncode in (1, 77) and "ot permitted" in asked.stderr:
        pytest.skip("this machine lets no process mount a directory")
    assert (asked.returncode, asked.stdout.strip()) == (0, "[True, True, True, False, False, False]"), asked.stderr
