"""The text added to a not-found error: the index that was searched, and tables with similar names."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from catalog_ext.conf.resolved import UNSET
from catalog_ext.metastore.errors import CatalogExtError, TableNotFoundError
from catalog_ext.metastore.runtime.wording import did_you_mean
from catalog_ext.tables.lookups import similar_namespaces, similar_tables

if TYPE_CHECKING:
    from catalog_ext.cli.invocation import Invocation
    from catalog_ext.metastore.errors import NotFoundError


def where_to_look(invocation: Invocation, error: NotFoundError, *, of_metastore: bool = False) -> str:
    """Return the sentences to append to the error. ``of_metastore``: the table was searched in the metastore."""
    (asked, *_) = (*error.parameters.values(), "")
    if of_metastore:
        return _in_metastore(invocation, asked)
    where = "`catalog-ext tables` shows what is there; --index names another index."
    try:
        with replace(invocation, metastore=UNSET).catalog(with_metastore=False) as catalog:
            is_table = isinstance(error, TableNotFoundError)
            question = similar_tables(catalog.index, asked, 3) if is_table else similar_namespaces(catalog.index, asked)
            index = catalog.index.url
    except CatalogExtError:
        return where
    return f"{question}The index is {index}: {where}"


def _in_metastore(invocation: Invocation, asked: str) -> str:
    database = asked.partition(".")[0].lower()
    try:
        with invocation.catalog() as catalog:
            where, client = catalog.metastore.uri(), catalog.metastore.client()
            names = [f"{database}.{name}" for name in client.list_tables(database)]
    except CatalogExtError:
        return "--metastore names another metastore."
    question = did_you_mean(asked, names, 3)
    return f"{question}The metastore is {where}, and has {len(names):,} tables in {database}."
