"""Every setting of catalog-ext: its key, default, meaning, and how it is read.

Where a setting can be given in several places, the nearest wins: option of the read or write > session conf > table
property > environment > default. ``docs/configuration.md`` is made from this module (``python -m
catalog_ext.cli.reference``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from metastore.errors import InvalidConfigurationError
from metastore.model import PARTITION_MODE_PROPERTY, PartitionMode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T")

ENVIRONMENT_PREFIX = "CATALOG_EXT_"
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,6})?) ?(us|ms|s|m|min|h|d)?", re.ASCII)
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


class Scope(StrEnum):
    """A place where a setting can be given, in the order in which they are looked at."""

    READ = "option of a read"
    SESSION = "Spark conf `spark.sql.catalog.<catalog>.<key>`"
    SQL = "`SET` in the session"
    TABLE = "table property"
    ENVIRONMENT = "environment variable"


@dataclass(frozen=True, slots=True)
class Setting(Generic[T]):
    """A setting.

    Attributes:
        key: Its name, without a prefix.
        default: The text that stands for the value where nothing is given; None where there is no such value.
        doc: One line for people.
        values: The values it takes, for people.
        parse: Makes the value of a text; raises ``ValueError``, with what is expected as its message.
        scopes: Where it can be given.
    """

    key: str
    default: str | None
    doc: str
    values: str
    parse: Callable[[str], T]
    scopes: tuple[Scope, ...]

    @property
    def variable(self) -> str:
        """The environment variable of the same meaning."""
        return ENVIRONMENT_PREFIX + self.key.upper().replace(".", "_").replace("-", "_")

    def read(self, *sources: Mapping[str, str]) -> T:
        """The value from the first of the sources that has the key, else the default.

        Args:
            sources: Settings by key, the nearest first.

        Raises:
            InvalidConfigurationError: The text is none that the key may have, or there is neither text nor default.
        """
        text = next((source[self.key] for source in sources if self.key in source), self.default)
        if text is None:
            raise InvalidConfigurationError(f"The setting {self.key!r} is missing: {self.doc}")
        return self.value_of(text)

    def value_of(self, text: str) -> T:
        """The value that a text stands for.

        Raises:
            InvalidConfigurationError: It is none that the key may have.
        """
        try:
            return self.parse(text.strip())
        except ValueError as error:
            raise InvalidConfigurationError(
                f"The setting {self.key!r} cannot be {text[:60]!r}: {error}.", {"key": self.key, "value": text[:60]}
            ) from error


def _text(text: str) -> str:
    if not text:
        raise ValueError("it is empty")
    return text


def _count(text: str) -> int:
    if not text.isdecimal() or not text.isascii() or not 1 <= int(text) <= 1_000_000:
        raise ValueError("give a whole number from 1 to 1000000")
    return int(text)


def _count_or_all(text: str) -> int | None:
    if text.lower() == "all":
        return None
    if not text.isdecimal() or not text.isascii() or not 1 <= int(text) <= 1_000_000:
        raise ValueError("give a whole number from 1 to 1000000, or 'all'")
    return int(text)


def _seconds(text: str) -> float:
    match = _DURATION.fullmatch(text.lower())
    if match is None or float(match.group(1)) == 0:
        raise ValueError("give a duration above zero such as 500ms, 30s or 2m")
    return float(match.group(1)) * _SECONDS[match.group(2) or "s"]


def _flag(text: str) -> bool:
    if text.lower() not in ("1", "true", "0", "false"):
        raise ValueError("give 1, 0, true or false")
    return text.lower() in ("1", "true")


def _mode(text: str) -> PartitionMode:
    if text not in tuple(PartitionMode):
        raise ValueError("give 'virtual' or 'declared'")
    return PartitionMode(text)


def _word(*words: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.lower() not in words:
            raise ValueError(f"give {' or '.join(repr(w) for w in words)}")
        return text.lower()

    return parse


_NUMBER = "a whole number from 1"
_TIME = "a duration: `500ms`, `30s`, `2m`; a bare number is seconds"
_PROCESS = (Scope.SESSION, Scope.ENVIRONMENT)

SAMPLE_FILES: Setting[int | None] = Setting(
    "schema.sample-files",
    "100",
    "Files from which a schema is read that is not given, spread over the partitions.",
    f"{_NUMBER}, or `all`",
    _count_or_all,
    (Scope.TABLE, Scope.ENVIRONMENT),
)
PARTITION_COLUMNS: Setting[PartitionMode] = Setting(
    PARTITION_MODE_PROPERTY,
    "virtual",
    "Whether `SELECT *` hides partition columns; CREATE TABLE sets `declared`.",
    "`virtual` or `declared`",
    _mode,
    (Scope.TABLE,),
)
MISSING_FILES: Setting[str] = Setting(
    "missing-files",
    "error",
    "What a read does when a registered file has gone: fail, or read on.",
    "`error` or `skip`",
    _word("error", "skip"),
    (Scope.READ, Scope.SESSION, Scope.TABLE),
)
LISTING_THREADS: Setting[int] = Setting(
    "listing.threads", "16", "Prefixes that one listing asks the store for at the same time.", _NUMBER, _count, _PROCESS
)
LISTING_TARGET_PREFIXES: Setting[int] = Setting(
    "listing.target-prefixes",
    "64",
    "Prefixes that a listing looks for before it lists each recursively.",
    _NUMBER,
    _count,
    _PROCESS,
)
BATCH_PARTITIONS: Setting[int] = Setting(
    "repair.batch-partitions",
    "1000",
    "Partitions that a repair commits to the index in one atomic batch.",
    _NUMBER,
    _count,
    (Scope.TABLE, Scope.ENVIRONMENT),
)
METASTORE_TIMEOUT: Setting[float] = Setting(
    "repair.metastore-timeout",
    "30s",
    "How long a change waits for the metastore; what is left is delivered later.",
    _TIME,
    _seconds,
    _PROCESS,
)
METASTORE_CONNECT_TIMEOUT: Setting[float] = Setting(
    "metastore.connect-timeout",
    "5s",
    "How long each metastore server has to accept a connection.",
    _TIME,
    _seconds,
    _PROCESS,
)
METASTORE_CALL_TIMEOUT: Setting[float] = Setting(
    "metastore.call-timeout", "60s", "How long a metastore server has to answer one call.", _TIME, _seconds, _PROCESS
)
URI: Setting[str] = Setting(
    "uri",
    None,
    "Address of the catalog's service; `catalog_ext.configure` sets it.",
    "an http or https address",
    _text,
    (Scope.SESSION,),
)
TOKEN: Setting[str] = Setting(
    "token",
    None,
    "Token of the service; `catalog_ext.configure` sets it.",
    "text",
    _text,
    (Scope.SESSION, Scope.ENVIRONMENT),
)
TOKEN_FILE: Setting[str] = Setting(
    "token-file",
    None,
    "File that holds the token, instead of the token itself.",
    "a path on the driver's machine",
    _text,
    (Scope.SESSION,),
)
REQUEST_TIMEOUT: Setting[float] = Setting(
    "request-timeout",
    "60s",
    "How long Spark waits for the service's answer to one request.",
    _TIME,
    _seconds,
    (Scope.SESSION,),
)
USE_HIVE_PARTITIONING: Setting[bool] = Setting(
    "use_hive_partitioning",
    "1",
    "Whether reads of the session see virtual partition columns.",
    "`1`, `0`, `true` or `false`",
    _flag,
    (Scope.SQL,),
)
INDEX: Setting[str] = Setting(
    "index",
    None,
    "The index; a SQLite file beside the warehouse otherwise.",
    "a SQLAlchemy URL, or the path of a SQLite file",
    _text,
    (Scope.ENVIRONMENT,),
)
METASTORE: Setting[str] = Setting(
    "metastore",
    None,
    "The Hive Metastore; otherwise what Spark's configuration names, else the embedded one.",
    "`thrift://host:9083` (several with commas), `embedded` or `none`",
    _text,
    (Scope.ENVIRONMENT,),
)
WAREHOUSE: Setting[str] = Setting(
    "warehouse",
    None,
    "Where managed tables go; `spark-warehouse` in the working directory otherwise.",
    "a location",
    _text,
    (Scope.ENVIRONMENT,),
)
STORAGE: Setting[str] = Setting(
    "storage",
    None,
    "How S3 is reached, for the command line; otherwise the usual AWS chain.",
    "`KEY=VALUE` pairs with blanks between: `endpoint`, `access_key`, … or Hadoop's `fs.s3a.*` keys",
    _text,
    (Scope.ENVIRONMENT,),
)
CACHE: Setting[str] = Setting(
    "cache",
    None,
    "Folder of the compiled connector; the user's cache folder otherwise.",
    "a path",
    _text,
    (Scope.ENVIRONMENT,),
)

SETTINGS: tuple[Setting[Any], ...] = (
    INDEX,
    METASTORE,
    WAREHOUSE,
    STORAGE,
    CACHE,
    URI,
    TOKEN,
    TOKEN_FILE,
    REQUEST_TIMEOUT,
    PARTITION_COLUMNS,
    SAMPLE_FILES,
    MISSING_FILES,
    USE_HIVE_PARTITIONING,
    LISTING_THREADS,
    LISTING_TARGET_PREFIXES,
    BATCH_PARTITIONS,
    METASTORE_TIMEOUT,
    METASTORE_CONNECT_TIMEOUT,
    METASTORE_CALL_TIMEOUT,
)
"""All of them, in the order of the reference page."""


def process_settings(environment: Mapping[str, str], spark: Mapping[str, str], catalog: str) -> dict[str, str]:
    """The settings by key that hold for a whole process: Spark's conf for the catalog, then the environment.

    Args:
        environment: The process's environment.
        spark: The session's conf; empty where there is no Spark.
        catalog: The catalog's name in SQL.
    """
    found: dict[str, str] = {}
    for setting in SETTINGS:
        if Scope.ENVIRONMENT in setting.scopes and environment.get(setting.variable):
            found[setting.key] = environment[setting.variable]
        if Scope.SESSION in setting.scopes and (text := spark.get(f"spark.sql.catalog.{catalog}.{setting.key}")):
            found[setting.key] = text
    return found


def check_properties(properties: Mapping[str, str]) -> None:
    """Return if every table property that is a setting has a value that the setting can have.

    Raises:
        InvalidConfigurationError: One has not.
    """
    for setting in SETTINGS:
        if Scope.TABLE in setting.scopes and setting.key in properties:
            setting.value_of(properties[setting.key])
