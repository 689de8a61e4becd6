"""Queries on paths instead of tables: their files belong to no table (``docs/design/26-index-to-tasks.md``)."""
