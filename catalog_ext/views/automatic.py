"""Automatic views: their partitions are derived by rules from the partitions of their source tables.

``docs/design/3-partitions-and-views.md`` says when they are refreshed.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from catalog_ext.metastore.errors import CatalogExtError, InvalidConfigurationError, InvalidValueError
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.partition_names import format_partition_name, partition_values
from catalog_ext.metastore.model.properties import property_value
from catalog_ext.metastore.model.values import Value, cast_text, value_text
from catalog_ext.metastore.model.views import AUTOMATIC_PROPERTY, Dependency, Source

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.tables import Table, TableDefinition
    from catalog_ext.metastore.model.values import Key
    from catalog_ext.metastore.model.views import View, ViewQuery
    from catalog_ext.metastore_sync.connection import MetastoreConnection

logger = logging.getLogger(__name__)

REQUIRES_PROPERTY = f"{AUTOMATIC_PROPERTY}.requires"
"""The property with the values that must exist of keys that the view does not have, for a partition of the view to be
complete: ``hr=00..23``, ``region=eu|us``, ``hr:24``."""

KEYS_PROPERTY = f"{AUTOMATIC_PROPERTY}.keys."
"""The prefix of properties, followed by ``namespace.table``, that map a table's keys to view columns with other names:
``day=ds``."""

Combination: TypeAlias = tuple[str, ...]
_Found: TypeAlias = "dict[Combination, tuple[Dependency, ...]]"
_ATTEMPTS = 5
"""The most attempts of a refresh, which starts again if the view or a table has changed meanwhile."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """The values of a table's key that must exist for a partition of the view to be complete. The view lacks this key.

    Attributes:
        values: The required values, as text; empty if only a number is required.
        count: The required number of different values; 0 if ``values`` are given.
    """

    key: str
    values: tuple[str, ...] = ()
    count: int = 0


@dataclass(frozen=True, slots=True)
class Rule:
    """How the partitions of one source table determine the view's partitions.

    Attributes:
        columns: Pairs of positions: of a key of the table, and of the view's partition column that it corresponds to.
        required: Pairs of the position of a key that the view lacks, and the requirement for its values.
    """

    table: Table
    columns: tuple[tuple[int, int], ...]
    required: tuple[tuple[int, Requirement], ...] = ()


def rules_of(definition: TableDefinition, tables: Iterable[Table], catalog: str) -> list[Rule]:
    """Return the rules of an automatic view; tables without any of its partition columns have no rule.

    ``tables`` are its source tables; ``catalog`` may stand in front of a table's name in a property.

    Raises:
        InvalidConfigurationError: A property is malformed, or the tables do not have all partition columns.
        InvalidValueError: A required value does not fit its key's type.
    """
    requirements = parse_requirements(property_value(definition.properties, REQUIRES_PROPERTY) or "")
    names = {c.name.lower(): i for i, c in enumerate(definition.partition_columns)}
    known = list(tables)
    _check_keys_properties(definition, known, catalog)
    rules = [rule for table in known if (rule := _rule(table, definition, names, requirements, catalog)).columns]
    _check_complete(definition, rules, requirements)
    return rules


def _rule(
    table: Table, definition: TableDefinition, names: Mapping[str, int], requirements: Sequence[Requirement],
    catalog: str,
) -> Rule:  # fmt: skip
    renamed = _renamed(table, definition, catalog)
    keys = [key.name.lower() for key in table.definition.keys]
    columns = tuple((i, names[renamed.get(k, k)]) for i, k in enumerate(keys) if renamed.get(k, k) in names)
    mapped = {i for i, _ in columns}
    required = tuple((keys.index(r.key), r) for r in requirements if r.key in keys and keys.index(r.key) not in mapped)
    for i, requirement in required:
        for value in requirement.values:
            cast_text(value, table.definition.keys[i].type)
    return Rule(table, columns, required)


def _renamed(table: Table, definition: TableDefinition, catalog: str) -> dict[str, str]:
    name = f"{KEYS_PROPERTY}{table.identifier}".lower()
    entries = [v for k, v in definition.properties.items() if k.lower().replace(f"keys.{catalog}.", "keys.", 1) == name]
    if not entries:
        return {}
    keys = {key.name.lower() for key in table.definition.keys}
    columns = {c.name.lower() for c in definition.partition_columns}
    renamed: dict[str, str] = {}
    for part in entries[0].split(","):
        key, equals, column = (side.strip().lower() for side in part.partition("="))
        if not equals or key not in keys or column not in columns:
            raise InvalidConfigurationError(
                f"The property {name!r} of the view {definition.identifier} cannot be {entries[0][:80]!r}. Write "
                "key=column, with commas between several: a partition column of the table, and one of the view.",
                {"view": str(definition.identifier)},
            )
        renamed[key] = column
    return renamed


def _check_keys_properties(definition: TableDefinition, tables: Sequence[Table], catalog: str) -> None:
    tables_read = {str(t.identifier) for t in tables}
    for name in definition.properties:
        lower = name.lower()
        if lower.startswith(KEYS_PROPERTY):
            table = lower.removeprefix(KEYS_PROPERTY).removeprefix(f"{catalog.lower()}.")
            if table not in tables_read:
                raise InvalidConfigurationError(
                    f"The property {name!r} of the view {definition.identifier} names a table that it does not read. "
                    f"It reads: {', '.join(sorted(tables_read)) or 'none of this catalog'}.",
                    {"view": str(definition.identifier)},
                )


def _check_complete(definition: TableDefinition, rules: Sequence[Rule], requirements: Sequence[Requirement]) -> None:
    found = {column for rule in rules for _, column in rule.columns}
    missing = [c.name for i, c in enumerate(definition.partition_columns) if i not in found]
    if missing or not definition.partition_columns:
        raise InvalidConfigurationError(
            f"The partitions of the view {definition.identifier} cannot be computed automatically: no table that it "
            f"reads is partitioned by {', '.join(missing) or 'anything that the view is partitioned by'}. Say in a "
            f"property {KEYS_PROPERTY}namespace.table which of its keys it is, or leave out {AUTOMATIC_PROPERTY}.",
            {"view": str(definition.identifier)},
        )
    used = {r.key for rule in rules for _, r in rule.required}
    for requirement in requirements:
        if requirement.key not in used:
            raise InvalidConfigurationError(
                f"The property {REQUIRES_PROPERTY!r} of the view {definition.identifier} names {requirement.key!r}, "
                "which must be a partition column of a table that the view reads, and none of its own.",
                {"view": str(definition.identifier)},
            )


def parse_requirements(text: str) -> tuple[Requirement, ...]:
    """Parse the property that says which partitions of its sources a view's automatic partition requires.

    Semicolons separate the requirements: ``key=values`` or ``key:count``.

    Raises:
        InvalidConfigurationError: The text is malformed.
    """
    return tuple(_requirement(part.strip()) for part in text.split(";") if part.strip())


def _requirement(text: str) -> Requirement:
    key, equals, values = text.partition("=")
    if equals and key.strip() and values.strip():
        listed = tuple(v for part in values.split("|") for v in _values(part.strip(), text))
        return Requirement(key.strip().lower(), listed)
    key, colon, count = text.partition(":")
    if colon and key.strip() and count.strip().isdecimal() and int(count) > 0:
        return Requirement(key.strip().lower(), count=int(count))
    raise _no_requirement(text)


def _values(part: str, text: str) -> list[str]:
    low, dots, high = part.partition("..")
    if not dots:
        return [part]
    if not (low.isdecimal() and high.isdecimal() and int(low) <= int(high) and int(high) - int(low) < 100_000):
        raise _no_requirement(text)
    width = len(low) if low.startswith("0") else 0
    return [f"{n:0{width}d}" for n in range(int(low), int(high) + 1)]


def _no_requirement(value: str) -> InvalidConfigurationError:
    return InvalidConfigurationError(
        f"The property {REQUIRES_PROPERTY!r} cannot be {value[:80]!r}. Write hr=00..23, region=eu|us or hr:24, with "
        "semicolons between several."
    )


@dataclass(slots=True)
class _Group:
    """The partitions of a source table that have the same values of the view's columns."""

    names: list[str] = field(default_factory=list)
    seen: dict[int, set[Value]] = field(default_factory=lambda: defaultdict(set))


