"""The service: the catalog over loopback HTTP, for the connector in Spark's JVM (``docs/spec/service.md``)."""

LOOPBACK = "127.0.0.1"
"""The address that a service listens on by default."""
