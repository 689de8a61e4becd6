"""The checks of the command ``doctor``. Each result is a finding that contains the remedy for its problem."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from catalog_ext.conf.resolved import EMBEDDED, embedded_folder
from catalog_ext.connector.build import (
    check_pyspark,
    connector_jar,
    fitting_java,
    pyspark_requirement,
    spark_version,
)
from catalog_ext.connector.packed import ARCHIVE
from catalog_ext.identity.home import look_home, lost_embedded
from catalog_ext.identity.index_counter import IndexCounter
from catalog_ext.identity.known_metastore import KnownMetastore
from catalog_ext.identity.record import EMBEDDED_AT, INDEX_ID, METASTORE, NO_METASTORE, WAREHOUSE
from catalog_ext.identity.warehouse_mark import read_mark, shared
from catalog_ext.metastore.backports import StrEnum
from catalog_ext.metastore.errors import CatalogExtError
from catalog_ext.metastore.hive.embedded.embedded_metastore import EmbeddedMetastore
from catalog_ext.metastore.hive.embedded.lease import read_state
from catalog_ext.metastore.index import Index
from catalog_ext.metastore.index.database.urls import missing_file, shown_index
from catalog_ext.metastore.runtime.java import find_java
from catalog_ext.metastore.runtime.processes import runs
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.storage.store import Storage
from catalog_ext.spark.storage import hadoop_version
from catalog_ext.sync.tables import compare_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from catalog_ext.conf.resolved import Settings

_EMBEDDED_START_S = 90.0
_PENDING_LIMIT = 1000
_NAMED = 3


class CheckState(StrEnum):
    """The result of a check."""

    OK = "ok"
    WARNING = "warning"
    WRONG = "wrong"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of one check.

    Attributes:
        area: ``index``, ``metastore``, ``store`` or ``spark``.
        check: The name of the check.
        state: Its result.
        found: The finding; for a problem, with the remedy.
    """

    area: str
    check: str
    state: CheckState
    found: str

    @property
    def needs_action(self) -> bool:
        """Return whether the state is a warning or an error, so that ``found`` may contain a remedy."""
        return self.state in (CheckState.WARNING, CheckState.WRONG)


def findings(settings: Settings, *, quick: bool) -> Iterator[Finding]:
    """Yield the findings of every check; quick checks start no server and compile nothing."""
    yield from _index(settings)
    settings, home = _home(settings)
    yield from home
    if all(finding.state is CheckState.OK for finding in home):
        yield from _metastore(settings, quick=quick)
    else:
        yield Finding("metastore", "configured", CheckState.SKIPPED, "what the index belongs to comes first")
    yield from _store(settings)
    yield from _spark(quick=quick)


