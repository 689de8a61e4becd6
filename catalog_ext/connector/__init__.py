"""The connector: a Scala jar for Spark's JVM, and its build."""
