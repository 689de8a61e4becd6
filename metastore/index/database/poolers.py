"""PostgreSQL behind a pooler such as PgBouncer, whose server connections belong to a client for one transaction.

In that mode neither prepared statements nor settings stay from one transaction to the next, and a setting of a session
stays with the server connection, which other clients get. So behind a pooler each read is a transaction, and settings
are local to it.

A pooler gives its clients keys for cancelling that are its own, so that the process number in a client's key is not
that of the server process which answers it. That also holds in session mode, where the transactions are not needed and
cost two requests for each read by ADBC.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

if TYPE_CHECKING:
    from sqlalchemy.pool import ConnectionPoolEntry

SET_LOCAL = "SET LOCAL random_page_cost = 1.1"
"""PostgreSQL by default takes a jump for four times a sequential read, as on a disk with heads, and would rather hash
all files than look up those of a thousand partitions."""

_PREPARE = """SELECT pg_backend_pid(), CASE WHEN pg_backend_pid() = %s
THEN set_config('random_page_cost', '1.1', false) END"""


@dataclass(slots=True)
class Pooler:
    """Whether a pooler stands before a database.

    Attributes:
        is_there: What the last new connection has shown; None before the first one.
    """

    is_there: bool | None = None


def listen(engine: sa.Engine) -> Pooler:
    """Have an engine look for a pooler on each new connection, and give connections and transactions their settings."""
    pooler = Pooler()

    def connected(connection: Any, _: ConnectionPoolEntry) -> None:  # noqa: ANN401 -- the driver is not always installed
        before, connection.autocommit = connection.autocommit, True
        client_process = connection.info.backend_pid
        (server_process, _setting) = connection.execute(_PREPARE, (client_process,)).fetchone()
        connection.autocommit = before
        pooler.is_there = server_process != client_process

    def begun(connection: sa.Connection) -> None:
        driver: Any = connection.connection.dbapi_connection
        if pooler.is_there and not driver.autocommit:
            connection.exec_driver_sql(SET_LOCAL)

    sa.event.listen(engine, "connect", connected)
    sa.event.listen(engine, "begin", begun)
    return pooler
