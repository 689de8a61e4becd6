"""Partition specs: the PARTITION clauses of statements, held against the partition columns of a table or view.

Every statement and every client gets these errors alone for a wrong clause; their texts are also in
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
"""The longest name of a directory that local file systems and HDFS take."""


@dataclass(frozen=True, slots=True)
class Session:
    """What the session that a statement runs in decides about its PARTITION clauses, and its transaction.

    Attributes:
        zone: Whose local time an instant becomes as the value of a TIMESTAMP; None where instants do not fit.
        case_sensitive: Whether names differ by their case.
        settings: What it gives of the settings that a transaction takes over, by key.
    """

    zone: str | None = None
    case_sensitive: bool = False
    settings: Mapping[str, str] = field(default_factory=dict, compare=False)


ANY_SESSION = Session()
"""Of calls that no session makes."""

TIME_ZONE_OPTION = "timezone"
"""Spark's option of the zone, in lower case."""

ANY_VALUE = "any"
"""The operator of a key that INSERT or ANALYZE names without a value."""


@dataclass(frozen=True, slots=True)
class KeyComparison:
    """One comparison of a PARTITION clause.

    Attributes:
        key: The column, as the statement spells it.
        operator: ``=``, ``!=``, ``<``, ``<=``, ``>``, ``>=``, ``in`` or ``any``.
        values: Literals as the statement has them, None for NULL; one, but for ``in``; none for ``any``.
    """

    key: str
    operator: str
    values: tuple[str | None, ...]


def require_partitioned(table: Table) -> None:
    """Return if the table or view has partition columns.

    Raises:
        InvalidPartitionSpecError: It has none.
    """
    if not table.definition.keys:
        what = _subject(table)
        remedy = " Create it with PARTITIONED ON (its last columns)." if _is_view(table) else ""
        raise _error(table, f"{what[0].upper()}{what[1:]} has no partition columns, and so no partitions.{remedy}")


def checked_spec(table: Table, spec: Mapping[str, str | None], session: Session = ANY_SESSION) -> dict[str, str | None]:
    """Return the canonical values of a spec, which may leave keys out, by the table's own names, in its order.

    Args:
        table: The table or view.
        spec: Literals by names, as the statement spells them; None is NULL, and so is the default partition's name.
        session: The session that the statement runs in.

    Raises:
        InvalidPartitionSpecError: A key is unknown or there twice, a value is empty, or there are no keys at all.
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
    """Return ``checked_spec`` of a spec that names every key.

    Raises:
        InvalidPartitionSpecError: As ``checked_spec``, or a key is missing.
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
    """Return the directory's name of a full spec, as a write would make it.

    Raises:
        InvalidPartitionSpecError: As ``full_spec``, or a directory's name would be longer than its store allows.
        InvalidValueError: A value does not fit its column's type.
        InvalidPartitionNameError: A value is too long.
    """
    given = full_spec(table, spec, session)
    name = format_partition_name(list(given), list(given.values()))
    for component in name.split("/"):
        # Object stores have no such limit, and a view has no directories.
        if len(component.encode()) > MAX_COMPONENT_BYTES and table.definition.location.startswith(("file:", "hdfs:")):
            raise _error(
                table, f"The PARTITION clause has a value whose directory's name {component[:200]!r}… of "
                f"{_subject(table)} is longer than the {MAX_COMPONENT_BYTES} bytes that its store allows.",
            )  # fmt: skip
    return name


def spec_condition(table: Table, spec: Mapping[str, str | None], session: Session = ANY_SESSION) -> Predicate:
    """Return the unbound predicate that a partition has the values of a spec, which may leave keys out.

    Raises:
        InvalidPartitionSpecError: As ``checked_spec``, or it names no key.
        InvalidValueError: A value does not fit its column's type.
    """
    given = checked_spec(table, spec, session)
    if not given:
        raise _error(table, f"The PARTITION clause names no partition column of {_subject(table)}.")
    return And(tuple(_equality(name, text) for name, text in given.items()))


def clause_condition(table: Table, clause: Sequence[KeyComparison], session: Session = ANY_SESSION) -> Predicate:
    """Return the unbound predicate of a clause with comparisons, as in DROP PARTITION and ANALYZE.

    Raises:
        InvalidPartitionSpecError: A key is unknown or equal to two values, a value is empty, or there are no keys.
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
    """Return the zone that the table's TIMESTAMP keys are local in, if it is not the session's."""
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
