"""Notebooks: cards, tables and pictures of what the index knows, in cells (``docs/design/13-notebook.md``)."""
