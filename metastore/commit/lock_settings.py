"""Whether a transaction takes Hive's locks; ``docs/design/9-hive-writers.md`` says which."""

from __future__ import annotations

from dataclasses import dataclass

from catalog_ext.metastore.backports import StrEnum

HIVE_LOCKS = "hive-locks"
HIVE_LOCKS_WAIT = "hive-locks.wait"
DEFAULT_WAIT_S = 300.0


class LockMode(StrEnum):
    """Whether Hive's locks are taken, and how an append takes them (Hive's ``hive.txn.strict.locking.mode``)."""

    NONE = "none"
    SHARED = "shared"
    STRICT = "strict"


@dataclass(frozen=True, slots=True)
class LockSettings:
    """Whether and how Hive's locks are taken.

    Attributes:
        wait_s: How long they are waited for, in seconds.
    """

    mode: LockMode = LockMode.NONE
    wait_s: float = DEFAULT_WAIT_S


WITHOUT_LOCKS = LockSettings()
