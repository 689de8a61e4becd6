"""Alterations of a table's columns: only changes after which existing files are still read correctly.

Files are never rewritten. Parquet, ORC and JSON files are read by column name, and so are CSV files with a
header; other CSV and text files by position (``docs/design/16-text-formats.md``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from catalog_ext.metastore.errors import (
    ColumnAlreadyExistsError,
    ColumnNotFoundError,
    InvalidAlterationError,
    PartitionColumnAlterationError,
    UnsupportedTypeChangeError,
)
from catalog_ext.metastore.model.conversions import widening_problem
from catalog_ext.metastore.model.definition_checks import check_column_storable
from catalog_ext.metastore.model.identifiers import validate_column_name
from catalog_ext.metastore.model.tables import Column, TableDefinition
from catalog_ext.metastore.model.types import DataType, Field, parse_type
from catalog_ext.metastore.runtime.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence


Item: TypeAlias = Column | Field
"""A column of a table, or a field of a struct."""

_PARTS = {"array": ("element",), "map": ("key", "value")}

OnLevel: TypeAlias = "Callable[[Sequence[Item], int | None], list[Item]]"
"""A function that changes the items of one level: gets the items and the index of the path's last name, or None."""


def find(items: Sequence[Item], name: str) -> int | None:
    """Return the index of the item with this name, ignoring case; None if no item has it."""
    lower = name.lower()
    return next((i for i, item in enumerate(items) if item.name.lower() == lower), None)


def at_path(items: Sequence[Item], path: Sequence[str], work: OnLevel, table: str) -> list[Item]:
    """Follow the path into nested types, apply ``work`` to the level of its last name, and return the changed items.

    Raises:
        ColumnNotFoundError: A name of the path before the last one is missing; ``work`` decides about the last name.
    """
    at = find(items, path[0])
    if len(path) == 1:
        return work(items, at)
    if at is None:
        raise not_found(path[0], table, [each.name for each in items])
    item = items[at]
    changed = _in_type(item.data_type, path[1:], work, table)
    new = replace(item, type=str(changed)) if isinstance(item, Column) else replace(item, type=changed)
    return [*items[:at], new, *items[at + 1 :]]


def _in_type(data_type: DataType, path: Sequence[str], work: OnLevel, table: str) -> DataType:
    if data_type.name == "struct":
        fields = at_path(data_type.fields, path, work, table)
        return replace(data_type, fields=tuple(f for f in fields if isinstance(f, Field)))
    parts = _PARTS.get(data_type.name, ())
    if path[0].lower() not in parts:
        raise not_found(path[0], table, parts)
    at = parts.index(path[0].lower())
    children = list(data_type.children)
    if len(path) > 1:
        children[at] = _in_type(children[at], path[1:], work, table)
    else:
        # The elements of an array or map are not fields. Present them as fields, so that ``work`` can change their
        # type.
        parts_as_fields = tuple(Field(part, child) for part, child in zip(parts, children, strict=True))
        children = [f.data_type for f in work(parts_as_fields, at)]
    return replace(data_type, children=tuple(children))


def not_found(name: str, table: str, names: Iterable[str], *, shown: str | None = None) -> ColumnNotFoundError:
    """Return the error for a missing column or field, with a suggestion of a similar name.

    ``name`` is the first missing part of the path; ``names`` are the existing names at that place, and the message
    shows the column as ``shown``.
    """
    question = did_you_mean(name, names).strip()
    message = f"Table {table} has no column or field {shown or name!r}."
    return ColumnNotFoundError(f"{message} {question}".strip(), {"table": table, "column": shown or name})


BY_POSITION = ("csv", "text")
"""Formats whose files have no column names, so columns are found by position."""


def reads_headers(definition: TableDefinition) -> bool:
    """Return whether the columns of a table's CSV files are found by the names in the files' headers."""
    options = {name.lower(): value.lower() for name, value in definition.options.items()}
    return (
        definition.format == "csv"
        and options.get("header") == "true"
        and not {"enforceschema", "serde"} & options.keys()
    )


@dataclass(frozen=True, slots=True)
class Position:
    """The position of a column: after another one of its level, or first (``after`` None)."""

    after: str | None = None


@dataclass(frozen=True, slots=True)
class AddColumn:
    """Adds a column, or a field of a struct; see ``catalog_ext.metastore.model.tables.Column``.

    Attributes:
        path: The names of the enclosing columns, then the new column's own name.
        position: The position on its level; None for the end.
    """

    path: tuple[str, ...]
    type: str
    nullable: bool = True
    comment: str | None = None
    default: str | None = None
    existing_default: str | None = None
    position: Position | None = None


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """Renames a column; ``path`` is its present path."""

    path: tuple[str, ...]
    name: str


