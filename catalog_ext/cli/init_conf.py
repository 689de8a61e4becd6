"""The command that writes Spark's configuration files for a cluster."""

from __future__ import annotations

import re
from pathlib import Path

import click

from catalog_ext.cli.listing import Listing, Shape
from catalog_ext.cli.options import list_options
from catalog_ext.metastore.errors import EnvironmentSetupError, InvalidConfigurationError
from catalog_ext.overview.layout import ListColumn

FILES = Path(__file__).parents[1] / "spark_conf"
"""The folder of the files that the command writes."""
_WRITTEN = (
    ListColumn("file"),
    ListColumn("action"),
    ListColumn("change", "lines marked CHANGE", cell=lambda lines: ", ".join(map(str, lines)) or "-", wraps=True),
)
_CHANGE = re.compile(r"\s*(#|<!--) CHANGE\b")


@click.command("init-conf", short_help="Write Spark's configuration files for a cluster.")
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option("--force", is_flag=True, help="Overwrite existing files.")
@list_options(_WRITTEN)
def init_conf(folder: Path, force: bool, shape: Shape) -> None:
    """Write configuration files for Spark on a cluster into DIR, which is created if it is missing.

    DIR/monitoring gets a Prometheus and a Grafana configuration (docs/monitoring.md). If one of the files exists,
    nothing is written unless --force is given. Edit the lines marked CHANGE, then set SPARK_CONF_DIR to DIR.

    \b
    catalog-ext init-conf conf
    export SPARK_CONF_DIR=$PWD/conf
    """  # noqa: D301 -- click wants the character, not a raw backslash
    files = sorted(file.relative_to(FILES) for file in FILES.rglob("*") if file.is_file())
    existing_files = [file for file in files if (folder / file).exists()]
    if existing_files and not force:
        raise InvalidConfigurationError(
            f"{folder} has {', '.join(map(str, existing_files))} already. Give --force to overwrite, or name another "
            "folder.",
            {"folder": str(folder)},
        )
    rows = [
        {
            "file": str(folder / file),
            "action": "overwritten" if file in existing_files else "written",
            "change": _lines_to_change(FILES / file),
        }
        for file in files
    ]
    try:
        for file in files:
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            text = (FILES / file).read_text(encoding="utf-8")
            (folder / file).write_text(for_this_spark(text), encoding="utf-8", newline="")
    except OSError as error:
        raise InvalidConfigurationError(
            f"The configuration cannot be written to {error.filename or folder}: {error.strerror or error}. Name a "
            "folder in which you may create files.",
            {"folder": str(folder)},
        ) from error
    end = f"Change those lines, then: export SPARK_CONF_DIR={folder.absolute()}"
    Listing(("file", "files"), _WRITTEN, {"folder": str(folder)}).show(shape, rows, len(rows), end=end)


def for_this_spark(text: str) -> str:
    """Return a configuration file's text with S3A jars that fit the installed PySpark; unchanged without PySpark."""
    # Imported here: completion loads this module for every command line, and has to be fast.
    from catalog_ext.spark.storage import s3a_packages

    try:
        packages = s3a_packages()
    except EnvironmentSetupError:
        return text
    for key, value in packages.items():
        text = re.sub(rf"(?m)^({re.escape(key)} +)\S+$", rf"\g<1>{value}", text)
    return text


def _lines_to_change(file: Path) -> list[int]:
    lines = file.read_text(encoding="utf-8").splitlines()
    return [number for number, line in enumerate(lines, 1) if _CHANGE.match(line)]
