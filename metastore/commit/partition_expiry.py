"""Decides when partitions expire: when their time, from their values, is older than the table's retention period."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
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

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_TIMES = frozenset({"date", "timestamp", "timestamp_ntz"})


@dataclass(frozen=True, slots=True)
class Expiry:
    """The retention of one table, and the times of its partitions.

    Attributes:
        commit: Computes a partition's time from its values.
        keys: The partition columns that the time is computed from.
        retention_s: The retention period in seconds, from the partition's time on.
        words: The retention period with its unit, as text for people.
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
        given = retention if retention is not None else property_value(definition.properties, RETENTION)
        if given is None:
            return None
        text = given.strip()
        seconds = duration_s(text)
        if seconds is None:
            raise InvalidConfigurationError(
                f"The retention {text[:60]!r} of table {definition.identifier} is no duration. Give one with its unit, "
                "such as 90d; a number without a unit is a number of seconds, as in Hive.",
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
        # A number without a unit is a number of seconds (``TimeValidator`` of Hive's ``PartitionManagementTask``). Show
        # the unit, because a user may have meant days.
        unit = "s" if text[-1].isdigit() else ""
        return cls(commit, _referenced(commit, names), seconds, f"{text}{unit}{source}")

    def expired(self, partition: str, now_ms: int) -> bool:
        """Return whether the partition's time plus the retention has passed; False for a partition without a time."""
        try:
            return self.commit.partition_time_ms(partition) + self.retention_s * 1000 < now_ms
        except InvalidValueError:
            return False

    def reason(self, now_ms: int) -> str:
        """Return why a partition is dropped or not registered, with the time before which partitions expire."""
        return (
            f"expired: its time, by {' and '.join(self.keys)}, is longer ago than {self.words}{self._cut_off(now_ms)}"
        )

    def period(self, now_ms: int) -> str:
        """Return the retention period and the time before which partitions expire, as text for people."""
        return f"older than {self.words}{self._cut_off(now_ms)}"

    def _cut_off(self, now_ms: int) -> str:
        try:
            moment = _EPOCH + timedelta(milliseconds=now_ms, seconds=-self.retention_s)
        except OverflowError:
            # The retention period begins before the year 1: no partition is that old.
            return ""
        return f", that is before {moment:%Y-%m-%d %H:%M:%S} UTC"


def _referenced(commit: PartitionCommit, names: Sequence[str]) -> tuple[str, ...]:
    used = {name.lower() for name in commit.variables()}
    return tuple(name for name in names if name.lower() in used)
