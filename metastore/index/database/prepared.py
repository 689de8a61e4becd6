"""SQLAlchemy Core statements that are compiled once and then sent directly by the driver; and bulk inserts.

SQLAlchemy's work for each execution (cache key, contexts, result objects) takes many times SQLite's time for a short
statement. A write sends about two dozen short statements, most of them while it holds a lock: these use this module.
"""

from __future__ import annotations

from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from sqlalchemy.sql.compiler import ExpandedState, SQLCompiler

    Parameters = Mapping[str, Any]
    Row = Mapping[str, Any]

_NOTHING: Parameters = {}


class Prepared:
    """A statement with named parameters and constants. The value of an expanding parameter (``IN :ids``) is a list.

    Each method raises ``DBAPIError`` if the database refuses the statement or is gone; in a block of ``together`` the
    error may be raised at the block's end.
    """

    def __init__(self, statement: sa.Executable) -> None:
        self._statement = statement
        self._compiled: dict[str, _Compiled] = {}

    def rows(self, connection: sa.Connection, parameters: Parameters = _NOTHING) -> list[Row]:
        """Run a query; return its rows as dictionaries by column name."""
        return self.asked(connection, parameters)()

    def row(self, connection: sa.Connection, parameters: Parameters = _NOTHING) -> Row | None:
        """Run a query that finds at most one row; return the row, or None."""
        found = self.rows(connection, parameters)
        assert len(found) <= 1, "what is asked for is one row"
        return found[0] if found else None

    def scalars(self, connection: sa.Connection, parameters: Parameters = _NOTHING) -> list[Any]:
        """Run a query; return the first column of its rows."""
        return [next(iter(row.values())) for row in self.rows(connection, parameters)]

    def scalar(self, connection: sa.Connection, parameters: Parameters = _NOTHING) -> Any:  # noqa: ANN401 -- its type
        """Run a query; return the first column of its first row, or None without a row."""
        return next(iter(self.scalars(connection, parameters)), None)

    def asked(self, connection: sa.Connection, parameters: Parameters = _NOTHING) -> Callable[[], list[Row]]:
        """Send a query; return a function that returns its rows, to be called after the block of ``together``."""
        compiled = self._for(connection.dialect)
        text, values = compiled.bound(parameters)
        cursor = _sent(connection, text, values)

        def answer() -> list[Row]:
            with _translated(connection, text):
                return compiled.named(cursor.fetchall())

        return answer

    def run(self, connection: sa.Connection, parameters: Parameters = _NOTHING) -> None:
        """Send a statement that changes rows."""
        _sent(connection, *self._for(connection.dialect).bound(parameters))

    def changed(self, connection: sa.Connection, parameters: Parameters = _NOTHING) -> int:
        """Send a statement that changes rows, and return how many it matched. Not for a block of ``together``."""
        return int(_sent(connection, *self._for(connection.dialect).bound(parameters)).rowcount)

    def _for(self, dialect: sa.Dialect) -> _Compiled:
        if dialect.name not in self._compiled:
            self._compiled[dialect.name] = _Compiled(self._statement, dialect)
        return self._compiled[dialect.name]


class _Compiled:
    """A statement compiled for one dialect, with the parameter style of its driver."""

    def __init__(self, statement: Any, dialect: sa.Dialect) -> None:  # noqa: ANN401 -- SQLAlchemy's kinds of statements
        self._sql: SQLCompiler = statement.compile(dialect=dialect)
        columns = statement.selected_columns if isinstance(statement, sa.SelectBase) else ()
        self._names = tuple(str(column.key) for column in columns)
        decoders = tuple(column.type.dialect_impl(dialect).result_processor(dialect, None) for column in columns)
        self._decoders = decoders if any(decoders) else ()
        self._expanded: dict[tuple[int, ...], tuple[ExpandedState, Parameters, Mapping[str, Sequence[str]]]] = {}

    def bound(self, parameters: Parameters) -> tuple[str, Any]:
        """Return the SQL text with a placeholder for each list element, and the values as the driver needs them."""
        lengths = tuple([len(value) for value in parameters.values() if isinstance(value, list)])
        if lengths not in self._expanded:
            self._expanded[lengths] = self._expand(parameters)
        state, constants, lists = self._expanded[lengths]
        values = {**constants, **parameters}
        for name, parts in lists.items():
            values.update(zip(parts, values.pop(name), strict=True))
        for name, encode in state.processors.items():
            values[name] = encode(values[name])
        placed = state.positiontup
        return state.statement, values if placed is None else tuple([values[name] for name in placed])

    def _expand(self, parameters: Parameters) -> tuple[ExpandedState, Parameters, Mapping[str, Sequence[str]]]:
        """Return the statement for lists of these lengths, its constants, and each list's placeholder names."""
        state = self._sql.construct_expanded_state(parameters, escape_names=False)
        lists = {name: parts for name, parts in state.parameter_expansion.items() if name in parameters}
        given = {*parameters, *chain.from_iterable(lists.values())}
        return state, {name: value for name, value in state.parameters.items() if name not in given}, lists

    def named(self, rows: Sequence[Sequence[Any]]) -> list[Row]:
        """Convert rows of the driver to dictionaries by column name, with decoded values."""
        if not self._decoders:
            return [dict(zip(self._names, row, strict=True)) for row in rows]
        return [
            {
                name: value if decode is None else decode(value)
                for name, value, decode in zip(self._names, row, self._decoders, strict=True)
            }
            for row in rows
        ]


