"""What an index is read by, for those too who read it without SQLAlchemy."""

VERSION_TABLE = "catalog_ext_schema_version"
"""The table that says which revision the index is at: our own name, so that it can share a database with another user
of alembic."""

ALIVE = 2**63 - 1
"""``end_version`` of a row that no version has ended."""
