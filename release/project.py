"""The project's folder, and its metadata in pyproject.toml, for other indexes than Python's."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from catalog_ext import __version__

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROJECT = Path(__file__).resolve().parents[1]
PYPROJECT: dict[str, Any] = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))

MAVEN_GROUP = "org.catalogext"
"""The namespace of the Maven artifacts. It has to be verified as ours by the repository before the first upload."""


@dataclass(frozen=True, slots=True)
class Project:
    """The project.

    Attributes:
        version: Of the release.
        description: One sentence.
        license: Its SPDX name.
        author: Who is named.
        url: Where the sources are.
        group: The namespace of the Maven artifacts.
    """

    version: str
    description: str
    license: str
    author: str
    url: str
    group: str = MAVEN_GROUP

    @classmethod
    def read(cls) -> Project:
        """Return what pyproject.toml says."""
        table = PYPROJECT["project"]
        return cls(
            __version__, table["description"], table["license"], table["authors"][0]["name"],
            table["urls"]["Repository"],
        )  # fmt: skip

    @property
    def has_home(self) -> bool:
        """Whether the address can be one: hosts of `.example` never are (RFC 2606)."""
        return not self.url.split("/")[2].endswith(".example")
