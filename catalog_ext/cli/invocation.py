"""What the global options say, and how commands get a catalog and consoles from it."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click
from rich.console import Console

from catalog_ext.catalog import Catalog
from catalog_ext.conf.resolved import UNSET, MetastoreArgument, Settings, hive_site
from catalog_ext.metastore.errors import InvalidConfigurationError
from catalog_ext.metastore.index.database.urls import missing_file
from catalog_ext.metastore_sync.home import look_home

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog_ext.metastore.hive.outbox.delivery import DeliveryReport

_SETTLE_TIMEOUT_S = 30.0
_PLAIN_WIDTH = 200
"""Characters of a line where the output is no terminal: tables in files and pipes are not cut to a screen."""


@dataclass(frozen=True, slots=True)
class Invocation:
    """One run of the command line.

    Attributes:
        index: The index, None for the default.
        metastore: The metastore, ``UNSET`` for the default, None for none.
        warehouse: The warehouse, None for the default.
        storage: Settings of the stores.
        debug: Whether errors show their traceback.
    """

    index: str | None = None
    metastore: MetastoreArgument = UNSET
    warehouse: str | None = None
    storage: Mapping[str, str] = field(default_factory=dict)
    debug: bool = False

    def catalog(self, *, with_metastore: bool = True, makes_index: bool = False) -> Catalog:
        """Return the catalog; close it.

        Args:
            with_metastore: Whether the command concerns the metastore. Where it does not, none is connected to, and the
                embedded one is not started.
            makes_index: Whether the command makes an index that is not there.

        Raises:
            InvalidConfigurationError: There is no index, and the command makes none.
        """
        settings = self.settings(with_metastore=with_metastore)
        if makes_index:
            return Catalog(settings, settings.open_storage)
        self.require_index()
        # Who looks at a table, or mistypes its metastore, does not say what a whole index belongs to.
        return Catalog(settings, settings.open_storage, at_home=look_home)

    def require_index(self) -> None:
        """Refuse a SQLite index that is not there: a wrong folder is no new one.

        Raises:
            InvalidConfigurationError: There is no index.
        """
        if missing := missing_file(self.settings().index):
            raise InvalidConfigurationError(
                f"There is no index at {missing}. Name the right one by --index, or work in its folder; "
                "catalog-ext register, import, serve and migrate make one, and so does a Spark session.",
                {"index": str(missing)},
            )

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


def settle(catalog: Catalog) -> DeliveryReport | None:
    """Wait until the embedded metastore, which starts and ends with this process, has what it is to have.

    Returns:
        What is left, after a refusal or half a minute; None where the metastore is not the embedded one.
    """
    if not catalog.metastore.embedded:
        return None
    deadline = time.monotonic() + _SETTLE_TIMEOUT_S
    while True:
        report = catalog.deliver()
        # Pending without an error is what another thread is delivering, or what waits for its next attempt.
        if not report.pending or report.error is not None or time.monotonic() > deadline:
            return report
        time.sleep(0.1)


def output_console() -> Console:
    """Return the console of results, on standard output."""
    return _console(sys.stdout)


def message_console() -> Console:
    """Return the console of progress and messages, on standard error."""
    return _console(sys.stderr)


def _console(stream: object) -> Console:
    is_terminal = bool(getattr(stream, "isatty", lambda: False)())
    width = None if is_terminal or os.environ.get("COLUMNS") else _PLAIN_WIDTH
    # What is printed comes from stores and users: it is never taken for markup.
    return Console(file=stream, width=width, markup=False, highlight=False, emoji=False)  # type: ignore[arg-type]


def pairs(values: tuple[str, ...], option: str) -> dict[str, str]:
    """Return the map of ``KEY=VALUE`` options.

    Raises:
        click.UsageError: One has no ``=``.
    """
    result: dict[str, str] = {}
    for value in values:
        key, equals, text = value.partition("=")
        if not equals or not key.strip():
            raise click.UsageError(f"{option} takes KEY=VALUE; {value[:80]!r} has no key or no '='.")
        result[key.strip()] = text
    return result
