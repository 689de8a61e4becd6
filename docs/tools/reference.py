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
Where a setting can be given in several places, the nearest wins: option of the read or write, then the Spark
session's conf, then Spark's own conf of the same meaning, then the table's property, then the environment, then the
default. Arguments of `catalog_ext.configure` and `catalog_ext.connect`, and options of `catalog-ext`, win over the
environment. Keys are found without regard to case.

A key that would change nothing is refused, with the name that is near: below `spark.sql.catalog.<catalog>.` (also a
setting that is given elsewhere), among variables `CATALOG_EXT_…`, options of reads, writes and tables, and table
properties. What is near to no name is left to whom it belongs to.
"""
_GRAMMAR = """\
Sizes and durations have one grammar everywhere, without regard to case: a number, at most one blank, and a
unit. A size is a whole number above zero with the unit `b`, `k`, `m`, `g`, `t` or `p` (powers of 1024), behind which
`b` or `ib` may stand (`512m`, `1 g`, `1gib`); a bare number is bytes. Units of a duration are `us`, `ms`, `s` (`sec`,
`second`), `m` (`min`, `minute`), `h` (`hour`) and `d` (`day`), behind which an `s` may stand; its number may have a
fraction (`1.5h`), and a bare one is seconds.
"""
_OF_COMMANDS = """\
## Lists

Every command that prints rows does it in one way. A table fits the terminal: words are wrapped, columns for which
there is no room are left out and named below it, and what is wider than that stands on a line of its own; names,
paths and numbers are never broken or cut. `--wide` shows all columns whatever the width, `--columns table,bytes`
those that are named. Where the output is no terminal, a row is a line (`COLUMNS=80` makes it fit). `-o csv` has a
heading and the values as they are: bytes, milliseconds since the epoch, nothing for what is not known. `-o json`,
or `--json`, is one object. A table shows 100 rows unless `--limit` says otherwise, CSV and JSON all. An error is
`{"error": {"code", "message", "retryable", "parameters"}}` on standard output then, and a line on standard error.

## What is made, and what is started

`init` makes an index; `register`, `import` and `serve` create a missing one, too. Every other command ends
with an error that names the nearest index, and makes nothing. The embedded metastore, which is a JVM, is started by
commands that ask it (`import`, `follow`, `publish`, `drift`, `doctor`, `serve`) or have changes to send it, and
by no other; those that only look (`--dry-run`, `drift`, `doctor`) make none. Without Java nothing is made that would
need it: work without a metastore (`--metastore none`). A `--metastore` or `--warehouse` that is not the index's own is
refused by every command, whether or not it would be asked.

## Completion

Commands, options, tables, namespaces, partition columns and their values, out of the index that `--index` or the
folder says. A name that a shell would not take as it is, as one with a blank, is not offered.

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
How S3 is reached is said in Hadoop's own keys (`spark.hadoop.fs.s3a.*`); Python uses them too.

Options of Spark's readers and writers are kept with a table and overridden per read, as Spark documents them. A write
that makes a table gives its options to it;
[any other write may not contradict them](sql.md#which-options-of-a-writer-does-a-table-keep), and JSON's
`pretty` is refused. Of those of text, `header`, `sep` (or `delimiter`), `quote`, `escape`, `nullValue`, `lineSep`,
`encoding` (or `charset`), `comment` and `compression` also decide what the metastore says of the table. Of Hive's ROW
FORMAT, `field.delim`, `serialization.format`, `serialization.null.format`, `line.delim`, `escape.delim`,
`colelction.delim`, `mapkey.delim`, `timestamp.formats`, `serialization.encoding`, `serialization.escape.crlf`,
`serialization.last.column.takes.rest`, `skip.footer.line.count`, `separatorChar`, `quoteChar` and `escapeChar` are
read; the option `serde` names [the class of Hive](design/16-text-formats.md#text-of-hive-tables) that reads the files.
A CSV table with `header` is read by the names in each file's header unless `enforceSchema` is set; a property
`comment` is the table's comment. A read of a path takes the options
`format` and `schema`, and those of Spark's reader. `parquet.statistics.truncate.length` holds for files written here.
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
