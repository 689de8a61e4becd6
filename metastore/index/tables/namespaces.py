"""Namespaces in the index: listed, loaded, created, altered and dropped."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from catalog_ext.metastore.errors import NamespaceAlreadyExistsError, NamespaceNotEmptyError, NamespaceNotFoundError
from catalog_ext.metastore.index.database.clock import NOW_MS
from catalog_ext.metastore.index.database.failures import is_duplicate
from catalog_ext.metastore.index.database.part import IndexPart
from catalog_ext.metastore.index.database.rows import namespace_from_row, namespace_to_row
from catalog_ext.metastore.index.database.schema import namespaces, tables
from catalog_ext.metastore.index.write.outbox import enqueue
from catalog_ext.metastore.messages import AlterNamespace, CreateNamespace, DropNamespace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from catalog_ext.metastore.model.tables import Namespace


def namespace_number(connection: sa.Connection, name: str, *, locks: bool = False) -> int:
    """Return the namespace's number; with ``locks``, no other process creates or drops managed tables in it meanwhile.

    Raises:
        NamespaceNotFoundError: There is no namespace of this name.
    """
    number = sa.select(namespaces.c.namespace_id).where(_OF_NAME)
    found = connection.execute(number.with_for_update() if locks else number, {"name": name}).scalar()
    if found is None:
        raise namespace_not_found(name)
    return int(found)


_OF_NAME = namespaces.c.name == sa.bindparam("name")


class Namespaces(IndexPart):
    """Reads and changes the namespaces of an index."""

    def all(self) -> list[str]:
        """Return the names of all namespaces, sorted."""
        with self._database.reading() as connection:
            return sorted(connection.execute(sa.select(namespaces.c.name)).scalars())

    def load(self, name: str) -> Namespace:
        """Return the namespace of this name.

        Raises:
            NamespaceNotFoundError: There is no namespace of this name.
        """
        with self._database.reading() as connection:
            return _load(connection, name)

    def create(self, namespace: Namespace, *, deliver: bool) -> Namespace:
        """Add the namespace to the index, and return it.

        Raises:
            NamespaceAlreadyExistsError: A namespace of this name exists already.
        """

        def work(connection: sa.Connection) -> Namespace:
            try:
                connection.execute(_INSERT, namespace_to_row(namespace))
            except sa.exc.IntegrityError as error:
                if not is_duplicate(error):
                    raise
                raise NamespaceAlreadyExistsError(
                    f"The namespace {namespace.name} exists already. Choose another name.",
                    {"namespace": namespace.name},
                ) from error
            if deliver:
                enqueue(connection, CreateNamespace(namespace))
            return namespace

        return self._database.write(work)

    def alter(self, name: str, set_: Mapping[str, str], remove: Sequence[str], *, deliver: bool) -> Namespace:
        """Set and remove properties of a namespace, and return it.

        The properties ``comment`` and ``location`` set the attributes of the namespace.

        Raises:
            NamespaceNotFoundError: There is no namespace of this name.
        """

        def work(connection: sa.Connection) -> Namespace:
            connection.execute(sa.update(namespaces).where(namespaces.c.name == name).values(name=name))
            altered = _altered(_load(connection, name), set_, remove)
            connection.execute(
                sa.update(namespaces).where(namespaces.c.name == name).values(**namespace_to_row(altered))
            )
            if deliver:
                enqueue(connection, AlterNamespace(altered))
            return altered

        return self._database.write(work)

    def drop(self, name: str, *, deliver: bool) -> None:
        """Remove an empty namespace.

        Raises:
            NamespaceNotFoundError: There is no namespace of this name.
            NamespaceNotEmptyError: The namespace has tables or views.
        """

        def work(connection: sa.Connection) -> None:
            _load(connection, name)
            tables_in_it = connection.execute(
                sa.select(tables.c.name)
                .join(namespaces)
                .where(namespaces.c.name == name)
                .order_by(tables.c.name)
                .limit(4)
            ).scalars().all()  # fmt: skip
            if tables_in_it:
                raise _not_empty(name, tables_in_it)
            try:
                connection.execute(sa.delete(namespaces).where(namespaces.c.name == name))
            except sa.exc.IntegrityError as error:
                raise _not_empty(name, ()) from error
            if deliver:
                enqueue(connection, DropNamespace(name))

        self._database.write(work)


_INSERT = sa.insert(namespaces).values(created_at_ms=NOW_MS)


def _altered(namespace: Namespace, set_: Mapping[str, str], remove: Sequence[str]) -> Namespace:
    properties = {k: v for k, v in {**namespace.properties, **set_}.items() if k not in remove}
    return replace(
        namespace,
        comment=properties.pop("comment", None if "comment" in remove else namespace.comment),
        location=properties.pop("location", None if "location" in remove else namespace.location),
        properties=properties,
    )


def _not_empty(name: str, tables_in_it: Sequence[str]) -> NamespaceNotEmptyError:
    table_names = f" ({', '.join(tables_in_it[:3])}{', …' if len(tables_in_it) > 3 else ''})" if tables_in_it else ""
    return NamespaceNotEmptyError(
        f"The namespace {name} still has tables{table_names}. Drop them first, or drop the namespace with CASCADE.",
        {"namespace": name},
    )


def _load(connection: sa.Connection, name: str) -> Namespace:
    row: Any = connection.execute(sa.select(namespaces).where(_OF_NAME), {"name": name}).mappings().one_or_none()
    if row is None:
        raise namespace_not_found(name)
    return namespace_from_row(row)


def namespace_not_found(name: str) -> NamespaceNotFoundError:
    """Return the error that there is no namespace of this name."""
    return NamespaceNotFoundError(
        f"The namespace {name} does not exist. Create it with CREATE NAMESPACE {name}.", {"namespace": name}
    )
