"""Shell completion of the names of tables, namespaces and partitions, from the index.

Completion has to be fast: it imports no heavy module, reads a SQLite index without SQLAlchemy, and creates nothing. If
the index cannot be read, completion offers nothing, because an error message would disturb the typed line.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from typing import TYPE_CHECKING, Any, ClassVar

from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ZshComplete,
    add_completion_class,
    split_arg_string,
)

from catalog_ext.conf.resolved import Settings
from catalog_ext.metastore.errors import CatalogExtError
from catalog_ext.metastore.index.database.sqlite_file import ALIVE, existing, plain_file
from catalog_ext.metastore.model.partition_names import DEFAULT_PARTITION, parse_partition_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, MutableMapping

    import click

_MOST_VALUES = 2_000
_MOST_NAMES = 20_000
_TIMEOUT_S = 1
_SAFE = frozenset("_-./:=@%+,~")
"""Characters, besides letters and digits, that are safe in a shell. Names with other characters are not offered."""

_TABLES = (
    "SELECT n.name, t.name FROM tables t JOIN namespaces n ON n.namespace_id = t.namespace_id ORDER BY n.name, t.name"
)
_NAMESPACES = "SELECT name, name FROM namespaces ORDER BY name"
_KEYS = (
    "SELECT t.table_id, t.partition_columns FROM tables t JOIN namespaces n ON n.namespace_id = t.namespace_id"
    " WHERE n.name = :namespace AND t.name = :table"
)
# Jumps from one value of the first partition column to the next in the database index, so that a table with a million
# partitions is not scanned.
_FIRST_KEY = (
    "WITH RECURSIVE firsts(k) AS ("
    " SELECT min(k1) FROM partitions WHERE table_id = :id"
    " UNION ALL SELECT (SELECT min(k1) FROM partitions WHERE table_id = :id AND k1 > firsts.k)"
    f" FROM firsts WHERE firsts.k IS NOT NULL) "
    "SELECT (SELECT max(name) FROM (SELECT name FROM partitions WHERE table_id = :id AND k1 = firsts.k"
    f" AND end_version = {ALIVE} LIMIT 1) one), 0 FROM firsts WHERE firsts.k IS NOT NULL LIMIT {_MOST_VALUES}"
)
_NAMES = f"SELECT name, 0 FROM partitions WHERE table_id = :id AND end_version = {ALIVE} LIMIT {_MOST_NAMES}"

_BASH = """\
%(complete_func)s() {
    local IFS=$'\\n' completion type value
    COMPREPLY=()
    for completion in $(env COMP_LINE="$COMP_LINE" COMP_POINT="$COMP_POINT" COMP_WORDBREAKS="$COMP_WORDBREAKS" \
%(complete_var)s=bash_complete "$1"); do
        IFS=',' read -r type value <<< "$completion"
        case $type in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain) COMPREPLY+=("$value"); if [[ $value == *= ]]; then compopt -o nospace; fi ;;
        esac
    done
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class _Words:
    """Keeps the typed words in the context's ``obj``; click drops the words before an option that has no value yet."""

    ctx_args: MutableMapping[str, Any]

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        """Return click's completions, after storing the typed words in the context."""
        self.ctx_args["obj"] = args
        return super().get_completions(args, incomplete)  # type: ignore[misc, no-any-return]


class Zsh(_Words, ZshComplete):
    """Completion in zsh."""


class Fish(_Words, FishComplete):
    """Completion in fish."""


class Bash(_Words, BashComplete):
    """Completion in bash, which splits ``key=value`` and ``s3://…`` into words: this class reads the whole line."""

    source_template: ClassVar[str] = _BASH
    _typed = ""

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the cursor, and the word that is being typed."""
        line = os.environ["COMP_LINE"].encode()[: int(os.environ["COMP_POINT"])].decode(errors="ignore")
        words = split_arg_string(line)
        typed = "" if line[-1:].isspace() else words.pop()
        self._typed = typed
        return words[1:], typed

    def format_completion(self, item: CompletionItem) -> str:
        """Return the text by which bash replaces its last word, which may be only a part of the typed word."""
        breaks = [c for c in os.environ.get("COMP_WORDBREAKS", "") if c in "=:"]
        known = max((self._typed.rfind(c) + 1 for c in breaks), default=0)
        return f"{item.type},{item.value[known:] if item.value.startswith(self._typed[:known]) else item.value}"


def register() -> None:
    """Register the classes of this module as click's completion for bash, zsh and fish."""
    for shell in (Bash, Zsh, Fish):
        add_completion_class(shell)


