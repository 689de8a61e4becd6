"""Spark's own catalog beside the tables of the index: whether it sees the metastore that the index has."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from catalog_ext.metastore.hive.thrift.hive_site import site_settings
from catalog_ext.spark.submitted import submitted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog_ext.conf.resolved import Settings

logger = logging.getLogger(__name__)

_IMPLEMENTATION = "spark.sql.catalogImplementation"
"""What ``enableHiveSupport`` sets."""
_HIVE = "hive"
_URIS = "spark.hadoop.hive.metastore.uris"


def warn_of_own_catalog(settings: Settings, options: Mapping[str, str]) -> None:
    """Warn where Spark's own catalog does not see the metastore of the index.

    Spark's databases, views, functions and tables that are not in the index then are not those of the metastore.

    Args:
        settings: Those of the catalog that is added to Spark's own.
        options: What the builder of the session sets.
    """
    if settings.metastore is None:
        return
    given = {**submitted((_IMPLEMENTATION, _URIS)), **options}
    if given.get(_IMPLEMENTATION) != _HIVE:
        logger.warning(
            "Spark's own catalog of this session is in memory: it does not see the metastore, and what is made in it "
            "is gone when the session ends. Tables of the index work. To have the metastore's other databases, "
            "tables and views too, call enableHiveSupport() on the builder, with %s, before configure",
            _URIS,
        )
    elif not given.get(_URIS) and not site_settings().get(_URIS.removeprefix("spark.hadoop.")):
        logger.warning(
            "Spark's own catalog of this session has a metastore of its own, not that of the index: set %s on the "
            "builder, or hive.metastore.uris in hive-site.xml",
            _URIS,
        )
