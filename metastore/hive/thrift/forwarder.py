"""Metastores that pass calls on to another one: the base of failover, repetition and fences, and the identity check."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from catalog_ext.metastore.hive.thrift.hive_metastore import DEFAULT_BATCH, HiveMetastore, fetch_partitions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from catalog_ext.metastore.hive.mapping.model import HivePartition


Result = TypeVar("Result")

_CALLS = frozenset(name for name in vars(HiveMetastore) if not name.startswith("_")) - {"close", "partitions"}
"""The methods of ``HiveMetastore`` that are passed on."""

_ONCE = frozenset({"create_database", "drop_database", "create_table", "drop_table", "rename_table", "lock"})
"""Calls that are not idempotent."""

_REPEATABLE_WITH = {"add_partitions": "if_not_exists", "drop_partitions": "if_exists"}
"""Calls that are idempotent only with this argument, which is the default."""


def _is_repeatable(method: str, named: Mapping[str, Any]) -> bool:
    if method == "events_after":
        return not named.get("once", False)
    return method not in _ONCE and bool(named.get(_REPEATABLE_WITH.get(method, ""), True))


class CallForwarder(ABC):
    """A metastore whose every call goes through one method, ``_call``: the base of the decorators.

    Sub-classes decide which metastore answers, and how often a call is tried.
    """

    @abstractmethod
    def _call(self, method: str, function: Callable[[HiveMetastore], Result], *, repeatable: bool = True) -> Result:
        """Return what ``function`` answers for the metastore chosen.

        Args:
            method: The name of the method that it calls.
            function: The call.
            repeatable: Whether the call is idempotent: it may reach a server twice.
        """

    @abstractmethod
    def close(self) -> None:
        """Give up the connections; a later call opens new ones."""

    def __getattr__(self, method: str) -> Callable[..., Any]:
        if method not in _CALLS:
            raise AttributeError(f"{type(self).__name__} has no attribute {method!r}.")
        return partial(self._forward, method)

    def _forward(self, method: str, /, *arguments: object, **named: object) -> object:
        def ask(metastore: HiveMetastore) -> object:
            return getattr(metastore, method)(*arguments, **named)

        return self._call(method, ask, repeatable=_is_repeatable(method, named))

    def partitions(self, database: str, table: str, *, batch: int = DEFAULT_BATCH) -> Iterator[HivePartition]:
        """Yield the partitions. Each batch is a call of its own, which is tried again and counted by itself."""
        return fetch_partitions(self, database, table, batch)


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
            learns: Whether a metastore without a known id is accepted as the one that is meant.

        Raises:
            MetastoreReplacedError: It is another one than it was.
            MetastoreError: It does not say.
        """

    def lost(self) -> None:
        """Forget who the metastore is: a connection was lost, and the next answer may come from another metastore."""


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
