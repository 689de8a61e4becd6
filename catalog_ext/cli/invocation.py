"""The global options, and how commands get a catalog and consoles from them."""

from __future__ import annotations

import sys
import time
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click

from catalog_ext.conf.resolved import EMBEDDED, UNSET, MetastoreArgument, Settings, hive_site
from catalog_ext.metastore.errors import EnvironmentSetupError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TextIO

    from rich.console import Console

    from catalog_ext.catalog import Catalog
    from catalog_ext.metastore.hive.outbox.delivery import DeliveryReport
    from catalog_ext.metastore.index import Index

_SETTLE_TIMEOUT_S = 30.0
_SETTLE_PAUSE_S = 0.1


@dataclass(frozen=True, slots=True)
class Invocation:
    """The global options of one run of the command line.

    Attributes:
        index: The index, None for the default.
        metastore: The metastore, ``UNSET`` for the default, None for an index without a metastore.
        warehouse: The warehouse, None for the default.
        storage: Settings of the stores.
        debug: Whether errors show their traceback.
    """

    index: str | None = None
    metastore: MetastoreArgument = UNSET
    warehouse: str | None = None
    storage: Mapping[str, str] = field(default_factory=dict)
    debug: bool = False

    def catalog(
        self, *,
        with_metastore: bool = True, makes_index: bool = False, at_once: bool = False, looks: bool = False,
    ) -> Catalog:  # fmt: skip
        """Return the catalog; the caller closes it.

        Args:
            with_metastore: Whether the catalog connects to the metastore.
            makes_index: Whether the command creates a missing index.
            at_once: Whether to start the embedded metastore in the background now, not with the first delivery.
            looks: Whether the command only reads, and creates no embedded metastore.

        Raises:
            InvalidConfigurationError: There is no index, and the command does not create one.
            EnvironmentSetupError: The embedded metastore cannot be started. Nothing was created.
        """
        # Imported here: completion and ``--help`` would load these modules for nothing.
        from catalog_ext.metastore.runtime.garbage import collecting_rarely

        with collecting_rarely():
            from catalog_ext.catalog import Catalog
        from catalog_ext.identity.home import look_home, open_at_home
        from catalog_ext.metastore_sync.connection import Embedded

        embedded = Embedded.NEVER_MADE if looks else Embedded.AHEAD if at_once else Embedded.WHEN_NEEDED
        settings = self.settings(with_metastore=with_metastore)
        self.require_index(or_none=makes_index)
        if makes_index:
            self.require_java()
        # A command that only reads must not record a mistyped metastore as the index's own.
        at_home = open_at_home if makes_index else look_home
        named = None if with_metastore or self.metastore in (UNSET, None) else self.settings()

        def checked(index: Index, found: Settings) -> Settings:
            if named is not None:
                # Check the named metastore even if the command would not connect to it: a user who names another
                # index's metastore has probably opened the wrong index.
                look_home(index, named)
            return at_home(index, found)

        catalog = Catalog(settings, settings.open_storage, at_home=checked, embedded=embedded)
        catalog.look_whether_restored()
        if at_once:
            _require_embedded(catalog)
        return catalog

    def require_java(self) -> None:
        """Refuse to create an index with the embedded metastore if that cannot be started.

        Raises:
            EnvironmentSetupError: Java or PySpark is missing, or does not fit.
        """
        from catalog_ext.metastore.index.database.urls import missing_file

        settings = self.settings()
        # An existing index records its own metastore, which may not be the default.
        if missing_file(settings.index) is not None:
            _check_embedded(settings)

    def require_index(self, *, or_none: bool = False) -> None:
        """Refuse a missing SQLite index, and another program's file, so that a mistyped name creates no index.

        Raises:
            InvalidConfigurationError: There is no index.
        """
        from catalog_ext.conf.index_suggestions import no_index
        from catalog_ext.metastore.index.database.sqlite_file import Contents, contents
        from catalog_ext.metastore.index.database.urls import index_file

        file = index_file(self.settings(with_metastore=False).index)
        found = Contents.INDEX if file is None else contents(file)
        if file is not None and found is not Contents.INDEX and not (or_none and found is Contents.NOTHING):
            raise no_index(file, found)

    def require_metastore(self) -> None:
        """Refuse to create an index for an import from a metastore that does not answer.

        Raises:
            MetastoreUnavailableError: The metastore does not answer.
        """
        from catalog_ext.metastore.index.database.urls import missing_file

        settings = self.settings()
        if missing_file(settings.index) is not None and settings.metastore not in (None, EMBEDDED):
            with closing(settings.connect_metastore(str(settings.metastore))) as client:
                client.list_databases()

    def settings(self, *, with_metastore: bool = True) -> Settings:
        """Return the resolved settings, without opening anything."""
        metastore = self.metastore if with_metastore else None
        return Settings.resolve(
            index=self.index,
            metastore=metastore,
            warehouse=self.warehouse,
            storage=self.storage,
            site=hive_site(metastore),
        )


def _require_embedded(catalog: Catalog) -> None:
    try:
        _check_embedded(catalog.settings)
    except EnvironmentSetupError:
        catalog.close()
        raise


def _check_embedded(settings: Settings) -> None:
    if settings.metastore != EMBEDDED:
        return
    from catalog_ext.metastore.hive.embedded.embedded_metastore import EmbeddedMetastore

    try:
        EmbeddedMetastore(settings.embedded_folder).check_can_start()
    except EnvironmentSetupError as error:
        raise EnvironmentSetupError(
            f"The embedded metastore cannot be started. {error.message} Nothing was made or changed. To work on the "
            "index alone, without a metastore: catalog-ext --metastore none ….",
            error.parameters,
        ) from error


def settle(catalog: Catalog) -> DeliveryReport | None:
    """Wait until all pending changes are delivered to the embedded metastore, which ends with this process.

    Without pending changes the metastore is not started.

    Returns:
        The report of the last delivery; it lists messages that are still pending after an error or after the timeout.
            None if the metastore is not the embedded one.
    """
    if not catalog.metastore.embedded:
        return None
    deadline = time.monotonic() + _SETTLE_TIMEOUT_S
    while True:
        report = catalog.deliver()
        # A pending message without an error is being delivered by another thread, or waits for its next attempt.
        if not report.pending or report.error is not None or time.monotonic() > deadline:
            return report
        time.sleep(_SETTLE_PAUSE_S)


def output_console() -> Console:
    """Return the console of results, on standard output."""
    return _console(sys.stdout)


def message_console() -> Console:
    """Return the console of progress and messages, on standard error."""
    return _console(sys.stderr)


def _console(stream: TextIO) -> Console:
    from rich.console import Console

    # Printed names come from stores and users, and must not be interpreted as markup.
    return Console(file=stream, markup=False, highlight=False, emoji=False)


def pairs(values: tuple[str, ...], option: str) -> dict[str, str]:
    """Return the map of ``KEY=VALUE`` options.

    Raises:
        click.UsageError: A value has no ``=``.
    """
    result: dict[str, str] = {}
    for value in values:
        key, equals, text = value.partition("=")
        if not equals or not key.strip():
            raise click.UsageError(f"{option} takes KEY=VALUE; {value[:80]!r} has no key or no '='.")
        result[key.strip()] = text
    return result
