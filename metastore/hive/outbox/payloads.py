"""The outbox's messages (``docs/spec/metastore.md``): operations, and their payloads as domain objects."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from catalog_ext.metastore.errors import MetastoreRefusedError
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import Column, Namespace, TableDefinition, TableType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CREATE_NAMESPACE = "create_namespace"
ALTER_NAMESPACE = "alter_namespace"
DROP_NAMESPACE = "drop_namespace"
CREATE_TABLE = "create_table"
ALTER_TABLE = "alter_table"
DROP_TABLE = "drop_table"
RENAME_TABLE = "rename_table"
SYNC_PARTITIONS = "sync_partitions"
ALTER_TABLE_STATISTICS = "alter_table_statistics"
PUT_VIEW = "put_view"
DROP_VIEW = "drop_view"


@dataclass(frozen=True, slots=True)
class PartitionState:
    """How a partition is to be in the metastore.

    Attributes:
        name: The directory string.
        location: Absolute URI; None: below the table's location.
        parameters: Statistics; empty in messages of release 0.1.0, which say nothing of them.
    """

    name: str
    location: str | None
    parameters: Mapping[str, str] = field(default_factory=dict)


class Message(Protocol):
    """A row of the outbox.

    Attributes:
        table: None for messages about a namespace.
        payload: A JSON object.
        attempts: How often the metastore was asked in vain.
        next_attempt_at_ms: Not to be tried before (milliseconds since the epoch).
        last_error: Why the last attempt failed, if there was one.
    """

    @property
    def outbox_id(self) -> int:  # noqa: D102
        ...

    @property
    def operation(self) -> str:  # noqa: D102
        ...

    @property
    def namespace(self) -> str:  # noqa: D102
        ...

    @property
    def table(self) -> str | None:  # noqa: D102
        ...

    @property
    def last_error(self) -> str | None:  # noqa: D102
        ...

    @property
    def payload(self) -> Mapping[str, Any]:  # noqa: D102
        ...

    @property
    def attempts(self) -> int:  # noqa: D102
        ...

    @property
    def next_attempt_at_ms(self) -> int:  # noqa: D102
        ...


def read_namespace(message: Message) -> Namespace:
    """The namespace in the payload.

    Raises:
        MetastoreRefusedError: The payload is not one.
    """
    payload = message.payload
    try:
        return Namespace(
            payload["name"], payload.get("location"), payload.get("comment"), dict(payload.get("properties") or {})
        )
    except (KeyError, TypeError, ValueError) as error:
        raise unreadable(message, error) from error


def read_definition(message: Message) -> TableDefinition:
    """The table's definition in the payload.

    Raises:
        MetastoreRefusedError: The payload is not one.
    """
    payload = message.payload
    try:
        return TableDefinition(
            identifier=TableIdentifier(payload["namespace"], payload["name"]),
            table_type=TableType(payload["table_type"]),
            format=payload["format"],
            location=payload["location"],
            columns=_columns(payload["columns"]),
            partition_columns=_columns(payload["partition_columns"]),
            options=dict(payload["options"]),
            properties=dict(payload["properties"]),
            comment=payload["comment"],
            owner=payload["owner"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise unreadable(message, error) from error


def read_new_name(message: Message) -> tuple[str, str] | None:
    """The namespace and name that a ``rename_table`` message gives its table; None of any other message."""
    if message.operation != RENAME_TABLE:
        return None
    identifier = read_definition(message).identifier
    return identifier.namespace, identifier.name


def read_partitions(message: Message) -> tuple[list[PartitionState], list[str]]:
    """The partitions that are to be there, whether they are new or changed, and the names of those to drop.

    Raises:
        MetastoreRefusedError: The payload does not hold them.
    """
    try:
        wanted = [
            PartitionState(item["name"], item.get("location"), dict(item.get("parameters") or {}))
            for item in (*message.payload["add"], *message.payload.get("alter", ()))
        ]
        return wanted, list(message.payload["drop"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise unreadable(message, error) from error


def read_parameters(message: Message) -> dict[str, str]:
    """The table's parameters in the payload.

    Raises:
        MetastoreRefusedError: The payload does not hold them.
    """
    try:
        return dict(message.payload["parameters"])
    except (KeyError, TypeError, ValueError) as error:
        raise unreadable(message, error) from error


def unreadable(message: Message, error: Exception) -> MetastoreRefusedError:
    """The error for a message that this release does not understand."""
    return MetastoreRefusedError(
        f"Message {message.outbox_id} of the outbox ({message.operation} of {subject(message)}) cannot be read "
        f"({type(error).__name__}: {error}). It was written by another release: deliver it with that one.",
        {"outbox_id": str(message.outbox_id), "operation": message.operation},
    )


def subject(message: Message) -> str:
    """The table or namespace that the message is about."""
    return f"{message.namespace}.{message.table}" if message.table else message.namespace


def _columns(items: Sequence[Mapping[str, Any]]) -> tuple[Column, ...]:
    return tuple(Column(i["name"], i["type"], i["nullable"], i["comment"]) for i in items)
