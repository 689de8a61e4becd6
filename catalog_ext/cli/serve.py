"""The command ``serve``: runs the catalog as a service for Spark sessions."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import stat
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from catalog_ext.cli.invocation import Invocation, message_console, output_console
from catalog_ext.cli.log_lines import write_log
from catalog_ext.cli.options import json_option
from catalog_ext.cli.output import echo_json, note
from catalog_ext.conf.keys import LOG_FORMAT, LogFormat
from catalog_ext.conf.metastore_keys import FOLLOW_DATABASES
from catalog_ext.conf.service_keys import READ_TOKEN_FILE, allowed_locations
from catalog_ext.metastore.errors import EnvironmentSetupError, InvalidConfigurationError
from catalog_ext.service import LOOPBACK
from catalog_ext.service.addresses import authority, is_loopback, is_wildcard

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_ext.service.server import Service

logger = logging.getLogger(__name__)

_SHORTEST_TOKEN = 32
_DRAIN_SECONDS = 30


@click.command(short_help="Serve the catalog to Spark sessions over HTTP.")
@click.option("--host", default=LOOPBACK, show_default=True, help="Address to listen on; ::1 and :: for IPv6.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="Port; 0 picks a free one."
)
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File with the access token; created, readable by its owner only, if it is missing. Default: a new token "
    "at each start, which is printed.",
)
@click.option("--name", default="lake", show_default=True, help="Name of the catalog in SQL.")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"], case_sensitive=False),
    help="Log level on standard error: debug logs every request, info every commit.  [default: info, with the "
    "global --debug debug]",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"], case_sensitive=False),
    help="Log lines as text, or as one JSON object each.  [default: the setting log-format, otherwise text]",
)
@click.option(
    "--metrics-token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File with a token for Prometheus that opens /metrics only; created if it is missing. Default: /metrics "
    "requires the access token.",
)
@click.option(
    "--read-token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File with a read-only token: its sessions can SELECT and open the page, and every write is refused. "
    "Created if it is missing.  [default: the setting read-token-file, otherwise none]",
)
@click.option("--follow", is_flag=True, help="Follow the metastore in the background, as `catalog-ext follow` does.")
@click.option(
    "--databases",
    metavar="NAMES",
    help="With --follow: databases whose new tables are imported, comma-separated; * for all. Default: "
    "`follow.databases` (none).",
)
@click.option(
    "--page/--no-page", default=True, show_default=True, help="Serve a read-only page with the tables for a browser."
)
@json_option
@click.pass_obj
def serve(
    invocation: Invocation, host: str, port: int, token_file: Path | None, name: str, log_level: str | None,
    log_format: LogFormat | None, metrics_token_file: Path | None, read_token_file: Path | None, follow: bool,
    databases: str | None, page: bool, as_json: bool,
) -> None:  # fmt: skip
    """Serve the catalog to Spark sessions over HTTP, until interrupted.

    For the Thrift server, Spark Connect, spark-sql, and several drivers that share one index. Prints the Spark settings
    that connect a session. SIGTERM and Ctrl-C stop it after running requests are answered, within 30 seconds.
    """
    from catalog_ext.service.request_metrics import sent
    from catalog_ext.service.server import Service

    if databases is not None and not follow:
        raise click.UsageError("--databases goes with --follow.")
    chosen = None if databases is None else FOLLOW_DATABASES.value_of(databases)
    lines = log_format or LOG_FORMAT.read(invocation.settings().conf)
    level = log_level or ("debug" if invocation.debug else "info")
    write_log(level, lines)
    read_token_file = read_token_file or _read_token_file(invocation)
    token, metrics_token, read_token = _tokens(token_file, metrics_token_file, read_token_file)
    # Before the service listens: the jar may have to be compiled, and clients would wait for that.
    jar = _jar(lines)
    with sent(os.environ), invocation.catalog(makes_index=True, at_once=True) as catalog:
        catalog.allowed.restrict(allowed_locations(catalog.settings.conf, standing=True))
        own = (token_file, metrics_token_file, read_token_file)
        catalog.allowed.keep_private(str(file.absolute()) for file in own if file is not None)
        service = Service(
            catalog, host=host, port=port, token=token, drain_seconds=_DRAIN_SECONDS, follow=follow or None,
            databases=chosen, metrics_token=metrics_token, read_token=read_token, page=page,
        )  # fmt: skip
        # The service's constructor configures the HTTP server's own loggers; replace their format again.
        write_log(level, lines)
        settings = spark_settings(name, service.uri, token, token_file, jar)
        if as_json:
            echo_json({"uri": service.uri, "page": service.page_uri, "spark": settings})
        else:
            _print_service(service, name, settings, token_file, read_token_file)
        for text in what_to_mind(host, urlsplit(service.uri).port or port):
            _warn(text, lines)
        logger.info("Process %d serves the catalog %s at %s", os.getpid(), name, service.uri)
        catalog.keep_delivering()
        _run(service)
    if lines == "text":
        note(message_console(), "stopped")


def what_to_mind(host: str, port: int) -> Iterator[str]:
    """Yield the warnings to print if the service listens on an address that other machines can reach."""
    if is_loopback(host):
        return
    yield f"{host} can be reached from other machines; the token travels unencrypted."
    if is_wildcard(host):
        yield (
            f"{host} is all addresses of this machine, and none that others can name: their `uri` has the one by which "
            f"they reach it, such as http://{authority(socket.gethostname(), port)}"
        )


def spark_settings(name: str, uri: str, token: str, token_file: Path | None, jar: str | None) -> dict[str, str]:
    """Return the settings that a Spark session needs to use the service."""
    from catalog_ext.spark.session import CATALOG_CLASS, EXTENSIONS_CLASS

    prefix = f"spark.sql.catalog.{name}"
    settings = {"spark.sql.extensions": EXTENSIONS_CLASS, prefix: CATALOG_CLASS, f"{prefix}.uri": uri}
    if token_file is None:
        settings[f"{prefix}.token"] = token
    else:
        settings[f"{prefix}.token-file"] = str(token_file.absolute())
    if jar is not None:
        settings["spark.jars"] = jar
    return settings


def _jar(lines: LogFormat) -> str | None:
    from catalog_ext.connector.build import connector_jar

    try:
        return str(connector_jar())
    except EnvironmentSetupError as error:
        # Continue without the jar: the service itself needs no Java, and Spark may have the jar on its own machine.
        _warn(f"the connector's jar cannot be built here: {error.message}", lines)
        return None


def _warn(text: str, lines: LogFormat) -> None:
    if lines == "text":
        note(message_console(), f"warning: {text}")
    else:
        logger.warning("%s", text)


def _run(service: Service) -> None:
    with contextlib.suppress(KeyboardInterrupt):
        # The HTTP server raises the received signal again after its shutdown. SIGTERM must then end the process as
        # cleanly as Ctrl-C.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        service.run()


def _print_service(
    service: Service, name: str, settings: dict[str, str], token_file: Path | None, read_token_file: Path | None
) -> None:
    console = output_console()
    note(console, f"# catalog-ext serves at {service.uri}; settings for spark-defaults.conf:")
    width = max(map(len, settings))
    for key, value in settings.items():
        note(console, f"{key:<{width}}  {value}")
    if read_token_file is not None:
        setting = f"spark.sql.catalog.{name}.token-file"
        note(console, f"# a session that only reads: {setting}  {read_token_file.absolute()}")
    if service.page_uri is not None:
        where = "the token above" if token_file is None else f"the token in {token_file}"
        note(console, f"# the page is at {service.page_uri}; sign in with {where}")
    # Flush, so that a log file shows the lines while the service still runs.
    console.file.flush()


def _read_token_file(invocation: Invocation) -> Path | None:
    text = READ_TOKEN_FILE.text(invocation.settings().conf)
    return None if text is None else READ_TOKEN_FILE.value_of(text)


def _tokens(own: Path | None, metrics: Path | None, reading: Path | None) -> tuple[str, str | None, str | None]:
    """Return the service's token, the metrics token and the read-only token, from their files.

    Without its file, the service's token is a new random one, and the other two are None.
    """
    token = _token(own)
    return token, None if metrics is None else _token(metrics), _read_token(reading, token)


def _read_token(file: Path | None, token: str) -> str | None:
    read_token = None if file is None else _token(file)
    if read_token == token:
        raise InvalidConfigurationError(
            f"The token for reading in {file} is the service's own token, which may write. Remove the file to get a "
            "new one."
        )
    return read_token


def _token(file: Path | None) -> str:
    from catalog_ext.service.server import new_token

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
