"""Repairs a table of a session's catalog, and invalidates Spark's cached state of the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.conf.write_keys import LOCK_SETTINGS
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.spark.session import active_catalog

if TYPE_CHECKING:
    from catalog_ext.context import Progress
    from catalog_ext.metastore.predicates.conditions import Where
    from catalog_ext.repair.report import RepairReport


def repair_partitions(
    table: str, *, mode: str = "sync", where: Where = None, dry_run: bool = False, strict: bool = False,
    verify: bool | str = False, allow_mass_drop: bool = False, progress: Progress | None = None,
) -> RepairReport:  # fmt: skip
    """Repair a table of a catalog that ``configure`` set up in this process; see ``Catalog.repair_partitions``.

    The active session's settings for Hive locks apply, as for MSCK REPAIR TABLE.

    Args:
        table: ``catalog.namespace.table``, or ``namespace.table`` if this process has one catalog.
        mode: ``add``, ``drop`` or ``sync``.
        where: A condition, or a partition spec, that limits the repair.
        dry_run: Preview only.
        strict: Change nothing if a path would be skipped.
        verify: Skip new and changed files that Spark cannot read; ``all`` reports registered ones too.
        allow_mass_drop: Drop any number of missing partitions.
        progress: Called while it runs.

    Raises:
        InvalidConfigurationError: No catalog of this process has that name.
        CatalogExtError: As ``Catalog.repair_partitions``.
    """
    catalog = active_catalog(table)
    report = catalog.repair_partitions(
        table, mode=mode, where=where, dry_run=dry_run, strict=strict, verify=verify, allow_mass_drop=allow_mass_drop,
        progress=progress, session=_locks_of_session(catalog.settings.name),
    )  # fmt: skip
    if not dry_run:
        name = catalog.settings.name
        identifier = TableIdentifier.parse(table, name)
        _refresh(f"`{name}`.`{identifier.namespace}`.`{identifier.name}`")
    return report


def _refresh(identifier: str) -> None:
    """Invalidate Spark's cached state of the table, for all sessions."""
    from pyspark.sql import SparkSession

    # On a thread other than the session's there is no active session, so fall back to the last created one.
    session = SparkSession.getActiveSession() or SparkSession._instantiatedSession
    if session is not None:
        session.catalog.refreshTable(identifier)


def _locks_of_session(catalog: str) -> dict[str, str]:
    """Return the active session's settings for Hive locks of a catalog's statements, by key."""
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is None:
        return {}
    keys = [setting.key for setting in LOCK_SETTINGS]
    given = {key: session.conf.get(f"spark.sql.catalog.{catalog}.{key}", None) for key in keys}
    return {key: value for key, value in given.items() if value is not None}
