"""Settings as JSON: settings that a client forwards, and settings that the service returns with a table."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from catalog_ext.conf.resolution import Given, Resolved, Use, names, resolve
from catalog_ext.metastore.errors import InvalidConfigurationError, InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog_ext.service.messages.core import Request


def use_of(request: Request) -> Use:
    """Return the operation that the settings are for (a read, a write, …), from the field ``use``."""
    text = request.text("use")
    if text not in tuple(Use):
        raise InvalidInputError(
            f"The field 'use' of the request cannot be {text[:40]!r}. Use one of: {', '.join(Use)}."
        )
    return Use(text)


def given_of(request: Request, process: Mapping[str, str]) -> Given:
    """Return the settings of a request, grouped by where they were given: option, session, catalog, table, process."""
    return Given(
        request.text("table"), request.text("catalog"), request.text_map("options"), request.text_map("session"),
        request.text_map("catalog_conf"), request.text_map("properties"), process,
        request.texts("other_options"), request.texts("other_catalog_keys"),
    )  # fmt: skip


def settings_json(table: str, properties: Mapping[str, str], process: Mapping[str, str]) -> dict[str, Any]:
    """Return a table's settings for reads and writes without options, and the names of all options.

    If a setting is invalid, the entry of the read or write is null: the client then calls ``settings/resolve``, which
    returns the error.
    """
    return _settings(table, frozenset(properties.items()), frozenset(process.items()))


# Each statement loads its tables, and resolving the settings would take most of that time.
@lru_cache(maxsize=1000)
def _settings(
    table: str, properties: frozenset[tuple[str, str]], process: frozenset[tuple[str, str]]
) -> dict[str, Any]:
    given = Given(table, properties=dict(properties), process=dict(process))
    return {str(use): {"names": list(names(use)), "values": _values(use, given)} for use in Use}


def _values(use: Use, given: Given) -> Resolved | None:
    try:
        return resolve(use, given)
    except InvalidConfigurationError:
        return None
