"""LOAD DATA: moves the user's files into a partition, by the commit protocol."""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING

from catalog_ext.conf import write_keys
from catalog_ext.conf.properties import check_not_bucketed, check_one_directory
from catalog_ext.metastore.errors import (
    InvalidInputError,
    InvalidPartitionSpecError,
    LocationNotFoundError,
    TableLayoutError,
    UnsupportedFormatError,
)
from catalog_ext.metastore.model.partition_names import is_hidden
from catalog_ext.metastore.predicates.conditions import bound_to
from catalog_ext.metastore.predicates.partition_specs import ANY_SESSION, Session, partition_name, spec_condition
from catalog_ext.metastore.runtime.local_paths import is_link, real_location
from catalog_ext.metastore.storage.entries import EntryKind
from catalog_ext.metastore.storage.locations import Location, shown
from catalog_ext.metastore.storage.parallel import in_parallel
from catalog_ext.metastore.storage.patterns import compile_components, has_wildcards, parse_pattern
from catalog_ext.metastore.transactions.staging_locations import copies_directory
from catalog_ext.metastore.transactions.taken_files import OPERATION, take_files
from catalog_ext.tables.partition_strategy import check_reachable

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Mapping, Sequence

    from catalog_ext.context import Context
    from catalog_ext.metastore.commit.transaction import WriteOutcome
    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.identifiers import TableIdentifier
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.predicates.tree import Predicate
    from catalog_ext.metastore.storage.entries import Entry
    from catalog_ext.metastore.storage.patterns import Component

_FIRST_BYTES = {"parquet": (b"PAR1", b"PARE"), "orc": (b"ORC",)}
_LOOKED_AT_ONCE = 16


