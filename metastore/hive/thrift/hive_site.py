"""What Spark's and Hive's own configuration say of the metastore: settings given, then ``hive-site.xml``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import InvalidConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

METASTORE_URIS = ("hive.metastore.uris", "metastore.thrift.uris")
"""Hive's name, and that of release 4."""

_PREFIXES = ("spark.hadoop.", "spark.", "")
"""Spark's two ways to set a Hive setting in its own configuration, and Hive's."""

_SITE_FILE = "hive-site.xml"
_MAX_SITE_BYTES = 16 << 20


def site_settings(environment: Mapping[str, str] = os.environ) -> Mapping[str, str]:
    """Return the settings of ``hive-site.xml``; empty if the file does not exist.

    Args:
        environment: Gives the folders of ``hive-site.xml``: SPARK_CONF_DIR, ``$SPARK_HOME/conf``, HIVE_CONF_DIR; the
            first existing file counts, as on Spark's class path.

    Raises:
        InvalidConfigurationError: It cannot be read.
    """
    site = next((s for folder in _conf_folders(environment) if (s := folder / _SITE_FILE).is_file()), None)
    return {} if site is None else read_site(site)


def value_of(names: Sequence[str], spark: Mapping[str, str], site: Mapping[str, str]) -> str | None:
    """Return the first non-empty value of a setting among its names in Hive; None without one.

    Args:
        names: The names of the setting.
        spark: Spark's conf, in which they may have Spark's prefix; it wins over the file.
        site: The settings of ``hive-site.xml``.
    """
    # In Hive an empty value means an unset one.
    of_spark = (spark.get(f"{prefix}{name}", "").strip() for name in names for prefix in _PREFIXES)
    return next(filter(None, (*of_spark, *(site.get(name, "").strip() for name in names))), None)


def read_site(path: Path) -> dict[str, str]:
    """Return the settings in a Hadoop configuration file.

    Raises:
        InvalidConfigurationError: It cannot be read, or is not such a file.
    """
    # Imported here: most installations have no such file.
    from xml.etree import ElementTree

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


def _conf_folders(environment: Mapping[str, str]) -> Iterator[Path]:
    if folder := environment.get("SPARK_CONF_DIR"):
        yield Path(folder)
    elif home := environment.get("SPARK_HOME"):
        yield Path(home) / "conf"
    if folder := environment.get("HIVE_CONF_DIR"):
        yield Path(folder)
