"""Random statements on tables that share directories: after each one every living row has its file.

ADD PARTITION, SET LOCATION and repair delete no file. ``docs/design/15-file-lifetime.md`` has the rules.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import (
    ConflictError,
    InvalidInputError,
    LocationNotFoundError,
    PartitionAlreadyExistsError,
    PartitionNotFoundError,
    TableLayoutError,
)
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.predicates.tree import Comparison, Operator
from tests.kit.examples import examples
from tests.kit.repair_cases import local_catalog
from tests.kit.write_cases import RELOCATE, Stand, definition

REFUSED = (
    ConflictError, InvalidInputError, LocationNotFoundError, PartitionAlreadyExistsError, PartitionNotFoundError,
    TableLayoutError,
)  # fmt: skip
"""What a statement may say of a table that is not as it needs it; then it has changed nothing."""

DELETES_NOTHING = {"add", "add there", "set location", "repair", "drop", "append"}
BEGUN = [("append", "t", "1", 0), ("overwrite", "t", "1", 0)]
"""Each example begins with a directory of replaced files, which is what the statements are about."""

tables, values = st.sampled_from(["t", "t", "o"]), st.sampled_from(["1", "1", "2"])
statements = st.lists(
    st.tuples(
        st.sampled_from([
            "append", "overwrite", "in place", "in place", "rename", "exchange", "delete", "truncate",
            "delete in place", "truncate in place", "register again", "drop", "drop", "add", "add",
            "add there", "add there", "set location", "set location", "repair", "vacuum", "vacuum", "vacuum all",
        ]),
        tables, values, st.integers(0, 9),
    ),
    min_size=3,
    max_size=10,
)  # fmt: skip


class Tables:
    """Two tables ``t`` and ``o``, whose partitions may lie in each other's directories.

    External ones lie in two folders, in one, or ``o`` below a hidden folder of ``t``. Each managed one has a folder of
    its own. With ``mixed``, ``t`` is managed and ``o`` external.
    """

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder = folder
        self.managed = kind == "managed"
        self.kind = kind
        self.catalog = local_catalog(folder)
        self.stand = Stand(self.catalog.index)
        for name in ("t", "o"):
            place = folder / self._folder(name)
            place.mkdir(exist_ok=True, parents=True)
            self.stand.create(definition(place, name=name, external=not self.is_managed(name)))
        self.written = 0

    def _folder(self, name: str) -> str:
        if name == "o" and self.kind == "nested":
            return "t/_archive/o"
        return "t" if self.kind == "one folder" else name

    def is_managed(self, name: str) -> bool:
        return self.managed or (self.kind == "mixed" and name == "t")

    def places(self, name: str) -> list[str]:
        """Every directory that holds, or held, a partition's files, and that a partition of the table may have."""
        folder = self.folder / name if self.is_managed(name) else self.folder
        return sorted({f"file://{path}" for path in folder.rglob("k=*") if path.is_dir()})

    def files(self) -> set[Path]:
        return set(self.folder.rglob("*.csv"))

    def run(self, statement: str, name: str, value: str, choice: int) -> None:
        identifier, where = TableIdentifier("s", name), Comparison(Operator.EQ, "k", value)
        table, stand, commands = self.stand.table(identifier), self.stand, self.catalog.partition_commands
        places = self.places(name)
        place = places[choice % len(places)] if places else f"{table.definition.location}/k={value}"
        spec = {"k": value}
        self.written += 1
        match statement:
            case "append":
                stand.write({f"k={value}": f"{self.written}\n"}, table=table)
            case "overwrite":
                kind = WriteKind.OVERWRITE_PARTITIONS
                stand.write({f"k={value}": f"{self.written}\n"}, kind, table=table, options=RELOCATE)
            case "in place":
                stand.write({f"k={value}": f"{self.written}\n"}, WriteKind.OVERWRITE_PARTITIONS, table=table)
            case "rename":
                commands.rename(f"s.{name}", spec, {"k": "3" if choice % 2 else str(3 - int(value))})
            case "exchange":
                commands.exchange(f"s.{name}", "s.o" if name == "t" else "s.t", [spec])
            case "delete" | "truncate":
                stand.engine.delete(table, where, statement == "truncate", options=RELOCATE)
            case "delete in place" | "truncate in place":
                stand.engine.delete(table, where, statement == "truncate in place")
            case "register again":
                self._register_again(name)
            case "drop":
                commands.drop(table, [where], if_exists=True)
            case "add":
                commands.add(f"s.{name}", [(spec, None)])
            case "add there":
                commands.add(f"s.{name}", [(spec, place)])
            case "set location":
                commands.relocate(f"s.{name}", spec, place)
            case "repair":
                mode = "sync" if choice % 2 else "add"
                self.catalog.repair_partitions(f"s.{name}", mode=mode, allow_mass_drop=True)
            case _:
                time.sleep(0.002)
                self.catalog.vacuum(
                    f"s.{name}", retention=0, allow_short_retention=True, unknown_writes=statement == "vacuum all"
                )

    def _register_again(self, name: str) -> None:
        """Forget the table, and register it anew with what lies there."""
        if self.is_managed(name):
            return
        made = self.catalog.unregister_table(f"s.{name}").definition
        self.stand.create(made)
        self.catalog.repair_partitions(f"s.{name}", allow_mass_drop=True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::catalog_ext.tables.locations.TableOverlapWarning")
@pytest.mark.parametrize("kind", ["two folders", "one folder", "nested", "mixed", "managed"])
@settings(max_examples=examples(20), deadline=None, phases=[Phase.explicit, Phase.generate])
@given(statements)
def test_each_living_row_has_its_file_after_each_statement(
    kind: str, statements: list[tuple[str, str, str, int]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tables = Tables(Path(folder), kind)
        with tables.catalog:
            for statement, name, value, choice in [*BEGUN, *statements]:
                before = tables.files()
                with contextlib.suppress(*REFUSED):
                    tables.run(statement, name, value, choice)
                keeps = statement in DELETES_NOTHING and not (tables.is_managed(name) and statement == "drop")
                lost = before - tables.files() if keeps else set()
                if statement == "append":
                    # The first write to a partition's default directory deletes replaced files there.
                    lost = {path for path in lost if path.parent.parent.name not in ("t", "o")}
                assert not lost, f"{statement} deleted {lost}"
                for other in ("t", "o"):
                    tables.stand.rows(TableIdentifier("s", other))
