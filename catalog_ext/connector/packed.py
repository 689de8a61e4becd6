"""The jars that a release carries, one for each minor version of Spark.

They are in one archive, because jars of several minor versions have nearly the same classes: together they take little
more than one of them alone. The one that is needed is taken out of it once.
"""

from __future__ import annotations

import hashlib
import lzma
import tarfile
from dataclasses import dataclass
from pathlib import Path

from catalog_ext.metastore.errors import EnvironmentSetupError

ARCHIVE = Path(__file__).with_name("jars.tar.xz")
"""What `make package` puts into the wheel; a checkout has none."""


@dataclass(frozen=True, slots=True)
class PackedJar:
    """A jar of the archive.

    Attributes:
        minor: The minor version of Spark that it is for, such as ``4.3``.
        archive: The archive.
    """

    minor: str
    archive: Path

    @property
    def name(self) -> str:
        """A name that no jar of another release has."""
        digest = hashlib.sha256(self.archive.read_bytes()).hexdigest()
        return f"catalog-ext-spark-{self.minor}-{digest[:16]}.jar"

    def write(self, target: Path) -> None:
        """Write the jar.

        Raises:
            EnvironmentSetupError: The archive cannot be read, or has no jar for this Spark.
            OSError: The jar cannot be written.
        """
        try:
            with tarfile.open(self.archive, "r:xz") as archive:
                member = archive.extractfile(member_name(self.minor))
                assert member is not None, "a member that is a file"
                content = member.read()
        except (OSError, EOFError, KeyError, lzma.LZMAError, tarfile.TarError) as error:
            raise EnvironmentSetupError(
                f"The connector's jar for Spark {self.minor} cannot be taken out of {self.archive}: {error}. Install "
                "catalog-ext again: pip install --force-reinstall --no-deps catalog-ext.",
                {"archive": str(self.archive)},
            ) from error
        target.write_bytes(content)


def packed_jar(minor: str) -> PackedJar | None:
    """Return the jar for a minor version of Spark; None in a checkout, which carries none."""
    return PackedJar(minor, ARCHIVE) if ARCHIVE.is_file() else None


def member_name(minor: str) -> str:
    """Return the name that a minor version's jar has in the archive."""
    return f"catalog-ext-spark-{minor}.jar"
