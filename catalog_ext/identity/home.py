"""Opens an index with the metastore and warehouse that it has recorded, and refuses different ones."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from catalog_ext.conf.resolved import EMBEDDED, Settings, folder_of
from catalog_ext.identity.record import (
    EMBEDDED_AT,
    METASTORE,
    METASTORE_HOST,
    METASTORE_ID,
    NO_METASTORE,
    WAREHOUSE,
    address,
    properties_of,
    record,
    replace_record,
)
from catalog_ext.metastore.errors import IndexDatabaseError, InvalidConfigurationError
from catalog_ext.metastore.hive.embedded.lease import folder_id
from catalog_ext.metastore.hive.identity import metastore_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog_ext.metastore.index import Index

logger = logging.getLogger(__name__)

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
_GUESSED = (
    "The index %s does not say which warehouse is its own, and %s is a guess. Name it once: --warehouse "
    "(warehouse=… in Python)."
)
_FROM_NOW_ON = (
    "The index %s had no metastore, and from now on belongs to the metastore %s, which `catalog-ext publish --all` "
    "brings its tables. To work on the index alone say so: --metastore none (metastore=None)."
)


def open_at_home(index: Index, settings: Settings) -> Settings:
    """Return the settings with the index's own metastore and warehouse; record them if they are not recorded yet.

    An index belongs to the metastore and the warehouse that it was first opened with, or to no metastore, if that was
    chosen for a new index. A warehouse that is only the default of the current folder is not recorded. ``adopt``
    replaces what is recorded.

    Raises:
        InvalidConfigurationError: The user gave a metastore or warehouse that differs from the index's own.
        MetastoreUnavailableError: The metastore that was given cannot be asked whether it is the index's own.
    """
    recorded = index.properties.load()
    given = record(settings)
    if METASTORE in recorded:
        # A session that opens the index without its metastore (``metastore=None``) must not overwrite the recorded one.
        given.pop(NO_METASTORE, None)
    if any(recorded.get(name) != value for name, value in given.items()):
        try:
            if _was_never_reached(index, settings, recorded):
                recorded = replace_record(index, given, METASTORE)
            recorded = _complete(index, settings, given, recorded)
        except IndexDatabaseError as error:
            # Continue: a user with read-only access to the database may open the index too.
            logger.warning("The index %s cannot record its metastore and warehouse: %s", index.url, error.message)
            recorded = index.properties.load()
    return at_home(settings, recorded)


def look_home(index: Index, settings: Settings) -> Settings:
    """Return the settings with the index's own metastore and warehouse, and record nothing.

    Raises:
        InvalidConfigurationError: The user gave a metastore or warehouse that differs from the index's own.
        MetastoreUnavailableError: The metastore that was given cannot be asked whether it is the index's own.
    """
    recorded = index.properties.load()
    if _was_never_reached(index, settings, recorded):
        recorded = {WAREHOUSE: recorded[WAREHOUSE]} if WAREHOUSE in recorded else {}
    return at_home(settings, recorded)


def _was_never_reached(index: Index, settings: Settings, recorded: Mapping[str, str]) -> bool:
    """Return whether the index is empty, and its recorded metastore never answered and differs from the given one.

    The recorded address was then probably mistyped, and the given one replaces it without ``adopt``.
    """
    if METASTORE not in settings.given or settings.metastore is None:
        return False
    own = recorded.get(METASTORE)
    return own not in (None, address(settings)) and METASTORE_ID not in recorded and _is_empty(index)


def _complete(index: Index, settings: Settings, given: dict[str, str], recorded: dict[str, str]) -> dict[str, str]:
    """Record the given metastore and warehouse if they are not recorded yet; return all properties."""
    empty = _is_empty(index)
    missing = [what for what in (METASTORE, WAREHOUSE) if what in given and what not in recorded]
    if METASTORE in missing and NO_METASTORE in recorded:
        missing.remove(METASTORE)
        if empty and METASTORE in settings.given:
            # The index was created without a metastore and is still empty, so it may get one.
            recorded = replace_record(index, given, METASTORE)
    elif NO_METASTORE in given and empty:
        recorded = index.properties.add_missing({NO_METASTORE: given[NO_METASTORE]})
    # The default index is beside its warehouse. An index that was named may have its warehouse anywhere, so a default
    # warehouse is not recorded for it.
    if WAREHOUSE in missing and "index" in settings.given and WAREHOUSE not in settings.given:
        missing.remove(WAREHOUSE)
        if settings.metastore is not None and not empty and NO_METASTORE not in recorded:
            logger.warning(_GUESSED, index.url, settings.warehouse)
    if not missing:
        return recorded
    if METASTORE in missing and METASTORE not in settings.given and not empty:
        logger.warning(_FROM_NOW_ON, index.url, given[METASTORE])
    belongs = " and ".join(f"the {what} {given[what]}" for what in missing)
    logger.info("The index %s from now on belongs to %s", index.url, belongs)
    return index.properties.add_missing(properties_of(given, *missing))


def _is_empty(index: Index) -> bool:
    return not index.namespaces.all() and not index.outbox.pending(limit=1)


def at_home(settings: Settings, recorded: Mapping[str, str]) -> Settings:
    """Return the settings with the index's own metastore and warehouse in place of defaults.

    Args:
        settings: The given arguments, and defaults.
        recorded: The properties of the index; empty for a new index.

    Raises:
        InvalidConfigurationError: The user gave a metastore or warehouse that differs from the index's own.
        MetastoreUnavailableError: A metastore at another address was given, and cannot be asked for its id.
    """
    return _with_metastore(_with_warehouse(settings, recorded.get(WAREHOUSE)), recorded)


def _with_warehouse(settings: Settings, recorded: str | None) -> Settings:
    if recorded is None or recorded == settings.warehouse:
        return settings
    # If two paths name the same folder (symbolic links), use the recorded path, because locations are compared as text.
    if WAREHOUSE not in settings.given or _same_folder(settings.warehouse, recorded):
        return replace(settings, warehouse=recorded)
    raise _another(settings, WAREHOUSE, recorded, settings.warehouse)


def _with_metastore(settings: Settings, recorded: Mapping[str, str]) -> Settings:
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
        if known is None or _id_at(asked, settings) != known:
            raise _another(settings, METASTORE, own, asked)
        return settings
    if settings.metastore != EMBEDDED:
        logger.warning(_NOT_USED, _shown(settings), own, asked, _adoption(settings, METASTORE, asked))
    if embedded:
        folder = Path(own.removeprefix(EMBEDDED_AT))
        return _with_embedded(replace(settings, metastore=EMBEDDED, state=folder), recorded)
    return replace(settings, metastore=own)


def _id_at(uris: str, settings: Settings) -> str | None:
    with contextlib.closing(settings.connect_metastore(uris)) as client:
        return metastore_id(client)


def _without_metastore(settings: Settings, asked: str) -> Settings:
    """Return the settings of an index that was created to have no metastore.

    Raises:
        InvalidConfigurationError: The user gave a metastore.
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
    """Return an error text if the index's embedded metastore is missing or was replaced; None if it is unchanged."""
    known, there = recorded.get(METASTORE_ID), folder_id(settings.embedded_folder)
    if settings.metastore != EMBEDDED or known in (None, there):
        return None
    what = _GONE if there is None else _ANOTHER
    adoption = _embedded_adoption(settings)
    return _LOST.format(index=_shown(settings), folder=settings.embedded_folder, what=what, adoption=adoption)


