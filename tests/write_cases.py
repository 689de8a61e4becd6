"""What the tests of writes share: a table, its engine, a writer that stages text files, and the naive truth."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metastore.errors import NamespaceAlreadyExistsError
from metastore.identifiers import TableIdentifier
from metastore.model import Column, Namespace, Table, TableDefinition, TableType
from metastore.storage.locations import Location
from metastore.storage.store import Storage
from metastore.transactions.engine import Transactions
from metastore.transactions.model import BeginWrite, BegunWrite, Promotion, StagedFile, WriteKind
from metastore.transactions.places import Places

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from metastore.index import Index
    from metastore.transactions.model import Upload, WriteOutcome

TABLE = TableIdentifier("s", "t")


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
            self.index.create_namespace(Namespace(table.identifier.namespace), deliver=False)
        self.storage.create_directory(table.location)
        return self.index.create_table(table, deliver=False)

    def table(self, identifier: TableIdentifier = TABLE) -> Table:
        return self.index.load_table(identifier)

    def begin(self, kind: WriteKind = WriteKind.APPEND, table: Table | None = None, **more: Any) -> BegunWrite:
        table = None if more.get("definition") is not None and table is None else table or self.table()
        return self.engine.begin(BeginWrite(kind, more.pop("operation", "INSERT"), "test", table, **more))

    def put(self, begun: BegunWrite, files: Mapping[str, str], *, task: int = 0) -> list[StagedFile]:
        """Writes files (one a partition: content by the partition's name) as a task would."""
        places = Places(begun.transaction_id, begun.plan)
        staged: list[StagedFile] = []
        for number, (partition, content) in enumerate(files.items()):
            name = f"part-{task:05d}-{begun.transaction_id}-c{number:03d}.csv"
            file = StagedFile(partition, name, len(content), rows=content.count("\n"))
            if begun.plan.promotion is Promotion.UPLOAD:
                assert self.upload is not None
                target = places.directory(partition).join(name)
                file = replace(file, upload=self.upload(target, content.encode()))
            else:
                source = places.place(file).source
                assert source is not None
                self.storage.create_directory(source.parent)
                self.storage.write_file(source, content.encode())
            staged.append(file)
        return staged

    def write(self, files: Mapping[str, str], kind: WriteKind = WriteKind.APPEND, **more: Any) -> WriteOutcome:
        """A whole write."""
        ending = {name: more.pop(name) for name in ("keep", "watermark_ms", "final") if name in more}
        begun = self.begin(kind, **more)
        return self.engine.commit(begun.transaction_id, self.put(begun, files), **ending)

    def rows(self, identifier: TableIdentifier = TABLE) -> dict[str, str]:
        """What a reader of the index reads: the contents of the files, sorted, by partition."""
        table = self.table(identifier)
        found = dict.fromkeys(self.index.list_partitions(table, None).read_all().column("partition").to_pylist(), "")
        parts: dict[str, list[str]] = {}
        for row in self.index.plan_files(table, None).read_all().to_pylist():
            base = row["location"] or "/".join(filter(None, (table.definition.location, row["partition"])))
            with self.storage.open_input_file(f"{base}/{row['path']}") as stream:
                content = stream.read().decode()
            assert len(content) == row["size"]
            parts.setdefault(row["partition"], []).append(content)
        return {**found, **{name: "".join(sorted(contents)) for name, contents in parts.items()}}

    def listed(self, identifier: TableIdentifier = TABLE) -> dict[str, str]:
        """What an engine that lists directories reads; of partitions at their own location, that."""
        table = self.table(identifier)
        root = Path(table.definition.location.removeprefix("file://"))
        own = self.index.located_partitions(table)
        found: dict[str, str] = {}
        depth = len(table.definition.partition_columns)
        for folder, directories, names in os.walk(root):
            directories[:] = [d for d in directories if not d.startswith(("_", "."))]
            relative = os.path.relpath(folder, root)
            name = "" if relative == "." else relative
            if len([part for part in name.split("/") if part]) == depth and name not in own:
                found[name] = _contents(Path(folder), names)
        for name, location in own.items():
            folder = Path(location.removeprefix("file://"))
            found[name] = _contents(folder, os.listdir(folder))
        return found

    def strays(self, identifier: TableIdentifier = TABLE) -> list[str]:
        """Files below the table's folder that no version shows, hidden ones too, and empty hidden directories."""
        table = self.table(identifier)
        root = Path(table.definition.location.removeprefix("file://"))
        known: set[str] = set()
        for row in self.index.plan_files(table, None).read_all().to_pylist():
            base = row["location"] or "/".join(filter(None, (table.definition.location, row["partition"])))
            known.add(f"{base}/{row['path']}".removeprefix("file://"))
        found: list[str] = []
        for folder, directories, names in os.walk(root):
            found.extend(path for name in names if (path := f"{folder}/{name}") not in known)
            found.extend(f"{folder}/{d}/" for d in directories if d.startswith("_") and not os.listdir(f"{folder}/{d}"))
        return sorted(os.path.relpath(path, root) for path in found)


def _contents(folder: Path, names: list[str]) -> str:
    visible = [n for n in names if not n.startswith(("_", "."))]
    return "".join(sorted((folder / n).read_text() for n in visible))
