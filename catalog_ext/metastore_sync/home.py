"""Opens an index with its own metastore and warehouse, and has it take others on."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from catalog_ext.conf.home import (
    METASTORE,
    METASTORE_HOST,
    METASTORE_ID,
    NO_METASTORE,
    WAREHOUSE,
    address,
    at_home,
    record,
)
from catalog_ext.conf.resolved import UNSET, MetastoreArgument, Settings
from catalog_ext.metastore.errors import IndexDatabaseError, InvalidInputError
from catalog_ext.metastore.hive.identity import metastore_id
from catalog_ext.metastore.index import Index
from catalog_ext.metastore.index.tables.incarnations import RESTORING
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore_sync.connection import connect
from catalog_ext.metastore_sync.counter_file import COUNTER_FILE, COUNTER_ID, COUNTER_WRITTEN
from catalog_ext.metastore_sync.index_counter import IndexCounter
from catalog_ext.metastore_sync.warehouse_mark import rewrite_mark

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore

logger = logging.getLogger(__name__)

_OF_METASTORE = (METASTORE, METASTORE_HOST, METASTORE_ID, NO_METASTORE)


class Adoption(NamedTuple):
    """What an index has taken on, or in a preview would take on.

    Attributes:
        what: ``metastore``, ``warehouse``, or ``mark`` where the warehouse's mark names another index.
        before: The one that the index belonged to; None where it did not say. Of a mark the index that it named.
        after: The one that it belongs to now. Of a mark the index.
    """

    what: str
    before: str | None
    after: str


def open_at_home(index: Index, settings: Settings) -> Settings:
    """Return the settings with the index's own metastore and warehouse, which are recorded where they were not.

    It belongs to what it was opened with first (to no metastore, where that was chosen for a new index), but
    for a warehouse that is only a default of the current folder; another one is taken on by ``adopt`` alone.
    One without a record, as ``Index`` alone leaves it, takes what opens it, too.

    Raises:
        InvalidConfigurationError: Another metastore or warehouse was given than the index's own.
        MetastoreUnavailableError: The metastore that was given cannot be asked whether it is the index's own.
    """
    recorded = index.properties.load()
    given = record(settings)
    if METASTORE in recorded:
        # Who does without it for now says nothing of the index.
        given.pop(NO_METASTORE, None)
    if any(recorded.get(name) != value for name, value in given.items()):
        try:
            if _was_never_met(index, settings, recorded):
                recorded = _put(index, given, [METASTORE])
            recorded = _complete(index, settings, given, recorded, empty=_is_empty(index))
        except IndexDatabaseError as error:
            # Who may only read it may open it, too.
            logger.warning("The index %s cannot take down what belongs to it: %s", index.url, error.message)
            recorded = index.properties.load()
    return at_home(settings, recorded, lambda uris: _ask(uris, settings))


def adopt(
    *, index: str | None = None, metastore: MetastoreArgument = UNSET, warehouse: str | None = None,
    storage: Mapping[str, object] | None = None, dry_run: bool = False,
) -> tuple[Adoption, ...]:  # fmt: skip
    """Make a metastore and a warehouse the index's own, in the place of those that it has; return what changes.

    An index has one of each: ``connect`` and ``configure`` take both from it, and refuse others. Tables stay where they
    are; ``Catalog.publish`` fills a metastore that lacks them. Who has the index open keeps to what it had.

    Args:
        index: As for ``connect``.
        metastore: The metastore that the index is to belong to; left out or None, it keeps its own.
        warehouse: The warehouse that new tables are to go to; left out, it keeps its own. Its mark names this index
            from then on, whichever index had it.
        storage: Settings for the warehouse's store, as for ``connect``.
        dry_run: Preview: change nothing.

    Raises:
        InvalidInputError: Neither is named.
        InvalidConfigurationError: An argument is not of its form.
        IndexUnavailableError: The index database does not answer.
        IndexNotAtHeadError: Its schema is of another release.
    """
    settings = Settings.resolve(index=index, metastore=metastore, warehouse=warehouse, storage=storage)
    with Index.open(settings.index) as opened:
        return take_on(opened, settings, dry_run=dry_run)


def take_on(index: Index, settings: Settings, *, dry_run: bool = False) -> tuple[Adoption, ...]:
    """Make the metastore and the warehouse that were named the index's own; return what changes by that.

    Raises:
        InvalidInputError: Neither was named.
    """
    given, recorded = record(settings), index.properties.load()
    chosen = [what for what in (METASTORE, WAREHOUSE) if what in settings.given and what in given]
    if not chosen:
        raise InvalidInputError(
            "Neither a metastore nor a warehouse is named. Name what the index is to belong to: --metastore URIS or "
            "embedded, --warehouse LOCATION. None is no metastore to belong to: who wants to work on the index alone "
            "says so each time (--metastore none, metastore=None)."
        )
    if not dry_run:
        # The next deletion writes the counter, into the new warehouse or anew.
        restoring = _restoring(index, settings, given[WAREHOUSE]) if WAREHOUSE in chosen else {}
        _put(index, given, chosen)
        index.properties.replace(restoring, removed=[COUNTER_WRITTEN] if WAREHOUSE in chosen else [])
    taken = tuple(Adoption(what, recorded.get(what), given[what]) for what in chosen)
    if WAREHOUSE not in chosen:
        return taken
    gone = rewrite_mark(index, settings.open_storage(), given[WAREHOUSE], dry_run=dry_run)
    return taken if gone is None else (*taken, Adoption("mark", str(gone), index.url))


def _restoring(index: Index, settings: Settings, warehouse: str) -> dict[str, str]:
    """Return the property by which an index that is behind its counter stays so in a warehouse that has no counter."""
    counter = IndexCounter(index, settings.open_storage)
    counter.look_whether_restored()
    if counter.behind is None:
        return {}
    place = Location.parse(warehouse).join(f"{COUNTER_FILE}{index.properties.load()[COUNTER_ID]}")
    return {} if settings.open_storage().stat(place) is not None else {RESTORING: "true"}


def look_home(index: Index, settings: Settings) -> Settings:
    """Return the settings with the index's own metastore and warehouse, and record nothing.

    Raises:
        InvalidConfigurationError: Another metastore or warehouse was given than the index's own.
        MetastoreUnavailableError: The metastore that was given cannot be asked whether it is the index's own.
    """
    recorded = index.properties.load()
    if _was_never_met(index, settings, recorded):
        recorded = {name: value for name, value in recorded.items() if name not in _OF_METASTORE}
    return at_home(settings, recorded, lambda uris: _ask(uris, settings))


def _was_never_met(index: Index, settings: Settings, recorded: Mapping[str, str]) -> bool:
    """Return whether an index belongs by name alone to another metastore than the one that is named.

    Who mistypes an address has nothing in the index by that: it never got an answer, and holds nothing.
    """
    if METASTORE not in settings.given or settings.metastore is None:
        return False
    own = recorded.get(METASTORE)
    return own not in (None, address(settings)) and METASTORE_ID not in recorded and _is_empty(index)


def is_another(index: Index, metastore: HiveMetastore) -> bool:
    """Return whether the metastore says that it is another one than the index has known.

    Raises:
        MetastoreUnavailableError: It does not answer.
    """
    recorded = index.properties.load().get(METASTORE_ID)
    return recorded is not None and metastore_id(metastore) != recorded


def learn_embedded(index: Index, found: str | None) -> None:
    """Record who the index's embedded metastore is when it has taken something for the first time."""
    if found is not None:
        index.properties.add_missing({METASTORE_ID: found})


