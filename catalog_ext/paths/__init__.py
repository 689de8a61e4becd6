"""Ad-hoc paths: queries over files that no table is registered for (``docs/design/4-inside-spark.md``)."""
