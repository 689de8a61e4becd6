"""The order of deliveries: decides which messages must wait for an earlier message that is not delivered.

The messages of a table are delivered in order, and a message about a namespace waits for earlier messages in the
namespace and blocks later ones. A message that is set aside after many refusals blocks only messages that may depend on
it: changes of other partitions commute with it, and so do changes of properties while only partitions are refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from catalog_ext.metastore.errors import InvalidPartitionNameError, MetastoreRefusedError
from catalog_ext.metastore.messages import (
    AlterNamespace,
    AlterTable,
    Delivery,
    Message,
    RenameTable,
    SyncPartitions,
    read_message,
)
from catalog_ext.metastore.model.partition_names import parse_partition_name


class Wait(Enum):
    """Whether a message must wait for an earlier undelivered message, and of which kind that message is."""

    NO = "no"
    FOR_SET_ASIDE = "for a message that is set aside, or one that waits for it"
    FOR_TABLE = "for an earlier message of its table or namespace"


@dataclass(slots=True)
class Order:
    """The messages that stay in the outbox, collected in order; they decide whether later messages must wait."""

    tables: set[tuple[str, str]] = field(default_factory=set)
    namespaces: set[str] = field(default_factory=set)
    namespaces_with_waiting: set[str] = field(default_factory=set)
    namespaces_aside: set[str] = field(default_factory=set)
    namespaces_with_aside: set[str] = field(default_factory=set)
    aside: dict[tuple[str, str], list[Message | None]] = field(default_factory=dict)

    def wait(self, delivery: Delivery) -> Wait:
        """Return whether the message must wait for one that was passed to ``hold`` before, and of which kind."""
        if delivery.table is None:
            return self._wait_of_namespace(delivery)
        names = _names(delivery)
        if any(name[0] in self.namespaces or name in self.tables for name in names):
            return Wait.FOR_TABLE
        earlier = [message for name in names for message in self.aside.get(name, ())]
        if not earlier:
            return Wait.NO
        later = _message(delivery)
        return Wait.NO if all(may_overtake(later, message) for message in earlier) else Wait.FOR_SET_ASIDE

    def hold(self, delivery: Delivery, wait: Wait) -> None:
        """Make later messages wait for this undelivered one; ``wait`` is ``NO`` if its own delivery failed."""
        gently = wait is Wait.FOR_SET_ASIDE or (wait is Wait.NO and delivery.set_aside)
        names = _names(delivery)
        if delivery.table is not None and gently:
            self.namespaces_with_aside.update(name[0] for name in names)
            for name in names:
                self.aside.setdefault(name, []).append(_message(delivery))
        elif gently and delivery.operation == AlterNamespace.operation:
            # Tables can be created and altered whatever the comment and properties of their namespace are, so only
            # messages about the namespace wait.
            self.namespaces_aside.add(delivery.namespace)
        else:
            self.namespaces_with_waiting.update(name[0] for name in names)
            if delivery.table is None:
                self.namespaces.add(delivery.namespace)
            else:
                # Messages that follow a rename are about the new name, so block both names.
                self.tables.update(names)

    def _wait_of_namespace(self, delivery: Delivery) -> Wait:
        if delivery.namespace in self.namespaces_with_waiting:
            return Wait.FOR_TABLE
        alters = delivery.operation == AlterNamespace.operation
        if delivery.namespace in self.namespaces_aside or (
            not alters and delivery.namespace in self.namespaces_with_aside
        ):
            return Wait.FOR_SET_ASIDE
        return Wait.NO


def may_overtake(later: Message | None, earlier: Message | None) -> bool:
    """Return whether two messages of one table can be applied in any order; None is a message that cannot be read."""
    match earlier, later:
        case SyncPartitions(), SyncPartitions():
            return not (_touched(earlier) & _touched(later))
        case (SyncPartitions(), AlterTable() as alteration) | (AlterTable() as alteration, SyncPartitions()):
            return not alteration.rebuild and not alteration.retype
        case _:
            return False


def _touched(message: SyncPartitions) -> frozenset[object]:
    """Return the values of the message's partitions: the metastore does not distinguish spellings of a name."""
    names = [partition.name for partition in (*message.added, *message.altered)]
    return frozenset(map(_values, (*names, *message.dropped)))


def _values(name: str) -> object:
    try:
        return tuple((key.lower(), value) for key, value in parse_partition_name(name))
    except InvalidPartitionNameError:
        return name  # an invalid name is never sent to the metastore


def _names(delivery: Delivery) -> list[tuple[str, str]]:
    """Return the table of a message, as namespace and name; for a rename both the old and the new name."""
    names = [(delivery.namespace, delivery.table or "")]
    if delivery.operation == RenameTable.operation and isinstance(message := _message(delivery), RenameTable):
        identifier = message.definition.identifier
        names.append((identifier.namespace, identifier.name))
    return names


def _message(delivery: Delivery) -> Message | None:
    try:
        return read_message(delivery)
    except MetastoreRefusedError:
        return None  # the delivery reports this, and later messages wait