def _looked(area: str, check: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(area, check, CheckState.OK, look())
    except CatalogExtError as error:
        return Finding(area, check, CheckState.WRONG, error.message)


def _index(settings: Settings) -> Iterator[Finding]:
    try:
        missing = missing_file(settings.index)
        if missing is not None:
            found = f"no index exists at {missing} yet: catalog-ext init or register makes it, or a Spark session"
            yield Finding("index", "reachable", CheckState.WARNING, found)
            return
        index = Index.connect(settings.index)
    except CatalogExtError as error:
        yield Finding("index", "reachable", CheckState.WRONG, error.message)
        return
    with index:
        reached = _looked(
            "index", "reachable", lambda: f"{index.url} answers (revision {index.current_revision() or 'none'})"
        )
        yield reached
        if reached.state is CheckState.OK:
            yield _schema(index)
            yield _outbox(index)


def _home(settings: Settings) -> tuple[Settings, list[Finding]]:
    """Return the settings with the index's own metastore and warehouse, and findings if the user named other ones."""
    try:
        if missing_file(settings.index) is not None:
            return settings, []
        index = Index.connect(settings.index)
    except CatalogExtError:
        return settings, []  # _index() has reported the error.
    with index:
        try:
            if index.current_revision() != index.head_revision():
                return settings, [Finding("index", "belongs to", CheckState.SKIPPED, "the schema comes first")]
        except CatalogExtError:
            return settings, []  # _index() has reported the error.
        looked = _looked("index", "belongs to", lambda: _belongings(index))
        if looked.state is not CheckState.OK:
            return settings, []
        try:
            return look_home(index, settings), [looked]
        except CatalogExtError as error:
            return settings, [replace(looked, state=CheckState.WRONG, found=error.message)]


def _belongings(index: Index) -> str:
    recorded = index.properties.load()
    own = [f"the {what} {_place(recorded[what])}" for what in (METASTORE, WAREHOUSE) if what in recorded]
    if NO_METASTORE in recorded and METASTORE not in recorded:
        own = ["no metastore", *own]
    return " and ".join(own) or "nothing yet; what it is opened with next becomes its own"


def _place(recorded: str) -> str:
    """Return a recorded metastore as users write it: for the embedded one its own folder, not the parent folder."""
    if not recorded.startswith(EMBEDDED_AT):
        return recorded
    return f"{EMBEDDED_AT}{embedded_folder(Path(recorded.removeprefix(EMBEDDED_AT)))}"


def _schema(index: Index) -> Finding:
    revision, head = index.current_revision(), index.head_revision()
    if revision == head:
        return Finding("index", "schema", CheckState.OK, f"at head ({head})")
    if revision is None:
        # A missing schema is an error in a server's database, which was created for the index. A SQLite file may belong
        # to another program, so this is only a warning.
        state = CheckState.WARNING if index.url.startswith("sqlite") else CheckState.WRONG
        return Finding("index", "schema", state, f"{index.url} holds no index yet. Run: catalog-ext init")
    found = f"at {revision}, this release wants {head}. Run: catalog-ext migrate"
    return Finding("index", "schema", CheckState.WRONG, found)


def _outbox(index: Index) -> Finding:
    if index.current_revision() != index.head_revision():
        return Finding("index", "changes for the metastore", CheckState.SKIPPED, "the schema comes first")
    pending = index.outbox.pending(limit=_PENDING_LIMIT)
    if not pending:
        return Finding("index", "changes for the metastore", CheckState.OK, "none is pending")
    count = f"{len(pending):,}{'+' if len(pending) == _PENDING_LIMIT else ''} pending"
    failed = [m for m in pending if m.last_error]
    if not failed:
        found = f"{count}. They are delivered with the next change, or by catalog-ext serve"
        return Finding("index", "changes for the metastore", CheckState.WARNING, found)
    aside = sum(m.set_aside for m in failed)
    reason = f"{failed[0].subject}: {failed[0].last_error}"
    found = f"{count}, {len(failed):,} failed, {aside:,} of them set aside ({reason}). See: catalog-ext outbox"
    return Finding("index", "changes for the metastore", CheckState.WRONG, found)


def _metastore(settings: Settings, *, quick: bool) -> Iterator[Finding]:
    if settings.metastore is None:
        yield Finding(
            "metastore", "configured", CheckState.SKIPPED, "none: Hive engines see nothing of what is registered"
        )
    elif settings.metastore != EMBEDDED:
        yield from _asked("reachable", str(settings.metastore), settings)
    else:
        yield from _embedded(settings, quick=quick)


def _embedded(settings: Settings, *, quick: bool) -> Iterator[Finding]:
    lost = _lost(settings)
    if lost is not None:
        yield Finding("metastore", "identity", CheckState.WRONG, lost)
    if not settings.embedded_folder.exists():
        found = "not there yet; made by the first change" if lost is None else "not made anew by looking"
        yield Finding("metastore", "embedded", CheckState.SKIPPED, found)
    elif quick:
        running = read_state(settings.embedded_folder)
        if running is not None and runs(running.pid):
            yield from _asked("embedded", running.uri, settings)
        else:
            yield Finding(
                "metastore", "embedded", CheckState.SKIPPED, "it does not run, and is not started with --quick"
            )
    else:
        server = EmbeddedMetastore(settings.embedded_folder)
        server.start_in_background()
        try:
            yield from _asked("embedded", server.uri(_EMBEDDED_START_S), settings)
        except CatalogExtError as error:
            yield Finding("metastore", "embedded", CheckState.WRONG, error.message)
        finally:
            server.stop()


def _lost(settings: Settings) -> str | None:
    """Return an error text if the index's embedded metastore is missing or was replaced by another one."""
    try:
        if missing_file(settings.index) is not None:
            return None
        with Index.connect(settings.index) as index:
            at_head = index.current_revision() == index.head_revision()
            return lost_embedded(settings, index.properties.load()) if at_head else None
    except CatalogExtError:
        return None  # _index() has reported the error.


def _asked(check: str, uris: str, settings: Settings) -> Iterator[Finding]:
    reached = _looked("metastore", check, lambda: _ask(uris, settings))
    yield reached
    if reached.state is CheckState.OK:
        if settings.metastore != EMBEDDED:
            yield from _identity(uris, settings)
        yield _tables_on_both_sides(uris, settings)


def _identity(uris: str, settings: Settings) -> Iterator[Finding]:
    """Yield an error if the metastore is not the one that the index has used before."""
    if missing_file(settings.index) is not None:
        return
    try:
        with closing(settings.connect_metastore(uris)) as client, Index.connect(settings.index) as index:
            if index.current_revision() == index.head_revision():
                KnownMetastore(index).check(client, learns=False)
    except CatalogExtError as error:
        yield Finding("metastore", "identity", CheckState.WRONG, error.message)


def _ask(uris: str, settings: Settings) -> str:
    with closing(settings.connect_metastore(uris)) as client:
        begun = time.monotonic()
        databases = client.list_databases()
        milliseconds = (time.monotonic() - begun) * 1000
    noun = "database" if len(databases) == 1 else "databases"
    return f"{uris} answers in {milliseconds:.0f} ms and has {len(databases):,} {noun}"


def _tables_on_both_sides(uris: str, settings: Settings) -> Finding:
    check = "tables"
    if missing_file(settings.index) is not None:
        return Finding("metastore", check, CheckState.SKIPPED, "there is no index yet")
    try:
        with closing(settings.connect_metastore(uris)) as client, Index.connect(settings.index) as index:
            if index.current_revision() != index.head_revision():
                return Finding("metastore", check, CheckState.SKIPPED, "the index's schema comes first")
            compared = compare_tables(index, client)
    except CatalogExtError as error:
        return Finding("metastore", check, CheckState.WRONG, error.message)
    wrong = (*compared.missing, *compared.elsewhere)
    if not wrong:
        return Finding(
            "metastore", check, CheckState.OK, f"{compared.compared:,} compared with the index, none is missing"
        )
    parts = [
        f"{len(names):,} {what} ({', '.join(names[:_NAMED])}{', …' if len(names) > _NAMED else ''})"
        for what, names in (("are missing", compared.missing), ("lie elsewhere there", compared.elsewhere))
        if names
    ]
    found = f"of the index's tables {' and '.join(parts)}. Run: catalog-ext publish --all"
    return Finding("metastore", check, CheckState.WRONG, found)


def _store(settings: Settings) -> Iterator[Finding]:
    def look() -> str:
        storage = Storage(settings.storage)
        place = Location.parse(settings.warehouse)
        if storage.stat(place) is not None:
            storage.check_directory(place)
            return f"{settings.warehouse} can be read ({len(storage.list_directory(place)):,} entries)"
        if place.scheme == "s3a":
            # The warehouse's directory may be missing, since the first managed table creates it. The bucket must exist:
            # listing it raises if it does not.
            storage.list_directory(Location("s3a", place.bucket, ""))
        return f"{settings.warehouse} is not there yet; made with the first managed table"

    reached = _looked("store", "warehouse", look)
    yield reached
    if reached.state is CheckState.OK:
        yield _mark(settings)
        yield from _counter(settings)


def _counter(settings: Settings) -> Iterator[Finding]:
    """Yield a finding on the index's change counter: a copy in the warehouse that is higher shows a restored index."""
    area, check = "index", "not restored"
    try:
        if missing_file(settings.index) is not None:
            return
        with Index.connect(settings.index) as index:
            if index.current_revision() != index.head_revision():
                return
            current, found = IndexCounter(index, lambda: Storage(settings.storage)).state()
    except CatalogExtError as error:
        yield Finding(area, check, CheckState.WRONG, error.message)
        return
    state = CheckState.SKIPPED if current is None else CheckState.OK if current else CheckState.WRONG
    yield Finding(area, check, state, found)


def _mark(settings: Settings) -> Finding:
    """Return the finding about the warehouse's mark, a file in the warehouse with the id of the index that owns it."""
    check, place = "index of the warehouse", Location.parse(settings.warehouse)
    try:
        mark = read_mark(Storage(settings.storage), place)
    except CatalogExtError as error:
        return Finding("store", check, CheckState.WARNING, error.message)
    if mark is None:
        return Finding("store", check, CheckState.OK, "not marked yet; the first managed table marks it")
    url = shown_index(settings.index)
    try:
        if missing_file(settings.index) is not None:
            return Finding("store", check, CheckState.WARNING, shared(place, mark, url, f"{url}, once it is made,"))
        with Index.connect(settings.index) as index:
            own = index.properties.load().get(INDEX_ID) if index.current_revision() == index.head_revision() else None
            url = index.url
    except CatalogExtError:
        return Finding("store", check, CheckState.SKIPPED, f"{mark}; the index comes first")
    if mark.index == own:
        return Finding("store", check, CheckState.OK, f"this one, by the mark of {mark}")
    return Finding("store", check, CheckState.WRONG, shared(place, mark, url, f"{url} (id {own or 'none yet'})"))


def _spark(*, quick: bool) -> Iterator[Finding]:
    spark = _looked("spark", "Spark", lambda: f"{spark_version()} (Hadoop {hadoop_version()})")
    java = _looked("spark", "Java", lambda: str(find_java() if spark.state is CheckState.WRONG else fitting_java()))
    yield java
    yield spark
    yield _python_of_spark(spark)
    if CheckState.WRONG in (java.state, spark.state):
        yield Finding("spark", "connector", CheckState.SKIPPED, "Java and Spark come first")
    elif quick and not ARCHIVE.is_file():
        yield Finding("spark", "connector", CheckState.SKIPPED, "not looked at with --quick: a checkout compiles it")
    else:
        yield _looked("spark", "connector", lambda: str(connector_jar()))


def _python_of_spark(spark: Finding) -> Finding:
    try:
        found = version("pyspark")
    except PackageNotFoundError:
        return Finding("spark", "PySpark", CheckState.WRONG, f"not installed. Run: pip install {pyspark_requirement()}")
    if spark.state is CheckState.WRONG:
        return Finding("spark", "PySpark", CheckState.SKIPPED, f"{found}; Spark comes first")
    return _looked("spark", "PySpark", lambda: _checked(found))


def _checked(pyspark: str) -> str:
    check_pyspark(pyspark)
    return pyspark
