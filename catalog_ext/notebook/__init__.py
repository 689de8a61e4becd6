"""Notebooks: cards, tables and pictures of the index, in cells (``docs/design/13-notebook.md``)."""