@dataclass(frozen=True, slots=True)
class DropColumn:
    """Drops a column; a missing column is an error unless ``if_exists``."""

    path: tuple[str, ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class ChangeType:
    """Changes a column's type to a wider one."""

    path: tuple[str, ...]
    type: str


@dataclass(frozen=True, slots=True)
class ChangeNullability:
    """Sets whether a write may leave the column NULL."""

    path: tuple[str, ...]
    nullable: bool


@dataclass(frozen=True, slots=True)
class ChangeComment:
    """Sets a column's comment, or removes it with None."""

    path: tuple[str, ...]
    comment: str | None


@dataclass(frozen=True, slots=True)
class ChangeDefault:
    """Sets a column's default (``Column.default``), or removes it with None; existing files keep their value."""

    path: tuple[str, ...]
    default: str | None


@dataclass(frozen=True, slots=True)
class MoveColumn:
    """Moves a column to another position on its level."""

    path: tuple[str, ...]
    position: Position


ColumnChange: TypeAlias = (
    AddColumn | RenameColumn | DropColumn | ChangeType | ChangeNullability | ChangeComment | ChangeDefault | MoveColumn
)
_COMMENT = "comment"
_OF_KEYS = (ChangeComment, ChangeDefault)
"""The changes that are allowed for a partition column, because directory names do not depend on them."""


def altered(definition: TableDefinition, changes: Sequence[ColumnChange]) -> TableDefinition:
    """Return the definition after all changes, applied in order.

    Raises:
        NotFoundError: A column does not exist.
        AlreadyExistsError: A new name is already in use.
        PartitionColumnAlterationError: A change concerns a partition column.
        UnsupportedTypeChangeError: Files with the old type cannot be read as the new one.
        UnsupportedFormatError: The table's format cannot hold a new type.
        InvalidAlterationError: The table's format does not allow the change, or no column is left.
    """
    result = definition
    for change in changes:
        result = _Alteration(result, change).run()
    if changes and not result.columns:
        raise InvalidAlterationError(
            f"Table {definition.identifier} would have no column left but its partition columns. Drop it instead.",
            {"table": str(definition.identifier)},
        )
    _check_replaced(definition, result, changes)
    return result


def _check_replaced(before: TableDefinition, after: TableDefinition, changes: Sequence[ColumnChange]) -> None:
    """Check that existing files can be read for columns that were dropped and added again (REPLACE COLUMNS)."""
    came = {c.path[0].lower() for c in changes if isinstance(c, AddColumn) and len(c.path) == 1}
    went = {c.path[0].lower() for c in changes if isinstance(c, DropColumn) and len(c.path) == 1}
    for name in sorted(came & went):
        old, new = find(before.columns, name), find(after.columns, name)
        if old is not None and new is not None:
            _check_type(before, name, before.columns[old].data_type, after.columns[new].data_type)


def _check_type(definition: TableDefinition, column: str, old_type: DataType, new_type: DataType) -> None:
    problem = widening_problem(definition.format, old_type, new_type)
    if problem is not None:
        table = str(definition.identifier)
        raise UnsupportedTypeChangeError(
            f"The column {column!r} of table {table} cannot change from {str(old_type).upper()} to "
            f"{str(new_type).upper()}: {problem}. Add a new column, or write the table anew by CREATE TABLE ... AS.",
            {"table": table, "column": column, "from": str(old_type), "to": str(new_type)},
        )


def with_properties(definition: TableDefinition, set_: Mapping[str, str], remove: Sequence[str]) -> TableDefinition:
    """Return the definition with properties set and removed; the property ``comment`` is the table's comment."""
    comment = set_.get(_COMMENT, None if _COMMENT in remove else definition.comment)
    properties = {k: v for k, v in {**definition.properties, **set_}.items() if k not in remove and k != _COMMENT}
    return replace(definition, properties=properties, comment=comment)


@dataclass(frozen=True, slots=True)
class _Alteration:
    """Applies one change to a table's definition."""

    definition: TableDefinition
    change: ColumnChange

    def run(self) -> TableDefinition:
        columns, keys = self.definition.columns, self.definition.partition_columns
        new = isinstance(self.change, AddColumn) and len(self.change.path) == 1
        if not new and find(keys, self.change.path[0]) is not None and find(columns, self.change.path[0]) is None:
            return replace(self.definition, partition_columns=self._altered_keys())
        self._check_format()
        changed = at_path(columns, self.change.path, self._on_level, str(self.definition.identifier))
        result = tuple(c for c in changed if isinstance(c, Column))
        for column in result:
            if column not in columns:
                check_column_storable(column, self.definition.format, self.definition.options, self._table)
        return replace(self.definition, columns=result)

    def _altered_keys(self) -> tuple[Column, ...]:
        if not isinstance(self.change, _OF_KEYS):
            raise PartitionColumnAlterationError(
                f"The column {self.change.path[0]!r} is a partition column of table {self._table}: its values are in "
                "the names of the directories. CALL <catalog>.system.set_partition_columns gives a table other "
                "partition columns.",
                {"table": self._table, "column": self.change.path[0]},
            )
        changed = at_path(self.definition.partition_columns, self.change.path, self._on_level, self._table)
        return tuple(c for c in changed if isinstance(c, Column))

    @property
    def _table(self) -> str:
        return str(self.definition.identifier)

    @property
    def _column(self) -> str:
        return ".".join(self.change.path)

    def _check_format(self) -> None:
        change, file_format = self.change, self.definition.format
        if file_format not in BY_POSITION:
            return
        last = self.definition.columns[-1].name.lower()
        at_end = isinstance(change, AddColumn) and (
            change.position is None or (change.position.after or "").lower() == last
        )
        if isinstance(change, DropColumn | MoveColumn) or (isinstance(change, AddColumn) and not at_end):
            raise self._invalid(
                f"files of the format {file_format} are read by the positions of the columns, so that only columns at "
                "the end can be added"
            )
        if isinstance(change, RenameColumn) and reads_headers(self.definition):
            raise self._invalid(
                "its CSV files have headers, by whose names they are read. Give the column another name in a view"
            )
        if isinstance(change, AddColumn) and file_format == "text":
            raise self._invalid("a table of the format text has one column")

    def _on_level(self, items: Sequence[Item], at: int | None) -> list[Item]:
        """Apply the change to the items of one level; ``at`` is the index of the path's last name, or None."""
        change = self.change
        if isinstance(change, AddColumn):
            return self._add(list(items), change)
        if at is None and isinstance(change, DropColumn) and change.if_exists:
            return list(items)
        if at is None:
            raise not_found(self.change.path[-1], self._table, [each.name for each in items], shown=self._column)
        if isinstance(change, DropColumn):
            if len(items) == 1 and len(change.path) > 1:
                raise self._invalid("the struct would have no field left")
            return [*items[:at], *items[at + 1 :]]
        if isinstance(change, MoveColumn):
            rest = [*items[:at], *items[at + 1 :]]
            return self._insert(rest, items[at], change.position)
        return [*items[:at], self._changed(items, at), *items[at + 1 :]]

    def _add(self, items: list[Item], change: AddColumn) -> list[Item]:
        self._check_free(items, change.path[-1])
        if not change.nullable and change.existing_default is None:
            raise self._invalid("a column that is NOT NULL has no value in the files that are there. Give a DEFAULT")
        name = validate_column_name(change.path[-1])
        column = Column(
            name, str(parse_type(change.type)), change.nullable, change.comment, change.default, change.existing_default
        )
        return self._insert(items, column if len(change.path) == 1 else _field_of(column), change.position)

    def _insert(self, items: list[Item], item: Item, position: Position | None) -> list[Item]:
        if position is None:
            return [*items, item]
        if position.after is None:
            return [item, *items]
        at = find(items, position.after)
        if at is None:
            raise self._invalid(f"there is no column {position.after!r} behind which it could stand")
        return [*items[: at + 1], item, *items[at + 1 :]]

    def _changed(self, items: Sequence[Item], at: int) -> Item:
        item, change = items[at], self.change
        if isinstance(change, RenameColumn):
            self._check_free([*items[:at], *items[at + 1 :]], change.name)
            return replace(item, name=validate_column_name(change.name))
        if isinstance(change, ChangeType):
            return self._with_type(item, change.type)
        if isinstance(change, ChangeNullability):
            if not change.nullable and item.nullable:
                raise self._invalid("files that are there may hold NULL")
            return replace(item, nullable=change.nullable)
        if isinstance(change, ChangeComment):
            return replace(item, comment=change.comment)
        if isinstance(change, ChangeDefault) and isinstance(item, Column):
            return replace(item, default=change.default)
        raise self._invalid("only a column of the table itself has a default")

    def _with_type(self, item: Item, text: str) -> Item:
        new = parse_type(text)
        _check_type(self.definition, self._column, item.data_type, new)
        return replace(item, type=str(new)) if isinstance(item, Column) else replace(item, type=new)

    def _check_free(self, items: Sequence[Item], name: str) -> None:
        of_table = len(self.change.path) == 1
        if of_table and find(self.definition.partition_columns, name) is not None:
            raise PartitionColumnAlterationError(
                f"Table {self._table} has a partition column {name!r} already: a data column cannot have its name.",
                {"table": self._table, "column": name},
            )
        if find(items, name) is not None:
            raise ColumnAlreadyExistsError(
                f"Table {self._table} has a column {'.'.join((*self.change.path[:-1], name))!r} already.",
                {"table": self._table, "column": name},
            )

    def _invalid(self, why: str) -> InvalidAlterationError:
        return InvalidAlterationError(
            f"The column {self._column!r} of table {self._table} cannot be altered so: {why}.",
            {"table": self._table, "column": self._column},
        )


def _field_of(column: Column) -> Item:
    return Field(column.name, column.data_type, column.nullable, column.comment)
