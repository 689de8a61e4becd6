"""Events of the metastore's notification log: which table and which partitions were changed.

An event is a hint: it says where to look, and the present state is read from the metastore and the store. Messages are
JSON of releases 2.3 to 4, plain or compressed. If a part of a message cannot be read, its event covers more instead of
less: all partitions of the table must then be checked.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import json
import logging
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from catalog_ext.metastore.hive.mapping.model import metastore_name
from catalog_ext.metastore.hive.mapping.statistics_parameters import BYTES, DDL_TIME, FILES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class Statistics(NamedTuple):
    """The statistics that an outbox delivery has set, as texts; by them the follower recognizes its own event."""

    files: str
    bytes: str
    ddl_time: str


@dataclass(frozen=True, slots=True)
class PartitionHint:
    """A partition that an event names.

    Attributes:
        name: The metastore's name of the partition (``k1=v1/k2=v2``); ``''`` for a table without partition columns.
        dropped: Whether the partition was dropped, or was renamed to other values.
        written: The statistics after the event, if the event has set all of them; None otherwise.
    """

    name: str
    dropped: bool = False
    written: Statistics | None = None


@dataclass(frozen=True, slots=True)
class HiveEvent:
    """An event of the metastore's notification log.

    Attributes:
        event_id: The event's number; the events of one log have consecutive numbers.
        at_s: The time of the event, in seconds since the epoch, by the metastore's clock.
        kind: The metastore's event type, for example ``ADD_PARTITION``.
        database: ``''`` if the event concerns no database.
        table: ``''`` if the event concerns no table.
        partitions: The partitions that the event names; None if it may concern any.
        definition: Whether the table itself was created, altered or dropped.
        dropped: Whether the table was dropped or renamed.
        columns: Whether the event changed the table's columns.
        storage: Whether the event changed the table's format, SerDe, or the SerDe's settings.
        moved_from: The table's old location, if the event changed it under the same name.
        parameters: Names of the table's changed parameters; None if the event does not list them.
        renamed_to: The table's new name, as database and table; None without a rename.
        message_size: The number of characters of the server's message.
    """

    event_id: int
    at_s: int
    kind: str
    database: str = ""
    table: str = ""
    partitions: tuple[PartitionHint, ...] | None = ()
    definition: bool = False
    dropped: bool = False
    columns: bool = False
    storage: bool = False
    moved_from: str | None = None
    parameters: frozenset[str] | None = frozenset()
    renamed_to: tuple[str, str] | None = None
    message_size: int = field(default=0, compare=False)

    @property
    def says_nothing(self) -> bool:
        """Whether the follower ignores the event: it concerns a function, a transaction, or a column's statistics."""
        return not self.table or (self.partitions == () and not self.definition)


logger = logging.getLogger(__name__)

_COMPRESSED = "gzip"
_OF_PARTITIONS = frozenset({
    "ADD_PARTITION", "DROP_PARTITION", "ALTER_PARTITION", "ALTER_PARTITIONS", "INSERT", "RELOAD",
})  # fmt: skip
_OF_TABLES = frozenset({"CREATE_TABLE", "ALTER_TABLE", "DROP_TABLE"})

# Field numbers of Hive's structs Table and Partition in thrift's JSON protocol.
_TABLE_NAME, _TABLE_DATABASE, _TABLE_KEYS, _TABLE_PARAMETERS = "1", "2", "8", "9"
_PARTITION_VALUES, _PARTITION_PARAMETERS = "1", "7"
_FIELD_NAME = "1"
_TABLE_STORAGE, _STORAGE_COLUMNS, _STORAGE_LOCATION, _STORAGE_INPUT, _STORAGE_SERDE = "7", "1", "2", "3", "7"
_SERDE_CLASS, _SERDE_SETTINGS = "2", "3"


def event_of(event_id: int, at_s: int, kind: str, database: str, table: str, message: str, form: str) -> HiveEvent:
    """Parse an event; ``form`` is the format of the message, empty if the server's release does not name the format."""
    database, table = database.lower(), table.lower()
    if not table or kind not in _OF_PARTITIONS | _OF_TABLES:
        return HiveEvent(event_id, at_s, kind, database, table)
    definition = kind in _OF_TABLES
    try:
        body = json.loads(_plain(message, form))
        if definition:
            return _of_table(HiveEvent(event_id, at_s, kind, database, table, definition=True), body)
        return HiveEvent(event_id, at_s, kind, database, table, tuple(_partitions(kind, body)))
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError, OSError, zlib.error) as error:
        about = f"{kind} of {database}.{table}"
        logger.warning("Event %d (%s) has a message of another form: %r", event_id, about, error)
        dropped = kind == "DROP_TABLE"
        return HiveEvent(event_id, at_s, kind, database, table, None, definition, dropped, parameters=None)


def _plain(message: str, form: str) -> str:
    if not form.startswith(_COMPRESSED):
        return message
    try:
        return gzip.decompress(base64.b64decode(message)).decode("utf-8")
    except (binascii.Error, EOFError) as error:
        raise ValueError(f"no compressed message: {error}") from error


