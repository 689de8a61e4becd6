"""The standing service."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import stat
from pathlib import Path

import click

from catalog_ext.cli.invocation import Invocation, message_console, output_console
from catalog_ext.cli.options import json_option
from catalog_ext.cli.output import echo_json, note
from catalog_ext.connector.build import connector_jar
from catalog_ext.metastore.errors import EnvironmentSetupError, InvalidConfigurationError
from catalog_ext.service.server import LOOPBACK, Service, new_token
from catalog_ext.spark.session import CATALOG_CLASS, EXTENSIONS_CLASS

logger = logging.getLogger(__name__)

_SHORTEST_TOKEN = 32
_DRAIN_SECONDS = 30


@click.command()
@click.option("--host", default=LOOPBACK, show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="Port, 0 for a free one.")
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File that holds the token; made, for its owner alone, unless it is there. Default: a new token "
    "at each start, printed.",
)
@click.option("--name", default="lake", show_default=True, help="The catalog's name in SQL.")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"], case_sensitive=False),
    help="What is logged on standard error: debug has every request, info every commit.  "
    "[default: info, with --debug debug]",
)
@click.option("--follow", is_flag=True, help="Follow the metastore in the background: see `catalog-ext follow`.")
@json_option
@click.pass_obj
def serve(
    invocation: Invocation,
    host: str,
    port: int,
    token_file: Path | None,
    name: str,
    log_level: str | None,
    follow: bool,
    as_json: bool,
) -> None:
    """Serve the catalog to Spark sessions until interrupted.

    Prints the settings that a Spark session needs. For the Thrift server, Spark Connect, spark-sql, and several drivers
    over one index. SIGTERM and Ctrl-C end it when the requests under way are answered, after 30 seconds at most.
    """
    _log(log_level or ("debug" if invocation.debug else "info"))
    token = _token(token_file)
    # First of all: it may have to be compiled, and who connects meanwhile would wait for it.
    jar = _jar()
    with invocation.catalog(makes_index=True) as catalog:
        service = Service(
            catalog, host=host, port=port, token=token, drain_seconds=_DRAIN_SECONDS, follow=follow or None
        )
        settings = spark_settings(name, service.uri, token, token_file, jar)
        if as_json:
            echo_json({"uri": service.uri, "spark": settings})
        else:
            _print_settings(service.uri, settings)
        if host not in (LOOPBACK, "localhost", "::1"):
            note(
                message_console(), f"warning: {host} can be reached from other machines; the token travels unencrypted."
            )
        logger.info("Process %d serves the catalog %s at %s", os.getpid(), name, service.uri)
        catalog.keep_delivering()
        with contextlib.suppress(KeyboardInterrupt):
            # The server hands its signal on when it has ended; SIGTERM too has to end as orderly as Ctrl-C.
            signal.signal(signal.SIGTERM, signal.default_int_handler)
            service.run()
    note(message_console(), "stopped")


def spark_settings(name: str, uri: str, token: str, token_file: Path | None, jar: str | None) -> dict[str, str]:
    """Return what a Spark session sets to use the service."""
    prefix = f"spark.sql.catalog.{name}"
    settings = {"spark.sql.extensions": EXTENSIONS_CLASS, prefix: CATALOG_CLASS, f"{prefix}.uri": uri}
    if token_file is None:
        settings[f"{prefix}.token"] = token
    else:
        settings[f"{prefix}.token-file"] = str(token_file.absolute())
    if jar is not None:
        settings["spark.jars"] = jar
    return settings


def _jar() -> str | None:
    try:
        return str(connector_jar())
    except EnvironmentSetupError as error:
        # The service itself needs no Java: Spark may run elsewhere, and have the jar there.
        note(message_console(), f"warning: the connector's jar cannot be built here: {error.message}")
        return None


def _print_settings(uri: str, settings: dict[str, str]) -> None:
    console = output_console()
    note(console, f"# catalog-ext serves at {uri}; settings for spark-defaults.conf:")
    width = max(map(len, settings))
    for key, value in settings.items():
        note(console, f"{key:<{width}}  {value}")
    console.file.flush()


def _log(level: str) -> None:
    """Log on standard error with the time, as what runs for months has to."""
    parent = logging.getLogger("catalog_ext")
    parent.setLevel(level.upper())
    for handler in parent.handlers:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))


def _token(file: Path | None) -> str:
    if file is None:
        return new_token()
    try:
        if not file.exists():
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="ascii") as out:
                out.write(f"{new_token()}\n")
        token = file.read_text(encoding="ascii").strip()
        if file.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            logger.warning("Others than its owner may use the token file %s: chmod 600 %s", file, file)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfigurationError(f"The token file {file} cannot be read or made: {error}.") from error
    if len(token) < _SHORTEST_TOKEN:
        raise InvalidConfigurationError(
            f"The token in {file} has {len(token)} characters; at least {_SHORTEST_TOKEN} are needed. "
            f"Remove the file to get a new one."
        )
    return token
