"""The service: the catalog over loopback HTTP, for the connector in Spark's JVM (``docs/spec/service.md``)."""
