"""Partition commit as in Flink: decides when partitions of a stream become visible, and runs policies for them.

``docs/design/5-streaming.md`` describes which files wait, and when they are due. If one policy fails, the step
``clean`` fails, and a recovery runs all policies again: each policy runs at least once per commit.
"""

from __future__ import annotations

import importlib
import logging
import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone, tzinfo
from typing import TYPE_CHECKING, TypeVar
from zoneinfo import ZoneInfo

from catalog_ext.metastore.backports import StrEnum
from catalog_ext.metastore.errors import InvalidConfigurationError, InvalidValueError, PartitionPolicyError
from catalog_ext.metastore.model.durations import duration_s
from catalog_ext.metastore.model.partition_names import is_hidden, parse_partition_name
from catalog_ext.metastore.model.properties import property_value
from catalog_ext.metastore.model.types import DataType
from catalog_ext.metastore.model.values import cast_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

T = TypeVar("T")

TRIGGER = "sink.partition-commit.trigger"
DELAY = "sink.partition-commit.delay"
TIME_ZONE = "sink.partition-commit.watermark-time-zone"
POLICY_KIND = "sink.partition-commit.policy.kind"
POLICY_CLASS = "sink.partition-commit.policy.class"
SUCCESS_FILE = "sink.partition-commit.success-file.name"
TIME_PATTERN = "partition.time-extractor.timestamp-pattern"
OPTIONS = (TRIGGER, DELAY, TIME_ZONE, POLICY_KIND, POLICY_CLASS, SUCCESS_FILE, TIME_PATTERN)

_LOG = logging.getLogger(__name__)
_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2})(?::?(\d{2}))?", re.ASCII)
_VARIABLE = re.compile(r"\$(?:\{([^}]+)\}|(\w+))")
_CALLABLE = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)[.:]([A-Za-z_]\w*)")
_UTC: tzinfo = timezone.utc
_LOCAL_TIME = DataType("timestamp_ntz")


class Trigger(StrEnum):
    """The event after which the files that a stream holds back for a partition become visible."""

    PROCESS_TIME = "process-time"
    PARTITION_TIME = "partition-time"


class PolicyKind(StrEnum):
    """The action for a committed partition. The metastore is updated also if ``METASTORE`` is not configured."""

    METASTORE = "metastore"
    SUCCESS_FILE = "success-file"
    CUSTOM = "custom"


