"""An index behind a PgBouncer in transaction mode, and one without a pooler."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import psycopg
import pytest

from catalog_ext.metastore.errors import IndexDatabaseError, IndexUnavailableError
from catalog_ext.metastore.index import Index
from catalog_ext.metastore.model.changes import AddPartition
from catalog_ext.metastore.predicates.tree import Comparison, Operator
from tests.kit.index_cases import create, data_files, listed_names, planned_names
from tests.servers.fixtures import make_pooler

if TYPE_CHECKING:
    from catalog_ext.metastore.model.tables import Table

THREADS, ROUNDS = 4, 12


def test_reads_and_writes_work_behind_a_pooler(pooled_url: str) -> None:
    """Each request of a transaction's own goes to the next server connection."""
    with Index.open(pooled_url, migrate=True) as index:
        tables = [create(index, f"t{number}", {"k": "int"}) for number in range(THREADS)]

        def work(table: Table) -> None:
            for number in range(ROUNDS):
                index.commits.apply_changes(
                    table.table_id, [AddPartition(f"k={number}", data_files(3))], operation="test", deliver=False
                )
                current = index.tables.load(table.identifier)
                names = [f"k={n}" for n in range(number + 1)]
                assert sorted(listed_names(index, current)) == sorted(names)
                assert planned_names(index, current, Comparison(Operator.EQ, "k", number)) == [names[-1]] * 3

        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(work, tables))
        assert index._database.pooler is not None
        assert index._database.pooler.is_there
        arrow = index._database.arrow
        assert arrow is not None
        for _ in range(5):
            with pytest.raises(IndexDatabaseError, match="division by zero"):
                list(arrow.read("SELECT 1 / 0"))
            abandoned = arrow.read("SELECT generate_series(1, 1000000)")
            next(abandoned)
            abandoned.close()
            assert len(listed_names(index, index.tables.load(tables[0].identifier))) == ROUNDS
    assert costs(pooled_url) == {"4"}, "no setting is left with a server connection"


def test_connection_without_a_pooler_keeps_its_settings(postgres_url: str) -> None:
    with Index.open(postgres_url, migrate=True) as index:
        assert index._database.pooler is not None
        assert index._database.pooler.is_there is False
        with index._database.reading() as connection:
            assert connection.exec_driver_sql("SHOW random_page_cost").scalar_one() == "1.1"


def test_pooler_in_statement_mode_is_refused_with_the_remedy(postgres_url: str) -> None:
    """It closes the connection at BEGIN, which is no reason to try again."""
    with Index.open(postgres_url, migrate=True):
        pass
    with make_pooler(postgres_url, "statement") as url, pytest.raises(IndexDatabaseError) as refused:
        Index.open(url).close()
    assert "pool_mode = transaction" in refused.value.message
    assert not refused.value.retryable


@pytest.mark.parametrize("function", ["pg_terminate_backend", "pg_cancel_backend"])
def test_result_that_breaks_off_is_an_outage(postgres_url: str, function: str) -> None:
    with (
        Index.open(postgres_url, migrate=True) as index,
        psycopg.connect(postgres_url.replace("+psycopg", ""), autocommit=True) as other,
    ):
        arrow = index._database.arrow
        assert arrow is not None
        read = arrow.read("SELECT generate_series(1, 5000000)")
        next(read)
        other.execute(
            f"SELECT {function}(pid) FROM pg_stat_activity WHERE query LIKE '%generate_series(1, 5000000)%' "
            "AND pid <> pg_backend_pid()".encode()
        )
        with pytest.raises(IndexUnavailableError, match="broke off its answer"):
            list(read)
        assert list(index.namespaces.all()) == []


def test_statement_that_fails_after_its_first_rows_is_refused(postgres_url: str) -> None:
    with Index.open(postgres_url, migrate=True) as index:
        arrow = index._database.arrow
        assert arrow is not None
        with pytest.raises(IndexDatabaseError, match=r"refused a statement.*division by zero") as caught:
            list(arrow.read("SELECT 1 / (1000000 - n) FROM generate_series(1, 1000000) AS n"))
        assert not caught.value.retryable


def costs(url: str) -> set[str]:
    """What is set in the pooler's server connections."""
    found = set()
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True, prepare_threshold=None) as connection:
        for _ in range(20):
            row = connection.execute("SHOW random_page_cost").fetchone()
            assert row is not None
            found.add(row[0])
    return found
