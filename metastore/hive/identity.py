"""The identity of a metastore, independent of its address: an id in a parameter of its database ``default``.

Servers of one metastore have many addresses, and an address may later belong to another metastore. Only releases 3 and
later have an id of their own.
"""

from __future__ import annotations

import logging
import time
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import MetastoreRefusedError, NamespaceNotFoundError

if TYPE_CHECKING:
    from catalog_ext.metastore.hive.mapping.model import HiveDatabase
    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore

logger = logging.getLogger(__name__)

ID_PARAMETER = "catalog-ext.metastore-id"
PROPOSED_PARAMETER = "catalog-ext.metastore-id.proposed"
DATABASE = "default"
"""Every metastore has this database, and does not let it be dropped."""

CONFIRM_AFTER_S = 3.0
"""Seconds between an id's proposal and the second look at it: by then each process that found none has proposed one.

The parameters are set as a whole, so that of two proposals the later one wins. A metastore whose database has two that
are set at the same time wait for each other (Derby does, for 20 s) tries again after two seconds what it gave up.
"""


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
    """Return the metastore's id, setting a new one if it has none; None if the metastore cannot store it.

    Several processes may set it at the same time: each proposes an id, and a moment later confirms the id that it then
    finds proposed.

    Raises:
        MetastoreUnavailableError: No server answers.
    """
    try:
        database = metastore.get_database(DATABASE)
        if ID_PARAMETER in database.parameters:
            return database.parameters[ID_PARAMETER]
        begun = time.monotonic()
        if PROPOSED_PARAMETER not in database.parameters:
            _propose(metastore, database)
        # What took so long for one may take as long for another.
        time.sleep(CONFIRM_AFTER_S + time.monotonic() - begun)
        database = metastore.get_database(DATABASE)
        given = database.parameters.get(ID_PARAMETER)
        return given or _confirm(metastore, database)
    except (MetastoreRefusedError, NamespaceNotFoundError) as error:
        logger.info("The metastore keeps no id, and is known by its address alone: %s", error.message)
        return None


def _propose(metastore: HiveMetastore, database: HiveDatabase) -> None:
    new = {**database.parameters, PROPOSED_PARAMETER: uuid.uuid4().hex}
    try:
        metastore.alter_database(replace(database, parameters=new))
    except MetastoreRefusedError:
        # Or the id of another process was there first.
        if not {ID_PARAMETER, PROPOSED_PARAMETER} & metastore.get_database(DATABASE).parameters.keys():
            raise


def _confirm(metastore: HiveMetastore, database: HiveDatabase) -> str | None:
    """Make the proposed id the metastore's, and return it; None where the proposal was not kept."""
    parameters = dict(database.parameters)
    proposed = parameters.pop(PROPOSED_PARAMETER, None)
    if proposed is None:
        logger.info("The metastore does not keep the parameter %s, and is known by its address.", PROPOSED_PARAMETER)
        return None
    try:
        metastore.alter_database(replace(database, parameters={**parameters, ID_PARAMETER: proposed}))
    except MetastoreRefusedError:
        if metastore_id(metastore) != proposed:
            raise
    return proposed


def with_id(metastore: HiveMetastore, database: HiveDatabase) -> HiveDatabase:
    """Return the database with the metastore's id among its parameters, if it is the database that holds the id."""
    known = metastore_id(metastore) if database.name == DATABASE else None
    return database if known is None else replace(database, parameters={**database.parameters, ID_PARAMETER: known})