@dataclass(frozen=True, slots=True)
class Decision:
    """The effect of an epoch's commit on partitions.

    Attributes:
        waiting: Partitions whose staged files stay invisible for now.
        due: Partitions whose files were kept invisible by earlier epochs and become visible now.
    """

    waiting: tuple[str, ...] = ()
    due: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionCommit:
    """The partition-commit options of a table, checked.

    Attributes:
        keys: The table's partition columns.
        delay_ms: The delay after a partition's time, by the watermark or the clock, until the partition is due.
        zone: The zone in which partition times are local.
        pattern: A text with ``$key`` variables whose value is the partition's time.
        policies: The policies, in the given order.
        policy_class: The name of the importable callable of the policy ``CUSTOM``.
        success_file: The name of the empty file of the policy ``SUCCESS_FILE``.
    """

    keys: tuple[str, ...]
    trigger: Trigger = Trigger.PROCESS_TIME
    delay_ms: int = 0
    zone: tzinfo = _UTC
    pattern: str = ""
    policies: tuple[PolicyKind, ...] = (PolicyKind.METASTORE,)
    policy_class: str | None = None
    success_file: str = "_SUCCESS"

    @classmethod
    def of(cls, options: Mapping[str, str], keys: Sequence[str]) -> PartitionCommit:
        """Parse and check a table's partition-commit properties; other properties are ignored.

        Raises:
            InvalidConfigurationError: An option has an invalid value, or two options contradict each other.
        """
        result = cls(
            keys=tuple(keys),
            trigger=_read(options, TRIGGER, parse_trigger, Trigger.PROCESS_TIME),
            delay_ms=_read(options, DELAY, parse_delay_ms, 0),
            zone=_read(options, TIME_ZONE, parse_zone, _UTC),
            pattern=_read(options, TIME_PATTERN, str, f"${{{keys[0]}}}" if keys else ""),
            policies=_read(options, POLICY_KIND, parse_policies, (PolicyKind.METASTORE,)),
            policy_class=_read(options, POLICY_CLASS, parse_policy_class, None),
            success_file=_read(options, SUCCESS_FILE, parse_success_file, "_SUCCESS"),
        )
        result._check()
        return result

    def _check(self) -> None:
        if self.trigger is Trigger.PARTITION_TIME and not self.keys:
            raise _refused(TRIGGER, self.trigger, "the table has no partition columns that a time could be taken from")
        if PolicyKind.CUSTOM in self.policies and self.policy_class is None:
            raise _refused(POLICY_KIND, PolicyKind.CUSTOM, f"name the callable in {POLICY_CLASS!r}")
        if self.trigger is Trigger.PARTITION_TIME:
            known = {key.lower() for key in self.keys}
            names = self.variables()
            if not names or any(name.lower() not in known for name in names):
                raise _refused(
                    TIME_PATTERN,
                    self.pattern,
                    f"give a text with partition columns in it, such as '${self.keys[0]} 00:00:00'; "
                    f"the partition columns are {', '.join(self.keys)}",
                )

    @property
    def may_wait(self) -> bool:
        """Whether a stream may hold back files in one epoch and make them visible in a later epoch."""
        return self.trigger is Trigger.PARTITION_TIME or self.delay_ms > 0

    def variables(self) -> list[str]:
        """Return the partition columns that the time pattern names."""
        return [braced or plain for braced, plain in _VARIABLE.findall(self.pattern)]

    def partition_time_ms(self, partition: str) -> int:
        """Return the time at which the partition begins, in milliseconds since the epoch.

        Raises:
            InvalidValueError: The partition's values do not form a time.
        """
        values = {key.lower(): value for key, value in parse_partition_name(partition)}

        def value(match: re.Match[str]) -> str:
            return values.get((match.group(1) or match.group(2)).lower()) or ""

        time_text = _VARIABLE.sub(value, self.pattern)
        try:
            local = cast_text(time_text, _LOCAL_TIME)
        except InvalidValueError:
            local = None
        if not isinstance(local, datetime):
            raise InvalidValueError(
                f"The partition {partition[:200]!r} has no time: {TIME_PATTERN!r} = {self.pattern!r} makes "
                f"{time_text[:80]!r} of it, which is no date or time. Correct the pattern, filter such rows out of the "
                f"stream, or set {TRIGGER!r} to 'process-time'.",
                {"partition": partition[:200], "pattern": self.pattern},
            )
        return int(local.replace(tzinfo=self.zone).timestamp() * 1000)

    def decide(
        self, staged: Iterable[str], waiting: Mapping[str, int], *, watermark_ms: int | None, final: bool, now_ms: int,
    ) -> Decision:  # fmt: skip
        """Return the partitions whose files become visible with this commit, and those whose files stay invisible.

        Args:
            staged: Names of the partitions for which this write has files.
            waiting: Partitions with waiting files of earlier epochs of the query, with the time since when they wait.
            watermark_ms: The query's watermark, milliseconds since the epoch (0 if it has none yet); None for a batch
                write, whose partitions never wait.
            final: Whether the query has ended by itself, so that everything is due.
            now_ms: The time, by the clock that dated ``waiting``.

        Raises:
            InvalidValueError: A partition's values do not form a time.
        """
        if final:
            return Decision(due=tuple(sorted(waiting)))
        if watermark_ms is None:
            return Decision()
        names = set(staged)
        kept = {name for name in names | waiting.keys() if not self._is_due(name, waiting, watermark_ms, now_ms)}
        return Decision(waiting=tuple(sorted(names & kept)), due=tuple(sorted(waiting.keys() - kept)))

    def _is_due(self, name: str, waiting: Mapping[str, int], watermark_ms: int, now_ms: int) -> bool:
        if self.trigger is Trigger.PARTITION_TIME:
            return watermark_ms >= self.partition_time_ms(name) + self.delay_ms
        return now_ms >= waiting.get(name, now_ms) + self.delay_ms

    @property
    def acts(self) -> bool:
        """Whether a committed partition has policies to run, besides the update of the metastore."""
        return any(policy is not PolicyKind.METASTORE for policy in self.policies)

    def custom_policy(self) -> Callable[[Mapping[str, str | None], str], object] | None:
        """Import and return the callable of the policy ``custom``; None if there is no such policy.

        Raises:
            InvalidConfigurationError: The callable cannot be imported, or is not callable.
        """
        if PolicyKind.CUSTOM not in self.policies or self.policy_class is None:
            return None
        module, _, name = self.policy_class.replace(":", ".").rpartition(".")
        try:
            found: Callable[[Mapping[str, str | None], str], object] | None = getattr(
                importlib.import_module(module), name, None
            )
        except ImportError as error:
            raise _refused(POLICY_CLASS, self.policy_class, f"it cannot be imported ({error})") from error
        if not callable(found):
            raise _refused(POLICY_CLASS, self.policy_class, f"the module {module!r} has no callable {name!r}")
        return found


