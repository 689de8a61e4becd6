"""Settings for Hive locks of a transaction; ``docs/design/9-hive-writers.md`` lists the locks."""

from __future__ import annotations

from dataclasses import dataclass

from catalog_ext.metastore.backports import StrEnum

HIVE_LOCKS = "hive-locks"
HIVE_LOCKS_WAIT = "hive-locks.wait"
DEFAULT_WAIT_S = 300.0


class LockMode(StrEnum):
    """Whether a write takes Hive locks, and which type an append takes (Hive's ``hive.txn.strict.locking.mode``)."""

    NONE = "none"
    SHARED = "shared"
    STRICT = "strict"


@dataclass(frozen=True, slots=True)
class LockSettings:
    """The settings for Hive locks.

    Attributes:
        wait_s: The time to wait for locks, in seconds.
    """

    mode: LockMode = LockMode.NONE
    wait_s: float = DEFAULT_WAIT_S


WITHOUT_LOCKS = LockSettings()
