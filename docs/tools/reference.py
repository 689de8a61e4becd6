"""Writes the generated reference pages: docs/cli.md from ``--help``, docs/configuration.md from the keys.

``python -m docs.tools.reference`` writes them, with ``--check`` it exits with 1 if one is out of date.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from catalog_ext.conf import keys
from catalog_ext.conf.setting import Scope, Setting

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_WIDTH = 100
_NOTICE = "<!-- Made by `python -m docs.tools.reference`; do not edit. -->"

_PRECEDENCE = """\
A setting can be given in several places. The first place in this order wins: option of the read or write, conf of the
Spark session, Spark's own key with the same meaning, property of the table, environment variable, default. Arguments of
`catalog_ext.configure` and `catalog_ext.connect`, and options of `catalog-ext`, win over the environment. Keys are not
case-sensitive.

A misspelled key is refused with a suggestion, because it would have no effect. This holds for keys below
`spark.sql.catalog.<catalog>.` (also for settings that cannot be given there), variables `CATALOG_EXT_…`, options of
reads, writes and tables, and table properties. A key that resembles no key of catalog-ext or Spark is ignored: it
belongs to another program.
"""
_GRAMMAR = """\
All sizes and durations have the same syntax: a number, at most one blank, and a unit, not case-sensitive. A size is a
whole number above zero with the unit `b`, `k`, `m`, `g`, `t` or `p` (powers of 1024), optionally followed by `b` or
`ib` (`512m`, `1 g`, `1gib`); without a unit it is in bytes. The units of a duration are `us`, `ms`, `s` (`sec`,
`second`), `m` (`min`, `minute`), `h` (`hour`) and `d` (`day`), optionally followed by `s`; its number may have a
fraction (`1.5h`), and without a unit it is in seconds.
"""
_OF_COMMANDS = """\
## Lists

All commands that print rows share these rules. A table fits into the terminal: text is wrapped, and columns without
room are omitted and named below the table. Names, paths and numbers are never broken or cut; one that is wider than the
terminal stands on its own line. `--wide` shows all columns, `--columns table,bytes` only the named ones. If the output
is not a terminal, each row is one line (`COLUMNS=80` wraps it to 80 characters).

`-o csv` prints a header and raw values: sizes in bytes, times in milliseconds since the epoch, and an empty field for
an unknown value. `-o json`, or `--json`, prints one object. A table shows 100 rows unless `--limit` is given, CSV and
JSON show all. With JSON an error is `{"error": {"code", "message", "retryable", "parameters"}}` on standard output,
and a line on standard error.

## Which commands create an index or start a metastore

`init` creates an index; `register`, `import` and `serve` create one if it is missing. Every other command fails without
an index, names the nearest one, and creates nothing. The embedded metastore is a JVM. It is started only by commands
that read it (`import`, `follow`, `publish`, `drift`, `doctor`, `serve`) or have changes to deliver to it. Read-only
commands (`--dry-run`, `drift`, `doctor`) never create one. Without Java use `--metastore none`; commands that
need the embedded metastore fail and create nothing. Every command refuses a `--metastore` or `--warehouse` other than
the ones that the index records, even if the command does not use them.

## Completion

The shell completes commands, options, tables, namespaces, partition columns and their values. Names are read from the
index of `--index`, or of the current folder. Names that a shell would have to quote, such as one with a blank, are
not offered.

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
In Spark, connections to S3 are configured by Hadoop's own keys (`spark.hadoop.fs.s3a.*`); the Python side uses the same
keys.

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
    sections = [_help(context) for context in (root, *contexts)]
    return f"# The command line\n\n{_NOTICE}\n\n{_OF_COMMANDS}\n" + "\n".join(sections)


def configuration_page() -> str:
    """The text of docs/configuration.md."""
    return "\n".join(_configuration_lines())


def _help(context: click.Context) -> str:
    text = "\n".join(line.rstrip() for line in context.get_help().splitlines())
    return f"## {context.command_path}\n\n```text\n{text}\n```\n"


def _configuration_lines() -> Iterator[str]:
    yield "# Configuration"
    yield f"\n{_NOTICE}\n"
    yield _PRECEDENCE
    yield _GRAMMAR
    yield "| setting | default | values | meaning |"
    yield "|---|---|---|---|"
    for setting in keys.SETTINGS:
        link = f"[`{setting.key}`](#{_anchor(setting.key)})"
        values = setting.form.values.replace("|", "\\|")
        yield f"| {link} | {_default(setting)} | {values} | {setting.doc} |"
    yield _OF_FORMATS
    for setting in keys.SETTINGS:
        yield f"## `{setting.key}`\n"
        alias = f" `{setting.alias}` means the same." if setting.alias else ""
        yield f"{setting.doc} Values: {setting.form.values}. Default: {_default(setting)}.{alias} Given as:\n"
        yield from (f"- {_place(setting, scope)}" for scope in setting.scopes)
        if setting.spark:
            yield f"- Spark's own conf: `{setting.spark}`"
        if setting.hive:
            yield f"- {_of_hive(setting)}"
        yield ""


def _of_hive(setting: Setting[object]) -> str:
    names = " or ".join(f"`{name}`" for name in setting.hive)
    if all(name.startswith("spark.") for name in setting.hive):
        return f"Spark's own conf, after the environment: {names}"
    return f"in Spark's conf (`spark.hadoop.` in front) or hive-site.xml, after the environment: {names}"


def _default(setting: Setting[object]) -> str:
    return f"`{setting.default}`" if setting.default is not None else "none"


def _anchor(key: str) -> str:
    return "".join(c for c in key.lower() if c.isalnum() or c in "-_")


def _place(setting: Setting[object], scope: Scope) -> str:
    texts = {
        Scope.READ: f"option of a read: `{setting.key}`",
        Scope.STREAM: f"option of a streaming read: `{setting.key}`",
        Scope.WRITE: f"option of a write: `{setting.key}`",
        Scope.SESSION: f"Spark conf: `spark.sql.catalog.<catalog>.{setting.key}`",
        Scope.SQL: f"in the session: `SET {setting.key} = …`",
        Scope.TABLE: f"table property: `{setting.key}`",
        Scope.ENVIRONMENT: f"environment variable: `{setting.variable}`",
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
