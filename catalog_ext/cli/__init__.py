"""The command line, ``catalog-ext``, and its exit codes, which ``docs/cli.md`` lists."""

EXIT_ERROR = 1
EXIT_USAGE = 2
EXIT_REFUSED = 3
"""Also of a ``--check`` that has found something."""
EXIT_UNAVAILABLE = 4
EXIT_INTERRUPTED = 130
