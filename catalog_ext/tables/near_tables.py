"""Suggests similar names for a table, view or namespace that does not exist."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import CatalogExtError, NamespaceNotFoundError, TableNotFoundError
from catalog_ext.metastore.runtime.wording import did_you_mean

if TYPE_CHECKING:
    from catalog_ext.metastore.index import Index


def near_tables(index: Index, asked: str, most: int = 1) -> str:
    """Return the question which tables or views are meant; nothing if none is near."""
    names = (
        f"{space}.{name}"
        for space in index.namespaces.all()
        for name in (*index.tables.all(space), *index.views.list_names(space))
    )
    return did_you_mean(asked, names, most)


def near_namespaces(index: Index, asked: str) -> str:
    """Return the question which namespace is meant; nothing if none is near."""
    return did_you_mean(asked, index.namespaces.all())


def asked_again(index: Index, error: CatalogExtError) -> CatalogExtError:
    """Return the error, which of a table or a namespace that is not there asks for the one that is near."""
    asked = next(iter(error.parameters.values()), "")
    if type(error) is TableNotFoundError:
        question = near_tables(index, asked)
    elif type(error) is NamespaceNotFoundError:
        question = near_namespaces(index, asked)
    else:
        return error
    return type(error)(f"{error.message} {question.strip()}", error.parameters) if question else error
