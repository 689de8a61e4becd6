"""The command line, ``catalog-ext``, and its exit codes, which ``docs/cli.md`` lists."""

EXIT_ERROR = 1
EXIT_USAGE = 2
EXIT_REFUSED = 3
"""The exit code of a refused command, and of a ``--check`` that found differences."""
EXIT_UNAVAILABLE = 4
EXIT_INTERRUPTED = 130