def complete_partitions(
    definition: TableDefinition, rules: Sequence[Rule], partitions: Sequence[Sequence[str]], catalog: str
) -> dict[str, tuple[Dependency, ...]]:
    """Return the complete partitions of the view by name, each with the source partitions that it depends on.

    ``partitions`` has the partition names of each rule's table. ``catalog`` is the prefix of table names in
    dependencies.
    """
    columns: tuple[int, ...] = ()
    found: _Found = {(): ()}
    for rule, names in zip(rules, partitions, strict=True):
        own = tuple(sorted({column for _, column in rule.columns}))
        relation = f"{catalog}.{rule.table.identifier}"
        complete: _Found = {
            combination: (Dependency(relation, tuple(group.names)),)
            for combination, group in _groups(definition.keys, rule, own, names).items()
            if _is_complete(rule, group)
        }
        columns, found = _joined(columns, found, own, complete)
    ordered = [definition.keys[i].name for i in sorted(columns)]
    return {format_partition_name(ordered, combination): dependencies for combination, dependencies in found.items()}


def _groups(keys: Sequence[Key], rule: Rule, own: Sequence[int], names: Iterable[str]) -> dict[Combination, _Group]:
    groups: dict[Combination, _Group] = defaultdict(_Group)
    types = [key.type for key in rule.table.definition.keys]
    for name in names:
        texts = partition_values(name)
        found = {column: _as_column(texts[i], keys[column]) for i, column in rule.columns}
        if any(text is None for text in found.values()):
            continue
        group = groups[tuple(found[column] or "" for column in own)]
        group.names.append(name)
        for i, _ in rule.required:
            text = texts[i]
            if text is not None:
                group.seen[i].add(cast_text(text, types[i]))
    return groups


