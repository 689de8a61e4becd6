"""Settings of each session on MariaDB and MySQL that the index relies on, whatever the server's defaults are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

if TYPE_CHECKING:
    from sqlalchemy.pool import ConnectionPoolEntry

# Without a strict mode the server cuts off what is too long and goes on: JSON of the index would be damaged, and names
# would meet. Tables of an engine without transactions keep half a commit, and lock no rows.
_SETTINGS = "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', SESSION default_storage_engine = InnoDB"


def listen(engine: sa.Engine) -> None:
    """Have an engine give each new connection the settings: one request.

    SQLAlchemy asks the first connection how names are quoted in its ``sql_mode``, so the settings come before that.
    """

    def connected(connection: Any, _: ConnectionPoolEntry) -> None:  # noqa: ANN401 -- the driver is not always installed
        with connection.cursor() as cursor:
            cursor.execute(_SETTINGS)

    sa.event.listen(engine, "connect", connected, insert=True)
