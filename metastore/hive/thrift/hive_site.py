"""Metastore settings from Spark's and Hive's own configuration: Spark's conf, then ``hive-site.xml``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import InvalidConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

METASTORE_URIS = ("hive.metastore.uris", "metastore.thrift.uris")
"""Hive's name of the setting, and its name in release 4."""

_PREFIXES = ("spark.hadoop.", "spark.", "")
"""Prefixes of a Hive setting: two that Spark's configuration accepts, and none as in ``hive-site.xml``."""

_SITE_FILE = "hive-site.xml"
_MAX_SITE_BYTES = 16 << 20


def site_settings(environment: Mapping[str, str] = os.environ) -> Mapping[str, str]:
    """Return the settings of ``hive-site.xml``; empty if the file does not exist.

    Args:
        environment: The environment variables that name folders: SPARK_CONF_DIR, ``$SPARK_HOME/conf``, HIVE_CONF_DIR.
            The first folder with the file is used, as on Spark's class path.

    Raises:
        InvalidConfigurationError: The file cannot be read.
    """
    site = next((s for folder in _conf_folders(environment) if (s := folder / _SITE_FILE).is_file()), None)
    return {} if site is None else read_site(site)


def value_of(names: Sequence[str], spark: Mapping[str, str], site: Mapping[str, str]) -> str | None:
    """Return the value of a setting that has several names; None if no name has a value.

    Args:
        names: The names of the setting in Hive, in order of preference.
        spark: Spark's conf, where the names may have Spark's prefix; it overrides the file.
        site: The settings of ``hive-site.xml``.
    """
    # Skip empty values: Hive treats an empty value as unset.
    of_spark = (spark.get(f"{prefix}{name}", "").strip() for name in names for prefix in _PREFIXES)
    return next(filter(None, (*of_spark, *(site.get(name, "").strip() for name in names))), None)


def read_site(path: Path) -> dict[str, str]:
    """Return the settings in a Hadoop configuration file.

    Raises:
        InvalidConfigurationError: The file cannot be read, or is not a Hadoop configuration file.
    """
    # Import here, because most installations have no ``hive-site.xml`` and need no XML parser.
    from xml.etree import ElementTree

    try:
        if path.stat().st_size > _MAX_SITE_BYTES:
            raise InvalidConfigurationError(
                f"{path} is no Hadoop configuration: it has more than {_MAX_SITE_BYTES} bytes."
            )
        text = path.read_bytes()
        if b"<!ENTITY" in text:
            # Refuse XML entities: they can expand without bound and read other files, and no Hadoop configuration needs
            # them.
            raise InvalidConfigurationError(f"{path} declares XML entities, which are not read. Write the values out.")
        root = ElementTree.fromstring(text)
    except (OSError, ElementTree.ParseError) as error:
        raise InvalidConfigurationError(f"{path} cannot be read: {error}. Correct it.", {"path": str(path)}) from error
    return {
        (item.findtext("name") or "").strip(): (item.findtext("value") or "").strip() for item in root.iter("property")
    }


def _conf_folders(environment: Mapping[str, str]) -> Iterator[Path]:
    if folder := environment.get("SPARK_CONF_DIR"):
        yield Path(folder)
    elif home := environment.get("SPARK_HOME"):
        yield Path(home) / "conf"
    if folder := environment.get("HIVE_CONF_DIR"):
        yield Path(folder)
