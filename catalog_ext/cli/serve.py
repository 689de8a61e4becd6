"""The standing service."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import click

from catalog_ext.cli.invocation import Invocation, message_console, output_console
from catalog_ext.cli.options import json_option
from catalog_ext.cli.output import echo_json, note
from catalog_ext.connector.build import connector_jar
from catalog_ext.service.server import LOOPBACK, Service, new_token
from catalog_ext.session import CATALOG_CLASS, EXTENSIONS_CLASS
from metastore.errors import EnvironmentSetupError, InvalidConfigurationError

_SHORTEST_TOKEN = 32


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
@json_option
@click.pass_obj
def serve(invocation: Invocation, host: str, port: int, token_file: Path | None, name: str, as_json: bool) -> None:
    """Serve the catalog to Spark sessions until interrupted.

    Prints the settings that a Spark session needs. For the Thrift server, Spark Connect, spark-sql, and several drivers
    over one index.
    """
    token = _token(token_file)
    with invocation.catalog() as catalog:
        service = Service(catalog, host=host, port=port, token=token)
        settings = spark_settings(name, service.uri, token, token_file)
        if as_json:
            echo_json({"uri": service.uri, "spark": settings})
        else:
            _print_settings(service.uri, settings)
        if host not in (LOOPBACK, "localhost", "::1"):
            note(
                message_console(), f"warning: {host} can be reached from other machines; the token travels unencrypted."
            )
        catalog.keep_delivering()
        with contextlib.suppress(KeyboardInterrupt):
            # The server hands its signal on when it has ended; SIGTERM too has to end as orderly as Ctrl-C.
            signal.signal(signal.SIGTERM, signal.default_int_handler)
            service.run()
    note(message_console(), "stopped")


def spark_settings(name: str, uri: str, token: str, token_file: Path | None) -> dict[str, str]:
    """What a Spark session sets to use the service."""
    prefix = f"spark.sql.catalog.{name}"
    settings = {"spark.sql.extensions": EXTENSIONS_CLASS, prefix: CATALOG_CLASS, f"{prefix}.uri": uri}
    if token_file is None:
        settings[f"{prefix}.token"] = token
    else:
        settings[f"{prefix}.token-file"] = str(token_file.absolute())
    try:
        settings["spark.jars"] = str(connector_jar())
    except EnvironmentSetupError as error:
        # The service itself needs no Java: Spark may run elsewhere, and have the jar there.
        note(message_console(), f"warning: the connector's jar cannot be built here: {error.message}")
    return settings


def _print_settings(uri: str, settings: dict[str, str]) -> None:
    console = output_console()
    note(console, f"# catalog-ext serves at {uri}; settings for spark-defaults.conf:")
    width = max(map(len, settings))
    for key, value in settings.items():
        note(console, f"{key:<{width}}  {value}")
    console.file.flush()


def _token(file: Path | None) -> str:
    if file is None:
        return new_token()
    try:
        if not file.exists():
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="ascii") as out:
                out.write(f"{new_token()}\n")
        token = file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfigurationError(f"The token file {file} cannot be read or made: {error}.") from error
    if len(token) < _SHORTEST_TOKEN:
        raise InvalidConfigurationError(
            f"The token in {file} has {len(token)} characters; at least {_SHORTEST_TOKEN} are needed. "
            f"Remove the file to get a new one."
        )
    return token
