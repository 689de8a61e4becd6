"""Lists, creates, alters and drops namespaces."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from catalog_ext.conf.properties import checked_map
from catalog_ext.metastore.errors import CatalogExtError, NamespaceAlreadyExistsError, NamespaceNotEmptyError
from catalog_ext.metastore.model.identifiers import TableIdentifier, validate_identifier
from catalog_ext.metastore.model.tables import Namespace, TableType
from catalog_ext.metastore.runtime.wording import counted
from catalog_ext.metastore.storage.locations import canonical_location

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from catalog_ext.context import Context
    from catalog_ext.tables.removal import TableRemoval
    from catalog_ext.views.views import Views

_SHOWN = 200


class NamespaceManagement:
    """The namespaces of a catalog, and the tables that they hold."""

    def __init__(self, context: Context, views: Views, removal: TableRemoval) -> None:
        self._context = context
        self._views = views
        self._removal = removal

    def list_namespaces(self) -> list[str]:
        """Return the names of all namespaces, sorted."""
        return self._context.index.namespaces.all()

    def load_namespace(self, name: str) -> Namespace:
        """Return the namespace.

        Raises:
            NamespaceNotFoundError: There is no namespace of that name.
        """
        return self._context.index.namespaces.load(validate_identifier(name, "namespace"))

    def create_namespace(
        self, name: str, *, location: str | None = None, comment: str | None = None,
        properties: Mapping[str, str] | None = None, if_not_exists: bool = False,
    ) -> Namespace:  # fmt: skip
        """Create a namespace in the index and a database in the metastore.

        Args:
            name: The namespace's name.
            location: The directory of its managed tables; by default a folder of the warehouse.
            comment: A comment for users.
            properties: The namespace's properties.
            if_not_exists: Return an existing namespace of that name unchanged.

        Raises:
            NamespaceAlreadyExistsError: The namespace exists, and ``if_not_exists`` is false.
            InvalidInputError: The name or the location is not valid.
        """
        if location:
            self._context.allowed.require(location, reads=False)
        namespace = Namespace(
            validate_identifier(name, "namespace"),
            canonical_location(location) if location else None,
            comment,
            checked_map(properties or {}, "properties"),
        )
        try:
            created = self._context.index.namespaces.create(namespace, deliver=self._context.metastore.enabled)
        except NamespaceAlreadyExistsError:
            if not if_not_exists:
                raise
            return self.load_namespace(name)
        self._context.sync.publish()
        return created

    def alter_namespace(self, name: str, set_: Mapping[str, str], remove: Sequence[str] = ()) -> Namespace:
        """Set and remove properties of a namespace.

        ``comment`` and ``location`` (for future tables) count as properties.

        Raises:
            NamespaceNotFoundError: There is no namespace of that name.
            InvalidInputError: The location is not valid.
        """
        checked = checked_map(set_, "properties")
        if "location" in checked:
            self._context.allowed.require(checked["location"], reads=False)
            checked["location"] = canonical_location(checked["location"])
        altered = self._context.index.namespaces.alter(
            validate_identifier(name, "namespace"), checked, remove, deliver=self._context.metastore.enabled
        )
        self._context.sync.publish()
        return altered

    def drop_namespace(self, name: str, *, cascade: bool = False, session: Mapping[str, str] | None = None) -> None:
        """Drop a namespace; with ``cascade`` its tables first, the managed ones with their files.

        Args:
            name: The namespace's name.
            cascade: Whether its tables and views are dropped too.
            session: The caller's session settings for Hive locks, as for ``drop_table``.

        Raises:
            NamespaceNotFoundError: There is no namespace of that name.
            NamespaceNotEmptyError: The namespace has tables, and ``cascade`` was not given.
            CatalogExtError: A view or table cannot be dropped; the message lists those dropped before.
        """
        lower = validate_identifier(name, "namespace")
        # Drop external tables before managed ones: a managed table cannot be dropped while an external table has
        # partitions in its directory.
        named = self._context.index.tables.all(lower)
        tables = sorted(named, key=lambda name: cascade and self._is_managed(lower, name))
        if tables and not cascade:
            raise NamespaceNotEmptyError(
                f"The namespace {lower!r} has {len(tables)} tables ({', '.join(tables[:3])}"
                f"{', …' if len(tables) > 3 else ''}). Drop or unregister them first, or say CASCADE.",
                {"namespace": lower},
            )
        views = self._views.list_names(lower) if cascade else ()
        steps: list[tuple[str, Callable[[str], object]]] = [
            *((name, self._views.drop) for name in views),
            *((name, partial(self._removal.drop_table, session=session)) for name in tables),
        ]
        for number, (name, drop) in enumerate(steps):
            try:
                drop(f"{lower}.{name}")
            except CatalogExtError as error:
                if not number:
                    raise
                dropped = ", ".join(name for name, _ in steps[:number])[:_SHOWN]
                raise error.about(
                    f"Namespace {lower} stays with {name}; {counted(number, 'relation')} of it were dropped before "
                    f"({dropped})", {"namespace": lower},
                ) from error  # fmt: skip
        self._context.index.namespaces.drop(lower, deliver=self._context.metastore.enabled)
        self._context.sync.publish()

    def _is_managed(self, namespace: str, name: str) -> bool:
        table = self._context.find_table(TableIdentifier(namespace, name))
        return table is not None and table.definition.table_type is TableType.MANAGED

    def list_tables(self, namespace: str) -> list[str]:
        """Return the names of a namespace's tables, sorted.

        Raises:
            NamespaceNotFoundError: There is no namespace of that name.
        """
        return self._context.index.tables.all(validate_identifier(namespace, "namespace"))
