"""``python -m release``, which `make package` runs: builds a release into dist/ and checks it as an index would."""

from __future__ import annotations

import itertools
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING

from catalog_ext.connector.build import SUPPORTED_SPARK
from catalog_ext.connector.packed import ARCHIVE
from catalog_ext.metastore.errors import EnvironmentSetupError
from release.build import STEPS, build_release
from release.notes import NoReleaseNotesError, write_notes
from release.project import PROJECT, Project

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_MOST = 1_500_000


def main() -> int:
    """Build a release; return 0 when dist/ has one that an index would take."""
    # The newest first: it is the one that most sessions take out of the archive, and then the quickest.
    minors = sorted(SUPPORTED_SPARK, key=lambda minor: [int(number) for number in minor.split(".")], reverse=True)
    begin, project = numbered_steps(len(minors) + STEPS + 2), Project.read()
    try:
        wheel, sources, *artifacts = build_release(minors, PROJECT / "dist", begin)
        begin("Release notes")
        notes = write_notes(project, PROJECT / "dist")
    except (EnvironmentSetupError, NoReleaseNotesError, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    with zipfile.ZipFile(wheel) as archive:
        packed = archive.getinfo(str(ARCHIVE.relative_to(PROJECT))).file_size
        lines = [f"{_of(path)}  {path.stat().st_size:,} bytes" for path in (wheel, sources)]
    lines += [f"  of it the jars for Spark {', '.join(minors)}: {packed:,} bytes", *map(_of, artifacts), _of(notes)]
    if packed > _MOST:
        sys.stderr.write(f"The jars take {packed:,} bytes of the wheel, and may take {_MOST:,}.\n")
        return 1
    begin("Check of what a package index would show")
    checked = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", wheel, sources], check=False, stdin=subprocess.DEVNULL
    ).returncode
    for line in (*lines, *closing_lines(_of(wheel), has_home=project.has_home)):
        _say(line)
    return checked


def numbered_steps(count: int) -> Callable[[str], None]:
    """Return a function that announces the next of so many steps."""
    numbers = itertools.count(1)
    return lambda what: _say(f"[{next(numbers)}/{count}] {what}")


def closing_lines(wheel: str, *, has_home: bool) -> list[str]:
    """Return the last lines: what was made, and what to do with it; an upload needs real addresses (``has_home``)."""
    lines = [] if has_home else [
        "For an upload only: [project.urls] in pyproject.toml has example addresses. Set real ones first."
    ]  # fmt: skip
    return [*lines, f"Made {wheel}. Install it: pip install {wheel}"]


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    # Through a pipe it would come with the last line.
    sys.stdout.flush()


def _of(path: Path) -> str:
    return str(path.relative_to(PROJECT))


if __name__ == "__main__":
    sys.exit(main())
