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
"""The database that holds the id: every metastore has it, and refuses to drop it."""

CONFIRM_AFTER_S = 3.0
"""Seconds between the proposal of an id and its confirmation: each process that found no id has proposed one by then.

The parameters of a database are set as a whole, so of two proposals the later one wins. In some metastore databases two
simultaneous updates block each other (Derby: for 20 s); the metastore retries a failed update after two seconds.
"""


def metastore_id(metastore: HiveMetastore) -> str | None:
    """Return the id that the metastore stores; None if it has none yet.

    Raises:
        MetastoreUnavailableError: No server answers.
        MetastoreRefusedError: The metastore refuses to show its database ``default``.
    """
    try:
        return metastore.get_database(DATABASE).parameters.get(ID_PARAMETER)
    except NamespaceNotFoundError:
        return None


def give_id(metastore: HiveMetastore) -> str | None:
    """Return the metastore's id, setting a new one if it has none; None if the metastore cannot store it.

    Several processes may do this at the same time: each proposes an id, waits ``CONFIRM_AFTER_S``, and then confirms
    the proposal that the metastore has by then.

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
        # Wait longer if this process's own proposal was slow: proposals of other processes may then be slow too.
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
        # The update may have failed because another process stored or proposed an id at the same time; then use that
        # id.
        if not {ID_PARAMETER, PROPOSED_PARAMETER} & metastore.get_database(DATABASE).parameters.keys():
            raise


def _confirm(metastore: HiveMetastore, database: HiveDatabase) -> str | None:
    """Store the proposed id as the metastore's id, and return it; None if the metastore did not keep the proposal."""
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
    """Return the database ``default`` with the metastore's id as a parameter; return any other database unchanged."""
    known = metastore_id(metastore) if database.name == DATABASE else None
    return database if known is None else replace(database, parameters={**database.parameters, ID_PARAMETER: known})
