"""Checks the PARTITION clauses of statements against the partition columns of a table or view.

Every statement and every client reports a wrong clause with the errors of this module; the texts are also in
``tests/contract/partition_specs.json``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import InvalidInputError, InvalidPartitionSpecError, InvalidValueError
from catalog_ext.metastore.model.partition_names import DEFAULT_PARTITION, format_partition_name
from catalog_ext.metastore.model.tables import TableType
from catalog_ext.metastore.model.values import cast_text, local_text, value_text
from catalog_ext.metastore.predicates.tree import And, Comparison, In, IsNull, Not, Operator, Or, all_of
from catalog_ext.metastore.runtime.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.model.values import Key
    from catalog_ext.metastore.predicates.tree import Predicate

MAX_COMPONENT_BYTES = 255
"""The most bytes that local file systems and HDFS allow in the name of one directory."""


@dataclass(frozen=True, slots=True)
class Session:
    """The settings of a statement's session on which PARTITION clauses and transactions depend.

    Attributes:
        zone: The time zone in which an instant becomes the local time of a TIMESTAMP key; None refuses instants.
        case_sensitive: Whether names that differ only by their case are different.
        settings: The session's values of the settings that a transaction takes over, by setting name.
    """

    zone: str | None = None
    case_sensitive: bool = False
    settings: Mapping[str, str] = field(default_factory=dict, compare=False)


ANY_SESSION = Session()
"""The default settings, for calls that do not come from a Spark session."""

TIME_ZONE_OPTION = "timezone"
"""The name, in lower case, of Spark's table option for the time zone."""

ANY_VALUE = "any"
"""The operator of a key that INSERT or ANALYZE names without a value."""


@dataclass(frozen=True, slots=True)
class KeyComparison:
    """One comparison of a PARTITION clause.

    Attributes:
        key: The column, as the statement spells it.
        operator: ``=``, ``!=``, ``<``, ``<=``, ``>``, ``>=``, ``in`` or ``any``.
        values: The literals as the statement has them, None for NULL: several for ``in``, no value for ``any``, and
            exactly one for every other operator.
    """

    key: str
    operator: str
    values: tuple[str | None, ...]


def require_partitioned(table: Table) -> None:
    """Check that the table or view has partition columns.

    Raises:
        InvalidPartitionSpecError: The table or view has no partition columns.
    """
    if not table.definition.keys:
        what = _subject(table)
        remedy = " Create it with PARTITIONED ON (its last columns)." if _is_view(table) else ""
        raise _error(table, f"{what[0].upper()}{what[1:]} has no partition columns, and so no partitions.{remedy}")


def checked_spec(table: Table, spec: Mapping[str, str | None], session: Session = ANY_SESSION) -> dict[str, str | None]:
    """Return the canonical values of a partition spec, with the table's spelling and order of columns.

    The spec may leave partition columns out.

    Args:
        table: The table or view.
        spec: Literals by column name, as the statement spells them. Both None and the name of the default partition
            mean NULL.
        session: The session that the statement runs in.

    Raises:
        InvalidPartitionSpecError: A column is unknown or is given twice, a value is empty, or the table has no
            partition columns.
        InvalidValueError: A value does not fit its column's type.
    """
    given: dict[str, str | None] = {}
    for name, literal in spec.items():
        key = _key(table, name, session)
        if key.name in given:
            raise _doubled(table, key.name)
        given[key.name] = _canonical(table, key, literal, session)
    require_partitioned(table)
    return {key.name: given[key.name] for key in table.definition.keys if key.name in given}


def full_spec(table: Table, spec: Mapping[str, str | None], session: Session = ANY_SESSION) -> dict[str, str | None]:
    """Return the canonical values of a spec that must name every partition column; see ``checked_spec``.

    Raises:
        InvalidPartitionSpecError: A column is missing, unknown or given twice, a value is empty, or the table has no
            partition columns.
        InvalidValueError: A value does not fit its column's type.
    """
    given = checked_spec(table, spec, session)
    keys = [key.name for key in table.definition.keys]
    missing = [name for name in keys if name not in given]
    if missing:
        raise _error(
            table, f"The PARTITION clause gives no value for {_listed(missing)}; this statement needs one for each "
            f"partition column of {_subject(table)} ({_listed(keys)}).",
        )  # fmt: skip
    return given


def partition_name(table: Table, spec: Mapping[str, str | None], session: Session = ANY_SESSION) -> str:
    """Return the partition name of a full spec (``year=2025/month=01``), in the spelling that a write would use.

    Raises:
        InvalidPartitionSpecError: The spec does not have exactly the table's partition columns, a value is empty, or a
            directory's name would be longer than its store allows.
        InvalidValueError: A value does not fit its column's type.
        InvalidPartitionNameError: A value is too long.
    """
    given = full_spec(table, spec, session)
    name = format_partition_name(list(given), list(given.values()))
    for component in name.split("/"):
        # Only local file systems and HDFS limit the length of a directory's name, and a view has no directories.
        if len(component.encode()) > MAX_COMPONENT_BYTES and table.definition.location.startswith(("file:", "hdfs:")):
            raise _error(
                table, f"The PARTITION clause has a value whose directory's name {component[:200]!r}… of "
                f"{_subject(table)} is longer than the {MAX_COMPONENT_BYTES} bytes that its store allows.",
            )  # fmt: skip
    return name