def _as_column(text: str | None, column: Key) -> str | None:
    """Return a key's value in the type of the view's column; None for NULL, or if the value does not cast."""
    if not text:
        return None
    try:
        value = cast_text(text, column.type)
    except InvalidValueError:
        return None
    return None if value is None else value_text(value, column.type)


def _is_complete(rule: Rule, group: _Group) -> bool:
    for i, requirement in rule.required:
        seen = group.seen[i]
        data_type = rule.table.definition.keys[i].type
        if requirement.count and len(seen) < requirement.count:
            return False
        if any(cast_text(value, data_type) not in seen for value in requirement.values):
            return False
    return True


def _joined(
    left_columns: Sequence[int], left: _Found, right_columns: Sequence[int], right: _Found
) -> tuple[tuple[int, ...], _Found]:
    """Join the value combinations of two source tables on the view's columns that both have (an inner join)."""
    shared = [c for c in left_columns if c in right_columns]
    columns = tuple(sorted({*left_columns, *right_columns}))
    by_shared: dict[Combination, list[Combination]] = defaultdict(list)
    for combination in right:
        by_shared[tuple(combination[right_columns.index(c)] for c in shared)].append(combination)
    joined: _Found = {}
    for mine, dependencies in left.items():
        for theirs in by_shared[tuple(mine[left_columns.index(c)] for c in shared)]:
            values = dict(zip(right_columns, theirs, strict=True)) | dict(zip(left_columns, mine, strict=True))
            joined[tuple(values[c] for c in columns)] = (*dependencies, *right[theirs])
    return columns, joined


class ViewRefresh:
    """Refreshes automatic views. It is created before the ``Context``, whose ``sync`` calls it after each change."""

    def __init__(self, index: Index, metastore: MetastoreConnection, catalog: str) -> None:
        self._index = index
        self._metastore = metastore
        self._catalog = catalog

    def refresh(self, identifier: TableIdentifier) -> View:
        """Update an automatic view's partitions from its tables. A view of another kind does not change.

        Raises:
            ViewNotFoundError: There is no such view.
            InvalidConfigurationError: The view's properties do not fit its tables any more.
        """
        for _ in range(_ATTEMPTS):
            there = self._index.views.load(identifier)
            if not there.automatic or not self._refreshed(there):
                break
        return self._index.views.load(identifier)

    def refresh_stale(self) -> None:
        """Refresh the views whose tables have changed. A failed refresh is logged, and repeated after the next change.

        It runs after the commit of a table's change, which stays even if the refresh fails.
        """
        try:
            for identifier in self._index.views.stale():
                self._refresh_one(identifier)
        except CatalogExtError as error:
            logger.warning("The partitions of automatic views are not in sync: %s", error.message)

    def _refresh_one(self, identifier: TableIdentifier) -> None:
        try:
            self.refresh(identifier)
        except CatalogExtError as error:
            logger.warning("The partitions of the view %s are not in sync: %s", identifier, error.message)

    def _refreshed(self, view: View) -> bool:
        """Compute the view's partitions once, and store them if they changed.

        Return whether the view or a table has changed meanwhile, so that the refresh must be repeated.
        """
        wanted, sources = self._wanted(view)
        commit = self._index.views.refresh(view, wanted, sources, deliver=self._metastore.accepts(view.definition))
        return commit is None or view.identifier in self._index.views.stale()

    def _wanted(self, view: View) -> tuple[dict[str, tuple[Dependency, ...]], list[Source]]:
        """Compute the view's partitions from its tables; return them with the versions of the tables."""
        tables = self.tables(view.query)
        if len(tables) < len(view.query.tables):
            # With a dropped source table the view cannot be queried, so it gets no partitions.
            there = {t.identifier: t for t in tables}
            names = map(TableIdentifier.parse, view.query.tables)
            return {}, [_source(there[n]) if n in there else Source(n) for n in names]
        rules = rules_of(view.definition, tables, self._catalog)
        partitions = [self._table_partitions(rule) for rule in rules]
        wanted = complete_partitions(view.definition, rules, partitions, self._catalog)
        return wanted, [_source(rule.table) for rule in rules]

    def _table_partitions(self, rule: Rule) -> list[str]:
        listed = self._index.partitions.all(rule.table, None)
        return [name for batch in listed for name in batch.column("partition").to_pylist()]

    def tables(self, query: ViewQuery) -> list[Table]:
        """Return the tables that the view's query names, without those that do not exist."""
        identifiers = [TableIdentifier.parse(name) for name in query.tables]
        found = (self._index.tables.find(identifier) for identifier in identifiers)
        return [table for table in found if table is not None]


def _source(table: Table) -> Source:
    return Source(table.identifier, table.table_id, table.version)
