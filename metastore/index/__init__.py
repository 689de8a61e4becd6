"""The index: every partition and file of every table, in a SQL database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.metastore.runtime.lazy_names import lazily

if TYPE_CHECKING:
    from catalog_ext.metastore.index.index import Index

__all__ = ["Index"]

# Resolved at its first use: an import of one module of the package does not load all of them, and pyarrow with them.
__getattr__ = lazily(__name__, {"Index": f"{__name__}.index"})