@contextmanager
def together(connection: sa.Connection) -> Iterator[None]:
    """Within the block, send statements without waiting for each answer, if the database's protocol can do that.

    PostgreSQL's pipeline mode can: the holder of a lock then waits for the server only once. The statements run in
    order, and after a refused statement none is run. In the block, only statements of this module may be sent.

    Raises:
        DBAPIError: A statement was refused, or the database is gone.
    """
    driver: Any = connection.connection.dbapi_connection
    module: Any = connection.dialect.dbapi
    if connection.dialect.name != "postgresql" or not module.Pipeline.is_supported():
        yield
        return
    with _translated(connection, "statements sent together"), driver.pipeline():
        yield


def _sent(connection: sa.Connection, text: str, values: Any, *, many: bool = False) -> Any:  # noqa: ANN401 -- its cursor
    """Send a statement in the driver's parameter style; with ``many``, once for each element of ``values``."""
    if not connection.in_transaction():
        connection.begin()
    cursor: Any = connection.connection.cursor()
    with _translated(connection, text):
        for listener in connection.dispatch.before_cursor_execute:
            listener(connection, cursor, text, values, None, many)
        (cursor.executemany if many else cursor.execute)(text, values)
    return cursor


@contextmanager
def _translated(connection: sa.Connection, text: str) -> Iterator[None]:
    """Raise the driver's errors of the block as ``DBAPIError``, as SQLAlchemy does for its own statements."""
    module: Any = connection.dialect.loaded_dbapi
    try:
        yield
    except module.Error as error:
        driver: Any = connection.connection.dbapi_connection
        lost = connection.dialect.is_disconnect(error, driver, None)
        if lost:
            connection.invalidate(error)
        raise sa.exc.DBAPIError.instance(
            text, None, error, module.Error, connection_invalidated=lost, dialect=connection.dialect
        ) from error
    except BaseException as error:
        if not isinstance(error, Exception):
            # KeyboardInterrupt and the like: the answer may still be on its way, so the connection cannot be used
            # again.
            connection.invalidate()
        raise


_COPY_FROM = 50
_MANY = 1000


def is_few(rows: Sequence[object]) -> bool:
    """Return whether the rows are few enough for one INSERT statement, which can be sent in a block of ``together``."""
    return len(rows) < _COPY_FROM


def insert_rows(
    connection: sa.Connection, table: sa.Table, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]
) -> None:
    """Insert rows, with values in the order of ``columns``.

    Values go to the driver unchanged: numbers, text and None need no conversion on any of the databases.

    Raises:
        SQLAlchemyError: The database refused a row, or is gone.
    """
    if not rows:
        return
    if len(rows) >= _MANY:
        columns, rows = _without_empty(columns, rows)
    if connection.dialect.name == "postgresql" and len(rows) >= _COPY_FROM:
        _copy(connection, table, columns, rows)
        return
    preparer = connection.dialect.identifier_preparer
    names = ", ".join(preparer.quote(c) for c in columns)
    mark = "?" if connection.dialect.name == "sqlite" else "%s"
    marks = f"({', '.join([mark] * len(columns))})"
    insert = f"INSERT INTO {preparer.quote(table.name)} ({names}) VALUES "
    if connection.dialect.name == "postgresql":
        # One INSERT with all rows: the driver's ``executemany`` would send a statement for each row.
        _sent(connection, insert + ", ".join([marks] * len(rows)), tuple(chain.from_iterable(rows)))
    else:
        _sent(connection, insert + marks, rows, many=True)


def _copy(connection: sa.Connection, table: sa.Table, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
    driver: Any = connection.connection.dbapi_connection
    statement = f"COPY {table.name} ({', '.join(columns)}) FROM STDIN"
    with _translated(connection, statement), driver.cursor() as cursor, cursor.copy(statement) as copy:
        for row in rows:
            copy.write_row(row)


def _without_empty(
    columns: Sequence[str], rows: Sequence[tuple[Any, ...]]
) -> tuple[Sequence[str], Sequence[tuple[Any, ...]]]:
    """Leave out the columns that are NULL in every row; NULL is also the default of these columns.

    Binding NULLs takes SQLite a fifth of the time of a row: a partition has eight key columns and a location.
    """
    values = list(zip(*rows, strict=True))
    kept = [i for i, column in enumerate(values) if column.count(None) < len(column)]
    if not 1 < len(kept) < len(columns):
        return columns, rows
    return [columns[i] for i in kept], list(zip(*[values[i] for i in kept], strict=True))
