"""Partition commands before ``reserve``: what each is asked to do (``WritePlan.command``), checked and completed.

==================  =============================================================================================
kind                ``command``: as it is begun, and (after the semicolon) what ``complete`` adds
==================  =============================================================================================
``ADD``             ``partitions``: names with locations (None: the default place), ``if_not_exists``
``DROP``            ``deletes``: ``all`` data, that ``inside`` the table's directory, or ``none``
``RENAME``          ``from``, ``to``: names; ``rows``: the partitions, ``moved``: whether their files are moved
``RELOCATE``        ``name``, ``location``
``EXCHANGE``        ``source_id``, ``source_version``; ``rows``: the source's partitions with their new names,
                    ``source_location``
==================  =============================================================================================

``names``, added to all but ``DROP``, are the partitions of the table that the command claims. ``DROP`` claims what the
plan's predicate is true for, and so does ``EXCHANGE`` in its source.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from catalog_ext.metastore.commit.plan import StagedFile, WriteKind
from catalog_ext.metastore.commit.rules import already_exists, deletes, not_found, travels
from catalog_ext.metastore.errors import (
    InvalidInputError,
    LocationNotFoundError,
    TableLayoutError,
)
from catalog_ext.metastore.index.database.bulk import chunks
from catalog_ext.metastore.index.write.apply_changes import directory
from catalog_ext.metastore.model.partition_names import escape_path_name, is_hidden, split_component
from catalog_ext.metastore.model.tables import TableType
from catalog_ext.metastore.model.typed_values import claim_hash, typed_values
from catalog_ext.metastore.predicates.json import predicate_from_json
from catalog_ext.metastore.predicates.tree import bind
from catalog_ext.metastore.storage.locations import Location, shown
from catalog_ext.metastore.storage.store import EntryKind
from catalog_ext.metastore.transactions.relocations import replaced_by_relocations
from catalog_ext.metastore.transactions.staging_locations import below, transaction_id_in

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from catalog_ext.metastore.commit.plan import Transaction, WritePlan
    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.storage.store import Entry, Storage
    from catalog_ext.metastore.transactions.checking import Checker

_FILES_AT_ONCE = 5000
_PARTITIONS_AT_ONCE = 500
Row = dict[str, Any]


class CommandChecker:
    """Completes the plan of an open partition command; besides directories of new partitions nothing is changed.

    Args:
        index: The index.
        storage: The stores.
        checker: Looks at directories.
    """

    def __init__(self, index: Index, storage: Storage, checker: Checker) -> None:
        self._index = index
        self._storage = storage
        self._checker = checker

    def complete(self, transaction: Transaction) -> WritePlan:
        """The plan with all that is decided before ``reserve``; files that are to be moved are recorded.

        Raises:
            PartitionAlreadyExistsError, PartitionNotFoundError: The partitions are not as the command needs them.
            LocationNotFoundError: A directory outside the table's is not there.
            TableLayoutError: Files lie where a partition is to be moved to.
            InvalidInputError: The command cannot be carried out on this table.
            StorageError: The store refuses or does not answer.
        """
        table = self._index.load_table_by_id(transaction.table_id or 0)
        complete = {
            WriteKind.ADD_PARTITIONS: self._add,
            WriteKind.DROP_PARTITIONS: self._drop,
            WriteKind.RENAME_PARTITION: self._rename,
            WriteKind.RELOCATE_PARTITION: self._relocate,
            WriteKind.EXCHANGE_PARTITIONS: self._exchange,
        }[transaction.plan.kind]
        return complete(transaction, table)

    def _add(self, transaction: Transaction, table: Table) -> WritePlan:
        plan, command = transaction.plan, transaction.plan.command
        there = self._living(table, [name for name, _ in command["partitions"]])
        wanted = [(name, place) for name, place in command["partitions"] if name not in there]
        if there and not command["if_not_exists"]:
            raise already_exists(table, next(iter(there)), next(iter(there.values()))[0]["name"])
        return replace(
            plan,
            takes_in=self._contents(table, {name: self._place(table, name, own) for name, own in wanted}),
            locations={name: own for name, own in wanted if own is not None},
            command={**command, "partitions": wanted, "names": [name for name, _ in wanted]},
        )

    def _relocate(self, transaction: Transaction, table: Table) -> WritePlan:
        plan, command = transaction.plan, transaction.plan.command
        name, place = command["name"], Location.parse(command["location"])
        self._required(table, name)
        own = None if place == self._place(table, name, None) else str(place)
        return replace(
            plan,
            takes_in=self._contents(table, {name: place}),
            command={**command, "location": own, "names": [name]},
        )

    def _drop(self, transaction: Transaction, table: Table) -> WritePlan:
        """Files that the index does not know, such as success files, go with the data that is deleted."""
        plan = transaction.plan
        places = {
            row["name"]: Location.parse(place)
            for row in self._index.partitions_matching(table, self._predicate(plan, table))
            if deletes(plan, table, place := directory(table, row))
        }
        found = self._checker.contents(places)
        if not any(found.values()):
            return plan
        predicates = [self._predicate(plan, table)]
        table = self._index.load_table_by_id(table.table_id)
        known = self._checker.known(table, predicates)
        unknown = {
            name: tuple(entry.location.name for entry in entries)
            for name, entries in self._unknown(table, found, known).items()
        }
        return replace(plan, removes=unknown)

    def _unknown(
        self, table: Table, found: Mapping[str, Sequence[Entry]], known: Collection[str]
    ) -> dict[str, list[Entry]]:
        """The files that neither the index knows nor a write brings; checksums beside data files are not among them."""
        hidden = self._index.uncommitted_ids(table.table_id, table.version)
        unknown = {
            name: [
                entry
                for entry in entries
                if str(entry.location) not in known
                and transaction_id_in(entry.location.name) not in hidden
                and not _is_checksum(entry.location.name)
            ]
            for name, entries in found.items()
        }
        return {name: entries for name, entries in unknown.items() if entries}

    def _rename(self, transaction: Transaction, table: Table) -> WritePlan:
        plan, command = transaction.plan, transaction.plan.command
        rows = self._required(table, command["from"])
        there = self._living(table, [command["to"]])
        if there:
            raise already_exists(table, command["to"], there[command["to"]][0]["name"])
        managed = table.definition.table_type is TableType.MANAGED
        moved = managed and all(row["location"] is None for row in rows)
        if len(rows) > 1 and not moved:
            names = ", ".join(shown(row["name"]) for row in rows)
            raise InvalidInputError(
                f"The partition {shown(command['from'])} of table {table.identifier} has {len(rows)} directories "
                f"({names}), whose files a rename leaves where they are: one partition cannot lie in two places. Bring "
                "them together, or drop one of them, before.",
                {"table": str(table.identifier), "partition": command["from"][:200]},
            )
        if moved:
            self._require_empty(table, {command["to"]: self._place(table, command["to"], None)})
            self._record(transaction, self._moves(table, [(row, command["to"]) for row in rows]))
        return replace(plan, moves=moved, command={
            **command, "names": [command["from"], command["to"]], "moved": moved,
            "rows": [[row["partition_id"], row["begin_version"]] for row in rows],
        })  # fmt: skip

    def _exchange(self, transaction: Transaction, table: Table) -> WritePlan:
        plan, command = transaction.plan, transaction.plan.command
        source = self._index.load_table_by_id(command["source_id"])
        found = self._index.partitions_matching(source, self._predicate(plan, source))
        rows = [(row, _respelled(row["name"], table)) for row in sorted(found, key=lambda row: str(row["name"]))]
        if not rows:
            raise not_found(source, "that the exchange names")
        names = [name for _, name in rows]
        there = self._living(table, names)
        if there:
            raise already_exists(table, next(iter(there)), next(iter(there.values()))[0]["name"])
        moving = [(row, name) for row, name in rows if travels(source, directory(source, row))]
        self._require_same_store(table, source)
        self._require_empty(table, {name: self._place(table, name, None) for _, name in moving})
        self._record(transaction, self._moves(source, moving))
        return replace(plan, moves=bool(moving), command={
            **command, "names": names, "source_location": source.definition.location,
            "rows": [[row["partition_id"], row["begin_version"], name] for row, name in rows],
        })  # fmt: skip

    def _predicate(self, plan: WritePlan, table: Table) -> Any:  # noqa: ANN401 -- a bound predicate
        return bind(predicate_from_json(plan.predicate), table.definition.keys, str(table.identifier))

    def _living(self, table: Table, names: Sequence[str]) -> dict[str, list[Row]]:
        """Those of the names whose values a living partition has, with the rows of these."""
        keys = table.definition.keys
        rows: dict[str, list[Row]] = {}
        for row in self._index.partitions_of_values(table, names):
            rows.setdefault(claim_hash(typed_values(row["name"], keys), keys), []).append(row)
        digests = {name: claim_hash(typed_values(name, keys), keys) for name in names}
        return {name: rows[digest] for name, digest in digests.items() if digest in rows}

    def _required(self, table: Table, name: str) -> list[Row]:
        rows = self._living(table, [name]).get(name)
        if not rows:
            raise not_found(table, name)
        return sorted(rows, key=lambda row: (row["name"] != name, row["name"]))

    @staticmethod
    def _place(table: Table, name: str, own: str | None) -> Location:
        return below(Location.parse(table.definition.location), name) if own is None else Location.parse(own)

    def _contents(self, table: Table, places: Mapping[str, Location]) -> dict[str, tuple[tuple[str, int, int], ...]]:
        """The visible files that are to be registered in each place, but those of writes that are under way."""
        self._require_directories(table, places)
        # Asked before the listing: a file that a finished clean-up has deleted since then is not found by it.
        leaving = self._checker.leaving(table.table_id)
        found = self._checker.visible(places)
        hidden = self._index.uncommitted_ids(table.table_id, table.version)
        replaced = dict(replaced_by_relocations(self._index, table)) if any(found.values()) else {}
        return {
            name: tuple(
                (entry.location.name, entry.size, entry.modified_ms)
                for entry in entries
                if str(entry.location) not in leaving
                and entry.modified_ms > replaced.get(str(entry.location), -1)
                and transaction_id_in(entry.location.name) not in hidden
            )
            for name, entries in found.items()
        }

    def _require_directories(self, table: Table, places: Mapping[str, Location]) -> None:
        """Make the directories that are missing inside the table's; one that is missing elsewhere is an error."""
        root = Location.parse(table.definition.location)
        names = list(places)
        for name, entry in zip(names, self._storage.stat_many([places[name] for name in names]), strict=True):
            place = places[name]
            parameters = {"table": str(table.identifier), "partition": name[:200], "location": str(place)}
            if entry is not None and entry.kind is EntryKind.FILE:
                raise InvalidInputError(
                    f"The location {shown(str(place))} of partition {shown(name)} of table {table.identifier} is a "
                    "file. Give the directory that holds the partition's files.",
                    parameters,
                )
            if entry is not None:
                continue
            if root.contains(place):
                self._storage.create_directory(place)
            elif self._storage.store_has_directories(place) or not self._has_bucket(place):
                raise LocationNotFoundError(
                    f"The location {shown(str(place))} of partition {shown(name)} of table {table.identifier} does not "
                    "exist. Make the directory, or correct the location.",
                    parameters,
                )

    def _has_bucket(self, place: Location) -> bool:
        return self._storage.stat(Location(place.scheme, place.bucket, "")) is not None

    def _require_empty(self, table: Table, places: Mapping[str, Location]) -> None:
        for name, entries in self._checker.visible(places).items():
            if entries:
                raise TableLayoutError(
                    f"The partition {shown(name)} of table {table.identifier} cannot be moved to "
                    f"{shown(str(places[name]))}: files lie there that no partition has, such as "
                    f"{shown(entries[0].location.name)}. Register them (ADD PARTITION), or remove them.",
                    {"table": str(table.identifier), "partition": name[:200], "location": str(places[name])},
                )

    @staticmethod
    def _require_same_store(table: Table, source: Table) -> None:
        ours, theirs = Location.parse(table.definition.location), Location.parse(source.definition.location)
        if (ours.scheme, ours.bucket) != (theirs.scheme, theirs.bucket):
            raise InvalidInputError(
                f"Partitions of table {source.identifier} cannot be moved to table {table.identifier}: "
                f"{shown(str(theirs))} and {shown(str(ours))} are on different stores. Copy them by INSERT … SELECT.",
                {"table": str(table.identifier), "source": str(source.identifier)},
            )

    def _moves(self, table: Table, rows: Iterable[tuple[Row, str]]) -> Iterable[StagedFile]:
        """The files of partitions of a table, with the names of the partitions that they are moved to.

        What else lies in their directories, such as success files, goes with them: otherwise the next repair would
        find the old partitions again.
        """
        taken: set[tuple[str, str]] = set()
        for chunk in chunks(list(enumerate(rows)), _PARTITIONS_AT_ONCE):
            by_id = {row["partition_id"]: (row, name, number) for number, (row, name) in chunk}
            found = self._index.files_of_partitions(list(by_id))
            # Of directories that come together, the first one's files keep their names.
            for file in sorted(found, key=lambda file: by_id[file["partition_id"]][2]):
                row, target, number = by_id[file["partition_id"]]
                path = _free(taken, target, file["path"], number)
                source = f"{directory(table, row)}/{file['path']}"
                yield StagedFile(target, path, file["size"], file["n_rows"], source=source)
            known = {f"{directory(table, by_id[file['partition_id']][0])}/{file['path']}" for file in found}
            places = {str(number): Location.parse(directory(table, row)) for number, (row, _) in chunk}
            targets = {str(number): name for number, (_, name) in chunk}
            for key, entries in self._unknown(table, self._checker.contents(places), known).items():
                for entry in entries:
                    path = _free(taken, targets[key], entry.location.name, int(key))
                    yield StagedFile(targets[key], path, entry.size, source=str(entry.location))

    def _record(self, transaction: Transaction, files: Iterable[StagedFile]) -> None:
        for chunk in chunks(list(files), _FILES_AT_ONCE):
            self._index.record_files(transaction.transaction_id, chunk)


def _free(taken: set[tuple[str, str]], target: str, path: str, number: int) -> str:
    """The file's name in the partition that it is moved to, made another one where the name is taken; notes it."""
    # What is hidden stays so.
    free = path if (target, path) not in taken else f"{path[:1] if is_hidden(path) else ''}{number}-{path}"
    taken.add((target, free))
    return free


def _is_checksum(name: str) -> bool:
    return name.startswith(".") and name.endswith(".crc")


def _respelled(name: str, table: Table) -> str:
    """The partition's name with the keys as the table has them; its values keep their spelling."""
    keys = table.definition.keys
    components = name.split("/")
    values = [(split_component(c) or ("", ""))[1] for c in components]
    return "/".join(f"{escape_path_name(key.name)}={value}" for key, value in zip(keys, values, strict=True))
