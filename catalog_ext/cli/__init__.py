"""The command line: ``catalog-ext``."""
