"""Several Hive metastores over one PostgreSQL database: equal servers of one metastore, of which some may die."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy.engine import make_url

from catalog_ext.metastore.runtime.java import jar_version
from tests.servers.hive import LISTENER, notification_log
from tests.servers.maven_jars import fetch_jar
from tests.servers.secured_metastore import SecuredMetastore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.servers.hive_releases import Release


@contextmanager
def metastores_on_postgres(
    url: str, folder: Path, count: int, *, log: bool = False, release: Release | None = None, heap: str | None = None
) -> Iterator[list[SecuredMetastore]]:
    """Servers of one metastore, which are gone at the end.

    Args:
        url: The database.
        folder: Holds what they need.
        count: How many.
        log: Whether they keep a log of events.
        release: Their release; None for 2.3.10.
        heap: The memory of each, as Java has it; None for little.
    """
    place = make_url(url)
    settings = {
        "javax.jdo.option.ConnectionURL": f"jdbc:postgresql://{place.host}:{place.port}/{place.database}",
        "javax.jdo.option.ConnectionDriverName": "org.postgresql.Driver",
        "javax.jdo.option.ConnectionUserName": place.username or "",
        "javax.jdo.option.ConnectionPassword": place.password or "",
    }
    jars = [fetch_jar("org.postgresql:postgresql:42.7.7")]
    if log:
        settings["hive.metastore.event.listeners"] = LISTENER
        settings["hive.metastore.event.db.notification.api.auth"] = "false"
        jars.append(notification_log(jar_version("hive-metastore") if release is None else release.version))
    options = [] if heap is None else [f"-Xmx{heap}"]

    def start(number: int) -> SecuredMetastore:
        return SecuredMetastore(folder / f"server{number}", settings, java_options=options, jars=jars, release=release)

    # The first one makes the tables of the database.
    started = [start(0)]
    try:
        with ThreadPoolExecutor(max(count - 1, 1)) as threads:
            for future in [threads.submit(start, number) for number in range(1, count)]:
                started.append(future.result())
        yield started
    finally:
        for server in started:
            server.stop()


def copy_events(url: str, times: int) -> int:
    """Put what is in the log there again so many times, as newer events; return the number of the newest.

    Their keys are far from those that the server gives next.
    """
    engine = sa.create_engine(url)
    columns = '"EVENT_TIME", "EVENT_TYPE", "DB_NAME", "TBL_NAME", "MESSAGE", "MESSAGE_FORMAT"'
    with engine.begin() as connection:
        first, last = connection.execute(
            sa.text('SELECT min("EVENT_ID"), max("EVENT_ID") FROM "NOTIFICATION_LOG"')
        ).one()
        width = last - first + 1
        connection.execute(sa.text(
            f'INSERT INTO "NOTIFICATION_LOG" ("NL_ID", "EVENT_ID", {columns}) '
            f'SELECT "NL_ID" + 10000000 + :width * n, "EVENT_ID" + :width * n, {columns} '
            'FROM "NOTIFICATION_LOG", generate_series(1, :times) n'
        ), {"width": width, "times": times})  # fmt: skip
        newest = int(last + width * times)
        connection.execute(sa.text('UPDATE "NOTIFICATION_SEQUENCE" SET "NEXT_EVENT_ID" = :n'), {"n": newest + 1})
    engine.dispose()
    return newest


def expire_events(url: str, upto: int) -> None:
    """Take events out of the log, as their time to live does."""
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.text('DELETE FROM "NOTIFICATION_LOG" WHERE "EVENT_ID" <= :upto'), {"upto": upto})
    engine.dispose()
