"""An error of a statement is not one of a database that is away, and is not repeated."""

from __future__ import annotations

import sqlite3

import psycopg
import pymysql
import pytest
import sqlalchemy as sa

from catalog_ext.metastore.errors import ConflictError, IndexDatabaseError, IndexUnavailableError
from catalog_ext.metastore.index.database.failures import as_ours, is_lost_race


def raised(error: Exception) -> IndexDatabaseError:
    """Our error for one that SQLAlchemy has wrapped as it does."""
    kind = getattr(sa.exc, next(c.__name__ for c in type(error).__mro__ if hasattr(sa.exc, c.__name__)))
    ours = as_ours(kind("SELECT 1", {}, error), "db")
    assert isinstance(ours, IndexDatabaseError)
    return ours


@pytest.mark.parametrize(
    "error",
    [
        sqlite3.OperationalError("Expression tree is too large (maximum depth 1000)"),
        sqlite3.OperationalError("too many terms in compound SELECT"),
        sqlite3.OperationalError("too many SQL variables"),
        sqlite3.OperationalError("parser stack overflow"),
        sqlite3.OperationalError("table x already exists"),
        psycopg.errors.StatementTooComplex("stack depth limit exceeded"),
        psycopg.errors.TooManyArguments("cannot pass more than 100 arguments to a function"),
        psycopg.OperationalError("sending query failed: number of parameters must be between 0 and 65535"),
        pymysql.err.OperationalError(1436, "Thread stack overrun"),
        pymysql.err.OperationalError(1116, "Too many tables; MariaDB can only use 61 tables in a join"),
        pymysql.err.OperationalError(1054, "Unknown column 'x' in 'where clause'"),
        pymysql.err.OperationalError(1050, "Table 'x' already exists"),
        pymysql.err.OperationalError(1142, "SELECT command denied to user"),
    ],
)
def test_error_of_a_statement_is_not_retryable(error: Exception) -> None:
    ours = raised(error)
    assert type(ours) is IndexDatabaseError
    assert not ours.retryable
    assert "refused a statement" in ours.message


@pytest.mark.parametrize(
    "error",
    [
        sqlite3.OperationalError("locking protocol"),
        sqlite3.OperationalError("database schema is locked: main"),
        psycopg.OperationalError('connection failed: FATAL:  database "x" does not exist'),
        psycopg.OperationalError("the connection is closed"),
        psycopg.errors.AdminShutdown("terminating connection due to administrator command"),
        psycopg.errors.TooManyConnections("sorry, too many clients already"),
        psycopg.errors.QueryCanceled("canceling statement due to user request"),
        psycopg.errors.IdleInTransactionSessionTimeout("terminating connection due to idle-in-transaction timeout"),
        pymysql.err.OperationalError(2013, "Lost connection to MySQL server during query"),
        pymysql.err.OperationalError(1040, "Too many connections"),
        pymysql.err.OperationalError(1047, "WSREP has not yet prepared node for application use"),
        pymysql.err.OperationalError(1049, "Unknown database 'x'"),
        pymysql.err.InterfaceError(0, ""),
    ],
)
def test_database_that_is_away_is_unavailable(error: Exception) -> None:
    assert isinstance(raised(error), IndexUnavailableError)


@pytest.mark.parametrize(
    "error",
    [
        psycopg.errors.SerializationFailure("could not serialize access due to concurrent update"),
        psycopg.errors.DeadlockDetected("deadlock detected"),
        pymysql.err.OperationalError(1213, "Deadlock found when trying to get lock"),
        pymysql.err.OperationalError(1020, "Record has changed since last read in table 'tables'"),
        pymysql.err.OperationalError(3101, "Plugin instructed the server to rollback the current transaction."),
    ],
)
def test_transaction_that_was_rolled_back_for_another_is_repeated(error: Exception) -> None:
    """MariaDB 11.6 says 1020 where older ones went on; Group Replication says 3101 at the commit."""
    kind = getattr(sa.exc, next(c.__name__ for c in type(error).__mro__ if hasattr(sa.exc, c.__name__)))
    wrapped = kind("SELECT 1", {}, error)
    assert is_lost_race(wrapped)
    ours = as_ours(wrapped, "db")
    assert isinstance(ours, ConflictError)
    assert ours.retryable
