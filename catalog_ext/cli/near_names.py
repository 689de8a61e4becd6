"""What to say of a table that is not there: which index was looked at, and which of its tables are called nearly so."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import CatalogExtError

if TYPE_CHECKING:
    from catalog_ext.cli.invocation import Invocation
    from catalog_ext.metastore.errors import TableNotFoundError


def where_to_look(invocation: Invocation, error: TableNotFoundError, *, of_metastore: bool = False) -> str:
    """Return the sentences that stand behind the error.

    Args:
        invocation: How the command was called.
        error: The error.
        of_metastore: Whether the table was looked for in the metastore.
    """
    (asked, *_) = (*error.parameters.values(), "")
    if of_metastore:
        return _in_metastore(invocation, asked)
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


def _in_metastore(invocation: Invocation, asked: str) -> str:
    database = asked.partition(".")[0].lower()
    try:
        with invocation.catalog() as catalog:
            where, client = catalog.metastore.uri(), catalog.metastore.client()
            names = [f"{database}.{name}" for name in client.list_tables(database)]
    except CatalogExtError:
        return "--metastore names another metastore."
    near = difflib.get_close_matches(asked.lower(), names, 3)
    question = f"Did you mean {' or '.join(near)}? " if near else ""
    return f"{question}The metastore is {where}, and has {len(names):,} tables in {database}."
