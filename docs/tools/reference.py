"""Writes the generated reference pages: docs/cli.md from ``--help``, docs/configuration.md from the keys.

``python -m docs.tools.reference`` writes them, with ``--check`` it exits with 1 if one is out of date.
"""

from __future__ import annotations

import re
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from catalog_ext.conf import keys
from catalog_ext.conf.setting import Scope, Setting

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_WIDTH = 100
_COMMON = {"--help", "--output", "--json", "--limit", "--wide"}
_NOTICE = "<!-- Made by `python -m docs.tools.reference`; do not edit. -->"

_PRECEDENCE = """\
If a setting is given in several places, the first in this order wins: option of the read or write, conf of the Spark
session, Spark's own key with the same meaning, property of the table, environment variable, default. Arguments of
`catalog_ext.configure` and `catalog_ext.connect`, and options of `catalog-ext`, win over the environment. As an option
or a table property a setting has the name in the table. In SQL, a key with a hyphen needs backquotes:
SET `spark.sql.catalog.lake.index-answers` = false. Keys are not case-sensitive. The sections below the table have the
accepted values of each setting, the places where it can be given, and details.

A misspelled key is refused with a suggestion. This holds for keys below `spark.sql.catalog.<catalog>.` (also for
settings that cannot be given there), variables `CATALOG_EXT_…`, options of reads, writes and tables, and table
properties. A key that resembles no key of catalog-ext or Spark is ignored, because it belongs to another program.
"""
_GRAMMAR = """\
A *size* is a whole number above zero with the unit `b`, `k`, `m`, `g`, `t` or `p` (powers of 1024), optionally
followed by `b` or `ib` (`512m`, `1 g`, `1gib`); without a unit it is in bytes. A *duration* is a number, also with a
fraction (`1.5h`), with the unit `us`, `ms`, `s` (`sec`, `second`), `m` (`min`, `minute`), `h` (`hour`) or `d` (`day`),
optionally followed by `s`; without a unit it is in seconds. Units are not case-sensitive, and one blank may precede
them.
"""
_OF_COMMANDS = """\
## Common options

The help texts below omit the options that most commands have.

- `-h`, `--help` shows a command's help.
- `-o json`, or `--json`, prints one JSON object. An error is the object
  `{"error": {"code", "message", "retryable", "parameters"}}` on standard output, and a line on standard error.
- Commands with `--columns` print rows: as a table by default, with `-o csv` as a header and raw values. CSV has
  sizes in bytes, times in milliseconds since the epoch, and an empty field for an unknown value.
- `--limit ROWS`, of commands with `--columns`, is the number of rows to show; 0 shows all. By default a table has 100
  rows (20 of `repair`), and CSV and JSON have all.
- `--wide`, of commands with `--columns`, shows every column, even if a row is wider than the terminal.

Without `--wide` a table fits into the terminal: text is wrapped, and columns without room are omitted and named below
the table. Names, paths and numbers are never broken or cut; one that is wider than the terminal stands on its own line.
If the output is not a terminal, each row is one line (`COLUMNS=80` wraps it to 80 characters).

## Which commands create an index or start a metastore

`init` creates an index; `register`, `import` and `serve` create one if it is missing. `doctor` and `init-conf` need no
index. Every other command fails without an index, names the nearest one, and creates nothing. Every command refuses a
`--metastore` or `--warehouse` other than the ones that the index records. Only the commands that may create an index,
and `adopt`, record them.

The embedded metastore is a JVM. It is started only by commands that read it (`import`, `follow`, `publish`, `drift`,
`doctor`, `serve`) or have changes to deliver to it. Read-only commands (`--dry-run`, `drift`, `doctor`) never create an
embedded metastore. Without Java use `--metastore none`; commands that need the embedded metastore then fail and create
nothing.

## Completion

The shell completes commands, options, tables, namespaces, partition columns and their values, from the index of
`--index` or of the current folder. Names that a shell would have to quote, such as one with a blank, are not offered.

```sh
# bash 4.4 or newer, in ~/.bashrc
eval "$(_CATALOG_EXT_COMPLETE=bash_source catalog-ext)"
# zsh, in ~/.zshrc, behind compinit
eval "$(_CATALOG_EXT_COMPLETE=zsh_source catalog-ext)"
# fish, in ~/.config/fish/completions/catalog-ext.fish
_CATALOG_EXT_COMPLETE=fish_source catalog-ext | source
```
"""
_OF_FORMATS = """
Spark and the Python side connect to S3 by Hadoop's own keys (`spark.hadoop.fs.s3a.*`).

Options of Spark's readers and writers are stored with a table. An option of a read overrides them, as Spark documents
it. A write that creates a table stores its options with the table;
[any other write must not contradict them](sql.md#which-options-of-a-writer-does-a-table-keep), and JSON's
`pretty` is refused. Of the text options, `header`, `sep` (or `delimiter`), `quote`, `escape`, `nullValue`, `lineSep`,
`encoding` (or `charset`), `comment` and `compression` also determine the definition of the table in the metastore.

Of Hive's ROW FORMAT, catalog-ext reads `field.delim`, `serialization.format`, `serialization.null.format`,
`line.delim`, `escape.delim`, `colelction.delim`, `mapkey.delim`, `timestamp.formats`, `serialization.encoding`,
`serialization.escape.crlf`, `serialization.last.column.takes.rest`, `skip.footer.line.count`, `separatorChar`,
`quoteChar` and `escapeChar`. The option `serde` names [Hive's class](design/16-text-formats.md#text-of-hive-tables)
that reads the files. The columns of a CSV table with `header` are matched by the names in each file's header, unless
`enforceSchema` is set. The property `comment` is the table's comment. A read of a path has the options `format` and
`schema`, and those of Spark's reader. `parquet.statistics.truncate.length` applies to the files that catalog-ext
writes.
"""


