"""Who a metastore is, whatever its address: an id that it keeps as a parameter of its database ``default``.

Servers of one metastore have many addresses, and an address may come to be another metastore's. Only releases 3 and
later have an id of their own.
"""

from __future__ import annotations

import logging
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import MetastoreRefusedError, NamespaceNotFoundError

if TYPE_CHECKING:
    from catalog_ext.metastore.hive.mapping.model import HiveDatabase
    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore

logger = logging.getLogger(__name__)

ID_PARAMETER = "catalog-ext.metastore-id"
DATABASE = "default"
"""Every metastore has it, and nobody drops it."""


def metastore_id(metastore: HiveMetastore) -> str | None:
    """Return the id that the metastore keeps; None where it has none yet.

    Raises:
        MetastoreUnavailableError: No server answers.
        MetastoreRefusedError: It does not show its database.
    """
    try:
        return metastore.get_database(DATABASE).parameters.get(ID_PARAMETER)
    except NamespaceNotFoundError:
        return None


def give_id(metastore: HiveMetastore) -> str | None:
    """Return the metastore's id, a new one where it had none; None where it keeps none.

    Raises:
        MetastoreUnavailableError: No server answers.
    """
    try:
        database = metastore.get_database(DATABASE)
        if ID_PARAMETER not in database.parameters:
            new = {ID_PARAMETER: uuid.uuid4().hex}
            metastore.alter_database(replace(database, parameters={**database.parameters, **new}))
        # Of two that give it one at a time the later one wins.
        return metastore_id(metastore)
    except (MetastoreRefusedError, NamespaceNotFoundError) as error:
        logger.info("The metastore keeps no id, and is known by its address alone: %s", error.message)
        return None


def with_id(metastore: HiveMetastore, database: HiveDatabase) -> HiveDatabase:
    """Return the database with the metastore's id among its parameters, where it is the one that keeps it."""
    known = metastore_id(metastore) if database.name == DATABASE else None
    return database if known is None else replace(database, parameters={**database.parameters, ID_PARAMETER: known})
