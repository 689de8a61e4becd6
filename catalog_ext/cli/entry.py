"""Where the program begins: an interruption while it is loaded ends as one later does, and not with a traceback."""

from __future__ import annotations

import os
import sys


def main() -> int:
    """Run the command line of the process; the exit code."""
    try:
        from catalog_ext.cli.main import main as run
    except KeyboardInterrupt:
        os.write(2, b"\ninterrupted: nothing was changed\n")
        return 130
    return run()


if __name__ == "__main__":
    sys.exit(main())
