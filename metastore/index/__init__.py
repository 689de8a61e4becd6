"""The index: every partition and file of every table, in a SQL database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.metastore.runtime.lazy_names import lazily

if TYPE_CHECKING:
    from catalog_ext.metastore.index.index import Index

__all__ = ["Index"]

# ``Index`` is imported at its first use. Otherwise an import of any module of the package would load all of them, and
# pyarrow.
__getattr__ = lazily(__name__, {"Index": f"{__name__}.index"})
