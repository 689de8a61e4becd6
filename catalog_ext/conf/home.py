"""An index has one metastore and one warehouse: who opens it gets both, and another one is refused."""

from __future__ import annotations

import logging
import os
import socket
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from catalog_ext.conf.resolved import EMBEDDED, Settings, folder_of
from catalog_ext.metastore.errors import InvalidConfigurationError
from catalog_ext.metastore.hive.embedded.lease import folder_id
from catalog_ext.metastore.hive.thrift.uris import parse_uris

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from catalog_ext.metastore.index import Index

logger = logging.getLogger(__name__)

WAREHOUSE = "warehouse"
METASTORE = "metastore"
METASTORE_HOST = "metastore.host"
"""Where the embedded metastore's folder is: another host may have one of the same name."""

METASTORE_ID = "metastore.id"
"""What the metastore itself says who it is, whatever its address."""

NO_METASTORE = "metastore.none"
"""That the index was made to have no metastore; it has one of ``metastore`` and this, or neither says anything yet."""

INDEX_ID = "index.id"
"""Who the index is, for the mark in its warehouse, and for drivers that have several services of it; it has none before
its first table or the first request of such a driver."""

EMBEDDED_AT = "embedded:"
"""Before the folder, where the metastore is the embedded one."""

_LOCAL = "file://"
_NOT_USED = (
    "The index %s belongs to the metastore %s; %s, which Spark's or Hive's configuration names, is not used for it. To "
    "take that one on for good: %s"
)
_NONE = (
    "The index {index} was made to have no metastore, and was opened with {asked}. Leave the metastore out to work on "
    "the index alone, or open another index. To take the metastore on for good: {adoption}, and then catalog-ext "
    "--index '{index}' publish --all, which fills it from the index."
)
_GONE = "is not there any more. A new one in its place begins empty"
_ANOTHER = "is not the one that the index has known: it was made anew, or it is another index's"
_LOST = (
    "The embedded metastore of the index {index} in {folder} {what}. catalog-ext --index '{index}' publish --all fills "
    "it from the index. Where the old one has been moved, take on the place where it is now: {adoption}"
)
_NOT_HERE = (
    "The index {index} belongs to the embedded metastore in {folder} on the host {host}, which is not here: this is "
    "another host, or the project's folder was moved or copied. Work there, or on the index alone with metastore none, "
    "or take on for good what is to be its own: {adoption}, or {served}. catalog-ext publish --all then fills a "
    "metastore that lacks the tables."
)


def id_of(index: Index) -> str:
    """Return the index's id, which it has from now on."""
    return index.properties.load().get(INDEX_ID) or index.properties.add_missing({INDEX_ID: uuid4().hex})[INDEX_ID]


def address(settings: Settings) -> str | None:
    """Return the metastore's address as it is recorded: servers in order, the embedded one by its folder."""
    if settings.metastore is None:
        return None
    if settings.metastore == EMBEDDED:
        return f"{EMBEDDED_AT}{settings.state}"
    return ",".join(sorted(str(server) for server in parse_uris(settings.metastore.lower())))


def record(settings: Settings) -> dict[str, str]:
    """Return what an index that is opened with these settings for the first time says of itself."""
    where = address(settings)
    host = {METASTORE_HOST: socket.gethostname()} if settings.metastore == EMBEDDED else {}
    own = {METASTORE: where} | host if where is not None else {}
    # A metastore that was not chosen is not recorded, and there is no default without one.
    none = {NO_METASTORE: "true"} if where is None and METASTORE in settings.given else {}
    return {WAREHOUSE: settings.warehouse} | own | none


def at_home(
    settings: Settings, recorded: Mapping[str, str], identify: Callable[[str], str | None] = lambda _: None
) -> Settings:
    """Return the settings with the index's own metastore and warehouse in the place of defaults.

    Args:
        settings: What was given, and defaults.
        recorded: What the index says of itself; nothing, where it is new or older than this record.
        identify: Asks the metastore at an address who it is; None where it does not know.

    Raises:
        InvalidConfigurationError: Another metastore or warehouse was given.
        MetastoreUnavailableError: One at another address was given, which cannot be asked whether it is the same.
    """
    return _with_metastore(_with_warehouse(settings, recorded.get(WAREHOUSE)), recorded, identify)


def _with_warehouse(settings: Settings, recorded: str | None) -> Settings:
    if recorded is None or recorded == settings.warehouse:
        return settings
    if WAREHOUSE not in settings.given:
        return replace(settings, warehouse=recorded)
    if _same_folder(settings.warehouse, recorded):
        # By one name of two: places are compared as they are written.
        return replace(settings, warehouse=recorded)
    raise _another(settings, WAREHOUSE, recorded, settings.warehouse)


