"""Statements of SQLAlchemy Core that are compiled once and then sent by the driver, as they stand; and many rows.

What SQLAlchemy does for each execution (its cache's key, contexts, result objects) takes many times what SQLite takes
for a short statement. A write sends two dozen of them, most while it holds a lock: those come through here.
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    Parameters = Mapping[str, Any]
    Row = Mapping[str, Any]
    _Processors = Mapping[str, Callable[[Any], Any]]

_NOTHING: Parameters = {}


class Prepared:
    """A statement with named parameters; one that is an IN's expanding list is given as a list.

    Each method raises ``DBAPIError`` where the database refuses the statement or is gone; in a block of ``together``
    it may be raised at the block's end.

    Args:
        statement: The statement, or what makes it for SQLAlchemy's name of a dialect. A constant of it stays as it is.
    """

    def __init__(self, statement: sa.Executable | Callable[[str], sa.Executable]) -> None:
        self._statement = statement
        self._shapes: dict[tuple[str, tuple[int, ...]], _Shape] = {}

    def rows(self, connection: sa.Connection, parameters: Parameters = _NOTHING) -> list[Row]:
        """Return the rows of a query, by the names of their columns."""
        return self.asked(connection, parameters)()

    def row(self, connection: sa.Connection, parameters: Parameters = _NOTHING) -> Row | None:
        """Return the only row of a query that finds one at most; None where it finds none."""
        found = self.rows(connection, parameters)
        assert len(found) <= 1, "what is asked for is one row"
        return found[0] if found else None

    def scalars(self, connection: sa.Connection, parameters: Parameters = _NOTHING) -> list[Any]:
        """Return the first column of the rows of a query."""
        return [next(iter(row.values())) for row in self.rows(connection, parameters)]

    def scalar(self, connection: sa.Connection, parameters: Parameters = _NOTHING) -> Any:  # noqa: ANN401 -- its type
        """Return the first column of the first row of a query; None where it finds none."""
        return next(iter(self.scalars(connection, parameters)), None)

    def asked(self, connection: sa.Connection, parameters: Parameters = _NOTHING) -> Callable[[], list[Row]]:
        """Send a query; what is returned gives its rows, after the block of ``together`` that this is in, if in one."""
        shape = self._shape(connection, parameters)
        cursor = _sent(connection, shape.text, shape.bound(parameters))

        def answer() -> list[Row]:
            with _Translated(connection, shape.text), closing(cursor):
                return shape.named(cursor.fetchall())

        return answer

    def run(self, connection: sa.Connection, parameters: Parameters = _NOTHING) -> None:
        """Send a statement that changes rows."""
        shape = self._shape(connection, parameters)
        _send(connection, shape.text, shape.bound(parameters))

    def changed(self, connection: sa.Connection, parameters: Parameters = _NOTHING) -> int:
        """Send a statement that changes rows, and return how many it has found; never in a block of ``together``."""
        shape = self._shape(connection, parameters)
        with closing(_sent(connection, shape.text, shape.bound(parameters))) as cursor:
            return int(cursor.rowcount)

    def _shape(self, connection: sa.Connection, parameters: Parameters) -> _Shape:
        lengths = tuple(len(value) for value in parameters.values() if isinstance(value, list))
        key = (connection.dialect.name, lengths)
        shape = self._shapes.get(key)
        if shape is None:
            made = self._statement(connection.dialect.name) if callable(self._statement) else self._statement
            shape = self._shapes[key] = _shape_of(made, connection.dialect, parameters)
        return shape


@dataclass(frozen=True, slots=True)
class _Shape:
    """A statement's text for a dialect and the lengths of its lists.

    Attributes:
        text: In the driver's own style.
        order: The parameters where they have places; None where they have names.
        constants: Parameters whose values stand in the statement.
        lists: The parameters that a list becomes.
        encoders: What is done with the values of parameters, where anything is.
        columns: The names of a query's columns.
        decoders: What is done with the values of columns, by place, where anything is.
    """

    text: str
    order: tuple[str, ...] | None
    constants: Mapping[str, Any]
    lists: Mapping[str, Sequence[str]]
    encoders: _Processors
    columns: tuple[str, ...]
    decoders: tuple[Callable[[Any], Any] | None, ...]

    def bound(self, parameters: Parameters) -> Any:  # noqa: ANN401 -- as the driver wants them
        values = {**self.constants, **parameters}
        for name, parts in self.lists.items():
            values.update(zip(parts, values.pop(name), strict=True))
        for name, encoded in self.encoders.items():
            values[name] = encoded(values[name])
        return values if self.order is None else tuple([values[name] for name in self.order])

    def named(self, rows: Sequence[Sequence[Any]]) -> list[Row]:
        if not self.decoders:
            return [dict(zip(self.columns, row, strict=True)) for row in rows]
        return [
            {
                name: value if decode is None else decode(value)
                for name, value, decode in zip(self.columns, row, self.decoders, strict=True)
            }
            for row in rows
        ]


def _shape_of(statement: Any, dialect: sa.Dialect, parameters: Parameters) -> _Shape:  # noqa: ANN401 -- SQLAlchemy's kinds of statements
    compiled = statement.compile(dialect=dialect)
    state = compiled.construct_expanded_state(dict(parameters), escape_names=False)
    lists = {name: tuple(state.parameter_expansion[name]) for name in parameters if name in state.parameter_expansion}
    given = {*parameters, *(part for parts in lists.values() for part in parts)}
    columns = statement.selected_columns if isinstance(statement, sa.SelectBase) else ()
    decoders = tuple(column.type.dialect_impl(dialect).result_processor(dialect, None) for column in columns)
    return _Shape(
        text=state.statement,
        order=None if state.positiontup is None else tuple(state.positiontup),
        constants={name: value for name, value in state.parameters.items() if name not in given},
        lists=lists,
        encoders=dict(state.processors),
        columns=tuple(str(column.key) for column in columns),
        decoders=decoders if any(decoders) else (),
    )


@contextmanager
def together(connection: sa.Connection) -> Iterator[None]:
    """Wait for the answers to what is sent in the block only at its end, where the database's protocol can do that.

    PostgreSQL's can: a holder of a lock then waits for the server once. The statements are
    done in their order, and none after one that was refused. Only what this module sends may be sent in the block.

    Raises:
        DBAPIError: One of the statements was refused, or the database is gone.
    """
    driver: Any = connection.connection.dbapi_connection
    module: Any = connection.dialect.dbapi
    if connection.dialect.name != "postgresql" or not module.Pipeline.is_supported():
        yield
        return
    with _Translated(connection, "statements sent together"), driver.pipeline():
        yield


def _send(connection: sa.Connection, text: str, values: Any, *, many: bool = False) -> None:  # noqa: ANN401 -- as above
    """Send a statement in the driver's style that changes rows; with ``many``, once for each of the values.

    Raises:
        DBAPIError: The database refused it, or is gone.
    """
    cursor = _sent(connection, text, values, many=many)
    if connection.dialect.name != "postgresql":
        # Of PostgreSQL's, which are the client's alone, the answer may be to come.
        cursor.close()


def _sent(connection: sa.Connection, text: str, values: Any, *, many: bool = False) -> Any:  # noqa: ANN401 -- its cursor
    if not connection.in_transaction():
        connection.begin()
    cursor: Any = connection.connection.cursor()
    with _Translated(connection, text):
        for listener in connection.dispatch.before_cursor_execute:
            listener(connection, cursor, text, values, None, many)
        (cursor.executemany if many else cursor.execute)(text, values)
    return cursor


class _Translated:
    """A context whose driver's errors are raised as SQLAlchemy's; it costs less than a generator would."""

    __slots__ = ("_connection", "_text")

    def __init__(self, connection: sa.Connection, text: str) -> None:
        self._connection = connection
        self._text = text

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is None:
            return
        if isinstance(error, self._connection.dialect.loaded_dbapi.Error):
            raise _as_sqlalchemy(self._connection, self._text, error) from error
        if not isinstance(error, Exception):
            # An interrupt: the answer that the connection still has to give is not known.
            self._connection.invalidate()


def _as_sqlalchemy(connection: sa.Connection, text: str, error: Any) -> Exception:  # noqa: ANN401 -- its driver's
    """Return the error that SQLAlchemy would have raised, had it sent the statement."""
    driver: Any = connection.connection.dbapi_connection
    module: Any = connection.dialect.dbapi
    lost = connection.dialect.is_disconnect(error, driver, None)
    if lost:
        connection.invalidate(error)
    raised: Exception = sa.exc.DBAPIError.instance(
        text, None, error, module.Error, connection_invalidated=lost, dialect=connection.dialect
    )
    return raised


_COPY_FROM = 50
_MANY = 1000


def is_few(rows: Sequence[object]) -> bool:
    """Return whether so many rows go by a statement, which may be sent together with others."""
    return len(rows) < _COPY_FROM


def insert_rows(
    connection: sa.Connection, table: sa.Table, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]
) -> None:
    """Insert the rows, whose values stand in the order of the columns.

    Values go to the driver as they are: numbers, text and None need no conversion on any of the databases.

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
        # Its driver would send a statement a row.
        _send(connection, insert + ", ".join([marks] * len(rows)), tuple(chain.from_iterable(rows)))
    else:
        _send(connection, insert + marks, rows, many=True)


def _copy(connection: sa.Connection, table: sa.Table, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
    driver: Any = connection.connection.dbapi_connection
    module: Any = connection.dialect.dbapi
    statement = f"COPY {table.name} ({', '.join(columns)}) FROM STDIN"
    try:
        with driver.cursor() as cursor, cursor.copy(statement) as copy:
            for row in rows:
                copy.write_row(row)
    except module.Error as error:
        raise _as_sqlalchemy(connection, statement, error) from error


def _without_empty(
    columns: Sequence[str], rows: Sequence[tuple[Any, ...]]
) -> tuple[Sequence[str], Sequence[tuple[Any, ...]]]:
    """Leave out the columns that are NULL in every row, which no column has another default than.

    They take SQLite a fifth of the time of a row: those of a partition for eight keys, and its location.
    """
    values = list(zip(*rows, strict=True))
    kept = [i for i, column in enumerate(values) if column.count(None) < len(column)]
    if not 1 < len(kept) < len(columns):
        return columns, rows
    return [columns[i] for i in kept], list(zip(*[values[i] for i in kept], strict=True))
