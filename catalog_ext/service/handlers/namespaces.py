"""Answers the operations of namespaces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from catalog_ext.metastore.model.json import namespace_to_dict
from catalog_ext.service.messages.partitions import session_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from catalog_ext.catalog import Catalog
    from catalog_ext.service.messages.core import Request


class NamespaceOperations:
    """The operations ``namespaces/…`` of one catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.handlers: Mapping[str, Callable[[Request], dict[str, Any]]] = {
            "namespaces/list": self._list,
            "namespaces/load": self._load,
            "namespaces/create": self._create,
            "namespaces/alter": self._alter,
            "namespaces/drop": self._drop,
        }

    def _list(self, request: Request) -> dict[str, Any]:
        request.finish()
        return {"namespaces": self._catalog.list_namespaces()}

    def _load(self, request: Request) -> dict[str, Any]:
        name = request.text("namespace")
        request.finish()
        return namespace_to_dict(self._catalog.load_namespace(name))

    def _create(self, request: Request) -> dict[str, Any]:
        name, properties = request.text("namespace"), request.text_map("properties")
        request.finish()
        location, comment = properties.pop("location", None), properties.pop("comment", None)
        return namespace_to_dict(
            self._catalog.create_namespace(name, location=location, comment=comment, properties=properties)
        )

    def _alter(self, request: Request) -> dict[str, Any]:
        name, set_, remove = request.text("namespace"), request.text_map("set"), request.texts("remove")
        request.finish()
        return namespace_to_dict(self._catalog.alter_namespace(name, set_, remove))

    def _drop(self, request: Request) -> dict[str, Any]:
        name, cascade, session = request.text("namespace"), request.flag("cascade"), session_of(request)
        request.finish()
        self._catalog.drop_namespace(name, cascade=cascade, session=session.settings)
        return {"dropped": True}
