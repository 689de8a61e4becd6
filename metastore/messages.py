"""Messages of the outbox: one class for each operation on the Hive Metastore (``docs/spec/metastore.md``).

The index writes a message in the same transaction as the change that it publishes; ``hive/outbox`` reads messages and
applies them. The JSON of messages must work across releases: fields of a newer release are ignored, and an unknown
operation is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from catalog_ext.metastore.errors import MetastoreRefusedError
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.json import definition_from_dict, definition_to_dict, namespace_to_dict, to_json
from catalog_ext.metastore.model.tables import Namespace, TableDefinition
from catalog_ext.metastore.model.views import ViewQuery

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from catalog_ext.metastore.model.json import JsonObject


@dataclass(frozen=True, slots=True)
class CreateNamespace:
    """Create the namespace, unless it exists."""

    operation: ClassVar[str] = "create_namespace"
    namespace: Namespace


@dataclass(frozen=True, slots=True)
class AlterNamespace:
    """Set the namespace's comment, location and parameters."""

    operation: ClassVar[str] = "alter_namespace"
    namespace: Namespace


@dataclass(frozen=True, slots=True)
class DropNamespace:
    """Drop the namespace of this name, if it exists."""

    operation: ClassVar[str] = "drop_namespace"
    name: str


@dataclass(frozen=True, slots=True)
class CreateTable:
    """Create the table in the metastore, unless the metastore has a table of this name at the same location."""

    operation: ClassVar[str] = "create_table"
    definition: TableDefinition


