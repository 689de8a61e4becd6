"""Runs the migrations on the connection that ``catalog_ext.metastore.index.database.migration`` hands over."""

from __future__ import annotations

from alembic import context

connection = context.config.attributes.get("connection")
if connection is None:
    raise SystemExit("Run `catalog-ext --index URL migrate`: migrations need the connection that it opens.")

context.configure(connection=connection, version_table=context.config.attributes["version_table"])
# Migrations import nothing of ours: what they need is handed over with the connection.
context.config.attributes["prepare"](context.get_context())
with context.begin_transaction():
    context.run_migrations()
