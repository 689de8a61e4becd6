"""The program's entry point. It catches Ctrl-C already while modules are imported, so that no traceback is printed."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code. The arguments are those of ``catalog_ext.cli.main``."""
    try:
        from catalog_ext.cli.main import main as run
    except KeyboardInterrupt:
        os.write(2, b"\ninterrupted: nothing was changed\n")
        return 130
    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
