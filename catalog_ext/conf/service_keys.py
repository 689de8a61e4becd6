"""The settings of a service: who may read, which locations statements may name, and its page."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from catalog_ext.conf.setting import TRUE_OR_FALSE, Form, Scope, Setting
from catalog_ext.metastore.errors import InvalidInputError
from catalog_ext.metastore.storage.allowed_locations import Allowed
from catalog_ext.metastore.storage.locations import Location

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog_ext.conf.resolved import Settings

READ_TOKEN_FILE = Setting(
    "read-token-file", None, Form("a path", Path), (Scope.ENVIRONMENT,),
    "The file with the token for reading of `catalog-ext serve`: sessions that have it as their `token-file` SELECT, "
    "and writes are refused. `--read-token-file` goes before it.",
)  # fmt: skip
PAGE = Setting(
    "page", "false", TRUE_OR_FALSE, (Scope.SESSION, Scope.ENVIRONMENT),
    "Whether the session's service shows its page (`docs/page.md`). `catalog_ext.open_page` shows it at any time; "
    "`catalog-ext serve` does unless `--no-page` is given.",
)  # fmt: skip


def _allowed(text: str) -> Allowed:
    if text == "*":
        return Allowed(everything=True)
    try:
        return Allowed(False, tuple(Location.parse(one.strip()) for one in text.split(",") if one.strip()))
    except InvalidInputError as error:
        raise ValueError(f"give locations with commas between them, or '*': {error.message.rstrip('.')}") from error


STORAGE_ALLOW = Setting(
    "storage.allow", None, Form("locations with commas between them, or `*`", _allowed),
    (Scope.SESSION, Scope.ENVIRONMENT),
    "The locations that statements may name (LOAD DATA, LOCATION, `register_table`, ad-hoc paths, imports), besides "
    "the warehouse and those of namespaces and tables (`docs/rights.md`). Default: `*` in a session and in a Python "
    "program, which have their user's rights; none in `catalog-ext serve`.",
)  # fmt: skip


def allowed_locations(conf: Mapping[str, str], *, standing: bool) -> Allowed:
    """Return what the setting allows; without it a standing service allows nothing more, and a session everything.

    Raises:
        InvalidConfigurationError: The text is none that the setting may have.
    """
    text = STORAGE_ALLOW.text(conf)
    return Allowed(everything=not standing) if text is None else STORAGE_ALLOW.value_of(text)


SERVICE_SETTINGS = (PAGE, READ_TOKEN_FILE, STORAGE_ALLOW)


_CONFIGURATION = ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "HIVE_CONF_DIR", "SPARK_CONF_DIR", "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_CONFIG_FILE", "KRB5CCNAME", "KRB5_CLIENT_KTNAME")  # fmt: skip
"""Environment variables that name folders and files of configuration and secrets."""


def private_paths(settings: Settings) -> list[str]:
    """Return absolute paths: the index, the folder of everything embedded, tokens, configuration and /proc."""
    # Not at the top: every start of the command line would import the databases.
    from catalog_ext.metastore.index.database.urls import index_file

    named = [os.environ.get(variable, "").removeprefix("FILE:") for variable in _CONFIGURATION]
    token_file = READ_TOKEN_FILE.text(settings.conf)
    index = index_file(settings.index)
    # Linux shows the environment and the open files of every process of the user there.
    found = [settings.state, Path("/proc"), *map(Path, filter(None, (*named, token_file)))]
    if index is not None:
        found.append(index)
    if "HOME" in os.environ:
        found += [Path(os.environ["HOME"], name) for name in (".aws", ".ssh")]
    return [os.path.abspath(path) for path in found]
