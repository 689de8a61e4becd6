"""Views: named queries. A view's partitions are declared, or follow those of the tables that it reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from catalog_ext.metastore.model.properties import property_value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog_ext.metastore.model.identifiers import TableIdentifier
    from catalog_ext.metastore.model.tables import Column, Table, TableDefinition

VIEW_FORMAT = "view"
"""The ``format`` of a view's row in the index."""

AUTOMATIC_PROPERTY = "partition.auto"
"""The property by which a view's partitions follow those of the tables that it reads."""


@dataclass(frozen=True, slots=True)
class ViewQuery:
    """What a view is besides its definition: all that Spark needs to analyse its text again as it was.

    Attributes:
        text: The query, as the user wrote it.
        catalog: The current catalog when it was written.
        namespace: The current namespace then.
        configuration: The session settings that its meaning depends on.
        schema_mode: What happens when the query's columns change: ``BINDING``, ``COMPENSATION``, ...
        query_columns: The names of the query's columns; empty where they are the view's.
        tables: The tables of this catalog that it reads, also by way of other views (``namespace.table``).
        own_catalog: The name that this catalog had in the session; empty where it was not given, and was current.
    """

    text: str
    catalog: str = ""
    namespace: tuple[str, ...] = ()
    configuration: Mapping[str, str] = field(default_factory=dict)
    schema_mode: str = "BINDING"
    query_columns: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    own_catalog: str = ""


@dataclass(frozen=True, slots=True)
class View:
    """A view; its partition columns are the last of its columns, and separate in its definition."""

    table: Table
    query: ViewQuery

    @property
    def definition(self) -> TableDefinition:
        """Name, columns, properties and comment."""
        return self.table.definition

    @property
    def identifier(self) -> TableIdentifier:
        """The view's name."""
        return self.table.identifier

    @property
    def columns(self) -> tuple[Column, ...]:
        """All columns, in their order."""
        return (*self.definition.columns, *self.definition.partition_columns)

    @property
    def automatic(self) -> bool:
        """Whether its partitions follow those of the tables that it reads."""
        return is_automatic(self.definition.properties)


def is_automatic(properties: Mapping[str, str]) -> bool:
    """Return whether the partitions of a view with these properties follow those of the tables that it reads."""
    return (property_value(properties, AUTOMATIC_PROPERTY) or "false").strip().lower() == "true"


@dataclass(frozen=True, slots=True)
class Dependency:
    """A relation from which a view's partition was computed.

    Attributes:
        relation: Its name, with the catalog in front.
        partitions: The names of its partitions that were read; empty if the relation has none, or belongs to another
            catalog.
    """

    relation: str
    partitions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionDependency:
    """A ``Dependency`` and the name of the view's partition that has it."""

    partition: str
    dependency: Dependency


@dataclass(frozen=True, slots=True)
class Source:
    """A table that an automatic view's partitions follow, as it was looked at.

    Attributes:
        table_id: Its number, -1 where there was no table of the name.
        version: Its version, -1 where there was none.
    """

    identifier: TableIdentifier
    table_id: int = -1
    version: int = -1
