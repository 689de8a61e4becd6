"""The check of a rollback against the table and the store, before ``reserve``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.claims import bound_predicate
from catalog_ext.metastore.commit.partition_plans import CheckedRollback
from catalog_ext.metastore.transactions.restorable_files import RestorableFiles, files_lost

if TYPE_CHECKING:
    from catalog_ext.metastore.commit.partition_plans import Rollback
    from catalog_ext.metastore.commit.plan import WritePlan
    from catalog_ext.metastore.commit.transaction import Transaction
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.transactions.resources import Resources


def checked_rollback(resources: Resources, transaction: Transaction, table: Table, asked: Rollback) -> WritePlan:
    """Return the plan of a rollback with the findings of its check; nothing is changed.

    The rollback compares the version that its statement read with the earlier one, because ``reserve`` checks that the
    selected partitions have not changed since.

    Raises:
        FilesLostError: Files of the earlier version are gone or changed.
        TableLayoutError: A directory that a partition gets again has files that no version of the table has.
        StorageError: The store refuses or does not answer.
    """
    plan, base = transaction.plan, replace(table, version=transaction.base_version)
    found = RestorableFiles(resources).compare(base, asked.version, bound_predicate(plan, table))
    if found.lost:
        raise files_lost(table, asked.version, found.lost)
    returning = tuple(each.name for each in found.differences if each.present is None)
    then = {each.name: each.then for each in found.differences if each.then is not None}
    own = {name: table.directory_of(then[name]) for name in found.deleted if name in then and then[name].location}
    return replace(plan, locations=own, change=CheckedRollback(asked, returning, found.deleted))
