"""Statements that the driver sends as they were compiled, on each database: values, errors, what is sent together."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from catalog_ext.metastore.errors import IndexDatabaseError, IndexUnavailableError
from catalog_ext.metastore.index import Index
from catalog_ext.metastore.index.database.prepared import Prepared, together
from catalog_ext.metastore.index.database.schema import index_properties

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_ext.metastore.index.database.database import Database

P = index_properties.c
NAMED = Prepared(sa.select(P.name, P.value).where(P.name.in_(sa.bindparam("names", expanding=True))).order_by(P.name))
KEPT = Prepared(sa.select(P.value).where(P.name == "kept %", P.value != sa.bindparam("other")))
INSERT = Prepared(sa.insert(index_properties))
UPDATE = Prepared(sa.update(index_properties).where(P.name == sa.bindparam("of")).values(value=sa.bindparam("to")))


@pytest.fixture
def database(index: Index) -> Iterator[Database]:
    yield index._database
    mine = sa.delete(index_properties).where(P.name.startswith("kept"))
    index._database.write(lambda connection: connection.execute(mine))


def values(database: Database, *names: str) -> dict[str, str]:
    with database.reading() as connection:
        return {row["name"]: row["value"] for row in NAMED.rows(connection, {"names": list(names)})}


def test_lists_of_any_length_and_text_come_back_as_they_went(database: Database) -> None:
    kept = {"kept é%": "a'b\\é", "kept 2 ": ""}
    for name, value in kept.items():
        database.write(partial(INSERT.run, parameters={"name": name, "value": value}))
    assert values(database, *kept) == kept
    assert values(database, "kept é%") == {"kept é%": "a'b\\é"}
    assert values(database, "kept 2") == {}, "a blank counts"
    assert values(database) == {}
    assert values(database, *kept, "kept 3") == kept


def test_a_constant_of_a_statement_stays(database: Database) -> None:
    database.write(lambda connection: INSERT.run(connection, {"name": "kept %", "value": "é"}))
    with database.reading() as connection:
        assert KEPT.row(connection, {"other": "e"}) == {"value": "é"}
        assert KEPT.row(connection, {"other": "é"}) is None


def test_what_is_refused_undoes_all_that_was_sent_together(database: Database) -> None:
    def twice(connection: sa.Connection) -> None:
        with together(connection):
            INSERT.run(connection, {"name": "kept 1", "value": "a"})
            INSERT.run(connection, {"name": "kept 1", "value": "b"})
            UPDATE.run(connection, {"of": "kept 1", "to": "c"})

    with pytest.raises(IndexDatabaseError) as refused:
        database.write(twice)
    assert isinstance(refused.value.__cause__, sa.exc.IntegrityError)
    assert values(database, "kept 1") == {}
    database.write(lambda connection: INSERT.run(connection, {"name": "kept 1", "value": "d"}))
    assert values(database, "kept 1") == {"kept 1": "d"}, "the connection is of use again"


def test_what_is_sent_together_is_done_in_its_order(database: Database) -> None:
    def work(connection: sa.Connection) -> list[list[str]]:
        asked = {"names": ["kept 1"]}
        with together(connection):
            before = NAMED.asked(connection, asked)
            INSERT.run(connection, {"name": "kept 1", "value": "a"})
            between = NAMED.asked(connection, asked)
            UPDATE.run(connection, {"of": "kept 1", "to": "b"})
            after = NAMED.asked(connection, asked)
        return [[row["value"] for row in answer()] for answer in (before, between, after)]

    assert database.write(work) == [[], ["a"], ["b"]]


def test_each_statement_is_counted_and_seen(database: Database) -> None:
    seen: list[str] = []

    def listener(_: object, _cursor: object, text: str, *_more: object) -> None:
        seen.append(text.split()[0])

    sa.event.listen(database.engine, "before_cursor_execute", listener)
    try:
        before = database.query_count
        database.write(lambda connection: INSERT.run(connection, {"name": "kept 1", "value": "a"}))
        assert values(database, "kept 1") == {"kept 1": "a"}
        assert database.query_count - before == 2
    finally:
        sa.event.remove(database.engine, "before_cursor_execute", listener)
    assert seen == ["INSERT", "SELECT"]


def test_an_error_of_ours_in_the_block_stays_what_it_is(database: Database) -> None:
    def work(connection: sa.Connection) -> None:
        with together(connection):
            INSERT.run(connection, {"name": "kept 1", "value": "a"})
            raise LookupError("ours")

    with pytest.raises(LookupError, match="ours"):
        database.write(work)
    assert values(database, "kept 1") == {}


def test_a_connection_that_the_server_has_ended_is_one_that_is_gone(postgres_url: str) -> None:
    with Index.open(postgres_url, migrate=True) as index:
        database = index._database

        def end(connection: sa.Connection) -> None:
            (pid,) = connection.exec_driver_sql("SELECT pg_backend_pid()").scalars()
            admin = sa.create_engine(postgres_url, isolation_level="AUTOCOMMIT")
            with admin.connect() as other:
                assert other.execute(sa.text(f"SELECT pg_terminate_backend({pid}, 5000)")).scalar()
            admin.dispose()
            with together(connection):
                INSERT.run(connection, {"name": "kept 1", "value": "a"})

        with pytest.raises(IndexUnavailableError):
            database.write(end)
        assert values(database, "kept 1") == {}, "by another connection"