def _with_metastore(settings: Settings, recorded: Mapping[str, str], identify: Callable[[str], str | None]) -> Settings:
    own, asked = recorded.get(METASTORE), address(settings)
    if own is None and asked is not None and NO_METASTORE in recorded:
        return _without_metastore(settings, asked)
    if own is None or asked is None:
        return settings
    if set(asked.split(",")) & set(own.split(",")):
        return _with_embedded(settings, recorded) if settings.metastore == EMBEDDED else settings
    embedded = own.startswith(EMBEDDED_AT)
    if METASTORE in settings.given and not (embedded and settings.metastore == EMBEDDED):
        known = recorded.get(METASTORE_ID)
        if known is None or identify(asked) != known:
            raise _another(settings, METASTORE, own, asked)
        return settings
    if settings.metastore != EMBEDDED:
        logger.warning(_NOT_USED, _shown(settings), own, asked, _adoption(settings, METASTORE, asked))
    if embedded:
        folder = Path(own.removeprefix(EMBEDDED_AT))
        return _with_embedded(replace(settings, metastore=EMBEDDED, state=folder), recorded)
    return replace(settings, metastore=own)


def _without_metastore(settings: Settings, asked: str) -> Settings:
    """Return the settings of an index that was made to have no metastore.

    Raises:
        InvalidConfigurationError: One was given.
    """
    index, adoption = _shown(settings), _adoption(settings, METASTORE, settings.metastore or "")
    if METASTORE in settings.given:
        raise InvalidConfigurationError(
            _NONE.format(index=index, asked=asked, adoption=adoption),
            {"index": index, "recorded_metastore": "none", "metastore": asked},
        )
    if settings.metastore != EMBEDDED:
        logger.warning(_NOT_USED, index, "none", asked, adoption)
    return replace(settings, metastore=None)


def lost_embedded(settings: Settings, recorded: Mapping[str, str]) -> str | None:
    """Return that the index's embedded metastore is gone or another one, and what to do; None where it is there."""
    known, there = recorded.get(METASTORE_ID), folder_id(settings.embedded_folder)
    if settings.metastore != EMBEDDED or known in (None, there):
        return None
    what = _GONE if there is None else _ANOTHER
    adoption = _embedded_adoption(settings)
    return _LOST.format(index=_shown(settings), folder=settings.embedded_folder, what=what, adoption=adoption)


def _with_embedded(settings: Settings, recorded: Mapping[str, str]) -> Settings:
    """Return the settings; warn where the embedded metastore was lost on its own host.

    Raises:
        InvalidConfigurationError: It is on another host, or its folder lay in one that is gone as a whole.
    """
    known, host = recorded.get(METASTORE_ID), recorded.get(METASTORE_HOST, socket.gethostname())
    folder = settings.embedded_folder
    there = folder_id(folder)
    if there is not None and known in (None, there):
        return settings
    # An index has no id of its metastore until the first connection to it.
    is_elsewhere = host != socket.gethostname() and (known is not None or not folder.exists())
    if is_elsewhere or (there is None and _was_moved(settings, known)):
        raise InvalidConfigurationError(
            _NOT_HERE.format(
                index=_shown(settings), folder=folder, host=host, adoption=_embedded_adoption(settings),
                served=_adoption(settings, METASTORE, "thrift://host:9083"),
            ),
            {"index": _shown(settings), "metastore": f"{EMBEDDED_AT}{settings.state}", "host": host},
        )  # fmt: skip
    lost = lost_embedded(settings, recorded)
    if lost is not None:
        logger.warning("%s", lost)
    return settings


def _was_moved(settings: Settings, known: str | None) -> bool:
    """Return whether the folder of everything embedded seems to have gone elsewhere, and not just the metastore."""
    if settings.state.exists():
        return False
    beside = folder_of(settings.index)
    return (beside is not None and beside != settings.state) or (
        known is not None and not settings.state.parent.exists()
    )


def _same_folder(one: str, other: str) -> bool:
    if not (one.startswith(_LOCAL) and other.startswith(_LOCAL)):
        return False
    return os.path.realpath(one.removeprefix(_LOCAL)) == os.path.realpath(other.removeprefix(_LOCAL))


def _another(settings: Settings, what: str, recorded: str, asked: str) -> InvalidConfigurationError:
    index = _shown(settings)
    return InvalidConfigurationError(
        f"The index {index} belongs to the {what} {recorded}, and was opened with {asked}. Leave the {what} out to use "
        f"its own, or open another index. To take the other one on for good: {_adoption(settings, what, asked)}",
        {"index": index, f"recorded_{what}": recorded, what: asked},
    )


def _adoption(settings: Settings, what: str, value: str) -> str:
    return f"catalog-ext --index '{_shown(settings)}' --{what} '{value}' adopt"


def _embedded_adoption(settings: Settings) -> str:
    return f"catalog-ext --index '{_shown(settings)}' --metastore embedded --warehouse LOCATION adopt"


def _shown(settings: Settings) -> str:
    # Not at the top: every start of the command line would import the databases.
    from catalog_ext.metastore.index.database.urls import parse_url, shown_url

    return shown_url(parse_url(settings.index))
