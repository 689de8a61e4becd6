"""The local files and folders that no statement may name, whatever is allowed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from catalog_ext.conf.service_keys import READ_TOKEN_FILE

if TYPE_CHECKING:
    from catalog_ext.conf.resolved import Settings

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
