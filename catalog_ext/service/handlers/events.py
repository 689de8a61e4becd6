"""The handler of ``events/put``: notifications of object stores, which clients with the token push."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from catalog_ext.events.notifications import events_of
from catalog_ext.events.store_events import outcome_json
from catalog_ext.metastore.errors import CatalogExtError, StorageUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from catalog_ext.catalog import Catalog
    from catalog_ext.service.messages.core import Request


class EventOperations:
    """The handler of the operation ``events/put`` of one catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.handlers: Mapping[str, Callable[[Request], dict[str, Any]]] = {"events/put": self._put}

    def _put(self, request: Request) -> dict[str, Any]:
        """Apply a notification and return the outcome.

        Raises:
            InvalidInputError: The request is not a notification of a store.
            CatalogExtError: A partition could not be checked: the client must send the notification again.
        """
        outcome = self._catalog.events.take(events_of(request.whole()))
        failed = next((each for each in outcome.tables if each.error is not None), None)
        if failed is not None and outcome.left:
            if isinstance(failed.error, CatalogExtError):
                raise failed.error
            raise StorageUnavailableError(
                f"Events of table {failed.table} have to be sent again: {failed.error}", {"table": failed.table}
            )
        return outcome_json(outcome)
