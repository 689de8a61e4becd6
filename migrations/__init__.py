"""Alembic migrations of the index database: one intent a revision; they import no model."""
