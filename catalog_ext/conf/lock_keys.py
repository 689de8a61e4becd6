"""The settings of Hive's locks around writes and repairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from catalog_ext.conf.setting import TIME, Scope, Setting, duration, word
from catalog_ext.metastore.commit.lock_settings import (
    DEFAULT_WAIT_S,
    HIVE_LOCKS,
    HIVE_LOCKS_WAIT,
    LockMode,
    LockSettings,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_WRITE = (Scope.WRITE, Scope.SESSION, Scope.TABLE, Scope.ENVIRONMENT)

LOCKS: Setting[str] = Setting(
    HIVE_LOCKS, LockMode.NONE,
    "Whether writes and repairs take Hive's locks on what they change, for engines whose transaction manager is "
    "DbTxnManager. `strict`: an append is exclusive, as Hive's INSERT is by default; `shared`: Hive's readers and "
    "inserts go on beside it, as with `hive.txn.strict.locking.mode` = `false`.",
    "`none`, `shared` or `strict`", word(*LockMode), _WRITE,
)  # fmt: skip
LOCKS_WAIT: Setting[float] = Setting(
    HIVE_LOCKS_WAIT, f"{DEFAULT_WAIT_S / 60:g}m", "How long a write or a repair waits for Hive's locks.",
    TIME, duration, _WRITE,
)  # fmt: skip

LOCK_SETTINGS: tuple[Setting[Any], ...] = (LOCKS, LOCKS_WAIT)
"""All of them, in the order of the reference page."""


def lock_settings(*sources: Mapping[str, str]) -> LockSettings:
    """Return whether and how Hive's locks are taken.

    Raises:
        InvalidConfigurationError: A value is none that its key may have.
    """
    return LockSettings(LockMode(LOCKS.read(*sources)), LOCKS_WAIT.read(*sources))
