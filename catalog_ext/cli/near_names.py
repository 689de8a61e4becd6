"""What to say of a table that is not there: which index was looked at, and which of its tables are called nearly so."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import CatalogExtError

if TYPE_CHECKING:
    from catalog_ext.cli.invocation import Invocation
    from catalog_ext.metastore.errors import TableNotFoundError


def where_to_look(invocation: Invocation, error: TableNotFoundError) -> str:
    """Return the sentences that stand behind the error."""
    (asked, *_) = (*error.parameters.values(), "")
    where = "`catalog-ext tables` shows what is there; --index names another index."
    try:
        with invocation.catalog(with_metastore=False) as catalog:
            names = [f"{space}.{name}" for space in catalog.list_namespaces() for name in catalog.list_tables(space)]
            index = catalog.index.url
    except CatalogExtError:
        return where
    near = difflib.get_close_matches(asked.lower(), names, 3)
    question = f"Did you mean {' or '.join(near)}? " if near else ""
    return f"{question}The index is {index}: {where}"
