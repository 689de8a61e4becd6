"""Begins a write: recovers the table's transactions whose process died, plans the write, and stores its transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.fault_points import fault_point
from catalog_ext.metastore.commit.lock_settings import (
    DEFAULT_WAIT_S,
    HIVE_LOCKS,
    HIVE_LOCKS_WAIT,
    WITHOUT_LOCKS,
    LockMode,
    LockSettings,
)
from catalog_ext.metastore.commit.partition_commit import PartitionCommit, chosen_options
from catalog_ext.metastore.commit.partition_plans import COMMANDS, Rollback
from catalog_ext.metastore.commit.plan import (
    CREATIONS,
    Create,
    CreateOrReplace,
    Overwrite,
    OverwritePartitions,
    Promotion,
    Replace,
    WritePlan,
)
from catalog_ext.metastore.commit.transaction import NOT_READ, BegunWrite, State, Transaction
from catalog_ext.metastore.errors import (
    InvalidConfigurationError,
    LocationNotFoundError,
    TableLayoutError,
    TableNotFoundError,
)
from catalog_ext.metastore.index.read.partitions import LocatedPartitions
from catalog_ext.metastore.index.write.transactions import DeadWritersError
from catalog_ext.metastore.model.durations import duration_s
from catalog_ext.metastore.runtime.users import signed
from catalog_ext.metastore.storage.locations import Location, shown
from catalog_ext.metastore.transactions.staging_locations import DATA, DEFAULT_STAGING, relocation_base

if TYPE_CHECKING:
    from catalog_ext.metastore.commit.plan import Asked
    from catalog_ext.metastore.commit.transaction import BeginWrite
    from catalog_ext.metastore.model.tables import TableDefinition
    from catalog_ext.metastore.storage.store import Storage
    from catalog_ext.metastore.transactions.recovery import Recovery
    from catalog_ext.metastore.transactions.resources import Resources

LEASE = "transaction.lease"
STAGING = "staging-dir"
STAGING_ALIAS = "hive_staging_dir"
OVERWRITE_MODE = "overwrite-mode"
RELOCATE = "relocate"
DEFAULT_LEASE_S = 600.0
LOCATIONS_IN_PLAN = 1000
"""The most partitions with their own locations that a plan contains. Tasks of larger writes ask for each one."""


def begin(resources: Resources, recovery: Recovery, request: BeginWrite) -> BegunWrite:
    """Return the transaction of a new write; see ``Transactions.begin``."""
    fault_point("begin.before")
    # A creation, and a batch of a streaming query, always recover transactions of dead processes first. Other writes do
    # so only if the first attempt finds such a transaction.
    if request.app_id is None and not isinstance(request.asked, CREATIONS):
        try:
            return _begun(resources, request, looks=True)
        except DeadWritersError:
            # The attempt found a transaction of a dead process, and stored nothing. Recover below, and then begin
            # again.
            pass
    shown = str(definition_of(request).identifier)
    recovery.of_table(None if request.table is None else request.table.table_id, shown, request.app_id)
    return _begun(resources, request, looks=False)


def _begun(resources: Resources, request: BeginWrite, *, looks: bool) -> BegunWrite:
    """Plan a write and store its transaction in the index.

    Raises:
        DeadWritersError: ``looks`` is true, and the lease of another writer of the table has ended.
    """
    plan = _plan(resources, request)
    if _is_duplicate(resources, request):
        return BegunWrite("", plan, {}, plan.lease_ms, duplicate=True)
    number = None if request.table is None else request.table.table_id
    creates = isinstance(request.asked, CREATIONS)
    transaction = Transaction(
        transaction_id=request.transaction_id,
        table_id=None if creates else number,
        table=str(definition_of(request).identifier),
        operation=request.operation,
        state=State.OPEN,
        owner=signed(request.owner),
        base_version=_base_version(request),
        began_at_ms=0,
        expires_at_ms=0,
        plan=plan,
        app_id=request.app_id,
        app_version=request.app_version,
    )
    replaced = number if creates else None
    begun = resources.index.transactions.begin(transaction, replaced, request.planned, looks=looks)
    fault_point("begin.after")
    return BegunWrite(request.transaction_id, begun.plan, begun.plan.locations, begun.plan.lease_ms)


def _is_duplicate(resources: Resources, request: BeginWrite) -> bool:
    if request.app_id is None or request.app_version is None or request.table is None:
        return False
    known = resources.index.transactions.find_application(request.table.table_id, request.app_id)
    return known is not None and known.app_version >= request.app_version


def _plan(resources: Resources, request: BeginWrite) -> WritePlan:
    """Return the plan of a new transaction.

    Raises:
        InvalidConfigurationError: An option has an invalid value.
        TableLayoutError: The write creates a table in a directory that is not empty.
        StorageError: The store refuses or does not answer.
    """
    definition, options = definition_of(request), request.options
    location = definition.location
    staging = options.get(STAGING) or options.get(STAGING_ALIAS) or DEFAULT_STAGING
    creates, commands = isinstance(request.asked, CREATIONS), isinstance(request.asked, COMMANDS)
    partition_commit = {} if commands else chosen_options(definition.properties, options)
    policies = PartitionCommit.of(partition_commit, [c.name for c in definition.partition_columns])
    policies.custom_policy()
    relocate = (
        isinstance(request.asked, Overwrite | OverwritePartitions)
        and options.get(OVERWRITE_MODE) == RELOCATE
        and bool(definition.partition_columns)  # otherwise the table's directory is the only one
    )
    in_place = request.table is not None and request.table.definition.location == location
    fresh = creates and not in_place and _is_new(resources.storage, location, staging)
    located = LocatedPartitions(exist=False, are_all=True, locations={})
    if request.table is not None and not (relocate or creates or commands):
        # With partition commit, a write may also show files of earlier epochs, in partitions without new rows.
        touches = None if partition_commit else request.touches
        located = resources.index.partitions.located_for_write(request.table, touches, LOCATIONS_IN_PLAN)
    promotion = Promotion.UPLOAD if Location.parse(location).scheme == "s3a" else Promotion.RENAME
    return WritePlan(
        change=request.asked,
        location=location,
        staging=staging,
        base=relocation_base(location, request.transaction_id) if relocate else location,
        promotion=promotion,
        hides_uploads=promotion is Promotion.UPLOAD and request.app_id is not None and policies.may_wait,
        relocate=relocate or _leaves_files(request.asked, definition),
        locations=located.locations,
        asks_locations=not located.are_all,
        beside_located=located.exist,
        lease_ms=_lease_ms(options.get(LEASE)),
        created_location=fresh,
        partition_commit=partition_commit,
        hive_locks=_locks(options.get(HIVE_LOCKS), options.get(HIVE_LOCKS_WAIT)),
        moves_user_files=request.moves_user_files,
    )


def _leaves_files(asked: Asked, definition: TableDefinition) -> bool:
    """Return whether the files that a command ends stay until a vacuum, as those that a relocation replaces."""
    return isinstance(asked, Rollback) and bool(definition.partition_columns)


def _is_new(storage: Storage, location: str, staging: str) -> bool:
    """Return whether a new table's directory does not exist yet.

    Raises:
        TableLayoutError: The directory exists and is not empty.
        StorageError: The store refuses or does not answer.
    """
    place = Location.parse(location)
    try:
        entries = storage.list_directory(place)
    except LocationNotFoundError:
        # On S3 a directory without files does not exist, which is fine; but the bucket must exist.
        if storage.stat(Location(place.scheme, place.bucket, "")) is None:
            raise
        return True
    found = [entry for entry in entries if entry.location.name not in (staging, DATA)]
    if found:
        raise TableLayoutError(
            f"A table cannot be created with contents at {shown(location)}: the directory is not empty, it has "
            f"{shown(found[0].location.name)}. Choose another location, or empty it.",
            {"location": location},
        )
    return False


def _base_version(request: BeginWrite) -> int:
    if request.table is None:
        return 0
    is_read = request.reads_replaced or not isinstance(request.asked, CREATIONS)
    return request.table.version if is_read else NOT_READ


def definition_of(request: BeginWrite) -> TableDefinition:
    """Return the definition of the table that a write changes or creates."""
    if isinstance(request.asked, Create | Replace | CreateOrReplace):
        return request.asked.definition
    if request.table is None:
        raise TableNotFoundError("A write needs a table or the definition of one.")
    return request.table.definition


def _locks(mode: str | None, wait: str | None) -> LockSettings:
    """Return the settings for Hive locks; the caller has checked the texts."""
    if mode is None or LockMode(mode.strip().lower()) is LockMode.NONE:
        return WITHOUT_LOCKS
    wait_s = None if wait is None else duration_s(wait.strip())
    return LockSettings(LockMode(mode.strip().lower()), DEFAULT_WAIT_S if wait_s is None else wait_s)


def _lease_ms(text: str | None) -> int:
    seconds = DEFAULT_LEASE_S if text is None else duration_s(text)
    if seconds is None or seconds <= 0:
        raise InvalidConfigurationError(
            f"{text!r} is not a value of {LEASE!r}. Give a duration such as 10m.", {"key": LEASE}
        )
    return round(seconds * 1000)
