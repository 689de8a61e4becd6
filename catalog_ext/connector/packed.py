"""The jars that a release carries, one for each minor version of Spark.

They are in one archive, because jars of several minor versions have nearly the same classes: together they take little
more than a single one. The jar that is needed is extracted once.
"""

from __future__ import annotations

import hashlib
import lzma
import tarfile
from pathlib import Path

from catalog_ext.metastore.errors import EnvironmentSetupError

ARCHIVE = Path(__file__).with_name("jars.tar.xz")
"""The archive, which `make package` puts into the wheel; a checkout has none."""


def packed_name(minor: str) -> str | None:
    """Return a name for a minor version's jar that is unique to this release; None in a checkout."""
    if not ARCHIVE.is_file():
        return None
    return f"catalog-ext-spark-{minor}-{hashlib.sha256(ARCHIVE.read_bytes()).hexdigest()[:16]}.jar"


def write_packed(minor: str, target: Path) -> None:
    """Write the jar for a minor version of Spark, such as ``4.3``.

    Raises:
        EnvironmentSetupError: The archive cannot be read, or has no jar for this Spark.
        OSError: The jar cannot be written.
    """
    try:
        with tarfile.open(ARCHIVE, "r:xz") as archive:
            member = archive.extractfile(member_name(minor))
            assert member is not None, "a member that is a file"
            content = member.read()
    except (OSError, EOFError, KeyError, lzma.LZMAError, tarfile.TarError) as error:
        raise EnvironmentSetupError(
            f"The connector's jar for Spark {minor} cannot be taken out of {ARCHIVE}: {error}. Install "
            "catalog-ext again: pip install --force-reinstall --no-deps catalog-ext.",
            {"archive": str(ARCHIVE)},
        ) from error
    target.write_bytes(content)


def member_name(minor: str) -> str:
    """Return the name of a minor version's jar within the archive."""
    return f"catalog-ext-spark-{minor}.jar"