class Loading:
    """Executes LOAD DATA on the tables of a catalog."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def load(
        self, table: Table, path: str, spec: Mapping[str, str | None] | None = None, *, overwrite: bool = False,
        session: Session = ANY_SESSION,
    ) -> WriteOutcome:  # fmt: skip
        """Move files into a table or a partition. Either all files are moved, or none.

        The path is a file, a directory (its visible files are loaded), or a pattern of such paths. The spec has a value
        for each partition column; None for an unpartitioned table.

        Raises:
            InvalidPartitionSpecError, InvalidValueError: The spec does not fit the table.
            LocationNotFoundError: Nothing exists at the path.
            InvalidInputError: The files cannot be loaded: they are on another store, belong to the table or are hidden.
            UnsupportedFormatError: A file is not of the table's format.
            TableLayoutError: The path is in the directory of a table.
            OperationNotSupportedError: The table is bucketed, or its location has wildcards.
            ConflictError: Another writer was first. Every file is at its old place.
        """
        definition = table.definition
        check_not_bucketed(definition)
        check_one_directory(definition, OPERATION)
        name, touches = _partition(table, spec, session)
        check_reachable(self._context.storage, definition, definition.location, write=True)
        files = self._files(table, Location.parse(path))
        self._check_format(table, files)
        options = write_keys.transaction_options(
            {}, session.settings, definition.properties, self._context.settings.conf
        )
        return take_files(
            self._context.transactions, table, name, files, replaces=overwrite, options=options, touches=touches
        )

    def _files(self, table: Table, path: Location) -> list[Entry]:
        """Return the files that the path selects, after checking that they may be loaded."""
        table_location, storage = Location.parse(table.definition.location), self._context.storage
        source = _source(table, path)
        parameters = {"table": str(table.identifier), "location": _place(table, path)}
        if path.scheme != table_location.scheme or (path.scheme == "hdfs" and path.bucket != table_location.bucket):
            raise InvalidInputError(
                f"{source} is on another store than table {table.identifier} "
                f"({shown(str(table_location))}), and LOAD DATA INPATH moves files. LOAD DATA LOCAL INPATH copies "
                "those of the driver's own disk; INSERT … SELECT reads any.",
                parameters,
            )
        tables = _TablePlaces(self._context.index)
        found: list[Entry] | None = None
        for place in self._matches(path):
            self._context.allowed.require(place, reads=False)
            entry = storage.stat(place)
            if entry is not None:
                self._refuse_tables(table, place, tables)
                of_place = [entry] if entry.kind is EntryKind.FILE else self._files_in(table, place)
                found = [*(found or ()), *of_place]
        if found is None:
            raise LocationNotFoundError(
                f"Nothing lies at {source}, which was to be loaded into table {table.identifier}. Correct the path.",
                parameters,
            )
        for one in found:
            self._context.allowed.require(one.location)
        _refuse_hidden_and_links(table, found, parameters)
        if not found:
            raise InvalidInputError(
                f"There is no file at {source} that could be loaded into table {table.identifier}. "
                "Nothing was changed. Correct the path; to empty a table or a partition, run TRUNCATE TABLE.",
                parameters,
            )
        self._refuse_matched(table, found, tables)
        # Remove duplicates: several parts of a pattern may match the same file.
        return list({one.location: one for one in found}.values())

    def _files_in(self, table: Table, place: Location) -> list[Entry]:
        entries = [e for e in self._context.storage.list_directory(place) if not is_hidden(e.location.name)]
        nested = next((entry for entry in entries if entry.kind is not EntryKind.FILE), None)
        if nested is not None:
            source = _source(table, place)
            raise InvalidInputError(
                f"{source} holds the directory {shown(nested.location.name)}, and LOAD DATA loads the "
                f"files of one directory into table {table.identifier}. Load each directory by a statement of its own.",
                {"table": str(table.identifier), "location": _place(table, place)},
            )
        return sorted(entries, key=lambda entry: entry.location)

    def _matches(self, path: Location) -> Iterable[Location]:
        """Yield the locations that a path with wildcards matches; the path itself without wildcards."""
        for alternative in parse_pattern(str(path)):
            places = [Location(path.scheme, path.bucket, "")]
            for component in alternative.components:
                places = [one for place in places for one in self._below(place, component)]
            yield from places

    def _below(self, place: Location, component: Component) -> list[Location]:
        literal = component.literal
        if literal is not None:
            return [place.join(literal)]
        self._context.allowed.require(place, reads=False)
        fits = compile_components((component,))
        try:
            entries = self._context.storage.list_directory(place)
        except LocationNotFoundError:
            return []
        return sorted(
            entry.location
            for entry in entries
            if fits.fullmatch(entry.location.name) and (component.matches_hidden or not is_hidden(entry.location.name))
        )

    def _refuse_tables(self, table: Table, place: Location, tables: _TablePlaces) -> None:
        """Refuse to load files from the directory of a table, because that table would lose them.

        Raises:
            TableLayoutError: The location is in the directory of a table.
        """
        root = Location.parse(table.definition.location)
        if root.contains(place) and copies_directory(place.relative_to(root)) is not None:
            return
        real = place if place.scheme != "file" else Location.parse(real_location(str(place)))
        index = self._context.index
        if (other := self._table_around(place, real, tables)) is not None:
            raise TableLayoutError(
                f"{shown(str(place))} lies in the directory of table {other}, which would lose files of its rows. "
                "INSERT … SELECT copies rows; EXCHANGE PARTITION moves partitions between tables.",
                {"table": str(table.identifier), "location": str(place), "other": str(other)},
            )
        located = index.partitions.within({str(directory) for one in (place, real) for directory in (one, one.parent)})
        if located:
            number, partition, directory = located[0]
            other = index.tables.load_by_id(number).identifier
            raise TableLayoutError(
                f"{shown(str(place))} is of partition {shown(partition)} of table {other}, which lies at "
                f"{shown(directory)} and would lose files of its rows. INSERT … SELECT copies rows.",
                {"table": str(table.identifier), "location": str(place), "other": str(other)},
            )
        if root.contains(place) or root.contains(real):
            raise TableLayoutError(
                f"{shown(str(place))} is of table {table.identifier} itself: MSCK REPAIR TABLE, or ADD PARTITION … "
                "LOCATION, registers files where they are.",
                {"table": str(table.identifier), "location": str(place)},
            )

    def _table_around(self, place: Location, real: Location, tables: _TablePlaces) -> TableIdentifier | None:
        """Return a table whose directory contains a location, by its path or real path; None if no table does."""
        index = self._context.index
        if place.scheme != "file":
            around = index.tables.overlapping(str(place))
            return next(
                (t for t in around if Location.parse(index.tables.load(t).definition.location).contains(place)), None
            )
        # Both the table's location and the given path may be symbolic links, so compare the real paths too.
        for number, at, there in tables.local:
            if at.contains(place) or at.contains(real) or there.contains(real):
                return index.tables.load_by_id(number).identifier
        return None

    def _refuse_matched(self, table: Table, files: Sequence[Entry], tables: _TablePlaces) -> None:
        """Refuse to load files that belong to a table whose location has wildcards.

        Raises:
            TableLayoutError: The location pattern of another table matches a file.
        """
        index = self._context.index
        for number, text in tables.all:
            if not has_wildcards(text):
                continue
            with_pattern = index.tables.load_by_id(number).definition
            for alternative in parse_pattern(text) if with_pattern.has_wildcards else ():
                fits = compile_components(alternative.components)
                for file in files:
                    if alternative.root.contains(file.location) and _is_below(
                        fits, file.location.relative_to(alternative.root)
                    ):
                        other, place = with_pattern.identifier, str(file.location)
                        raise TableLayoutError(
                            f"{shown(place)} is of table {other}, whose location {shown(text)} matches it, and which "
                            "would lose its rows. INSERT … SELECT copies rows.",
                            {"table": str(table.identifier), "location": place, "other": str(other)},
                        )

    def _check_format(self, table: Table, files: Sequence[Entry]) -> None:
        """Check that the files begin with the magic number of the table's format, if the format has one.

        Raises:
            UnsupportedFormatError: A file has another format.
        """
        wanted = _FIRST_BYTES.get(table.definition.format)
        if wanted is None:
            return
        look = partial(self._begins, wanted)
        for file, fits in zip(files, in_parallel(look, files, _LOOKED_AT_ONCE), strict=True):
            if not fits:
                source = _source(table, file.location)
                raise UnsupportedFormatError(
                    f"{source} is no {table.definition.format} file, and every file of table {table.identifier} is "
                    "one. Nothing was moved. Load it into a table of its format, and INSERT … SELECT from that.",
                    {"table": str(table.identifier), "location": _place(table, file.location)},
                )

    def _begins(self, wanted: Sequence[bytes], file: Entry) -> bool:
        with self._context.storage.open_input_file(file.location) as stream:
            return bytes(stream.read(max(map(len, wanted)))).startswith(tuple(wanted))


class _TablePlaces:
    """The locations of all tables of an index, read once for all paths of a LOAD DATA statement."""

    def __init__(self, index: Index) -> None:
        self._index = index

    @cached_property
    def all(self) -> list[tuple[int, str]]:
        """The number and the location of each table."""
        return self._index.tables.locations()

    @cached_property
    def local(self) -> list[tuple[int, Location, Location]]:
        """For tables on local disks, the number, the location, and the real path of the location."""
        there = [(number, text) for number, text in self.all if text.startswith("file:")]
        return [(number, Location.parse(text), Location.parse(real_location(text))) for number, text in there]


def _source(table: Table, place: Location) -> str:
    """Return a path for messages; of a copy of LOAD DATA LOCAL the name of the user's file.

    The service does not know the directory of the user's file, which is on the driver's disk.
    """
    name = _name_of_copy(table, place)
    if name is None:
        return shown(str(place))
    return f"{shown(name)} of the local path" if name else "the local path"


def _place(table: Table, place: Location) -> str:
    """Return a path for the parameters of an error, as ``_source``."""
    name = _name_of_copy(table, place)
    return str(place) if name is None else name or "the local path"


def _name_of_copy(table: Table, place: Location) -> str | None:
    """Return the name of a copy of LOAD DATA LOCAL, ``''`` for the directory of copies; None for other paths."""
    root = Location.parse(table.definition.location)
    copies = copies_directory(place.relative_to(root)) if root.contains(place) else None
    return None if copies is None else place.relative_to(root)[len(copies) :].lstrip("/")


def _is_below(fits: re.Pattern[str], path: str) -> bool:
    """Return whether a table's location pattern matches a path or one of the directories above it."""
    return any(fits.fullmatch("/".join(path.split("/")[:i])) for i in range(1, path.count("/") + 2))


