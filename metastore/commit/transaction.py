"""Transactions as values; ``docs/spec/commit-protocol.md`` describes the protocol."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from catalog_ext.metastore.backports import StrEnum

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog_ext.metastore.commit.plan import Asked, WritePlan
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.predicates.tree import Predicate


NOT_READ = -1
VACUUM = "VACUUM"
"""The operation name of a transaction in which a vacuum claims the files that it deletes."""


class State(StrEnum):
    """The states of a transaction."""

    OPEN = "open"
    RESERVED = "reserved"
    COMMITTED = "committed"
    FINISHED = "finished"
    ABORTING = "aborting"
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True)
class Transaction:
    """A row of the index table ``transactions``.

    Attributes:
        table_id: None until the commit that creates the table.
        table: ``namespace.name``, for messages and for creation.
        operation: The user's statement (``INSERT``, ``CTAS``, ``STREAMING`` …), for the history.
        base_version: The version that the statement read; ``NOT_READ`` for a replacement that did not read the table.
        version: The version that the commit made.
        outcome: The result of the write, from the commit on.
        reserved: Whether the transaction has passed ``reserve``; before that none of its files gets a final name.
    """

    transaction_id: str
    table_id: int | None
    table: str
    operation: str
    state: State
    owner: str
    base_version: int
    began_at_ms: int
    expires_at_ms: int
    plan: WritePlan
    ended_at_ms: int | None = None
    app_id: str | None = None
    app_version: int | None = None
    version: int | None = None
    outcome: WriteOutcome | None = None
    error: str | None = None
    reserved: bool = False


TRANSACTION_ID = re.compile(r"(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])")
"""Finds a transaction's id in a file's name."""


def new_transaction_id() -> str:
    """Return a new random transaction id."""
    return secrets.token_hex(16)


def transaction_id_in(name: str) -> str | None:
    """Return the transaction's id in a file's name; None if the name contains none."""
    found = TRANSACTION_ID.search(name)
    return found[0] if found else None


@dataclass(frozen=True, slots=True)
class PlannedFormat:
    """The format of a write's files: the table's format and options when the statement was planned.

    Attributes:
        format: The table's format.
        options: The table's reader options.
    """

    format: str
    options: Mapping[str, str]

    def changes(self, now: PlannedFormat) -> str:
        """Return a text on the differences to the present format; empty without any. Option values may be secrets."""
        found = [] if self.format == now.format else [f"the format, {self.format}, is {now.format}"]
        keys = sorted({*self.options, *now.options})
        names = [repr(key) for key in keys if self.options.get(key) != now.options.get(key)]
        return " and ".join(found + ([f"the options {', '.join(names)} are others"] if names else []))


@dataclass(frozen=True, slots=True)
class BeginWrite:
    """The request to begin a transaction.

    Attributes:
        asked: The requested change.
        operation: The name of the statement for the history.
        owner: The name of the writing process, for people.
        table: The table at the version that the statement read; None if the statement creates the table.
        options: The write's own options, which override the table's properties.
        touches: A bound predicate that is true for every partition that the write can touch; None if it can touch any.
        reads_replaced: Whether the rows of a creation come from the table that it replaces, at ``table``'s version.
        transaction_id: An id that the writer chooses, so that a repeated request begins only one transaction.
        moves_user_files: Whether the write moves the user's own files from their present place (LOAD DATA).
        planned: The format of the write's files. If the table's format has changed since, the request fails. None if
            the write brings no files, or creates its table.
    """

    asked: Asked
    operation: str
    owner: str
    table: Table | None = None
    app_id: str | None = None
    app_version: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    touches: Predicate | None = None
    reads_replaced: bool = False
    transaction_id: str = field(default_factory=new_transaction_id)
    moves_user_files: bool = False
    planned: PlannedFormat | None = None


@dataclass(frozen=True, slots=True)
class BegunWrite:
    """The answer to a writer whose transaction has begun.

    Attributes:
        duplicate: Whether the stream has committed this batch already (``app_id``, ``app_version``). Then no
            transaction begins.
        partition_locations: Directories of the partitions that are not under ``plan.base``, by name.
        lease_ms: The lease in milliseconds; the writer sends a heartbeat after each third of it.
    """

    transaction_id: str
    plan: WritePlan
    partition_locations: Mapping[str, str]
    lease_ms: int
    duplicate: bool = False


@dataclass(frozen=True, slots=True)
class WriteOutcome:
    """The result of a write.

    Attributes:
        version: The table's version after the write; for a batch that was committed before, the version of that commit.
        rows: The rows of the visible files that this write or an earlier epoch of the same stream wrote. None if
            unknown: LOAD DATA moves files without reading them.
        bytes: The bytes of these files.
        waiting: Partitions whose files stay invisible until they are due (``sink.partition-commit.trigger``).
        pending_deliveries: The number of messages that the metastore has not accepted yet.
        commit_ms: The duration of the call of ``commit``, without the metastore.
    """

    transaction_id: str
    table_id: int
    table: str
    operation: str
    version: int
    partitions_added: int = 0
    partitions_removed: int = 0
    partitions_changed: int = 0
    files_added: int = 0
    files_removed: int = 0
    rows: int | None = 0
    bytes: int = 0
    waiting: int = 0
    duplicate: bool = False
    pending_deliveries: int = 0
    commit_ms: int = 0