def chosen_options(properties: Mapping[str, str], options: Mapping[str, str]) -> dict[str, str]:
    """Return the partition-commit options of a write; the write's options override the table's properties."""
    texts = {o: [property_value(options, o), property_value(properties, o)] for o in OPTIONS}
    return {option: text for option, found in texts.items() for text in found[::-1] if text is not None}


def run_policies(
    commit: PartitionCommit,
    partitions: Iterable[tuple[str, str]],
    write_success_file: Callable[[str], None],
) -> None:
    """Run the policies for every committed partition, in order; a failure does not stop the others.

    ``partitions`` are the names and locations (URIs) of the partitions that received files. ``write_success_file``
    writes an empty file at a URI.

    Raises:
        PartitionPolicyError: At least one policy failed; all of them will run again.
        InvalidConfigurationError: The custom policy cannot be imported.
    """
    custom = commit.custom_policy()
    failed: list[tuple[str, PolicyKind, Exception]] = []
    for name, location in partitions:
        for policy in commit.policies:
            try:
                if policy is PolicyKind.SUCCESS_FILE:
                    write_success_file(f"{location}/{commit.success_file}")
                elif policy is PolicyKind.CUSTOM and custom is not None:
                    custom(dict(parse_partition_name(name)) if name else {}, location)
            except Exception as error:  # noqa: BLE001 - a policy is the user's code; whatever it raises is reported
                _LOG.warning("The policy '%s' failed for partition %r at %s.", policy, name, location, exc_info=True)
                failed.append((name, policy, error))
    if failed:
        partition, kind, cause = failed[0]
        raise PartitionPolicyError(
            f"The partition-commit policy '{kind}' failed for {len(failed)} partition(s), the first is {partition!r}: "
            f"{type(cause).__name__}: {cause}. The data is committed and visible; recover runs the policies again.",
            {"partition": partition, "policy": kind},
        ) from cause


def _read(options: Mapping[str, str], option: str, parse: Callable[[str], T], default: T) -> T:
    given = property_value(options, option)
    if given is None:
        return default
    text = given.strip()
    try:
        return parse(text)
    except ValueError as error:
        raise _refused(option, text, str(error)) from error


def _refused(option: str, value: str, why: str) -> InvalidConfigurationError:
    return InvalidConfigurationError(
        f"The setting {option!r} cannot be {value[:60]!r}: {why}.", {"key": option, "value": value[:60]}
    )


def parse_trigger(text: str) -> Trigger:
    """Return the trigger with this name. An invalid text raises ``ValueError``, as in all parsers of this module."""
    if text.lower() not in tuple(Trigger):
        raise ValueError("give 'process-time' or 'partition-time'")
    return Trigger(text.lower())


def parse_delay_ms(text: str) -> int:
    """Parse a duration and return it in milliseconds; the default unit is seconds."""
    value = duration_s(text)
    if value is None:
        raise ValueError("give a duration such as 0s, 30 min, 1 h or 1 d")
    return round(value * 1000)


def parse_zone(text: str) -> tzinfo:
    """Return a time zone by its name or its offset."""
    offset = _OFFSET.fullmatch(text.upper())
    if offset is not None:
        sign, hours, minutes = offset.groups()
        shift = timedelta(hours=int(hours), minutes=int(minutes or 0))
        if shift <= timedelta(hours=18):
            return timezone(-shift if sign == "-" else shift)
    try:
        return ZoneInfo(text)
    except (KeyError, ValueError, OSError):
        raise ValueError("give a zone such as UTC, Asia/Shanghai or +02:00") from None


def parse_policies(text: str) -> tuple[PolicyKind, ...]:
    """Return the policies in a comma-separated list, in order."""
    words = [word.strip().lower() for word in text.split(",")]
    if any(word not in tuple(PolicyKind) for word in words):
        raise ValueError("give 'metastore', 'success-file' or 'custom', with commas between them")
    return tuple(dict.fromkeys(PolicyKind(word) for word in words))


def parse_policy_class(text: str) -> str | None:
    """Check that the text has the form of a callable's name, ``package.module:name``, and return it."""
    if _CALLABLE.fullmatch(text) is None:
        raise ValueError("give an importable Python callable such as package.module:name")
    return text


def parse_success_file(text: str) -> str:
    """Check the name of the success file, which readers must skip as hidden, and return it."""
    if not is_hidden(text) or "/" in text or len(text) > 100 or text in (".", ".."):
        raise ValueError("readers would take it for data, give a name without '/' that begins with '_' or '.'")
    return text
