"""The entry point: global options, and errors as one clean line with an exit code that scripts can use."""

from __future__ import annotations

import difflib
import errno
import itertools
import json
import logging
import os
import sys
import traceback
import warnings
from importlib import import_module
from io import TextIOWrapper
from typing import TYPE_CHECKING, TextIO

import click

from catalog_ext import __version__
from catalog_ext.cli import EXIT_ERROR, EXIT_INTERRUPTED, EXIT_REFUSED, EXIT_UNAVAILABLE, EXIT_USAGE
from catalog_ext.conf import keys
from catalog_ext.metastore.backports import add_note
from catalog_ext.metastore.errors import (
    CatalogExtError,
    InvalidInputError,
    NamespaceNotFoundError,
    RepairRefusedError,
    TableNotFoundError,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

# The module of each command. It is imported only when the command or its help is needed.
COMMANDS = {
    "register": "tables", "import": "importing", "init": "index", "unregister": "tables", "repair": "repair",
    "partitions": "partitions", "files": "partitions", "tables": "tables", "describe": "tables", "history": "writes",
    "status": "writes", "recover": "writes", "vacuum": "writes", "release-waiting": "writes",
    "discard-waiting": "writes", "drop-partitions": "partitions", "expire-partitions": "partitions",
    "outbox": "outbox", "publish": "outbox", "adopt": "index", "backup": "index", "restored": "index",
    "migrate": "index", "serve": "serve", "events": "events", "drift": "drift", "export": "outbox",
    "follow": "follow", "doctor": "doctor", "init-conf": "init_conf", "rollback": "versions",
    "restore-partition": "versions",
    "tag": "tags", "untag": "tags", "tags": "tags",
}  # fmt: skip

_OF_OUTPUT = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
"""Error numbers of an output that cannot be written: full disk, quota, file size, I/O error, closed descriptor."""
_COMPLETION = "_CATALOG_EXT_COMPLETE"
_JSON_PAIRS = (("-o", "json"), ("--output", "json"))

_EPILOG = """
\b
Exit codes:
  0    success
  1    an error; `doctor`: a check failed; `migrate --check`: the schema is
       not current; `recover`, `vacuum`, `restored`: something could not be
       done; `follow --once`: a table is out of sync
  2    a wrong argument, or there is no index
  3    `repair --strict`: a path was skipped; `repair --check`: out of sync;
       `drift --check`: the sides differ, a part could not be compared, or a
       delivery to the metastore failed; `repair`, `expire-partitions` and
       `drift --mend`: refused, too many partitions would be dropped
  4    the index, the store or the metastore is unavailable: try again.
       `drift --check`: a side is unavailable, and the others agree
  130  interrupted
"""


class Commands(click.Group):
    """The commands by name; each one's module is imported on demand, so that ``--version`` needs none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, sorted."""
        return sorted(COMMANDS)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve the command as click does; the error for an unknown command suggests a similar one."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = difflib.get_close_matches(args[0], COMMANDS, 1)
            if near and not args[0].startswith("-"):
                raise click.UsageError(f"{error.message} Did you mean {near[0]!r}?", ctx) from error
            raise

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; the error for a missing table names the index, and suggests a similar name."""
        try:
            return super().invoke(ctx)
        except (TableNotFoundError, NamespaceNotFoundError) as error:
            if type(error) in (TableNotFoundError, NamespaceNotFoundError) and ctx.obj is not None:
                from catalog_ext.cli.name_suggestions import where_to_look

                of_metastore = ctx.invoked_subcommand == "import"
                add_note(error, where_to_look(ctx.obj, error, of_metastore=of_metastore))
            raise

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command with this name; None if there is no such command."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"catalog_ext.cli.{COMMANDS[cmd_name]}")
        found = [c for c in vars(module).values() if isinstance(c, click.Command) and c.name == cmd_name]
        return found[0]


@click.group(
    cls=Commands, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.option(
    "--index", envvar=keys.INDEX.variable, show_envvar=True, metavar="URL",
    help="The index: a SQLAlchemy URL, or the path of a SQLite file. Default: a SQLite file beside the warehouse.",
)  # fmt: skip
@click.option(
    "--metastore", envvar=keys.METASTORE.variable, show_envvar=True, metavar="URIS",
    help="The Hive Metastore: thrift://host:9083 (several comma-separated), `embedded` (a local one in a JVM of its "
    "own), or `none`. Default: the index's recorded one; for a new index the one of hive-site.xml, else `embedded`.",
)  # fmt: skip
@click.option(
    "--warehouse", envvar=keys.WAREHOUSE.variable, show_envvar=True, metavar="LOCATION",
    help="Directory of managed tables. Default: the index's recorded one; for a new index spark-warehouse in the "
    "working directory.",
)  # fmt: skip
@click.option(
    "--storage", envvar=keys.STORAGE.variable, show_envvar=True, multiple=True, metavar="KEY=VALUE",
    help="Connection settings of S3 and HDFS, by Hadoop's keys (fs.s3a.endpoint) or short names (endpoint, "
    "access_key, …). Repeatable; blank-separated in the variable.",
)  # fmt: skip
@click.option("--debug", is_flag=True, help="Log every step, and print the traceback of an error.")
@click.version_option(__version__, message="%(version)s")
@click.pass_context
def cli(
    context: click.Context, index: str | None, metastore: str | None, warehouse: str | None, storage: tuple[str, ...],
    debug: bool,
) -> None:  # fmt: skip
    """Manage Hive-style partitioned tables whose partitions and files are recorded in a SQL index.

    Three sides describe a table: the store has its files, the index (a SQL database) is what Spark plans queries from,
    and the Hive Metastore serves Hive engines. Tables are named NAMESPACE.TABLE. The options below go before the
    command. Every command takes --output json, and commands that print a list take --output csv too.
    """
    from catalog_ext.cli.invocation import Invocation, pairs
    from catalog_ext.conf.resolved import UNSET, check_metastore
    from catalog_ext.metastore.storage.options import check_names

    chosen = UNSET if metastore is None else check_metastore(metastore)
    options = pairs(storage, "--storage")
    check_names(options, whole=False)
    context.obj = Invocation(index, chosen, warehouse, options, debug)


class _WithoutPandas:
    """A finder that hides pandas from pyarrow, whose first conversion would import pandas (a quarter of a second)."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Refuse to import pandas, and leave all other modules to the next finders."""
        if name == "pandas":
            raise ModuleNotFoundError("the command line does without pandas", name=name)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code. Without ``arguments`` it takes those of the process."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug, as_json = "--debug" in given, wants_json(given)
    _prepare_process(debug=debug, is_program=arguments is None)
    try:
        result = cli.main(given, prog_name="catalog-ext", standalone_mode=False)
        sys.stdout.flush()  # A failed flush is reported only from here.
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted: what was committed stays, nothing else was changed", err=True)
        return EXIT_INTERRUPTED
    except click.ClickException as error:
        placed = _placed(error)
        if as_json:
            _echo_error(InvalidInputError(placed.format_message()))
        placed.show()
        return error.exit_code
    except BrokenPipeError:
        # The reader of the pipe has closed it, as ``head`` does.
        _leave_output()
        return EXIT_ERROR
    except CatalogExtError as error:
        return _report(error, as_json=as_json, debug=debug)
    except OSError as error:
        if error.errno not in _OF_OUTPUT or error.filename is not None:
            return _report(_unexpected(error, debug=debug), as_json=as_json, debug=debug)
        _leave_output()
        click.echo(f"error: The output cannot be written: {error.strerror}. Make room where it goes.", err=True)
        return EXIT_ERROR
    except Exception as error:  # noqa: BLE001 -- the outermost frame: whatever it is, it ends as a line and a code
        return _report(_unexpected(error, debug=debug), as_json=as_json, debug=debug)
    return result if isinstance(result, int) else 0


def _prepare_process(*, debug: bool, is_program: bool) -> None:
    """Set up streams, warnings, imports and completion. A program that calls ``main`` can still import pandas."""
    _open_closed_streams()
    _show_warnings(debug)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
            # Escape characters that the terminal's encoding lacks; otherwise a list would end at the first such name.
            stream.reconfigure(errors="backslashreplace")
    if is_program:
        sys.meta_path.insert(0, _WithoutPandas())
    if _COMPLETION in os.environ:
        from catalog_ext.cli.completion import register

        register()


def _unexpected(error: Exception, *, debug: bool) -> CatalogExtError:
    hint = "" if debug else " Run it again with --debug for the traceback."
    unexpected = CatalogExtError(f"Unexpected {type(error).__name__}: {error}.{hint}")
    unexpected.__cause__ = error
    return unexpected


def _open_closed_streams() -> None:
    """Replace standard streams that the caller has closed: reads are empty, writes are dropped."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115 -- for as long as the process lives
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def _leave_output() -> None:
    """Redirect standard output to the null device, or Python would fail again when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def wants_json(given: Sequence[str]) -> bool:
    """Return whether the arguments ask for JSON. Read before parsing, so that an error of parsing is JSON too."""
    chosen = ("-ojson", "--output=json", "-o=json", "--json")
    followed = itertools.pairwise(given)
    return any(each in chosen for each in given) or any(pair in _JSON_PAIRS for pair in followed)


def _placed(error: click.ClickException) -> click.ClickException:
    """Return the error; if a global option was given after the command, one that says to give it before the command."""
    if not isinstance(error, click.NoSuchOption) or error.ctx is None:
        return error
    option = error.option_name
    if all(option not in parameter.opts for parameter in cli.params):
        return error
    return click.UsageError(
        f"{option} goes before the command: catalog-ext {option} … {error.ctx.info_name} …", error.ctx
    )


def exit_code(error: CatalogExtError) -> int:
    """Return the exit code of an error."""
    if isinstance(error, RepairRefusedError):
        return EXIT_REFUSED
    if error.retryable:
        return EXIT_UNAVAILABLE
    return EXIT_USAGE if isinstance(error, InvalidInputError) else EXIT_ERROR


def _report(error: CatalogExtError, *, as_json: bool, debug: bool) -> int:
    if debug:
        traceback.print_exception(error)
    if as_json:
        _echo_error(error)
    # Append the hints last, since they say what the user can do.
    hints = "".join(f" {_shown(note)}" for note in getattr(error, "__notes__", ()))
    click.echo(f"error [{error.code}]: {_shown(error.message)}{hints}", err=True)
    return exit_code(error)


def _echo_error(error: CatalogExtError) -> None:
    fields = {
        "code": error.code,
        "message": error.message,
        "retryable": error.retryable,
        "parameters": error.parameters,
    }
    click.echo(json.dumps({"error": fields}))


def _shown(text: str) -> str:
    from catalog_ext.cli.output import one_line

    return one_line(text)


def _show_warnings(debug: bool) -> None:
    def show(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, file: TextIO | None = None,
        line: str | None = None,
    ) -> None:  # fmt: skip
        from catalog_ext.identity.warehouse_mark import WarehouseSharedWarning

        if not issubclass(category, WarehouseSharedWarning):  # The log reports it too.
            click.echo(f"warning: {_shown(str(message))}", err=True)

    warnings.showwarning = show
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s" if debug else "warning: %(message)s"))
    logger = logging.getLogger("catalog_ext")
    logger.handlers = [handler]
    logger.setLevel(logging.DEBUG if debug else logging.WARNING)


if __name__ == "__main__":
    sys.exit(main())
