"""A table, its engine, a writer of text files, and a simple reference for the expected rows."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from catalog_ext.metastore.commit.plan import Promotion, asked_write
from catalog_ext.metastore.commit.staged_files import StagedFile
from catalog_ext.metastore.commit.transaction import BeginWrite, BegunWrite
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import CatalogExtError, NamespaceAlreadyExistsError
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.partition_names import is_hidden
from catalog_ext.metastore.model.tables import Column, Namespace, Table, TableDefinition, TableType
from catalog_ext.metastore.predicates.tree import Comparison, Operator
from catalog_ext.metastore.storage.entries import ListedFile, ListingFailure
from catalog_ext.metastore.storage.listing import list_tree
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.storage.store import Storage
from catalog_ext.metastore.transactions.staging_locations import StagingLocations
from catalog_ext.metastore.transactions.write_protocol import Transactions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from catalog_ext.metastore.commit.staged_files import Upload
    from catalog_ext.metastore.commit.transaction import WriteOutcome
    from catalog_ext.metastore.index import Index

TABLE = TableIdentifier("s", "t")
K1 = Comparison(Operator.EQ, "k", "1")
DYNAMIC = WriteKind.OVERWRITE_PARTITIONS
RELOCATE = {"overwrite-mode": "relocate"}


def definition(
    location: Path | str, keys: Mapping[str, str] | None = None, *, name: str = "t", external: bool = False
) -> TableDefinition:
    """A CSV table; ``location`` is a folder or a URI."""
    return TableDefinition(
        TableIdentifier("s", name),
        TableType.EXTERNAL if external else TableType.MANAGED,
        "csv",
        str(Location.parse(str(location))),
        (Column("x", "int"),),
        tuple(Column(k, t) for k, t in ({"k": "int"} if keys is None else keys).items()),
    )


@dataclass
class Stand:
    """An engine on an index, with one table or more."""

    index: Index
    storage: Storage = field(default_factory=Storage)
    options: dict[str, Any] = field(default_factory=dict)
    upload: Callable[[Location, bytes], Upload] | None = None

    def __post_init__(self) -> None:
        self.engine = Transactions(self.index, self.storage, **{"unknown_timeout_s": 0.0, **self.options})

    def create(self, table: TableDefinition) -> Table:
        with contextlib.suppress(NamespaceAlreadyExistsError):
            self.index.namespaces.create(Namespace(table.identifier.namespace), deliver=False)
        self.storage.create_directory(table.location)
        return self.index.tables.create(table, deliver=False)

    def table(self, identifier: TableIdentifier = TABLE) -> Table:
        return self.index.tables.load(identifier)

    def begin(self, kind: WriteKind = WriteKind.APPEND, table: Table | None = None, **more: Any) -> BegunWrite:
        table = None if more.get("definition") is not None and table is None else table or self.table()
        names = ("predicate", "keep_emptied", "adds_others", "definition")
        asked = asked_write(kind, **{name: more.pop(name) for name in names if name in more})
        return self.engine.begin(BeginWrite(asked, more.pop("operation", "INSERT"), "test", table, **more))

    def put(self, begun: BegunWrite, files: Mapping[str, str], *, task: int = 0) -> list[StagedFile]:
        """Writes files (one a partition: content by the partition's name) as a task would."""
        locations = StagingLocations(begun.transaction_id, begun.plan)
        staged: list[StagedFile] = []
        for number, (partition, content) in enumerate(files.items()):
            name = f"part-{task:05d}-{begun.transaction_id}-c{number:03d}.csv"
            file = StagedFile(partition, name, len(content), rows=content.count("\n"))
            if begun.plan.promotion is Promotion.UPLOAD:
                assert self.upload is not None
                file = replace(file, upload=self.upload(locations.put(partition, name), content.encode()))
            else:
                source = locations.locate(file).source
                assert source is not None
                self.storage.create_directory(source.parent)
                self.storage.write_file(source, content.encode())
            staged.append(file)
        return staged

    def write(self, files: Mapping[str, str], kind: WriteKind = WriteKind.APPEND, **more: Any) -> WriteOutcome:
        """A whole write."""
        ending = {name: more.pop(name) for name in ("static_partition", "watermark_ms", "final") if name in more}
        begun = self.begin(kind, **more)
        try:
            staged = self.put(begun, files)
        except CatalogExtError as error:
            self.engine.abort(begun.transaction_id, error.message)
            raise
        return self.engine.commit(begun.transaction_id, staged, **ending)

    def rows(self, identifier: TableIdentifier = TABLE) -> dict[str, str]:
        """What a reader of the index reads: the contents of the files, sorted, by partition."""
        table = self.table(identifier)
        found = dict.fromkeys(self.index.partitions.all(table, None).read_all().column("partition").to_pylist(), "")
        parts: dict[str, list[str]] = {}
        for row in self.index.files.plan(table, None).read_all().to_pylist():
            base = row["location"] or "/".join(filter(None, (table.definition.location, row["partition"])))
            content = self._read(f"{base}/{row['path']}")
            assert len(content) == row["size"]
            parts.setdefault(row["partition"], []).append(content)
        return {**found, **{name: "".join(sorted(contents)) for name, contents in parts.items()}}

    def listed(self, identifier: TableIdentifier = TABLE) -> dict[str, str]:
        """What an engine that lists directories reads; of partitions at their own location, that."""
        table = self.table(identifier)
        own = self.index.partitions.located(table)
        root = Location.parse(table.definition.location)
        depth = len(table.definition.partition_columns)
        found: dict[str, list[str]] = {name: [] for name in (own if depth else {"": ""})}
        for directory, file in self._walked(root):
            components = [part for part in directory.split("/") if part]
            if len(components) != depth or any(is_hidden(c) for c in components) or directory in own:
                continue
            contents = found.setdefault(directory, [])
            if file is not None and not is_hidden(file):
                contents.append(self._read(f"{root}/{directory}/{file}"))
        for name, location in own.items():
            files = (file for directory, file in self._walked(Location.parse(location)) if not directory)
            found[name] = [self._read(f"{location}/{file}") for file in files if file and not is_hidden(file)]
        return {name: "".join(sorted(contents)) for name, contents in found.items()}

    def strays(self, identifier: TableIdentifier = TABLE) -> list[str]:
        """Files below the table's folder that no version shows, hidden ones, hidden empty folders and uploads too."""
        table = self.table(identifier)
        root = Location.parse(table.definition.location)
        known: set[str] = set()
        for row in self.index.files.plan(table, None).read_all().to_pylist():
            base = row["location"] or "/".join(filter(None, (table.definition.location, row["partition"])))
            known.add(f"{base}/{row['path']}".removeprefix(f"{root}/"))
        walked = list(self._walked(root))
        paths = {"/".join(filter(None, (directory, file))) for directory, file in walked if file is not None}
        parents = {directory.rpartition("/")[0] for directory, file in walked if file is None and directory}
        filled = {directory for directory, file in walked if file is not None} | parents
        hollow = {d for d, file in walked if file is None and d not in filled and is_hidden(d.rpartition("/")[2])}
        uploads = [str(u.location) for u in self.storage.uploads_to(root).pending(root)] if root.scheme == "s3a" else []
        return sorted([*(paths - known), *hollow, *uploads])

    def _walked(self, root: Location) -> Iterator[tuple[str, str | None]]:
        """Every directory (without a file) and file below the root."""
        for event in list_tree(self.storage, root, descend=lambda _: True, depth_hint=1):
            assert not isinstance(event, ListingFailure)
            yield (event.directory, event.name if isinstance(event, ListedFile) else None)

    def _read(self, uri: str) -> str:
        with self.storage.open_input_file(uri) as stream:
            content: str = stream.read().decode()
        return content
