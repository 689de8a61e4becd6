"""Conflict checks of a reservation: claims of other transactions, their expiry, and changes by repairs and DDL.

A claim is a reserved transaction's right to change a partition, given by a hash of its values or by a predicate.
"""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from catalog_ext.metastore.commit.claims import Claims, chosen_places, claimed_predicate, covers, touched
from catalog_ext.metastore.commit.json import plan_from_dict
from catalog_ext.metastore.commit.transaction import State
from catalog_ext.metastore.errors import ConflictError, InvalidPartitionNameError, InvalidValueError
from catalog_ext.metastore.index.database.clock import NOW_MS
from catalog_ext.metastore.index.database.prepared import Prepared
from catalog_ext.metastore.index.database.schema import (
    partitions,
    table_versions,
    tables,
    transaction_claims,
    transactions,
)
from catalog_ext.metastore.index.database.sqlite_file import ALIVE
from catalog_ext.metastore.index.database.texts import name_hash
from catalog_ext.metastore.index.read.partitions import located_statement
from catalog_ext.metastore.index.write import transaction_rows as rows
from catalog_ext.metastore.index.write.partition_rows import by_values, matching
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.tables import TableType
from catalog_ext.metastore.model.typed_values import checked_values, claim_hash, typed_values
from catalog_ext.metastore.predicates.tree import TRUE, Predicate

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from catalog_ext.metastore.commit.plan import WritePlan
    from catalog_ext.metastore.commit.transaction import Transaction
    from catalog_ext.metastore.model.tables import Partition, Table

PREDICATE_CLAIM = ""
"""The ``claim_hash`` of a claim on all partitions for which the plan's predicate is true."""

_AT_ONCE = 200

CLAIMS_KEPT_MS = 3_600_000
"""Claims are kept for an hour after their transaction: a statement may have read the table before then, and begin its
own transaction only now."""

WITHOUT_WRITE = Prepared(
    sa.select(table_versions.c.version).where(
        table_versions.c.table_id == sa.bindparam("table_id"),
        table_versions.c.version > sa.bindparam("base"),
        table_versions.c.transaction_id.is_(None),
    )
)
"""The query of a table's versions above a base version that repairs or DDL made, and not a write."""


@cache
def _claims_of_others(*, exclusive: bool, named: bool) -> Prepared:
    """Return the query of other transactions' claims that are uncommitted or newer than the base version.

    ``exclusive`` selects only claims of transactions that replace or delete, ``named`` only those with given hashes.
    """
    c = transaction_claims.c
    scope = [
        c.table_id == sa.bindparam("table_id"),
        c.transaction_id != sa.bindparam("mine"),
        sa.or_(c.version.is_(None), c.version > sa.bindparam("base")),
    ]
    if exclusive:
        scope.append(c.exclusive == 1)
    if named:
        scope.append(c.claim_hash.in_(sa.bindparam("hashes", expanding=True)))
    return Prepared(sa.select(c.transaction_id, c.claim_hash, c.name, c.exclusive, c.version).where(*scope))


