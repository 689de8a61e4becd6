"""A fence around a message's calls: a carrier whose claim somebody else has taken makes no further call."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from catalog_ext.metastore.hive.thrift.forwarder import CallForwarder

if TYPE_CHECKING:
    from collections.abc import Callable

    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore

Result = TypeVar("Result")


class ClaimLostError(Exception):
    """Another carrier has the message: what this one still meant to do may be old."""


class FencedMetastore(CallForwarder):
    """Passes calls on for as long as the claim on the message holds.

    Args:
        metastore: Answers the calls.
        keep: Renews the claim; False where it is lost.
    """

    def __init__(self, metastore: HiveMetastore, keep: Callable[[], bool]) -> None:
        self._metastore = metastore
        self._keep = keep

    def _call(self, method: str, function: Callable[[HiveMetastore], Result], *, repeatable: bool = True) -> Result:
        if not self._keep():
            raise ClaimLostError(f"{method} is not called: the claim on the message is somebody else's now.")
        return function(self._metastore)

    def close(self) -> None:
        """Leave the metastore open: it is shared."""
