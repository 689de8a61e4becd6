"""Claims on directories that a partition command chooses (ADD … LOCATION, SET LOCATION)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from catalog_ext.metastore.commit.claims import Claims, chosen_places, touched
from catalog_ext.metastore.errors import InvalidPartitionNameError, InvalidValueError
from catalog_ext.metastore.index.database.schema import ALIVE, partitions, transaction_claims
from catalog_ext.metastore.index.database.texts import name_hash
from catalog_ext.metastore.index.read.partitions import located_statement
from catalog_ext.metastore.index.write.claim_checks import PREDICATE_CLAIM
from catalog_ext.metastore.index.write.partition_rows import by_values
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.tables import TableType
from catalog_ext.metastore.model.typed_values import checked_values, claim_hash, typed_values

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from catalog_ext.metastore.commit.plan import WritePlan
    from catalog_ext.metastore.index.write.claim_checks import ClaimChecks
    from catalog_ext.metastore.model.tables import Table

_AT_ONCE = 200


class PlaceClaims:
    """The directories that one command chooses, under the lock of its table's row.

    Args:
        connection: In a transaction of the database.
        transaction_id: The command's.
        plan: Checked.
        checks: Makes the errors.
        table: The command's table.
    """

    def __init__(
        self, connection: sa.Connection, transaction_id: str, plan: WritePlan, checks: ClaimChecks, table: Table
    ) -> None:
        self._connection = connection
        self._id = transaction_id
        self._plan = plan
        self._checks = checks
        self._table = table

    def claims(self) -> list[tuple[str, str]]:
        """Return the claims, each with what it is on: a partition's name, or a directory.

        Raises:
            ConflictError: Another writer writes there, or has come there since the command looked.
        """
        places = {place: self._name_at(place) for place in chosen_places(self._plan)}
        if not places:
            return []
        table, own = self._table, touched(self._plan, ())
        keys = table.definition.keys
        claims: dict[str, tuple[str, str | None]] = {
            name_hash(f"at {place}"): (place, None) for place, name in places.items() if name is None
        }
        # What replaces a partition deletes the files of its directory, wherever that is.
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
        # Of external tables partitions may share a directory: nothing is deleted with them, and a warning has said so.
        if table.definition.table_type is TableType.MANAGED:
            self._check_places(places, own)
        return [(digest, name or place) for digest, (place, name) in claims.items()]

    def _located_at(self, places: Collection[str]) -> Iterator[tuple[str, str]]:
        """Yield the living partitions that have one of the directories as a location of their own."""
        for some in batched(sorted(places), _AT_ONCE):
            for row in self._connection.execute(located_statement(self._table).where(partitions.c.location.in_(some))):
                yield row.location, row.name

    def _check_predicates(self, named: Sequence[tuple[str, str]]) -> None:
        """Raise when a reserved transaction replaces, by its predicate, a partition in a directory that is chosen."""
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
            others += [(row["name"], self._table.directory(row["name"], row["location"])) for row in found]
            for name, place in others:
                if name not in own and place in places:
                    raise self._checks.conflict(self._table, name, f"it has come to lie at {place}")

    def _name_at(self, place: str) -> str | None:
        """Return the name of the partition whose default directory a place is; None where it is no partition's."""
        root = f"{self._table.definition.location}/"
        if not place.startswith(root):
            return None
        try:
            checked_values(place.removeprefix(root), self._table.definition.keys, str(self._table.identifier))
        except (InvalidPartitionNameError, InvalidValueError):
            return None
        return place.removeprefix(root)
