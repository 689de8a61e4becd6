"""The base class of metastores that pass calls on to another one, and the interface of the identity check."""

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
"""The methods of ``HiveMetastore`` that a forwarder passes on."""

CHANGES = frozenset(
    {
        "create_database", "alter_database", "drop_database", "create_table", "drop_table", "alter_table",
        "rename_table", "add_partitions", "alter_partitions", "drop_partitions",
    }
)  # fmt: skip
"""The methods that change the metastore."""

_ONCE = frozenset({"create_database", "drop_database", "create_table", "drop_table", "rename_table", "lock"})
"""Calls that are not idempotent."""

_REPEATABLE_WITH = {"add_partitions": "if_not_exists", "drop_partitions": "if_exists"}
"""Calls that are idempotent only if this argument is true, which is the default."""


def _is_repeatable(method: str, named: Mapping[str, Any]) -> bool:
    if method == "events_after":
        return not named.get("once", False)
    return method not in _ONCE and bool(named.get(_REPEATABLE_WITH.get(method, ""), True))


class CallForwarder(ABC):
    """A metastore that passes all calls on through the method ``_call``, which a subclass implements."""

    @abstractmethod
    def _call(self, method: str, function: Callable[[HiveMetastore], Result], *, repeatable: bool = True) -> Result:
        """Call ``function`` with the chosen metastore and return its result.

        Args:
            method: The name of the called method.
            function: The call.
            repeatable: Whether the call is idempotent, so that it may be sent to servers more than once.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the connections; a later call opens new ones."""

    def __getattr__(self, method: str) -> Callable[..., Any]:
        if method not in _CALLS:
            raise AttributeError(f"{type(self).__name__} has no attribute {method!r}.")
        return partial(self._forward, method)

    def _forward(self, method: str, /, *arguments: object, **named: object) -> object:
        def ask(metastore: HiveMetastore) -> object:
            return getattr(metastore, method)(*arguments, **named)

        return self._call(method, ask, repeatable=_is_repeatable(method, named))

    def partitions(self, database: str, table: str, *, batch: int = DEFAULT_BATCH) -> Iterator[HivePartition]:
        """Yield the partitions. Each batch is a separate call, with its own retries and its own metrics."""
        return fetch_partitions(self, database, table, batch)


class Guard(Protocol):
    """Checks the identity of a metastore server."""

    def check(self, metastore: HiveMetastore, *, learns: bool) -> None:
        """Check that the server belongs to the expected metastore; the result is reused until ``lost`` is called.

        Args:
            metastore: The server.
            learns: Whether to store this server's id as the expected one if none is known yet.

        Raises:
            MetastoreReplacedError: The server belongs to another metastore.
            MetastoreError: The server does not return its id.
        """

    def lost(self) -> None:
        """Forget the checked identity: a connection was lost, and the next one may reach another metastore."""
