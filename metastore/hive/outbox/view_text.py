"""Translates the query of a view to SQL that Hive engines can run."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog_ext.metastore.model.tables import TableDefinition
    from catalog_ext.metastore.model.views import ViewQuery

_log = logging.getLogger(__name__)

_SESSION_CATALOG = "spark_catalog"
"""Spark's session catalog: its tables, like this catalog's, are in the metastore under database and name."""


def hive_text(definition: TableDefinition, query: ViewQuery) -> str:
    """Return the query for Hive engines: in Hive's SQL, with database names and without this catalog's name.

    A query that cannot be parsed is returned unchanged. Names of other catalogs stay in the query: engines then report
    that these tables are missing.
    """
    columns = [c.name for c in (*definition.columns, *definition.partition_columns)]
    sources = list(query.query_columns) or columns
    try:
        # Wrap the query in a parent node, so that rewriting can replace the query itself like any inner node.
        tree = exp.Subquery(this=sqlglot.parse_one(query.text, dialect="spark"))
        _inline_ctes(tree)
    except SqlglotError as error:
        _log.warning("The text of the view %s goes to the metastore as it is: %s", definition.identifier, error)
        return query.text
    for subquery in tree.find_all(exp.Subquery):
        _name_columns(subquery)
    _Names(tree, query).translate()
    selected = ", ".join(f"{_quoted(s)} AS {_quoted(c)}" for s, c in zip(sources, columns, strict=True))
    return f"SELECT {selected} FROM {tree.sql(dialect='hive')} {_quoted(definition.identifier.name)}"


def _inline_ctes(tree: exp.Expr) -> None:
    """Replace names of WITH clauses by their queries: the view's text becomes a subquery, where Hive has no WITH.

    Raises:
        UnsupportedError: A WITH clause is recursive.
    """
    # Start with the innermost WITH clause, so that a name is never replaced by a query of an outer clause that an inner
    # one hides.
    for clause in reversed(list(tree.find_all(exp.With))):
        query = clause.parent
        if query is None or clause.recursive:
            raise UnsupportedError("Hive has no WITH RECURSIVE.")
        query.set("with_", None)
        # Start with the last query of the clause: it may use the names before it, but its own name, or the name of a
        # later query, means a table.
        for cte in reversed(clause.expressions):
            for table in list(query.find_all(exp.Table)):
                if _is_plain(table) and not table.db and table.name.lower() == cte.alias.lower():
                    table.replace(_inlined(table, cte))


def _inlined(table: exp.Table, cte: exp.CTE) -> exp.Subquery:
    others = {k: v for k, v in table.args.items() if v and k not in ("this", "db", "catalog", "alias")}
    alias = table.args.get("alias") or exp.TableAlias(this=cte.args["alias"].this.copy())
    if not alias.columns and cte.alias_column_names:
        alias.set("columns", [column.copy() for column in cte.args["alias"].columns])
    return exp.Subquery(this=cte.this.copy(), alias=alias, **others)


def _name_columns(subquery: exp.Subquery) -> None:
    """Move the column names of a subquery's alias into its query: Hive does not support them at the subquery."""
    alias, query = subquery.args.get("alias"), subquery.this
    while isinstance(query, exp.SetOperation | exp.Subquery):
        query = query.this
    if not isinstance(alias, exp.TableAlias) or not alias.columns or not isinstance(query, exp.Select):
        return
    if query.is_star or len(query.selects) != len(alias.columns):
        return
    named = zip(query.selects, alias.columns, strict=True)
    query.set("expressions", [exp.alias_(select.unalias(), column.copy()) for select, column in named])
    alias.set("columns", None)


class _Names:
    """Rewrites names of tables and of qualified columns to Hive's form: with databases and without catalogs."""

    def __init__(self, tree: exp.Expr, query: ViewQuery) -> None:
        self._tree = tree
        self._query = query
        self._current = query.catalog.lower()
        self._ours = {(query.own_catalog or query.catalog).lower(), _SESSION_CATALOG}
        self._full: dict[int, tuple[str, str, str]] = {}

    def translate(self) -> None:
        """Rewrite all names in the tree."""
        for table in self._tree.find_all(exp.Table):
            if _is_plain(table):
                self._qualify(table)
        for column in list(self._tree.find_all(exp.Column)):
            if column.args.get("db"):
                self._shorten(column)

    def _qualify(self, table: exp.Table) -> None:
        if not table.db and self._query.namespace:
            table.set("db", exp.to_identifier(self._query.namespace[0]))
        catalog = table.catalog.lower() or self._current
        if not table.alias:
            self._full[id(table)] = (catalog, table.db.lower(), table.name.lower())
        if catalog in self._ours:
            table.set("catalog", None)
        elif not table.catalog and catalog:
            table.set("catalog", exp.to_identifier(self._query.catalog))

    def _shorten(self, column: exp.Column) -> None:
        """Shorten a column's ``catalog.database.table.column`` to its last two parts, the form that Hive reads."""
        parts = column.parts
        named = tuple(part.name.lower() for part in parts)
        select = column.parent_select
        while select is not None:
            sources = [t for t in select.find_all(exp.Table) if id(t) in self._full and t.parent_select is select]
            # As Spark does, compare the column's qualifier first with full table names, then with names without the
            # catalog.
            for first in (0, 1):
                for table in sources:
                    full = self._full[id(table)][first:]
                    if len(parts) > len(full) and named[: len(full)] == full:
                        self._replace(column, table, sources, parts[len(full) :])
                        return
            select = select.parent_select

    def _replace(
        self, column: exp.Column, table: exp.Table, sources: list[exp.Table], rest: Sequence[exp.Expr]
    ) -> None:
        if not table.alias and sum(t.name.lower() == table.name.lower() for t in sources) > 1:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(f"{table.db}_{table.name}", quoted=True)))
        called = table.args["alias"].this if table.alias else table.this
        short: exp.Expr = exp.Column(this=rest[0].copy(), table=called.copy())
        for part in rest[1:]:
            short = exp.Dot(this=short, expression=part.copy())
        column.replace(short)


def _is_plain(table: exp.Table) -> bool:
    """Return whether the node is a table's name, and not a function or a list of values."""
    return isinstance(table.this, exp.Identifier)


def _quoted(name: str) -> str:
    return "`" + name.lower().replace("`", "``") + "`"