def cli_page() -> str:
    """The text of docs/cli.md."""
    # Imported here: the command line imports every part of the catalog.
    from catalog_ext.cli.main import COMMANDS, cli

    root = click.Context(cli, info_name="catalog-ext", terminal_width=_WIDTH, help_option_names=["-h", "--help"])
    commands = {name: cli.get_command(root, name) for name in COMMANDS}
    contexts = [
        click.Context(command, root, name, terminal_width=_WIDTH) for name, command in commands.items() if command
    ]
    with _common_options_hidden(contexts):
        sections = [_help(context) for context in (root, *contexts)]
    return f"# The command line\n\n{_NOTICE}\n\n{_OF_COMMANDS}\n" + "\n".join(sections)


def configuration_page() -> str:
    """The text of docs/configuration.md."""
    return "\n".join(_configuration_lines())


@contextmanager
def _common_options_hidden(contexts: Sequence[click.Context]) -> Iterator[None]:
    """Hide the options that most commands have from the commands' help; the page describes them once."""
    options = [
        option
        for context in contexts
        for option in context.command.get_params(context)
        if isinstance(option, click.Option) and _COMMON.intersection(option.opts)
    ]
    for option in options:
        option.hidden = True
    try:
        yield
    finally:
        for option in options:
            option.hidden = False


def _help(context: click.Context) -> str:
    text = "\n".join(line.rstrip() for line in context.get_help().splitlines())
    return f"## {context.command_path}\n\n```text\n{text}\n```\n"


def _configuration_lines() -> Iterator[str]:
    yield "# Configuration"
    yield f"\n{_NOTICE}\n"
    yield _PRECEDENCE
    yield _GRAMMAR
    yield "| setting | default | meaning |"
    yield "|---|---|---|"
    for setting in keys.SETTINGS:
        default, sentence, _ = _described(setting)
        yield f"| [`{setting.key}`](#{_anchor(setting.key)}) | {default} | {sentence} |"
    yield _OF_FORMATS
    for setting in keys.SETTINGS:
        _, _, details = _described(setting)
        yield f"## `{setting.key}`\n"
        if details:
            yield f"{details}\n"
        alias = f" `{setting.alias}` is another name of the setting." if setting.alias else ""
        yield f"Values: {_values(setting)}.{alias} Given as: {'; '.join(_places(setting))}.\n"


def _described(setting: Setting[object]) -> tuple[str, str, str]:
    """Return the default, the first sentence of the meaning (both for the table), and its other sentences."""
    meaning, _, default = setting.doc.partition(" Default: ")
    sentence, _, details = meaning.partition(". ")
    if setting.default is not None:
        default = f"`{setting.default}`"
    return default.rstrip(".") or "none", sentence.rstrip(".") + ".", details


def _values(setting: Setting[object]) -> str:
    """Return the accepted values; the page explains sizes and durations at its top."""
    return re.sub(r"^(a (?:size|duration)): .*; a bare number is \w+$", r"\1", setting.form.values)


def _places(setting: Setting[object]) -> Iterator[str]:
    yield from (_place(setting, scope) for scope in setting.scopes)
    if setting.spark:
        yield f"Spark's own conf `{setting.spark}`"
    if setting.hive:
        yield _of_hive(setting)


def _of_hive(setting: Setting[object]) -> str:
    names = " or ".join(f"`{name}`" for name in setting.hive)
    if all(name.startswith("spark.") for name in setting.hive):
        return f"Spark's own conf {names} (after the environment)"
    return f"{names} in hive-site.xml or, after `spark.hadoop.`, in Spark's conf (after the environment)"


def _anchor(key: str) -> str:
    return "".join(c for c in key.lower() if c.isalnum() or c in "-_")


def _place(setting: Setting[object], scope: Scope) -> str:
    texts = {
        Scope.READ: "option of a read",
        Scope.STREAM: "option of a streaming read",
        Scope.WRITE: "option of a write",
        Scope.SESSION: f"Spark conf `spark.sql.catalog.<catalog>.{setting.key}`",
        Scope.SQL: f"`SET {setting.key} = …` in the session",
        Scope.TABLE: "table property",
        Scope.ENVIRONMENT: f"environment variable `{setting.variable}`",
    }
    return texts[scope]


def main(arguments: Sequence[str]) -> int:
    """0 when the pages are written or, with ``--check``, up to date; else 1, with their names on standard error."""
    docs = Path(__file__).resolve().parents[2] / "docs"
    stale = 0
    for name, text in (("cli.md", cli_page()), ("configuration.md", configuration_page())):
        page = docs / name
        if "--check" not in arguments:
            page.write_text(text, encoding="utf-8")
        elif not page.is_file() or page.read_text(encoding="utf-8") != text:
            sys.stderr.write(f"docs/{name} is out of date. Run: python -m docs.tools.reference\n")
            stale = 1
    return stale


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