class ClaimChecks:
    """Compares a transaction's claims with other transactions, and with versions made by repairs or DDL.

    ``connection`` holds the lock of the table's row.

    Attributes:
        without_write: The table's versions above the transaction's base version that repairs or DDL made; None until
            loaded.
    """

    def __init__(self, connection: sa.Connection, known: Transaction) -> None:
        self.connection = connection
        self._known = known
        self.transaction_id = known.transaction_id
        self.without_write: list[int] | None = None

    def require_free(self, table: Table, base: int, mine: Claims, predicate: Predicate | None) -> set[int]:
        """Raise on a conflict with another transaction's claims.

        Returns the versions of committed overwrites by predicate: whether they conflict is not known from claims, so
        the caller must compare the partitions that these versions changed.

        Raises:
            ConflictError: Another transaction claims a partition that this one claims.
        """
        ended: set[int] = set()
        for other_id, (version, theirs) in self._others(table, base, mine).items():
            both = mine.covers is not None and theirs.covers is not None
            existing: Sequence[str] = ()
            if both and version is None:
                existing = [found.name for found in matching(self.connection, table, predicate or TRUE)]
            elif both and version is not None:
                ended.add(version)
            collision = mine.collision(theirs, existing)
            if collision is not None:
                raise self.conflict(table, collision, f"the transaction {other_id} writes to it", other_id)
        return ended

    def _others(self, table: Table, base: int, mine: Claims) -> dict[str, tuple[int | None, Claims]]:
        asked = {"table_id": table.table_id, "mine": self.transaction_id, "base": base}
        # Two appends do not conflict, so a transaction that only adds needs only the exclusive claims.
        statement = _claims_of_others(exclusive=not mine.exclusive, named=mine.covers is None)
        found: list[Mapping[str, Any]] = []
        if mine.covers is not None:
            found.extend(statement.rows(self.connection, asked))
        elif mine.names:
            for chunk in batched([PREDICATE_CLAIM, *mine.names], _AT_ONCE):
                found.extend(statement.rows(self.connection, {**asked, "hashes": list(chunk)}))
        others: dict[str, tuple[int | None, Claims]] = {}
        for row in found:
            other = row["transaction_id"]
            if other not in others:
                others[other] = (row["version"], Claims(bool(row["exclusive"]), {}))
            version, claims = others[other]
            if row["claim_hash"] == PREDICATE_CLAIM:
                others[other] = (version, self.with_predicate(other, claims, table))
            else:
                assert isinstance(claims.names, dict)
                claims.names[row["claim_hash"]] = row["name"]
        return others

    def with_predicate(self, transaction_id: str, claims: Claims, table: Table) -> Claims:
        """Return a transaction's claims, completed with a test whether its plan's predicate covers a partition."""
        plan = plan_from_dict(json.loads(rows.load_row(self.connection, transaction_id)["plan"]), checked=True)
        return Claims(claims.exclusive, claims.names, covers(claimed_predicate(plan, table), table))

    def require_unchanged(
        self, table: Table, base: int, mine: Claims, predicate: Predicate | None, ended: set[int]
    ) -> None:
        """Check that no repair, DDL or one of the versions ``ended`` changed partitions that this transaction replaces.

        Raises:
            ConflictError: A partition was changed.
        """
        versions = {*self.repaired(table, base), *ended}
        if not versions:
            return
        changed = sa.or_(
            partitions.c.begin_version > base,
            sa.and_(partitions.c.end_version > base, partitions.c.end_version < ALIVE),
        )
        named = by_values(self.connection, table, list(mine.names.values()), changed)
        self._raise_if_changed(table, named, versions)
        if predicate is not None:
            self._raise_if_changed(table, matching(self.connection, table, predicate, changed), versions)

    def repaired(self, table: Table, base: int) -> list[int]:
        """Return the versions above the base that repairs or DDL made, which have no claims."""
        of_known = (self._known.table_id, self._known.base_version)
        if self.without_write is not None and (table.table_id, base) == of_known:
            return self.without_write
        return WITHOUT_WRITE.scalars(self.connection, {"table_id": table.table_id, "base": base})

    def _raise_if_changed(self, table: Table, found: Iterator[Partition], versions: Collection[int]) -> None:
        for partition in found:
            for version in (partition.begin_version, partition.end_version):
                if version in versions:
                    raise self.conflict(table, partition.name, f"version {version} of the table changed it")

    def expired(self, table: Table, base: int, known_from: int) -> ConflictError:
        """Return the error for a statement that read a version so old that later changes are no longer recorded."""
        why = f"it was read at version {base}, and what was changed up to {known_from} is not known any more"
        return self.conflict(table, None, why)

    def conflict(self, table: Table, partition: str | None, why: str, transaction: str | None = None) -> ConflictError:
        """Return the error for a transaction that loses against another writer."""
        parameters = {"table": str(table.identifier)}
        if partition is not None:
            parameters["partition"] = partition[:200]
        if transaction is not None:
            parameters["transaction"] = transaction
        where = f"partition {partition[:200]!r} of " if partition else ""
        return ConflictError(
            f"Another writer was first at {where}table {table.identifier}: {why}. Nothing was written; read again "
            "(REFRESH TABLE where Spark has it cached) and retry.",
            parameters,
        )


def forget_claims(connection: sa.Connection, table_id: int) -> None:
    """Remove claims that no transaction needs for a conflict check any more.

    These are claims of versions up to the oldest base version of a running transaction, if they are also an hour old.
    The caller holds the lock of the table's row.
    """
    v, t = table_versions.c, transactions.c
    old = sa.select(v.version).where(v.table_id == table_id, v.committed_at_ms < NOW_MS - CLAIMS_KEPT_MS)
    version = connection.execute(old.order_by(v.version.desc()).limit(1)).scalar()
    live = sa.select(sa.func.min(t.base_version)).where(
        t.table_id == table_id, t.state.in_([str(State.OPEN), str(State.RESERVED)])
    )
    oldest = connection.execute(live).scalar()
    limit = version if oldest is None or version is None else min(version, oldest)
    if not limit:
        return
    c, r = transaction_claims.c, tables.c
    connection.execute(sa.delete(transaction_claims).where(c.table_id == table_id, c.version <= limit))
    connection.execute(sa.update(tables).where(r.table_id == table_id, r.claims_from < limit).values(claims_from=limit))


