"""Decides when partitions expire: when their time, from their values, is older than the table's retention period."""

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
"""The table property (also Hive's) for how long a partition is kept after its time."""

REGISTERED_AGAIN = "the next repair registers it again"
"""The end of the reason for dropping an expired partition that the next repair would register again.

This concerns external tables whose files stay, unless the property ``RETENTION`` makes repairs skip the partition.
"""

_TIMES = frozenset({"date", "timestamp", "timestamp_ntz"})


@dataclass(frozen=True, slots=True)
class Expiry:
    """The retention of one table, and the times of its partitions.

    Attributes:
        commit: Computes a partition's time from its values.
        keys: The partition columns that the time is computed from.
        retention_s: The retention period in seconds, from the partition's time on.
        words: The retention period as text for people.
    """

    commit: PartitionCommit
    keys: tuple[str, ...]
    retention_s: float
    words: str

    @classmethod
    def of(cls, definition: TableDefinition, retention: str | None = None) -> Expiry | None:
        """Return a table's retention: ``retention`` if given, otherwise the table's property; None without both.

        Raises:
            InvalidConfigurationError: The retention is not a duration.
            InvalidInputError: No partition column is a time, and no time pattern is set.
        """
        text = retention if retention is not None else property_value(definition.properties, RETENTION)
        if text is None:
            return None
        seconds = duration_s(text.strip())
        if seconds is None:
            raise InvalidConfigurationError(
                f"The retention {text[:60]!r} of table {definition.identifier} is no duration. Give one such as 7d.",
                {"key": RETENTION, "value": text[:60]},
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
        # If the retention comes from the table's property and not from the statement, messages name the property.
        source = "" if retention is not None else f" ({RETENTION})"
        return cls(commit, _referenced(commit, names), seconds, f"{text.strip()}{source}")

    def expired(self, partition: str, now_ms: int) -> bool:
        """Return whether the partition's time plus the retention has passed; False for a partition without a time."""
        try:
            return self.commit.partition_time_ms(partition) + self.retention_s * 1000 < now_ms
        except InvalidValueError:
            return False

    @property
    def reason(self) -> str:
        """The reason why a partition is dropped, or not registered, as text for people."""
        return f"expired: its time, by {' and '.join(self.keys)}, is longer ago than {self.words}"


def _referenced(commit: PartitionCommit, names: Sequence[str]) -> tuple[str, ...]:
    used = {name.lower() for name in commit.variables()}
    return tuple(name for name in names if name.lower() in used)
