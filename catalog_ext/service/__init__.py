"""The service: the catalog over loopback HTTP, for the connector in Spark's JVM (``docs/spec/service.md``)."""

LOOPBACK = "127.0.0.1"
"""Where a service listens unless it is told otherwise."""
