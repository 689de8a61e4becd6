"""Look-ups for statements: checks that PARTITION clauses match partitions, and suggests similar names of tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.rules import not_found
from catalog_ext.metastore.errors import CatalogExtError, NamespaceNotFoundError, TableNotFoundError
from catalog_ext.metastore.predicates.conditions import bound_to
from catalog_ext.metastore.predicates.json import predicate_to_json
from catalog_ext.metastore.predicates.partition_specs import ANY_VALUE
from catalog_ext.metastore.predicates.tree import And, Comparison, IsNull, StringMatch
from catalog_ext.metastore.runtime.wording import did_you_mean

if TYPE_CHECKING:
    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.predicates.conditions import PartitionClauses
    from catalog_ext.metastore.predicates.tree import Predicate


def require_match(index: Index, table: Table, predicate: Predicate, *, droppable: bool = False) -> None:
    """Check that a predicate is true for some partition. ``droppable`` words the error for a statement that drops.

    Raises:
        PartitionNotFoundError: The predicate is true for no partition.
        InvalidPredicateError, InvalidValueError: The predicate does not fit the table's partition columns.
    """
    with index.partitions.all(table, bound_to(table, predicate)) as found:
        if not any(batch.num_rows for batch in found):
            raise not_found(table, in_words(predicate), droppable=droppable)


def require_matches(index: Index, table: Table, clauses: PartitionClauses, *, full_only: bool = False) -> None:
    """Check that each PARTITION clause with a value names a partition. A clause without a value means all partitions.

    With ``full_only`` a clause that leaves out a partition column may match nothing, as in Spark's TRUNCATE.

    Raises:
        PartitionNotFoundError: A clause matches no partition.
        InvalidPartitionSpecError, InvalidValueError: A clause does not fit the table's partition columns.
    """
    for clause, condition in zip(clauses.clauses, clauses.conditions(table), strict=True):
        given = [comparison for comparison in clause if comparison.operator != ANY_VALUE]
        is_full = len(given) == len(table.definition.partition_columns)
        if given and (is_full or not full_only):
            require_match(index, table, condition)


def in_words(predicate: Predicate) -> str:
    """Return an unbound predicate as text for an error message: ``key=value`` pairs where possible, else JSON."""
    match predicate:
        case And(args):
            return ", ".join(in_words(arg) for arg in args)
        case IsNull(column):
            return f"{column}=NULL"
        case Comparison(operator, column, value):
            return f"{column}{operator}{value}"
        case StringMatch(kind, column, pattern):
            return f"{column}{kind}{pattern}"
        case _:
            return f"with {predicate_to_json(predicate)}"


def similar_tables(index: Index, asked: str, most: int = 1) -> str:
    """Return a "Did you mean …?" question with similar tables or views; an empty text if no name is similar."""
    names = (
        f"{space}.{name}"
        for space in index.namespaces.all()
        for name in (*index.tables.all(space), *index.views.list_names(space))
    )
    return did_you_mean(asked, names, most)


def similar_namespaces(index: Index, asked: str) -> str:
    """Return a "Did you mean …?" question with a similar namespace; an empty text if no name is similar."""
    return did_you_mean(asked, index.namespaces.all())


def asked_again(index: Index, error: CatalogExtError) -> CatalogExtError:
    """Return the error; for a missing table or namespace, with a suggestion of a similar name."""
    asked = next(iter(error.parameters.values()), "")
    if type(error) is TableNotFoundError:
        question = similar_tables(index, asked)
    elif type(error) is NamespaceNotFoundError:
        question = similar_namespaces(index, asked)
    else:
        return error
    return type(error)(f"{error.message} {question.strip()}", error.parameters) if question else error