@dataclass(frozen=True, slots=True)
class AlterTable:
    """Set the table's properties, and its columns and location if they changed.

    Attributes:
        removed: Names of the properties to remove.
        rebuild: Whether the columns or the location changed.
        retype: Whether the types of partition columns changed.
        previous_location: The table's location before the change, if ``rebuild`` is true; otherwise None.
        kept: Descriptors (``PartitionDescriptor``) of partitions whose columns stay when the table's columns change.
        settings: Settings of the table's SerDe to set.
    """

    operation: ClassVar[str] = "alter_table"
    definition: TableDefinition
    removed: tuple[str, ...] = ()
    rebuild: bool = False
    retype: bool = False
    previous_location: str | None = None
    kept: tuple[JsonObject, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RenameTable:
    """Give the table the name in ``definition``; ``previous`` is its present name."""

    operation: ClassVar[str] = "rename_table"
    definition: TableDefinition
    previous: TableIdentifier


@dataclass(frozen=True, slots=True)
class DropTable:
    """Drop the table, if it exists at its location; ``purge`` says that the catalog deletes the table's files."""

    operation: ClassVar[str] = "drop_table"
    definition: TableDefinition
    purge: bool = False


@dataclass(frozen=True, slots=True)
class PublishedPartition:
    """The state that a partition in the metastore should have.

    Attributes:
        name: The partition's directory name.
        location: Absolute URI; None: below the table's location; empty: a view's partition.
        parameters: Statistics; a view's partition has none.
        descriptor: The JSON of the partition's own ``PartitionDescriptor``; an empty mapping if it uses the table's.
            With None, an existing partition keeps its descriptor, and a new partition gets the table's.
        moved: Whether the change has put the partition at this location. If not, and the metastore has the partition at
            another location, a Hive engine has put it there, and the delivery leaves it there.
    """

    name: str
    location: str | None
    parameters: Mapping[str, str] = field(default_factory=dict)
    descriptor: JsonObject | None = None
    moved: bool = False


@dataclass(frozen=True, slots=True)
class SyncPartitions:
    """Make partitions of a table or view in the metastore equal to the index, and drop other partitions there.

    Attributes:
        added: Partitions that the index has added.
        altered: Partitions that the index has changed.
        dropped: Names of the partitions to drop.
        location: The table's location, which distinguishes it from another table of the same name. Empty for a view.
    """

    operation: ClassVar[str] = "sync_partitions"
    table: TableIdentifier
    added: tuple[PublishedPartition, ...] = ()
    altered: tuple[PublishedPartition, ...] = ()
    dropped: tuple[str, ...] = ()
    location: str = ""


@dataclass(frozen=True, slots=True)
class AlterTableStatistics:
    """Set the statistics of a table without partition columns; ``location`` distinguishes tables of the same name."""

    operation: ClassVar[str] = "alter_table_statistics"
    table: TableIdentifier
    parameters: Mapping[str, str]
    location: str


@dataclass(frozen=True, slots=True)
class PutView:
    """Create the view, or alter an existing one.

    Attributes:
        query: The view's text, catalog, namespace and query columns; other attributes are not sent.
    """

    operation: ClassVar[str] = "put_view"
    definition: TableDefinition
    query: ViewQuery


@dataclass(frozen=True, slots=True)
class DropView:
    """Drop the view of this name, if it exists."""

    operation: ClassVar[str] = "drop_view"
    view: TableIdentifier


SET_ASIDE_AFTER = 8
"""Refusals until a message is set aside (about two minutes): messages that do not depend on it are then delivered."""

Message: TypeAlias = (
    CreateNamespace
    | AlterNamespace
    | DropNamespace
    | CreateTable
    | AlterTable
    | RenameTable
    | DropTable
    | SyncPartitions
    | AlterTableStatistics
    | PutView
    | DropView
)


@dataclass(frozen=True, slots=True)
class Delivery:
    """A row of the outbox: a message that the metastore has not accepted yet.

    Attributes:
        table: The name of the table or view; None for a message about the namespace.
        payload: The message's JSON. ``read_message`` parses it, because another release may have written it.
        attempts: The number of failed attempts.
        last_error: Why the last attempt failed; None before the first failure.
        next_attempt_at_ms: The time before which the message is not sent again (milliseconds since the epoch, UTC, by
            the database's clock).
        refusals: How often the metastore answered and did not accept the message.
        due: Whether the message may be tried now, by the database's clock.
    """

    outbox_id: int
    operation: str
    namespace: str
    table: str | None
    payload: JsonObject
    created_at_ms: int = 0
    attempts: int = 0
    last_error: str | None = None
    next_attempt_at_ms: int = 0
    refusals: int = 0
    due: bool = True

    @property
    def set_aside(self) -> bool:
        """Whether the metastore refused the message so often that independent messages are delivered before it."""
        return self.refusals >= SET_ASIDE_AFTER

    @property
    def subject(self) -> str:
        """The name of the table, view or namespace that the message is about."""
        return f"{self.namespace}.{self.table}" if self.table else self.namespace


def subject(message: Message) -> tuple[str, str | None]:
    """Return the namespace, and the table or view (None for a namespace), that the message's outbox row names."""
    match message:
        case CreateNamespace(namespace) | AlterNamespace(namespace):
            return namespace.name, None
        case DropNamespace(name):
            return name, None
        case RenameTable(previous=identifier) | DropView(identifier):
            return identifier.namespace, identifier.name
        case SyncPartitions(table=identifier) | AlterTableStatistics(table=identifier):
            return identifier.namespace, identifier.name
        case CreateTable(definition) | AlterTable(definition) | DropTable(definition) | PutView(definition):
            return definition.identifier.namespace, definition.identifier.name


def payload_of(message: Message) -> JsonObject:
    """Return the message's payload as JSON values."""
    match message:
        case CreateNamespace(namespace) | AlterNamespace(namespace):
            return namespace_to_dict(namespace)
        case DropNamespace(name):
            return {"name": name}
        case CreateTable(definition):
            return _definition(definition)
        case AlterTable(definition):
            flags: JsonObject = {"rebuild": message.rebuild, **({"retype": True} if message.retype else {})}
            given: dict[str, object] = {"removed": list(message.removed), **flags}
            if message.previous_location is not None:
                given["previous_location"] = message.previous_location
            if message.kept:
                given["kept"] = list(message.kept)
            if message.settings:
                given["settings"] = dict(message.settings)
            return {**_definition(definition), **given}
        case RenameTable(definition, previous):
            return {**_definition(definition), "from": {"namespace": previous.namespace, "name": previous.name}}
        case DropTable(definition, purge):
            return {**_definition(definition), "purge": purge}
        case SyncPartitions():
            descriptors = _Numbers()
            return {
                "add": [_write_partition(partition, descriptors) for partition in message.added],
                "alter": [_write_partition(partition, descriptors) for partition in message.altered],
                "drop": list(message.dropped),
                "location": message.location,
                **({"descriptors": descriptors.found} if descriptors.found else {}),
            }
        case AlterTableStatistics(parameters=parameters):
            return {"parameters": dict(parameters), "location": message.location}
        case PutView(definition, query):
            return {**_definition(definition), "view": _write_query(query)}
        case DropView(view):
            return {"name": view.name}


def read_message(delivery: Delivery) -> Message:
    """Return the message in a row of the outbox.

    Raises:
        MetastoreRefusedError: This release does not know the message's operation.
    """
    try:
        return _read(delivery)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise MetastoreRefusedError(
            f"Message {delivery.outbox_id} of the outbox ({delivery.operation} of {delivery.subject}) cannot be read "
            f"({type(error).__name__}: {error}). It was written by another release: deliver it with that one.",
            {"outbox_id": str(delivery.outbox_id), "operation": delivery.operation},
        ) from error


def _read(delivery: Delivery) -> Message:
    payload, named = delivery.payload, TableIdentifier(delivery.namespace, delivery.table or "")
    match delivery.operation:
        case CreateNamespace.operation:
            return CreateNamespace(_read_namespace(payload))
        case AlterNamespace.operation:
            return AlterNamespace(_read_namespace(payload))
        case DropNamespace.operation:
            return DropNamespace(delivery.namespace)
        case CreateTable.operation:
            return CreateTable(definition_from_dict(payload))
        case AlterTable.operation:
            return _read_alteration(payload)
        case RenameTable.operation:
            previous = TableIdentifier(payload["from"]["namespace"], payload["from"]["name"])
            return RenameTable(definition_from_dict(payload), previous)
        case DropTable.operation:
            return DropTable(definition_from_dict(payload), payload["purge"])
        case SyncPartitions.operation:
            descriptors = payload.get("descriptors", ())
            added = tuple(_read_partition(item, descriptors) for item in payload["add"])
            altered = tuple(_read_partition(item, descriptors) for item in payload["alter"])
            return SyncPartitions(named, added, altered, tuple(payload["drop"]), payload["location"])
        case AlterTableStatistics.operation:
            return AlterTableStatistics(named, dict(payload["parameters"]), payload["location"])
        case PutView.operation:
            return PutView(definition_from_dict(payload), _read_query(payload["view"]))
        case DropView.operation:
            return DropView(named)
        case _:
            raise LookupError(f"unknown operation {delivery.operation!r}")


def _read_namespace(payload: JsonObject) -> Namespace:
    return Namespace(payload["name"], payload["location"], payload["comment"], dict(payload["properties"]))


def _read_alteration(payload: JsonObject) -> AlterTable:
    return AlterTable(
        definition_from_dict(payload), tuple(payload["removed"]), rebuild=payload["rebuild"],
        retype=payload.get("retype", False), previous_location=payload.get("previous_location"),
        kept=tuple(payload.get("kept", ())), settings=dict(payload.get("settings", {})),
    )  # fmt: skip


class _Numbers:
    """Numbers the descriptors of a message, so that its JSON contains each one once.

    A thousand copies of a wide table's descriptor would exceed the size of a database row.
    """

    def __init__(self) -> None:
        self.found: list[JsonObject] = []
        self._by_text: dict[str, int] = {}
        # Look up descriptors by object identity first: most partitions of a message share one object, which then need
        # not be serialized for each.
        self._by_id: dict[int, int] = {}

    def of(self, descriptor: JsonObject) -> int:
        number = self._by_id.get(id(descriptor))
        if number is None:
            number = self._by_text.setdefault(to_json(descriptor), len(self.found))
            self._by_id[id(descriptor)] = number
        if number == len(self.found):
            self.found.append(descriptor)
        return number


def _write_partition(partition: PublishedPartition, descriptors: _Numbers) -> JsonObject:
    own: JsonObject = {} if partition.descriptor is None else {"descriptor": descriptors.of(partition.descriptor)}
    own = {**own, "moved": True} if partition.moved else own
    return {"name": partition.name, "location": partition.location, "parameters": dict(partition.parameters), **own}


def _read_partition(item: JsonObject, descriptors: Sequence[JsonObject]) -> PublishedPartition:
    own = descriptors[item["descriptor"]] if "descriptor" in item else None
    moved = item.get("moved", False)
    return PublishedPartition(item["name"], item["location"], dict(item["parameters"]), own, moved)


def _definition(definition: TableDefinition) -> JsonObject:
    """Return the definition for messages, without the index's internal marks in its statistics."""
    columns = tuple(replace(column, statistics_after=None) for column in definition.columns)
    return definition_to_dict(replace(definition, columns=columns))


def _write_query(query: ViewQuery) -> JsonObject:
    return {
        "text": query.text,
        "catalog": query.catalog,
        "namespace": list(query.namespace),
        "query_columns": list(query.query_columns),
        **({"own_catalog": query.own_catalog} if query.own_catalog else {}),
    }


def _read_query(item: JsonObject) -> ViewQuery:
    return ViewQuery(
        item["text"], item["catalog"], tuple(item["namespace"]), query_columns=tuple(item["query_columns"]),
        own_catalog=item.get("own_catalog", ""),
    )  # fmt: skip
