"""The release notes: the section of a version in CHANGELOG.md, with links that work outside of the repository."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from release.project import PROJECT

if TYPE_CHECKING:
    from pathlib import Path

    from release.project import Project

_RELATIVE_LINK = re.compile(r"\]\((?![a-z]+:|#)([^)\s]+)\)")


class NoReleaseNotesError(Exception):
    """CHANGELOG.md has no section of the version."""


def write_notes(project: Project, out: Path) -> Path:
    """Write the notes of the project's version into a folder, and return the file; ``git tag -F`` takes it.

    Raises:
        NoReleaseNotesError: There is no section of the version.
    """
    changelog = (PROJECT / "CHANGELOG.md").read_text(encoding="utf-8")
    text = section(changelog, project.version)
    linked = _RELATIVE_LINK.sub(rf"]({project.url}/blob/v{project.version}/\1)", text)
    file = out / f"release-notes-{project.version}.md"
    file.write_text(f"catalog-ext {project.version}\n\n{linked}\n", encoding="utf-8")
    return file


def section(changelog: str, version: str) -> str:
    """Return the text below the heading of a version.

    Raises:
        NoReleaseNotesError: There is no heading of the version, or nothing below it.
    """
    found = re.search(rf"^## {re.escape(version)}\b[^\n]*\n(.*?)(?=^## |\Z)", changelog, re.DOTALL | re.MULTILINE)
    if found is None or not found[1].strip():
        raise NoReleaseNotesError(f"CHANGELOG.md has no section '## {version}' with text. Write it, and build again.")
    return found[1].strip()
