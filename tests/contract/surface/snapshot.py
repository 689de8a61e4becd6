"""Takes a snapshot of the public surface: what programs, people and servers outside of this repository hold on to.

``python -m tests.contract.surface.snapshot`` (``make surface``) writes it to ``surface.json``, to which
``tests/unit/test_public_surface.py`` holds the code. It records names, kinds and defaults; where a module lives, how a
type is spelled and what a docstring says may change freely.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import logging
import os
import pkgutil
import re
import sqlite3
import sys
import tempfile
import warnings
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alembic.script import ScriptDirectory

import catalog_ext
from catalog_ext.conf.keys import SETTINGS
from catalog_ext.metastore import errors
from catalog_ext.service.answers import error_response
from catalog_ext.service.operations import operations_of
from catalog_ext.service.server import Service
from release.project import PROJECT, PYPROJECT
from tests.kit.service_client import Client

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from catalog_ext import Catalog

SURFACE = Path(__file__).with_name("surface.json")
_WIDTH = 100


def python(catalog: Catalog, folder: Path) -> dict[str, Any]:
    """The names of ``catalog_ext.__all__``: parameters of functions, fields, properties and methods of classes.

    Args:
        catalog: A catalog, in which a table is registered.
        folder: Where the table's directory is made.
    """
    found = {name: _described(getattr(catalog_ext, name)) for name in sorted(catalog_ext.__all__)}
    found["RepairReport"]["attributes"] = sorted(n for n in vars(_report(catalog, folder)) if not n.startswith("_"))
    return found


def _report(catalog: Catalog, folder: Path) -> catalog_ext.RepairReport:
    (folder / "t").mkdir()
    catalog.create_namespace("s")
    catalog.register_table("s.t", location=str(folder / "t"), partition_columns={}, schema="x INT", format="csv")
    return catalog.repair_partitions("s.t")


def _described(value: Any) -> dict[str, Any]:
    if not inspect.isclass(value):
        return {"parameters": parameters(value)}
    methods = {name: parameters(method) for name, method in _public(value, _is_method)}
    if value in (catalog_ext.Catalog, catalog_ext.CatalogTable, catalog_ext.RepairReport):
        # Users do not construct these classes, so their parameters are not public.
        return {"methods": methods}
    properties = [name for name, _ in _public(value, inspect.isdatadescriptor)]
    return {"parameters": parameters(value), "properties": properties, "methods": methods}


def _public(kind: type, of: Callable[[object], bool]) -> Iterator[tuple[str, Any]]:
    """The members of this sort, except those of the built-in classes that the class is made of."""
    builtin = {name for base in kind.__mro__ if base.__module__ == "builtins" for name in vars(base)}
    for name, member in inspect.getmembers(kind, of):
        if name in ("__enter__", "__exit__") or (not name.startswith("_") and name not in builtin):
            yield name, member


def _is_method(member: object) -> bool:
    return inspect.isfunction(member) or inspect.ismethod(member)


def parameters(function: Callable[..., Any]) -> list[str]:
    """The parameters of a callable as ``kind name = default``, in their order, without ``self`` and ``cls``."""
    found = inspect.signature(function).parameters.values()
    return [_parameter(p) for p in found if p.name not in ("self", "cls")]


def _parameter(parameter: inspect.Parameter) -> str:
    text = f"{parameter.kind.name.lower()} {parameter.name}"
    if parameter.default is parameter.empty:
        return text
    default = parameter.default
    return f"{text} = {default.name if isinstance(default, Enum) else repr(default)}"


def command_line() -> dict[str, list[str]]:
    """The lines of ``--help``, by command."""
    scripts = PYPROJECT["project"]["scripts"]
    return {name: lines for name, target in scripts.items() for name, lines in _helps(name, target)}


def _helps(script: str, target: str) -> Iterator[tuple[str, list[str]]]:
    run = pkgutil.resolve_name(target)
    pending: list[tuple[str, ...]] = [()]
    while pending:
        command = pending.pop(0)
        lines = [line.rstrip() for line in _output(run, [*command, "--help"]).splitlines()]
        yield " ".join((script, *command)), lines
        pending += [(*command, name) for name in _commands(lines)]


def _commands(lines: list[str]) -> list[str]:
    if "Commands:" not in lines:
        return []
    listed = lines[lines.index("Commands:") + 1 :]
    listed = listed[: listed.index("")] if "" in listed else listed
    return [match[1] for line in listed if (match := re.match(r"  (\S+)", line))]


def _output(run: Callable[[list[str]], int], arguments: list[str]) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as output, _as_before():
        assert run(arguments) == 0, arguments
    return output.getvalue()


@contextlib.contextmanager
def _as_before() -> Iterator[None]:
    """Undo what the command line does to its process, which is its own otherwise, and give it a fixed width."""
    columns, loggers = os.environ.get("COLUMNS"), [logging.getLogger(n) for n in list(logging.root.manager.loggerDict)]
    handlers = [(logger, logger.handlers, logger.level) for logger in loggers]
    os.environ["COLUMNS"] = str(_WIDTH)
    try:
        with warnings.catch_warnings():
            yield
    finally:
        os.environ.pop("COLUMNS")
        if columns is not None:
            os.environ["COLUMNS"] = columns
        for logger, held, level in handlers:
            logger.handlers = held
            logger.setLevel(level)


def error_classes() -> dict[str, dict[str, Any]]:
    """Every error class: its code, whether the call may be tried again, its parent, and its status over HTTP."""
    return {
        kind.__name__: {
            "code": kind.code,
            "retryable": kind.retryable,
            "kind": str(kind.kind),
            "sqlstate": kind.sqlstate,
            "parent": None if kind is catalog_ext.CatalogExtError else kind.__mro__[1].__name__,
            "status": error_response(kind("x")).status_code,
        }
        for kind in sorted(_error_classes(), key=lambda kind: kind.__name__)
    }


def _error_classes() -> set[type[catalog_ext.CatalogExtError]]:
    found = (value for value in vars(errors).values() if inspect.isclass(value))
    return {kind for kind in found if issubclass(kind, catalog_ext.CatalogExtError)}


def settings() -> dict[str, dict[str, Any]]:
    """Every setting: its default, the form of its values, its other name, and where it can be given."""
    return {
        setting.key: {
            "default": setting.default,
            "values": setting.form.values,
            "alias": setting.alias,
            "variable": setting.variable if "ENVIRONMENT" in (places := [s.name for s in setting.scopes]) else None,
            "places": places,
        }
        for setting in sorted(SETTINGS, key=lambda setting: setting.key)
    }


def operations(catalog: Catalog) -> list[str]:
    """The operations of the service, each of which is ``POST /v1/<operation>``."""
    return sorted(operations_of(catalog))


def procedures(catalog: Catalog) -> dict[str, dict[str, list[str]]]:
    """The SQL procedures, with their parameters and the columns of their rows, as the service lists them."""
    with Service(catalog) as service:
        described = Client(service).call("procedures/list").json["procedures"]
    return {
        found["name"]: {
            "parameters": [_procedure_parameter(p) for p in found["parameters"]],
            "columns": [f"{c['name']} {c['type']}" for c in found["columns"]],
        }
        for found in sorted(described, key=lambda found: str(found["name"]))
    }


def _procedure_parameter(parameter: dict[str, Any]) -> str:
    text = f"{parameter['name']} {parameter['type']}"
    return f"{text} required" if parameter["required"] else f"{text} = {parameter['default']!r}"


def migrations(catalog: Catalog, database: Path) -> dict[str, dict[str, str | None]]:
    """The migrations in their order: the statements that make what is new or other after each, None for what has gone.

    Args:
        catalog: A catalog on the database, which is emptied.
        database: A SQLite file.
    """
    found: dict[str, dict[str, str | None]] = {}
    catalog.index.migrate("base")
    before: dict[str, str | None] = _statements(database)
    for revision in _revisions():
        catalog.index.migrate(revision)
        after = _statements(database)
        gone = dict.fromkeys(before.keys() - after.keys())
        found[revision] = dict(sorted({**{k: v for k, v in after.items() if before.get(k) != v}, **gone}.items()))
        before = after
    return found


def _revisions() -> list[str]:
    scripts = ScriptDirectory(str(PROJECT / "migrations"))
    return [script.revision for script in scripts.walk_revisions()][::-1]


def _statements(database: Path) -> dict[str, str | None]:
    """The CREATE statements of a SQLite file with one blank between words, by kind and name."""
    with contextlib.closing(sqlite3.connect(database)) as connection:
        rows = connection.execute("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    return {f"{kind} {name}": _normalised(sql) for kind, name, sql in rows}


def _normalised(sql: str) -> str:
    words = re.sub(r"\s+", " ", sql).strip()
    return re.sub(r",(?! )", ", ", re.sub(r" (?=[(),])|(?<=\() ", "", words))


def snapshot(folder: Path) -> dict[str, Any]:
    """The whole surface.

    Args:
        folder: An empty folder for an index.
    """
    database = folder / "index.db"
    with catalog_ext.connect(index=str(database), metastore=None, warehouse=str(folder / "warehouse")) as catalog:
        return {
            "python": python(catalog, folder),
            "command line": command_line(),
            "errors": error_classes(),
            "settings": settings(),
            "operations": operations(catalog),
            "procedures": procedures(catalog),
            "migrations": migrations(catalog, database),
        }


def main() -> int:
    """Write the snapshot; 0."""
    with tempfile.TemporaryDirectory() as folder:
        text = json.dumps(snapshot(Path(folder)), indent=2, ensure_ascii=False)
    SURFACE.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