def _partition(table: Table, spec: Mapping[str, str | None] | None, session: Session) -> tuple[str, Predicate | None]:
    """Return the name and the condition of the partition that gets the files; ``''`` and None if unpartitioned.

    Raises:
        InvalidPartitionSpecError, InvalidValueError: The spec does not fit the table.
    """
    definition = table.definition
    if not definition.partition_columns:
        if spec is not None:
            # ``partition_name`` raises the error for a spec of an unpartitioned table.
            partition_name(table, spec, session)
        return "", None
    if spec is None:
        keys = ", ".join(f"{column.name} = …" for column in definition.partition_columns)
        raise InvalidPartitionSpecError(
            f"Table {definition.identifier} is partitioned, and LOAD DATA puts files into one partition. Say "
            f"which: PARTITION ({keys}). INSERT … SELECT from the files spreads rows by their values.",
            {"table": str(definition.identifier)},
        )
    return partition_name(table, spec, session), bound_to(table, spec_condition(table, spec, session))


def _refuse_hidden_and_links(table: Table, found: Sequence[Entry], parameters: dict[str, str]) -> None:
    hidden = next((one for one in found if is_hidden(one.location.name)), None)
    if hidden is not None:
        raise InvalidInputError(
            f"The file {_source(table, hidden.location)} cannot be loaded into table {table.identifier}: names that "
            "begin with '_' or '.' are hidden from every reader. Rename it.",
            parameters,
        )
    link = next((one for one in found if is_link(str(one.location))), None)
    if link is not None:
        # A symbolic link is refused: moving it would not move its rows, which may be in another table's directory, or
        # in the partition that is overwritten.
        raise InvalidInputError(
            f"The file {shown(str(link.location))} cannot be loaded into table {table.identifier}: it is a "
            "symbolic link, and LOAD DATA INPATH moves files. Load the file that it leads to; LOAD DATA LOCAL "
            "INPATH copies it.",
            parameters,
        )