class PlaceClaims:
    """Claims on the directories that a partition command chooses, as in ADD PARTITION … LOCATION.

    Used under the lock of the command's table row.
    """

    def __init__(self, checks: ClaimChecks, plan: WritePlan, table: Table) -> None:
        self._connection = checks.connection
        self._id = checks.transaction_id
        self._plan = plan
        self._checks = checks
        self._table = table

    def claims(self) -> list[tuple[str, str]]:
        """Check the directories and return the claims, each a hash and the partition's name or the directory.

        Raises:
            ConflictError: Another writer writes to a directory, or has registered a partition there since the command
                read the table.
        """
        places = {place: self._name_at(place) for place in chosen_places(self._plan)}
        if not places:
            return []
        table, own = self._table, touched(self._plan, ())
        keys = table.definition.keys
        claims: dict[str, tuple[str, str | None]] = {
            name_hash(f"at {place}"): (place, None) for place, name in places.items() if name is None
        }
        # Also claim the partitions at these directories: a statement that replaces a partition deletes the files of its
        # directory, even if that is outside of the default directory.
        named = [(place, name) for place, name in places.items() if name is not None]
        named.extend(self._located_at(places))
        named = [(place, name) for place, name in named if name not in own]
        claims |= {claim_hash(typed_values(name, keys), keys): (place, name) for place, name in named}
        self._check_predicates(named)
        c = transaction_claims.c
        for some in batched(sorted(claims), _AT_ONCE):
            others = (c.table_id == table.table_id, c.transaction_id != self._id, c.version.is_(None))
            statement = sa.select(c.transaction_id, c.claim_hash).where(*others, c.claim_hash.in_(some))
            for row in self._connection.execute(statement):
                place, name = claims[row.claim_hash]
                why = f"the transaction {row.transaction_id} writes to {place}"
                raise self._checks.conflict(table, name, why, row.transaction_id)
        # Do not check external tables, whose partitions may share a directory: dropping such a partition deletes no
        # files, and the user was warned.
        if table.definition.table_type is TableType.MANAGED:
            self._check_places(places, own)
        return [(digest, name or place) for digest, (place, name) in claims.items()]

    def _located_at(self, places: Collection[str]) -> Iterator[tuple[str, str]]:
        """Yield the current partitions that have one of the directories as their own location: directory and name."""
        for some in batched(sorted(places), _AT_ONCE):
            for row in self._connection.execute(located_statement(self._table).where(partitions.c.location.in_(some))):
                yield row.location, row.name

    def _check_predicates(self, named: Sequence[tuple[str, str]]) -> None:
        """Check that no reserved transaction replaces, by its predicate, a partition in a chosen directory.

        Raises:
            ConflictError: A reserved transaction replaces the partition.
        """
        c = transaction_claims.c
        reserved = sa.select(c.transaction_id).where(
            c.table_id == self._table.table_id, c.transaction_id != self._id, c.version.is_(None), c.exclusive == 1,
            c.claim_hash == PREDICATE_CLAIM,
        )  # fmt: skip
        for other in self._connection.execute(reserved).scalars().all() if named else ():
            is_replaced = self._checks.with_predicate(other, Claims(exclusive=True, names={}), self._table).covers
            for place, name in named:
                if is_replaced is not None and is_replaced(name):
                    raise self._checks.conflict(
                        self._table, name, f"the transaction {other} replaces what lies at {place}", other
                    )

    def _check_places(self, places: Mapping[str, str | None], own: Collection[str]) -> None:
        for some in batched(sorted(places), _AT_ONCE):
            others = [(name, place) for place, name in self._located_at(some)]
            names = [name for place in some if (name := places[place]) is not None]
            alive = partitions.c.end_version == ALIVE
            found = by_values(self._connection, self._table, names, alive) if names else ()
            others += [(living.name, self._table.directory_of(living)) for living in found]
            for name, place in others:
                if name not in own and place in places:
                    raise self._checks.conflict(self._table, name, f"it has come to lie at {place}")

    def _name_at(self, place: str) -> str | None:
        """Return the name of the partition that has this default directory; None if no partition can have it."""
        root = f"{self._table.definition.location}/"
        if not place.startswith(root):
            return None
        try:
            checked_values(place.removeprefix(root), self._table.definition.keys, str(self._table.identifier))
        except (InvalidPartitionNameError, InvalidValueError):
            return None
        return place.removeprefix(root)
