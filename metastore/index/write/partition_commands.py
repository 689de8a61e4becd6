"""Partition commands as part of ``commit_transaction``: what they change, computed from what is alive now."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from catalog_ext.metastore.commit.plan import WriteKind
from catalog_ext.metastore.commit.rules import already_exists, deletes, not_found, travels
from catalog_ext.metastore.errors import ConflictError
from catalog_ext.metastore.index.database.bulk import chunks
from catalog_ext.metastore.index.database.schema import ALIVE, file_statistics, files, partitions
from catalog_ext.metastore.index.write import reservations
from catalog_ext.metastore.index.write import transactions as rows
from catalog_ext.metastore.index.write.apply_changes import Applier, Rewrite, directory
from catalog_ext.metastore.model.changes import AddPartition
from catalog_ext.metastore.model.json import table_from_row
from catalog_ext.metastore.model.tables import DataFile
from catalog_ext.metastore.model.typed_values import claim_hash, typed_values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from catalog_ext.metastore.commit.plan import Transaction
    from catalog_ext.metastore.index.database.database import Database
    from catalog_ext.metastore.model.tables import Table

    Represented = Callable[[Table, Sequence[AddPartition], Sequence[Mapping[str, Any]]], Iterator[AddPartition]]

_AT_ONCE = 500


def partitions_of_values(database: Database, table: Table, names: Sequence[str]) -> list[dict[str, Any]]:
    """The rows of the living partitions whose typed values are those of one of the names."""
    with database.reading() as connection:
        return list(reservations.by_values(connection, table, names, partitions.c.end_version == ALIVE))


def partitions_matching(database: Database, table: Table, predicate: Any) -> list[dict[str, Any]]:  # noqa: ANN401
    """The rows of the living partitions that a bound predicate is true for."""
    with database.reading() as connection:
        return list(reservations.matching(connection, table, predicate))


def files_of_partitions(database: Database, partition_ids: Sequence[int]) -> list[dict[str, Any]]:
    """The rows of the living files of some partitions, in a stable order."""
    f = files.c
    statement = sa.select(files).where(f.partition_id.in_(partition_ids), f.end_version == ALIVE)
    with database.reading() as connection:
        found = connection.execute(statement.order_by(f.partition_id, f.file_id)).mappings().all()
    return [dict(row) for row in found]


class PartitionCommand:
    """One partition command in its commit.

    Args:
        connection: In a transaction that holds the locks of the table's row and, of an exchange, of its source's.
        transaction: The command.
        applier: Applies what is changed in the table.
        source_row: Of an exchange, the row of the table that partitions are taken from.
        remove: Takes the URI of a file, or (with a slash at its end) of an empty directory, that is to be deleted.
        represented: Says of partitions that come which the metastore can have.
        modified: Modification times of files that were moved, by partition and name.
    """

    def __init__(
        self, connection: sa.Connection, transaction: Transaction, applier: Applier,
        source_row: Mapping[str, Any] | None, remove: Callable[[str], None], represented: Represented,
        modified: Mapping[tuple[str, str], int],
    ) -> None:  # fmt: skip
        self._connection = connection
        self._plan = transaction.plan
        self._id = transaction.transaction_id
        self._command = transaction.plan.command
        self._applier = applier
        self._table = applier.table
        self._remove = remove
        self._represented = represented
        self._modified = modified
        self._renames: dict[str, str] | None = None
        self.source: Applier | None = None
        if source_row is not None:
            locked = {**source_row, "version": source_row["version"] + 1}
            self.source = Applier(connection, table_from_row(locked), locked["version"], locked, now=applier.now)

    def run(self) -> None:
        """Applies the command, but for the flush of the table's own applier.

        Raises:
            PartitionAlreadyExistsError, PartitionNotFoundError, ConflictError: The table is not as it was.
        """
        {
            WriteKind.ADD_PARTITIONS: self._add,
            WriteKind.DROP_PARTITIONS: self._drop,
            WriteKind.RENAME_PARTITION: self._rename,
            WriteKind.RELOCATE_PARTITION: self._relocate,
            WriteKind.EXCHANGE_PARTITIONS: self._exchange,
        }[self._plan.kind]()

    def _add(self) -> None:
        wanted = self._command["partitions"]
        there = self._taken([name for name, _ in wanted])
        if there and not self._command["if_not_exists"]:
            raise already_exists(self._table, *next(iter(there.items())))
        found = self._plan.takes_in
        adds = [
            AddPartition(name, _data_files(found.get(name, ())), self._own(name, place))
            for name, place in wanted
            if name not in there
        ]
        for add in self._represented(self._table, adds, ()):
            self._applier.add(add)

    def _taken(self, names: Sequence[str]) -> dict[str, str]:
        """Those of the names whose values a living partition has, with its name."""
        alive = partitions.c.end_version == ALIVE
        keys = self._table.definition.keys
        digests = {
            claim_hash(typed_values(row["name"], keys), keys): row["name"]
            for row in reservations.by_values(self._connection, self._table, names, alive)
        }
        return {name: found for name in names if (found := digests.get(claim_hash(typed_values(name, keys), keys)))}

    def _own(self, name: str, place: str | None) -> str | None:
        return None if place == directory(self._table, {"name": name, "location": None}) else place

    def _drop(self) -> None:
        predicate = reservations.bound_predicate(self._plan, self._table)
        assert predicate is not None
        living = list(reservations.matching(self._connection, self._table, predicate))
        gone = {
            row["partition_id"]: row for row in living if deletes(self._plan, self._table, directory(self._table, row))
        }
        self._remove_data(gone)
        self._applier.drop(living)

    def _remove_data(self, gone: Mapping[int, Mapping[str, Any]]) -> None:
        f = files.c
        for chunk in chunks(list(gone), _AT_ONCE):
            statement = sa.select(f.partition_id, f.path).where(f.partition_id.in_(chunk), f.end_version == ALIVE)
            for partition_id, path in self._connection.execute(statement):
                self._remove(f"{directory(self._table, gone[partition_id])}/{path}")
        for row in gone.values():
            place = directory(self._table, row)
            for path in self._plan.removes.get(row["name"], ()):
                self._remove(f"{place}/{path}")
            self._remove(f"{place}/")

    def _relocate(self) -> None:
        name, place = self._command["name"], self._command["location"]
        alive = partitions.c.end_version == ALIVE
        living = list(reservations.by_values(self._connection, self._table, [name], alive))
        if not living:
            raise not_found(self._table, name)
        # One of the directories of these values stays, which the metastore has if it has any.
        first, *others = sorted(living, key=lambda row: (not row["in_metastore"], row["name"] != name, row["name"]))
        added = _data_files(self._plan.takes_in.get(name, ()))
        self._applier.drop(others)
        self._applier.rewrite([Rewrite(first, added, clear=True, location=self._own(first["name"], place), moved=True)])

    def _rename(self) -> None:
        target = self._command["to"]
        planned = dict(self._command["rows"])
        living = self._planned_rows(self._table, planned)
        if taken := self._taken([target]):
            raise already_exists(self._table, *next(iter(taken.items())))
        first, *others = sorted(living, key=lambda row: list(planned).index(row["partition_id"]))
        added: list[DataFile] = []
        if self._command["moved"]:
            self._leave(self._table, living)
            self._touch(first, target)
            added = [file for row in others for file in self._moved_files(self._table, row, target)]
        (probe,) = self._represented(self._table, [AddPartition(target, ())], living)
        self._applier.drop(others)
        own = None if self._command["moved"] else self._own(target, directory(self._table, first))
        self._applier.rename(first, target, added, location=own, in_metastore=probe.in_metastore)

    def _exchange(self) -> None:
        assert self.source is not None
        source = self.source.table
        planned = {partition_id: version for partition_id, version, _ in self._command["rows"]}
        names = {partition_id: name for partition_id, _, name in self._command["rows"]}
        living = self._planned_rows(source, planned)
        if taken := self._taken(list(names.values())):
            raise already_exists(self._table, *next(iter(taken.items())))
        moving = [row for row in living if travels(source, directory(source, row))]
        self._leave(source, moving)
        moved = {row["partition_id"] for row in moving}
        adds = [
            AddPartition(
                names[row["partition_id"]],
                tuple(self._moved_files(source, row, names[row["partition_id"]])),
                None if row["partition_id"] in moved else directory(source, row),
            )
            for row in living
        ]
        self.source.drop(living)
        self.source.flush()
        for add in self._represented(self._table, adds, ()):
            self._applier.add(add)

    def _planned_rows(self, table: Table, planned: Mapping[int, int]) -> list[dict[str, Any]]:
        """The rows that the command has found before ``reserve``, if they are what is there now."""
        p = partitions.c
        found: list[dict[str, Any]] = []
        for chunk in chunks(list(planned), _AT_ONCE):
            statement = sa.select(partitions).where(p.partition_id.in_(chunk), p.end_version == ALIVE)
            found.extend(dict(row) for row in self._connection.execute(statement).mappings())
        if {row["partition_id"]: row["begin_version"] for row in found} != dict(planned):
            raise ConflictError(
                f"A partition of table {table.identifier} was changed by somebody else, as by a repair, while it was "
                "to be moved. Nothing was changed; try again.",
                {"table": str(table.identifier)},
            )
        return found

    def _leave(self, table: Table, moving: Iterable[Mapping[str, Any]]) -> None:
        """Has what is left at the old places removed: on S3 the files, elsewhere side files and directories."""
        for value in rows.staged_within(self._connection, self._id):
            self._remove(value["source"])
        for row in moving:
            self._remove(f"{directory(table, row)}/")

    def _names(self) -> dict[str, str]:
        """The new names of moved files, by their old URIs."""
        return {value["source"]: value["name"] for value in rows.staged_within(self._connection, self._id)}

    def _touch(self, row: Mapping[str, Any], target: str) -> None:
        """Gives files that stay their partition's the times that their copies have."""
        f = files.c
        changed = [
            {"p": row["partition_id"], "moved": path, "at": at}
            for (name, path), at in self._modified.items()
            if name == target
        ]
        if changed:
            statement = (
                sa.update(files)
                .where(f.partition_id == sa.bindparam("p"), f.path == sa.bindparam("moved"), f.end_version == ALIVE)
                .values(modified_ms=sa.bindparam("at"))
            )
            self._connection.execute(statement, changed)

    def _moved_files(self, table: Table, row: Mapping[str, Any], target: str) -> Iterator[DataFile]:
        """The files of a partition as they are in the one that it becomes, with all that is known of them."""
        f, s = files.c, file_statistics.c
        statement = (
            sa.select(f.path, f.size, f.modified_ms, f.n_rows, s.statistics)
            .select_from(
                files.outerjoin(file_statistics, sa.and_(s.partition_id == f.partition_id, s.file_id == f.file_id))
            )
            .where(f.partition_id == row["partition_id"], f.end_version == ALIVE)
            .order_by(f.file_id)
        )
        place = directory(table, row)
        if self._renames is None:
            self._renames = self._names()
        for file in self._connection.execute(statement):
            path = self._renames.get(f"{place}/{file.path}", file.path)
            at = self._modified.get((target, path), file.modified_ms)
            known = None if file.statistics is None else json.loads(file.statistics)
            yield DataFile(path, file.size, at, file.n_rows, known)


def _data_files(found: Sequence[tuple[str, int, int]]) -> tuple[DataFile, ...]:
    return tuple(DataFile(path, size, at) for path, size, at in found)