def _with_embedded(settings: Settings, recorded: Mapping[str, str]) -> Settings:
    """Return the settings; warn if the embedded metastore was lost on its own host.

    Raises:
        InvalidConfigurationError: The metastore is on another host, or its whole parent folder is missing.
    """
    known, host = recorded.get(METASTORE_ID), recorded.get(METASTORE_HOST, socket.gethostname())
    folder = settings.embedded_folder
    there = folder_id(folder)
    if there is not None and known in (None, there):
        return settings
    # Before the first connection the index has no id of its metastore to compare.
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
    """Return whether the whole state folder is missing, as after a move, and not only the metastore in it."""
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


def _another(settings: Settings, option: str, recorded_value: str, given_value: str) -> InvalidConfigurationError:
    index = _shown(settings)
    return InvalidConfigurationError(
        f"The index {index} belongs to the {option} {recorded_value}, and was opened with {given_value}. Leave the "
        f"{option} out to use its own, or open another index. To take the other one on for good: "
        f"{_adoption(settings, option, given_value)}",
        {"index": index, f"recorded_{option}": recorded_value, option: given_value},
    )


def _adoption(settings: Settings, what: str, value: str) -> str:
    return f"catalog-ext --index '{_shown(settings)}' --{what} '{value}' adopt"


def _embedded_adoption(settings: Settings) -> str:
    return f"catalog-ext --index '{_shown(settings)}' --metastore embedded --warehouse LOCATION adopt"


def _shown(settings: Settings) -> str:
    # Imported here: every start of the command line would otherwise load the database modules.
    from catalog_ext.metastore.index.database.urls import parse_url, shown_url

    return shown_url(parse_url(settings.index))