def _of_table(event: HiveEvent, body: Mapping[str, Any]) -> HiveEvent:
    if event.kind == "CREATE_TABLE":
        return event
    if event.kind == "DROP_TABLE":
        return HiveEvent(
            event.event_id, event.at_s, event.kind, event.database, event.table, definition=True, dropped=True
        )
    before, after = _thrift(body["tableObjBeforeJson"]), _thrift(body["tableObjAfterJson"])
    then, now = _map(before, _TABLE_PARAMETERS), _map(after, _TABLE_PARAMETERS)
    names = [(_text(t, _TABLE_DATABASE), _text(t, _TABLE_NAME)) for t in (before, after)]
    then_at, now_at = (_storage(table).get(_STORAGE_LOCATION, {}).get("str") for table in (before, after))
    whole = () if _list(after, _TABLE_KEYS) else (PartitionHint("", written=_written(then, now)),)
    return HiveEvent(
        event.event_id,
        event.at_s,
        event.kind,
        *names[0],
        partitions=whole,
        definition=True,
        dropped=names[0] != names[1],
        columns=_columns(before) != _columns(after),
        storage=_reading(before) != _reading(after),
        moved_from=then_at if names[0] == names[1] and then_at != now_at else None,
        parameters=frozenset(k for k in then.keys() | now.keys() if then.get(k) != now.get(k)),
        renamed_to=names[1] if names[0] != names[1] else None,
    )


def _storage(table: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = table.get(_TABLE_STORAGE, {}).get("rec", {})
    return found


def _columns(table: Mapping[str, Any]) -> object:
    return _storage(table).get(_STORAGE_COLUMNS)


def _reading(table: Mapping[str, Any]) -> object:
    """Return the part of a table's descriptor that determines how its files are read."""
    storage = _storage(table)
    serde = storage.get(_STORAGE_SERDE, {}).get("rec", {})
    return storage.get(_STORAGE_INPUT), serde.get(_SERDE_CLASS), _map(serde, _SERDE_SETTINGS)


def _partitions(kind: str, body: Mapping[str, Any]) -> Iterator[PartitionHint]:
    if kind == "ADD_PARTITION":
        added = [_thrift(text) for text in body.get("partitionListJson") or ()]
        for number, pairs in enumerate(body["partitions"]):
            now = _map(added[number], _PARTITION_PARAMETERS) if number < len(added) else {}
            yield PartitionHint(_name(pairs), written=_written({}, now))
    elif kind == "DROP_PARTITION":
        for pairs in body["partitions"]:
            yield PartitionHint(_name(pairs), dropped=True)
    elif kind == "ALTER_PARTITION":
        yield from _altered(body)
    elif kind == "ALTER_PARTITIONS":
        for pairs in body["partitions"]:
            yield PartitionHint(_name(pairs))
    else:
        yield PartitionHint(_inserted(body))


def _altered(body: Mapping[str, Any]) -> Iterator[PartitionHint]:
    before, after = _thrift(body["partitionObjBeforeJson"]), _thrift(body["partitionObjAfterJson"])
    keys = list(body["keyValues"])
    names = [metastore_name(keys, _list(partition, _PARTITION_VALUES)) for partition in (before, after)]
    if names[0] != names[1]:
        yield PartitionHint(names[0], dropped=True)
        yield PartitionHint(names[1])
        return
    then, now = _map(before, _PARTITION_PARAMETERS), _map(after, _PARTITION_PARAMETERS)
    yield PartitionHint(names[1], written=_written(then, now))


def _inserted(body: Mapping[str, Any]) -> str:
    """Return the name of the partition that an INSERT wrote; ``''`` for a table without partition columns."""
    for pairs in ("partKeyVals", "keyValues", "partitionKeyValues"):
        if body.get(pairs):
            return _name(body[pairs])
    if body.get("ptnObjJson"):
        table, partition = _thrift(body["tableObjJson"]), _thrift(body["ptnObjJson"])
        keys = [_text(key, _FIELD_NAME) for key in _list(table, _TABLE_KEYS)]
        return metastore_name(keys, _list(partition, _PARTITION_VALUES))
    if body.get("tableObjJson") and _list(_thrift(body["tableObjJson"]), _TABLE_KEYS):
        raise ValueError("it names no partition")
    return ""


def _written(then: Mapping[str, str], now: Mapping[str, str]) -> Statistics | None:
    """Return the file statistics after a change, if all are present and at least one has changed; None otherwise."""
    found = [now.get(name) for name in (FILES, BYTES, DDL_TIME)]
    if None in found or then == now:
        return None
    before = [then.get(name) for name in (FILES, BYTES, DDL_TIME)]
    return None if before == found else Statistics(*(value or "" for value in found))


def _name(pairs: Mapping[str, str]) -> str:
    return metastore_name([key.lower() for key in pairs], [str(value) for value in pairs.values()])


def _thrift(text: str) -> Mapping[str, Any]:
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError("no struct of thrift's")
    return found


def _text(struct: Mapping[str, Any], field: str) -> str:
    return str(struct[field]["str"])


def _list(struct: Mapping[str, Any], field: str) -> list[Any]:
    """Return the members of a list in thrift's JSON, where the type of the members and their number come first."""
    return list(struct[field]["lst"][2:]) if field in struct else []


def _map(struct: Mapping[str, Any], field: str) -> dict[str, str]:
    """Return the entries of a map in thrift's JSON, where the types and the number of the entries come first."""
    return dict(struct[field]["map"][3]) if field in struct else {}
