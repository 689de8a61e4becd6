"""The exit codes of the command line; ``docs/cli.md`` lists them."""

from __future__ import annotations

EXIT_ERROR = 1
EXIT_USAGE = 2
EXIT_REFUSED = 3
"""Also of a ``--check`` that has found something."""
EXIT_UNAVAILABLE = 4
EXIT_INTERRUPTED = 130
