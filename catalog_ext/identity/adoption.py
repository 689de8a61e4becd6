"""Replaces the metastore or warehouse (or both) that an index records as its own: the command ``adopt``."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from catalog_ext.conf.resolved import UNSET, MetastoreArgument, Settings
from catalog_ext.identity.counter_file import COUNTER_FILE, COUNTER_ID, COUNTER_WRITTEN
from catalog_ext.identity.index_counter import IndexCounter
from catalog_ext.identity.record import METASTORE, WAREHOUSE, record, replace_record
from catalog_ext.identity.warehouse_mark import rewrite_mark
from catalog_ext.metastore.errors import InvalidInputError
from catalog_ext.metastore.index import Index
from catalog_ext.metastore.index.tables.incarnations import RESTORING
from catalog_ext.metastore.storage.locations import Location

if TYPE_CHECKING:
    from collections.abc import Mapping


class Adoption(NamedTuple):
    """A property of an index that was changed, or in a preview would be.

    Attributes:
        what: ``metastore``, ``warehouse``, or ``mark`` if the warehouse's mark names another index.
        before: The previous metastore or warehouse; None if it was not recorded. For a mark, the index that it named.
        after: The present metastore or warehouse. For a mark, this index.
    """

    what: str
    before: str | None
    after: str


def adopt(
    *, index: str | None = None, metastore: MetastoreArgument = UNSET, warehouse: str | None = None,
    storage: Mapping[str, object] | None = None, dry_run: bool = False,
) -> tuple[Adoption, ...]:  # fmt: skip
    """Make a metastore and a warehouse the index's own, in place of its present ones; return the changes.

    An index has one of each: ``connect`` and ``configure`` take both from it, and refuse others. Tables stay where they
    are; ``Catalog.publish`` fills a metastore that lacks them. Processes that have the index open keep the old ones.

    Args:
        index: As for ``connect``.
        metastore: The new metastore; left out or None, the index keeps its own.
        warehouse: The new warehouse for new tables; left out, the index keeps its own. The new warehouse's mark names
            this index from then on, whichever index it named before.
        storage: Settings for the warehouse's store, as for ``connect``.
        dry_run: Preview: change nothing.

    Raises:
        InvalidInputError: Neither a metastore nor a warehouse is named.
        InvalidConfigurationError: An argument is malformed.
        IndexUnavailableError: The index database does not answer.
        IndexNotAtHeadError: The index has the schema of another release.
    """
    settings = Settings.resolve(index=index, metastore=metastore, warehouse=warehouse, storage=storage)
    with Index.open(settings.index) as opened:
        return take_on(opened, settings, dry_run=dry_run)


def take_on(index: Index, settings: Settings, *, dry_run: bool = False) -> tuple[Adoption, ...]:
    """Make the named metastore and warehouse the index's own; return the changes, none for equal values.

    Raises:
        InvalidInputError: Neither a metastore nor a warehouse is named.
    """
    given, recorded = record(settings), index.properties.load()
    chosen = [what for what in (METASTORE, WAREHOUSE) if what in settings.given and what in given]
    if not chosen:
        raise InvalidInputError(
            "Neither a metastore nor a warehouse is named. Name the one that the index belongs to: --metastore URIS or "
            "embedded, --warehouse LOCATION. To work on the index alone, say so each time: --metastore none, or "
            "metastore=None."
        )
    if not dry_run:
        # Forget that a counter was written: in the new warehouse its file is missing until the next deletion writes it.
        restoring = _restoring(index, settings, given[WAREHOUSE]) if WAREHOUSE in chosen else {}
        replace_record(index, given, *chosen)
        index.properties.replace(restoring, removed=[COUNTER_WRITTEN] if WAREHOUSE in chosen else [])
    changed = [what for what in chosen if recorded.get(what) != given[what]]
    taken = tuple(Adoption(what, recorded.get(what), given[what]) for what in changed)
    if WAREHOUSE not in chosen:
        return taken
    gone = rewrite_mark(index, settings.open_storage(), given[WAREHOUSE], dry_run=dry_run)
    return taken if gone is None else (*taken, Adoption("mark", str(gone), index.url))


def _restoring(index: Index, settings: Settings, warehouse: str) -> dict[str, str]:
    """Return the property that marks a restored index as such, if the new warehouse cannot show it; else empty.

    The new warehouse cannot show it if it has no counter of this index.
    """
    counter = IndexCounter(index, settings.open_storage)
    counter.look_whether_restored()
    if counter.behind is None:
        return {}
    place = Location.parse(warehouse).join(f"{COUNTER_FILE}{index.properties.load()[COUNTER_ID]}")
    return {} if settings.open_storage().stat(place) is not None else {RESTORING: "true"}
