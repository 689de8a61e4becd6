"""A metastore that is asked who it is before anything else: another one may have got its address."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from catalog_ext.metastore.hive.thrift.forwarder import CallForwarder

if TYPE_CHECKING:
    from collections.abc import Callable

    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore

Result = TypeVar("Result")

_CHANGES = frozenset(
    {
        "create_database", "alter_database", "drop_database", "create_table", "drop_table", "alter_table",
        "rename_table", "add_partitions", "alter_partitions", "drop_partitions",
    }
)  # fmt: skip


class Guard(Protocol):
    """Says whether a metastore is the one that is meant."""

    def check(self, metastore: HiveMetastore, *, learns: bool) -> None:
        """Return if it is; what it said is remembered until ``lost``.

        Args:
            metastore: Who answers.
            learns: Whether one that nobody has met yet is taken for the one that is meant.

        Raises:
            MetastoreReplacedError: It is another one than it was.
            MetastoreError: It does not say.
        """
        ...

    def lost(self) -> None:
        """Forget who the metastore is: a connection was lost, and whoever answers next may be another one."""
        ...


class GuardedMetastore(CallForwarder):
    """Calls are made after a look at who answers: what another metastore lacks is not what ours lacks.

    Args:
        metastore: Who answers.
        guard: Is asked before each call.
        refresh: Finds out which connections the server has closed meanwhile.
    """

    def __init__(self, metastore: HiveMetastore, guard: Guard, refresh: Callable[[], None] = lambda: None) -> None:
        self._metastore = metastore
        self._guard = guard
        self._refresh = refresh

    def _call(self, method: str, function: Callable[[HiveMetastore], Result], *, repeatable: bool = True) -> Result:
        self._refresh()
        self._guard.check(self._metastore, learns=method in _CHANGES)
        return function(self._metastore)

    def close(self) -> None:
        """Give up the connections."""
        self._metastore.close()
