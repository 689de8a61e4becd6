"""Views: named queries. A view's partitions are declared, or are computed from those of the tables that it reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from catalog_ext.metastore.model.properties import property_value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog_ext.metastore.model.identifiers import TableIdentifier
    from catalog_ext.metastore.model.tables import Column, Table, TableDefinition

VIEW_FORMAT = "view"
"""The value of ``format`` in a view's row in the index."""

AUTOMATIC_PROPERTY = "partition.auto"
"""The property that makes a view's partitions follow those of the tables that it reads."""


@dataclass(frozen=True, slots=True)
class ViewQuery:
    """A view's query with its context, so that Spark can analyse the text again with the same meaning.

    Attributes:
        text: The query, as the user wrote it.
        catalog: The current catalog when the query was written.
        namespace: The current namespace when the query was written.
        configuration: The session settings that the query's meaning depends on.
        schema_mode: Spark's reaction to changed columns of the query: ``BINDING``, ``COMPENSATION``, ...
        query_columns: The names of the query's columns; empty if the view's columns have the same names.
        tables: The tables of this catalog that the query reads, also through other views (``namespace.table``).
        own_catalog: The name that this catalog had in the session. Empty if unknown: then ``catalog`` is its name.
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
    """A view. Its partition columns are the last of its columns; its definition lists them separately."""

    table: Table
    query: ViewQuery

    @property
    def definition(self) -> TableDefinition:
        """The view as a table definition: name, columns, properties and comment."""
        return self.table.definition

    @property
    def identifier(self) -> TableIdentifier:
        """The view's name."""
        return self.table.identifier

    @property
    def columns(self) -> tuple[Column, ...]:
        """All columns of the view in order, partition columns last."""
        return (*self.definition.columns, *self.definition.partition_columns)

    @property
    def automatic(self) -> bool:
        """Whether the view's partitions follow those of the tables that it reads."""
        return is_automatic(self.definition.properties)


def is_automatic(properties: Mapping[str, str]) -> bool:
    """Return whether the partitions of a view with these properties follow those of the tables that it reads."""
    return (property_value(properties, AUTOMATIC_PROPERTY) or "false").strip().lower() == "true"


@dataclass(frozen=True, slots=True)
class Dependency:
    """A table or view from which a partition of a view was computed.

    Attributes:
        relation: Its name, with the catalog in front.
        partitions: The names of its partitions that were read; empty if it has no partitions, or belongs to another
            catalog.
    """

    relation: str
    partitions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionDependency:
    """A ``Dependency``, and the name of the view's partition that depends on it."""

    partition: str
    dependency: Dependency


@dataclass(frozen=True, slots=True)
class Source:
    """A table that an automatic view's partitions follow, in the state that was last read.

    Attributes:
        table_id: The table's number in the index; -1 if there was no table of this name.
        version: The table's version; -1 if there was no table of this name.
    """

    identifier: TableIdentifier
    table_id: int = -1
    version: int = -1