def replace_embedded(index: Index, found: str | None) -> None:
    """Record that the embedded metastore that is there now, and has everything, is the index's own."""
    if found is not None:
        index.properties.replace({METASTORE_ID: found})


def _put(index: Index, given: dict[str, str], chosen: list[str]) -> dict[str, str]:
    """Record the chosen ones; who the metastore is, is learned when it is first talked to."""
    names = [name for what in chosen for name in (_OF_METASTORE if what == METASTORE else (what,))]
    index.properties.replace({name: given[name] for name in names if name in given}, removed=names)
    return index.properties.load()


def _complete(
    index: Index, settings: Settings, given: dict[str, str], recorded: dict[str, str], *, empty: bool
) -> dict[str, str]:
    missing = [what for what in (METASTORE, WAREHOUSE) if what in given and what not in recorded]
    if METASTORE in missing and NO_METASTORE in recorded:
        missing.remove(METASTORE)
        if empty and METASTORE in settings.given:
            # Nothing was made without one.
            recorded = _put(index, given, [METASTORE])
    elif NO_METASTORE in given and empty:
        recorded = index.properties.add_missing({NO_METASTORE: given[NO_METASTORE]})
    # An index that was not named lies beside its warehouse.
    if WAREHOUSE in missing and "index" in settings.given and WAREHOUSE not in settings.given:
        missing.remove(WAREHOUSE)
        if settings.metastore is not None and not empty and NO_METASTORE not in recorded:
            logger.warning(
                "The index %s does not say which warehouse is its own, and %s is a guess. Name it once: --warehouse "
                "(warehouse=… in Python).",
                index.url,
                settings.warehouse,
            )
    if not missing:
        return recorded
    if METASTORE in missing and "metastore" not in settings.given and not empty:
        logger.warning(
            "The index %s had no metastore, and from now on belongs to %s, which `catalog-ext publish --all` brings "
            "its tables. To work on the index alone say so: --metastore none (metastore=None).",
            index.url,
            _shown(given, [METASTORE]),
        )
    logger.info("The index %s from now on belongs to %s", index.url, _shown(given, missing))
    names = [name for what in missing for name in (_OF_METASTORE if what == METASTORE else (what,))]
    return index.properties.add_missing({name: given[name] for name in names if name in given})


def _shown(given: dict[str, str], chosen: list[str]) -> str:
    return " and ".join(f"the {what} {given[what]}" for what in chosen)


def _is_empty(index: Index) -> bool:
    return not index.namespaces.all() and not index.outbox.pending(limit=1)


def _ask(uris: str, settings: Settings) -> str | None:
    client = connect(uris, settings)
    try:
        return metastore_id(client)
    finally:
        client.close()
