"""An index has one metastore and one warehouse: who opens it gets both, and another one is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from catalog_ext.conf.resolved import EMBEDDED, Settings
from catalog_ext.metastore.errors import InvalidConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

WAREHOUSE = "warehouse"
METASTORE = "metastore"
_EMBEDDED_AT = "embedded:"


def address(settings: Settings) -> str | None:
    """Return the metastore's address as it is recorded: servers in order, the embedded one by its folder."""
    if settings.metastore is None:
        return None
    if settings.metastore == EMBEDDED:
        return f"{_EMBEDDED_AT}{settings.state}"
    return ",".join(sorted(part.strip().removesuffix("/").lower() for part in settings.metastore.split(",")))


def record(settings: Settings) -> dict[str, str]:
    """Return what an index that is opened with these settings for the first time says of itself."""
    where = address(settings)
    return {WAREHOUSE: settings.warehouse} | ({} if where is None else {METASTORE: where})


def at_home(settings: Settings, recorded: Mapping[str, str]) -> Settings:
    """Return the settings with the index's own metastore and warehouse in the place of defaults.

    Args:
        settings: What was given, and defaults.
        recorded: What the index says of itself; nothing, where it is new or older than this record.

    Raises:
        InvalidConfigurationError: Another metastore or warehouse was given.
    """
    return _with_metastore(_with_warehouse(settings, recorded.get(WAREHOUSE)), recorded.get(METASTORE))


def _with_warehouse(settings: Settings, recorded: str | None) -> Settings:
    if recorded is None or recorded == settings.warehouse:
        return settings
    if WAREHOUSE in settings.given:
        raise _another(settings, WAREHOUSE, recorded, settings.warehouse)
    return replace(settings, warehouse=recorded)


def _with_metastore(settings: Settings, recorded: str | None) -> Settings:
    asked = address(settings)
    if recorded is None or asked is None or asked == recorded:
        return settings
    if METASTORE in settings.given and not set(asked.split(",")) & set(recorded.split(",")):
        raise _another(settings, METASTORE, recorded, asked)
    if METASTORE in settings.given:
        return settings  # some of the same equal servers
    if recorded.startswith(_EMBEDDED_AT):
        return replace(settings, metastore=EMBEDDED, state=Path(recorded.removeprefix(_EMBEDDED_AT)))
    return replace(settings, metastore=recorded)


def _another(settings: Settings, what: str, recorded: str, asked: str) -> InvalidConfigurationError:
    from catalog_ext.metastore.index.database.urls import parse_url, shown_url

    index = shown_url(parse_url(settings.index))
    return InvalidConfigurationError(
        f"The index {index} belongs to the {what} {recorded}, and was opened with {asked}. Leave the {what} out to use "
        f"its own. To take the other one on for good: catalog-ext --index '{index}' --{what} '{asked}' adopt",
        {"index": index, f"recorded_{what}": recorded, what: asked},
    )
