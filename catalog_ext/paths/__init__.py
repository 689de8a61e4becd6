"""Ad-hoc paths: queries over files that no table is registered for (``docs/design/26-index-to-tasks.md``)."""
