"""Every setting of catalog-ext: key, default, meaning, and parser.

If a setting is given in several places, the first of these wins: option of the read or write, session conf, Spark's own
conf, table property, environment, default. Keys ignore case. ``docs/configuration.md`` is generated from this module
(``python -m docs.tools.reference``). The settings of writes and of Hive locks are in ``write_keys``, of streams and of
strict mode in ``read_keys``, of tables alone in ``table_keys``, of the metastore's connection and of the follower in
``metastore_keys``, of a service in ``service_keys``.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from catalog_ext.conf.format_options import OF_SPARK
from catalog_ext.conf.metastore_keys import METASTORE_SETTINGS
from catalog_ext.conf.read_keys import READ_SETTINGS
from catalog_ext.conf.service_keys import SERVICE_SETTINGS
from catalog_ext.conf.setting import (
    FLAG,
    NUMBER,
    TEXT,
    TIME,
    TRUE_OR_FALSE,
    Form,
    Scope,
    Setting,
    count_or_all,
    percentage,
    settings_in,
    text_value,
    words,
)
from catalog_ext.conf.table_keys import TABLE_SETTINGS
from catalog_ext.conf.write_keys import WRITE_SETTINGS
from catalog_ext.metastore.errors import InvalidConfigurationError
from catalog_ext.metastore.model.properties import property_value
from catalog_ext.metastore.model.tables import FORMATS, PARTITION_MODE_PROPERTY, PartitionMode
from catalog_ext.metastore.runtime.wording import NEARLY, nearest

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

LogFormat: TypeAlias = Literal["text", "json"]


def _mode(text: str) -> PartitionMode:
    if text not in tuple(PartitionMode):
        raise ValueError("give 'virtual' or 'declared'")
    return PartitionMode(text)


def _listed(text: str) -> frozenset[str]:
    return frozenset(word for word in (w.strip().lower() for w in text.split(",")) if word) - {"none"}


def _formats(text: str) -> frozenset[str]:
    found = _listed(text)
    if not found <= {*FORMATS, "*"}:
        raise ValueError(f"give some of {', '.join(FORMATS)} with commas between them, * for all, or none")
    return found


_PROCESS = (Scope.SESSION, Scope.ENVIRONMENT)

INDEX = Setting(
    "index", None, Form("a SQLAlchemy URL, or the path of a SQLite file", text_value), (Scope.ENVIRONMENT,),
    "URL of the index database. Default: a SQLite file beside the warehouse.",
)  # fmt: skip
METASTORE = Setting(
    "metastore", None, Form("`thrift://host:9083` (several with commas), `embedded` or `none`", text_value),
    (Scope.ENVIRONMENT,),
    "The Hive Metastore. Default: the one that the index records; for a new index the one of Spark's configuration, "
    "otherwise the embedded one.",
)  # fmt: skip
WAREHOUSE = Setting(
    "warehouse", None, Form("a location", text_value), (Scope.ENVIRONMENT,),
    "Directory of managed tables. Default: the one that the index records; for a new index `spark-warehouse` in the "
    "working directory.",
)  # fmt: skip
STORAGE = Setting(
    "storage", None,
    Form(
        "blank-separated `KEY=VALUE` pairs: `endpoint`, `access_key`, … or Hadoop's `fs.s3a.*` and `dfs.*` keys",
        text_value,
    ), (Scope.ENVIRONMENT,),
    "Connection settings of S3 and HDFS for the command line. Default: AWS's credential chain and Hadoop's "
    "configuration files.",
)  # fmt: skip
CACHE = Setting(
    "cache", None, Form("a path", text_value), (Scope.ENVIRONMENT,),
    "Folder in which the connector's jar is unpacked or compiled. Default: the user's cache folder.",
)  # fmt: skip
COMPILE = Setting(
    "compile", "false", TRUE_OR_FALSE, (Scope.ENVIRONMENT,),
    "Whether the connector is compiled from source for the installed Spark, even if the release contains a jar for it.",
)  # fmt: skip
LOG_FORMAT: Setting[LogFormat] = Setting(
    "log-format", "text", words("text", "json"), (Scope.ENVIRONMENT,),
    "Log format of `catalog-ext serve`: lines of text, or one JSON object a line. The option `--log-format` wins "
    "over the setting.",
)  # fmt: skip
URI = Setting(
    "uri", None, Form("one or more http or https addresses", text_value), (Scope.SESSION,),
    "Address of the catalog's service. Several addresses, comma-separated, are services of one index. "
    "`catalog_ext.configure` sets the address.",
)  # fmt: skip
TOKEN = Setting(
    "token",
    None,
    TEXT,
    (Scope.SESSION, Scope.ENVIRONMENT),
    "Access token of the service. `catalog_ext.configure` sets the token.",
)
TOKEN_FILE = Setting(
    "token-file", None, Form("a path on the driver's machine", text_value), (Scope.SESSION,),
    "File that contains the access token, instead of `token`.",
)  # fmt: skip
REQUEST_TIMEOUT = Setting(
    "request-timeout", "60s", TIME, (Scope.SESSION,),
    "How long Spark waits for the service's answer to a request. Keepalives that the service sends during a long "
    "request restart the timeout.",
)  # fmt: skip
RETRY_TIMEOUT = Setting(
    "retry-timeout", "90s", TIME, (Scope.SESSION,),
    "How long Spark retries a request while a service that answered before, or its store, is unreachable.",
)  # fmt: skip
PARTITION_COLUMNS = Setting(
    PARTITION_MODE_PROPERTY, "virtual", Form("`virtual` or `declared`", _mode), (Scope.SESSION, Scope.TABLE),
    "Whether `SELECT *` omits a table's partition columns (`virtual`) or includes them (`declared`). CREATE TABLE "
    "sets `declared`. As a Spark conf the setting is the mode of imported tables; in the session catalog the default "
    "is `declared`, and the conf holds for every table without the property.",
)  # fmt: skip
CREATE_FORMATS = Setting(
    "create.formats", "none",
    Form("some of `parquet`, `orc`, `csv`, `json` and `text`, comma-separated, `*` for all, or `none`", _formats),
    (Scope.SESSION,),
    "Session catalog only: formats for which `CREATE TABLE … USING …` (or `STORED AS …`, or neither), CTAS and "
    "`saveAsTable` create tables of catalog-ext, as `USING catalog_ext` does. Existing Spark tables are not "
    "converted. `SET` changes the formats for a session.",
)  # fmt: skip
CREATE_DATABASES = Setting(
    "create.databases", "*", Form("comma-separated names, `*` for all, or `none`", _listed), (Scope.SESSION,),
    "The databases in which `create.formats` is effective; in all others such statements create Spark's own tables.",
)  # fmt: skip
SAMPLE_FILES = Setting(
    "schema.sample-files", "100", Form(f"{NUMBER.values}, or `all`", count_or_all),
    (Scope.READ, Scope.TABLE, Scope.ENVIRONMENT),
    "How many files, spread over the partitions, are read to infer a schema that is not given. For ad-hoc paths the "
    "setting is an option of the read, with the default 10.",
)  # fmt: skip
MISSING_FILES = Setting(
    "missing-files", "error", words("error", "skip"), (Scope.READ, Scope.SESSION, Scope.TABLE),
    "What a read does if a registered file is missing: fail, or skip the file.",
    spark="spark.sql.files.ignoreMissingFiles",
)  # fmt: skip
USE_HIVE_PARTITIONING = Setting(
    "use_hive_partitioning", "1", FLAG, (Scope.SQL,),
    "Whether reads in the session can see virtual partition columns.",
)  # fmt: skip
LISTING_THREADS = Setting(
    "listing.threads", "16", NUMBER, _PROCESS, "Number of parallel requests to the store for one listing."
)
LISTING_TARGET_PREFIXES = Setting(
    "listing.target-prefixes", "64", NUMBER, _PROCESS,
    "Number of prefixes that a listing splits the location into; each is then listed recursively, in parallel.",
)  # fmt: skip
BATCH_PARTITIONS = Setting(
    "repair.batch-partitions", "5000", NUMBER, (Scope.TABLE, Scope.ENVIRONMENT),
    "Number of partitions that a repair commits to the index in one transaction.",
)  # fmt: skip
MASS_DROP_PERCENT = Setting(
    "repair.mass-drop-percent", "50", Form("a whole number from 0 to 100", percentage),
    (Scope.TABLE, Scope.ENVIRONMENT),
    "Largest share of a table's partitions, in percent, that a repair or `expire_partitions` drops without "
    "`allow_mass_drop` (`--force`). "
    "With 100 a repair may drop all of them, provided that the location is not empty.",
)  # fmt: skip
MASS_DROP_PARTITIONS = Setting(
    "repair.mass-drop-partitions", "20", NUMBER, (Scope.TABLE, Scope.ENVIRONMENT),
    "Number of registered partitions from which `repair.mass-drop-percent` is checked.",
)  # fmt: skip
METASTORE_TIMEOUT = Setting(
    "repair.metastore-timeout", "30s", TIME, _PROCESS,
    "How long a change waits for its delivery to the metastore; an undelivered change is delivered later.",
)  # fmt: skip

SETTINGS: tuple[Setting[Any], ...] = (
    *settings_in(globals()), *METASTORE_SETTINGS, *SERVICE_SETTINGS, *READ_SETTINGS, *WRITE_SETTINGS, *TABLE_SETTINGS,
)  # fmt: skip
"""All settings, in the order of the reference page."""

_NEARLY = 0.92
"""The similarity (difflib's ratio) from which on a name counts as a misspelled one: a difference of one or two
letters."""


def process_settings(environment: Mapping[str, str], spark: Mapping[str, str], catalog: str) -> dict[str, str]:
    """Return the settings of the whole process by key: from Spark's conf for the catalog, then from the environment."""
    found: dict[str, str] = {}
    given = of_catalog(spark, catalog)
    for setting in SETTINGS:
        if Scope.ENVIRONMENT in setting.scopes and environment.get(setting.variable):
            found[setting.key] = environment[setting.variable]
        if Scope.SESSION not in setting.scopes:
            continue
        texts = (property_value(given, name) for name in setting.names)
        if text := next(filter(None, texts), None):
            found[setting.key] = text
    return found


def of_catalog(spark: Mapping[str, str], catalog: str) -> dict[str, str]:
    """Return a catalog's settings in a session's conf, ``spark.sql.catalog.<catalog>.<key>``, by key."""
    prefix = f"spark.sql.catalog.{catalog}."
    return {key.removeprefix(prefix): text for key, text in spark.items() if key.startswith(prefix)}


def check_options(options: Collection[str], option_kind: Scope) -> None:
    """Check that no option of a read, a write or a stream looks like a misspelled option of catalog-ext or Spark.

    Names that resemble no known option may be meant for another program.

    Raises:
        InvalidConfigurationError: An option looks misspelled, and would have no effect.
    """
    known = {name.lower() for s in SETTINGS for name in (*s.names, *([s.spark] if s.spark else []))}
    known |= {name.lower() for name in OF_SPARK}
    ours = [name for s in SETTINGS if option_kind in s.scopes for name in s.names]
    for option in options:
        near = None if option.lower() in known else nearest(option, [*ours, *OF_SPARK], NEARLY)
        if near is not None:
            raise InvalidConfigurationError(
                f"{option[:60]!r} is no {option_kind} that catalog-ext or Spark has, and would change nothing. "
                f"Did you mean {near!r}?",
                {"key": option[:60]},
            )


def check_properties(properties: Mapping[str, str]) -> None:
    """Check the value of each table property that is a setting, and that no property is misspelled.

    Raises:
        InvalidConfigurationError: A property has an invalid value, or looks like a misspelled setting.
    """
    known: set[str] = set()
    for setting in SETTINGS:
        if Scope.TABLE not in setting.scopes:
            continue
        for name in setting.names:
            known.add(name.lower())
            text = property_value(properties, name)
            if text is not None:
                setting.value_of(text)
    for key in properties:
        # Keys with a placeholder such as ``<table>`` are compared only up to it, because the rest is a name chosen by
        # the user.
        lower = key.lower()
        if lower in known or any("<" in name and lower.startswith(name.partition("<")[0]) for name in known):
            continue
        close = difflib.get_close_matches(lower, known, 1, _NEARLY)
        if close:
            raise InvalidConfigurationError(
                f"The table property {key[:60]!r} is unknown to catalog-ext, and would change nothing. "
                f"Did you mean {close[0]!r}? One for another tool needs a name that differs more.",
                {"key": key[:60]},
            )