def complete_table(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the tables and views of the index."""
    names = [f"{namespace}.{name}" for namespace, name in _rows(context, _TABLES)]
    return _items(names, incomplete.lower())


def complete_namespace(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the namespaces of the index."""
    return _items((str(name) for name, _ in _rows(context, _NAMESPACES)), incomplete.lower())


def complete_partition(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return ``KEY=`` for the partition columns of the command line's table, and ``KEY=VALUE`` after a typed key."""
    import json

    namespace, _, table = (_named_table(context) or "").lower().rpartition(".")
    found = _rows(context, _KEYS, {"namespace": namespace.rpartition(".")[2], "table": table})
    if not found:
        return []
    ((table_id, columns),) = found
    keys = [str(column["name"]) for column in json.loads(str(columns))]
    key, equals, _ = incomplete.partition("=")
    if not equals:
        return _items((f"{name}=" for name in keys), incomplete)
    if key not in keys:
        return []
    names = _rows(context, _FIRST_KEY if key == keys[0] else _NAMES, {"id": table_id})
    values = {value for name, _ in names if name is not None for value in _values_of(str(name), key)}
    return _items((f"{key}={value}" for value in sorted(values)), incomplete)


def _named_table(context: click.Context) -> str | None:
    named = context.params.get("table")
    words, command = context.find_root().obj, context.info_name
    if named is None and isinstance(words, list) and command in words:
        # click has not parsed the table's name yet: the last word is an option without its value, which click rejects.
        # Parse the words before it again.
        before = words[words.index(command) + 1 : -1]
        again = context.command.make_context(command, before, context.parent, resilient_parsing=True)
        named = again.params.get("table")
    return None if named is None else str(named)


def _values_of(name: str, key: str) -> list[str]:
    return [DEFAULT_PARTITION if value is None else value for k, value in parse_partition_name(name) if k == key]


def complete_column(names: Iterable[str]) -> Callable[..., list[CompletionItem]]:
    """Return a completion for a list of column names that are separated by commas."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        before, comma, last = incomplete.rpartition(",")
        given = before.split(",")
        return [CompletionItem(f"{before}{comma}{n}") for n in names if n.startswith(last) and n not in given]

    return complete


def _items(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    found = dict.fromkeys(name for name in names if name.startswith(incomplete))
    return [CompletionItem(name) for name in found if all(c.isalnum() or c in _SAFE for c in name)]


def _rows(
    context: click.Context, query: str, values: Mapping[str, object] | None = None
) -> list[tuple[object, object]]:
    given = context.find_root().params
    try:
        index = Settings.resolve(index=given.get("index"), warehouse=given.get("warehouse"), metastore=None).index
        file = plain_file(index)
        if file is None:
            return _from_server(index, query, values or {})
        if not file.exists():
            return []
        with existing(file, timeout_s=_TIMEOUT_S) as connection:
            return connection.execute(query, dict(values or {})).fetchall()
    except (CatalogExtError, sqlite3.Error):
        return []


def _from_server(index: str, query: str, values: Mapping[str, object]) -> list[tuple[object, object]]:
    import sqlalchemy as sa

    from catalog_ext.metastore.index.database.urls import parse_url

    engine = sa.create_engine(
        parse_url(index), poolclass=sa.pool.NullPool, connect_args={"connect_timeout": _TIMEOUT_S}
    )
    with contextlib.suppress(sa.exc.SQLAlchemyError), engine.connect() as connection:
        return [(row[0], row[1]) for row in connection.execute(sa.text(query), dict(values))]
    return []
