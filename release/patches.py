"""Says whether the jar of each Spark links with its oldest patch: ``python -m release.patches [minor ...]``.

The jar is compiled against the newest patch. What a patch has taken away or added would show while a statement runs, so
that every reference of the jar's classes, and every method that they override, is looked up in the other patch's jars.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from catalog_ext.connector.build import SUPPORTED_SPARK
from catalog_ext.metastore.errors import EnvironmentSetupError
from release.build import connector
from release.linkage import problems, uncalled
from release.pyspark_jars import OLDEST, pinned_version, pyspark_jars

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(minors: Sequence[str]) -> int:
    """Print what does not link; return 1 where there is anything, or a Spark cannot be had."""
    broken = False
    try:
        for minor in minors or SUPPORTED_SPARK:
            newest, oldest = pinned_version(minor), pinned_version(minor, OLDEST)
            jar, oldest_jars = connector(minor), pyspark_jars(minor, OLDEST)
            found = problems(jar, oldest_jars) + uncalled(jar, pyspark_jars(minor), oldest_jars)
            broken = broken or bool(found)
            sys.stdout.write(f"compiled against Spark {newest}, with {oldest}: {len(found) or 'no'} problems\n")
            sys.stdout.writelines(f"  {line}\n" for line in found)
    except EnvironmentSetupError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
