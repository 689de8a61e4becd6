"""URLs of index databases: parses the user's text, and makes a form without secrets for messages."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import URL, make_url

from catalog_ext.metastore.errors import EnvironmentSetupError, InvalidConfigurationError
from catalog_ext.metastore.index.database.sqlite_file import absolute_path, may_exist
from catalog_ext.metastore.model.secrets import HIDDEN, is_secret

_FORMS = "sqlite:///path/index.db, postgresql+psycopg://user@host/database or mysql+pymysql://user@host/database"
_MARK = "catalog-ext-hides-this"
_DRIVERS = {
    "sqlite": ("pysqlite", "sqlite3", ""),
    "postgresql": ("psycopg", "psycopg", "catalog-ext[postgresql]"),
    "mysql": ("pymysql", "pymysql", "catalog-ext[mysql]"),
    "mariadb": ("pymysql", "pymysql", "catalog-ext[mysql]"),
}


def parse_url(text: str) -> URL:
    """Return the URL for a user's text: a SQLAlchemy URL, or the path of a SQLite file.

    Raises:
        InvalidConfigurationError: The text is not a valid URL, or names an unsupported database or driver.
        EnvironmentSetupError: The database's driver is not installed.
    """
    if "://" not in text:
        if not text.strip():
            raise InvalidConfigurationError(f"The index URL is empty. Give a path or a URL such as {_FORMS}.")
        return URL.create("sqlite+pysqlite", database=absolute_path(text))
    try:
        url = make_url(text)
    except (sa.exc.ArgumentError, ValueError) as error:
        raise InvalidConfigurationError(f"The index URL cannot be read. Write for example {_FORMS}.") from error
    return _with_path(_with_driver(url))


def _with_driver(url: URL) -> URL:
    database, _, driver = url.drivername.partition("+")
    database = {"postgres": "postgresql"}.get(database, database)
    if database not in _DRIVERS or (driver and driver != _DRIVERS[database][0]):
        raise InvalidConfigurationError(
            f"The index cannot be kept in a database of the kind {url.drivername!r}. Use {_FORMS}.",
            {"url": shown_url(url)},
        )
    expected, module, extra = _DRIVERS[database]
    if find_spec(module) is None:
        raise EnvironmentSetupError(
            f"The driver {module} for the index database {shown_url(url)} is not installed. "
            f"Install it with: pip install '{extra}'",
            {"module": module},
        )
    return url.set(drivername=f"{database}+{expected}")


def _with_path(url: URL) -> URL:
    if url.get_backend_name() != "sqlite":
        return url
    if not url.database or url.database == ":memory:" or "mode=memory" in url.database:
        raise InvalidConfigurationError(
            "An index in memory cannot be shared between connections. Give the path of a file: sqlite:///path/index.db."
        )
    if url.database.startswith("file:"):
        return url
    return url.set(database=absolute_path(url.database))


def index_file(text: str) -> Path | None:
    """Return the file of the SQLite index that the text names, also if it does not exist; None for a database server.

    Raises:
        InvalidConfigurationError: The text is not a valid URL, or names an unsupported database or driver.
        EnvironmentSetupError: The database's driver is not installed.
    """
    url = parse_url(text)
    if url.get_backend_name() != "sqlite" or not url.database or url.database.startswith("file:"):
        return None
    return Path(url.database)


def missing_file(text: str) -> Path | None:
    """Return the file of the SQLite index that the text names, if that file does not exist; None in all other cases.

    Raises:
        InvalidConfigurationError: The text is not a valid URL, or names an unsupported database or driver.
        EnvironmentSetupError: The database's driver is not installed.
    """
    path = index_file(text)
    return None if path is None or may_exist(path) else path


def shown_url(url: URL) -> str:
    """Return the URL for messages: the password, and secrets in the query, are replaced by ``***``."""
    hidden = {name: _MARK for name in url.query if is_secret(name)}
    # SQLAlchemy would percent-encode the stars in a query, so they are put in afterwards.
    return url.update_query_dict(hidden).render_as_string(hide_password=True).replace(_MARK, HIDDEN)


def public_url(url: URL) -> str:
    """Return the URL for files that every reader of the store can see: without user and password."""
    bare = URL.create(url.drivername, host=url.host, port=url.port, database=url.database)
    return bare.render_as_string()


def shown_index(text: str) -> str:
    """Return the user's index setting for messages. A text that looks like a URL but cannot be parsed is hidden."""
    if "://" not in text:
        return text
    try:
        return shown_url(make_url(text))
    except (sa.exc.ArgumentError, ValueError):
        return HIDDEN
