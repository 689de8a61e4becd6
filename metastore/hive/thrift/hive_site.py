"""The metastore that Spark's and Hive's own configuration name: settings given, then ``hive-site.xml``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from catalog_ext.metastore.errors import InvalidConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

METASTORE_URIS = "hive.metastore.uris"
_NAMES = (
    f"spark.hadoop.{METASTORE_URIS}",
    f"spark.{METASTORE_URIS}",
    METASTORE_URIS,
    "metastore.thrift.uris",
)
"""Spark's two ways to set a Hive setting in its own configuration, Hive's name, and the name of release 4."""

_SITE_FILE = "hive-site.xml"
_MAX_SITE_BYTES = 16 << 20


def configured_uris(
    settings: Mapping[str, str] | None = None, environment: Mapping[str, str] = os.environ
) -> str | None:
    """Return the metastore URIs that are configured; None when none are.

    Args:
        settings: Spark's or Hadoop's configuration; it comes before files.
        environment: Names the folders of ``hive-site.xml``: SPARK_CONF_DIR, ``$SPARK_HOME/conf``, HIVE_CONF_DIR; the
            first file that is there is the one that counts, as it is on Spark's class path.

    Raises:
        InvalidConfigurationError: A ``hive-site.xml`` cannot be read.
    """
    given = _first_uris(settings or {})
    if given is not None:
        return given
    for folder in _conf_folders(environment):
        site = folder / _SITE_FILE
        if site.is_file():
            return _first_uris(read_site(site))
    return None


def read_site(path: Path) -> dict[str, str]:
    """Return the settings in a Hadoop configuration file.

    Raises:
        InvalidConfigurationError: It cannot be read, or is not such a file.
    """
    try:
        if path.stat().st_size > _MAX_SITE_BYTES:
            raise InvalidConfigurationError(
                f"{path} is no Hadoop configuration: it has more than {_MAX_SITE_BYTES} bytes."
            )
        text = path.read_bytes()
        if b"<!ENTITY" in text:
            # Entities can grow without bound and read other files; no configuration needs them.
            raise InvalidConfigurationError(f"{path} declares XML entities, which are not read. Write the values out.")
        root = ElementTree.fromstring(text)
    except (OSError, ElementTree.ParseError) as error:
        raise InvalidConfigurationError(f"{path} cannot be read: {error}. Correct it.", {"path": str(path)}) from error
    return {
        (item.findtext("name") or "").strip(): (item.findtext("value") or "").strip() for item in root.iter("property")
    }


def _first_uris(settings: Mapping[str, str]) -> str | None:
    # An empty value is Hive's way to say that there is no metastore to connect to.
    return next((settings[name].strip() for name in _NAMES if settings.get(name, "").strip()), None)


def _conf_folders(environment: Mapping[str, str]) -> Iterator[Path]:
    if folder := environment.get("SPARK_CONF_DIR"):
        yield Path(folder)
    elif home := environment.get("SPARK_HOME"):
        yield Path(home) / "conf"
    if folder := environment.get("HIVE_CONF_DIR"):
        yield Path(folder)