def spec_condition(table: Table, spec: Mapping[str, str | None], session: Session = ANY_SESSION) -> Predicate:
    """Return the unbound predicate that a partition has the values of a spec, which may leave partition columns out.

    Raises:
        InvalidPartitionSpecError: The spec names no column, an unknown one, or one twice, a value is empty, or the
            table has no partition columns.
        InvalidValueError: A value does not fit its column's type.
    """
    given = checked_spec(table, spec, session)
    if not given:
        raise _error(table, f"The PARTITION clause names no partition column of {_subject(table)}.")
    return And(tuple(_equality(name, text) for name, text in given.items()))


def clause_condition(table: Table, clause: Sequence[KeyComparison], session: Session = ANY_SESSION) -> Predicate:
    """Return the unbound predicate of a clause with comparisons, as in DROP PARTITION and ANALYZE.

    Raises:
        InvalidPartitionSpecError: A column is unknown or must equal two values, a value is empty, or the table has no
            partition columns.
        InvalidValueError: A value does not fit its column's type, or NULL is compared by less or greater.
    """
    require_partitioned(table)
    equal: set[str] = set()
    leaves: list[Predicate] = []
    for comparison in clause:
        key = _key(table, comparison.key, session)
        if comparison.operator == "=" and key.name in equal:
            raise _doubled(table, key.name)
        if comparison.operator == "=":
            equal.add(key.name)
        if comparison.operator != ANY_VALUE:
            leaves.append(_comparison(table, key, comparison, session))
    return all_of(*leaves)


def _comparison(table: Table, key: Key, comparison: KeyComparison, session: Session) -> Predicate:
    operator = comparison.operator
    values = [_canonical(table, key, literal, session) for literal in comparison.values]
    if operator == "in":
        some = In(key.name, tuple(value for value in values if value is not None))
        return some if None not in values else Or((_equality(key.name, None), some))
    (value,) = values
    if operator == "=":
        return _equality(key.name, value)
    if value is not None:
        return Comparison(Operator(operator), key.name, value)
    if operator == "!=":
        return Not(IsNull(key.name))
    raise InvalidValueError(
        f"PARTITION ({key.name} {operator} NULL) is true for no partition of {_subject(table)}: NULL has no order. Say "
        f"{key.name} = NULL for the default partition.",
        {"column": key.name},
    )


def _equality(column: str, value: str | None) -> Predicate:
    return IsNull(column) if value is None else Comparison(Operator.EQ, column, value)


def _key(table: Table, name: str, session: Session) -> Key:
    require_partitioned(table)
    keys = table.definition.keys
    same = (lambda text: text) if session.case_sensitive else str.lower
    found = next((key for key in keys if same(key.name) == same(name)), None)
    if found is None:
        raise _error(
            table, f"The PARTITION clause names '{name[:60]}', which is no partition column of {_subject(table)}; "
            f"those are {_listed(key.name for key in keys)}. {did_you_mean(name[:60], (k.name for k in keys))}".strip(),
        )  # fmt: skip
    return found


def _canonical(table: Table, key: Key, literal: str | None, session: Session) -> str | None:
    """Return the canonical text of a value; None is NULL."""
    if literal is None or literal == DEFAULT_PARTITION:
        return None
    if literal == "":
        raise _error(
            table, f"The PARTITION clause gives the partition column '{key.name}' of {_subject(table)} an empty value, "
            f"which names no partition; say {key.name} = NULL for the default partition.",
        )  # fmt: skip
    try:
        text = local_text(literal, key.type, session.zone, _zone_of_keys(table)) if session.zone else literal
        value = cast_text(text, key.type)
    except InvalidInputError as error:
        raise error.about(f"Partition column {key.name} of {_subject(table)}", {"column": key.name}) from error
    return None if value is None else value_text(value, key.type)


def _zone_of_keys(table: Table) -> str | None:
    """Return the time zone that the table's option sets for its TIMESTAMP keys; None if the session's zone applies."""
    return next((zone for name, zone in table.definition.options.items() if name.lower() == TIME_ZONE_OPTION), None)


def _doubled(table: Table, name: str) -> InvalidPartitionSpecError:
    return _error(table, f"The PARTITION clause gives the partition column '{name}' of {_subject(table)} two values.")


def _error(table: Table, message: str) -> InvalidPartitionSpecError:
    return InvalidPartitionSpecError(message, {"view" if _is_view(table) else "table": str(table.identifier)})


def _is_view(table: Table) -> bool:
    return table.definition.table_type is TableType.VIEW


def _subject(table: Table) -> str:
    return f"{'view' if _is_view(table) else 'table'} {table.identifier}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
