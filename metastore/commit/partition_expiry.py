"""When a partition expires: its time, taken from its values, and the table's retention period."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.partition_commit import TIME_PATTERN, TIME_ZONE, PartitionCommit
from catalog_ext.metastore.errors import InvalidConfigurationError, InvalidInputError, InvalidValueError
from catalog_ext.metastore.model.durations import duration_s
from catalog_ext.metastore.model.properties import property_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog_ext.metastore.model.tables import TableDefinition

RETENTION = "partition.retention.period"
"""The table property (Hive's) that says for how long a partition is kept after its time."""

REGISTERED_AGAIN = "the next repair registers it again"
"""In the reason of an expired partition of an external table whose property ``RETENTION`` does not cover it."""

_TIMES = frozenset({"date", "timestamp", "timestamp_ntz"})


@dataclass(frozen=True, slots=True)
class Expiry:
    """The partitions' times and the retention of one table.

    Attributes:
        commit: Takes the time out of a partition's values.
        keys: The partition columns that the time comes from.
        retention_s: In seconds, from the beginning of a partition.
        words: The retention, for people.
    """

    commit: PartitionCommit
    keys: tuple[str, ...]
    retention_s: float
    words: str

    @classmethod
    def of(cls, definition: TableDefinition, retention: str | None = None) -> Expiry | None:
        """Return the table's, or with another retention; None where neither says one.

        Raises:
            InvalidConfigurationError: The retention is no duration.
            InvalidInputError: No partition column is a time, and no pattern makes one of them.
        """
        words = retention if retention is not None else property_value(definition.properties, RETENTION)
        if words is None:
            return None
        seconds = duration_s(words.strip())
        if seconds is None:
            raise InvalidConfigurationError(
                f"The retention {words[:60]!r} of table {definition.identifier} is no duration. Give one such as 7d.",
                {"key": RETENTION, "value": words[:60]},
            )
        names = [column.name for column in definition.partition_columns]
        pattern = property_value(definition.properties, TIME_PATTERN)
        if pattern is None:
            times = [c.name for c in definition.partition_columns if c.data_type.name in _TIMES]
            if not times:
                raise InvalidInputError(
                    f"The partitions of table {definition.identifier} have no time: none of its partition columns "
                    f"({', '.join(names) or 'none'}) is a DATE or TIMESTAMP. Set the property {TIME_PATTERN!r}, as to "
                    "'$year-$month-$day'.",
                    {"table": str(definition.identifier)},
                )
            pattern = f"${{{times[0]}}}"
        options = {TIME_PATTERN: pattern}
        zone = property_value(definition.properties, TIME_ZONE)
        if zone is not None:
            options[TIME_ZONE] = zone
        commit = PartitionCommit.of(options, names)
        # A retention of the table's property was not in the statement: the message names the property.
        source = "" if retention is not None else f" ({RETENTION})"
        return cls(commit, _referenced(commit, names), seconds, f"{words.strip()}{source}")

    def expired(self, partition: str, now_ms: int) -> bool:
        """Return whether the partition's time is longer ago than the retention; one without a time never is."""
        try:
            return self.commit.partition_time_ms(partition) + self.retention_s * 1000 < now_ms
        except InvalidValueError:
            return False

    @property
    def reason(self) -> str:
        """Why a partition is dropped, or not registered, for people."""
        return f"expired: its time, by {' and '.join(self.keys)}, is longer ago than {self.words}"


def _referenced(commit: PartitionCommit, names: Sequence[str]) -> tuple[str, ...]:
    used = {name.lower() for name in commit.variables()}
    return tuple(name for name in names if name.lower() in used)
