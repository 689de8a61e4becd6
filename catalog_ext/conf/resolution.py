"""Resolves the settings of one read, write or stream, for clients that only forward the given texts.

The first place with a value wins: option, session conf, the catalog's conf in the session, Spark's own conf, table
property, the service's process (its session's conf or environment), default.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from catalog_ext.conf import keys, read_keys, table_keys, write_keys
from catalog_ext.conf.key_suggestions import check_catalog_keys
from catalog_ext.conf.setting import Scope, Setting
from catalog_ext.metastore.backports import StrEnum
from catalog_ext.metastore.errors import InvalidConfigurationError
from catalog_ext.metastore.model.properties import property_value
from catalog_ext.metastore.model.tables import PartitionMode, stated_mode

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

Resolved: TypeAlias = "Mapping[str, bool | int | str | None]"
"""Setting values by key, with types that JSON can represent."""

STRICT = "strict"
"""The key of the resolved setting with the reason why queries need a predicate on a partition column; None if they do
not."""


class Use(StrEnum):
    """The operations that settings can be resolved for."""

    READ = "read"
    WRITE = "write"
    INSERT = "insert"
    STREAM = "stream"
    SESSION = "session"
    SESSION_CATALOG = "session_catalog"


_OPTIONS = {
    Use.READ: Scope.READ, Use.WRITE: Scope.WRITE, Use.INSERT: Scope.WRITE, Use.STREAM: Scope.STREAM, Use.SESSION: None,
    Use.SESSION_CATALOG: None,
}  # fmt: skip
_OF_STRICT = (read_keys.STRICT_CHECK, read_keys.STRICT_MODE)
_SETTINGS: dict[Use, tuple[Setting[Any], ...]] = {
    Use.READ: (
        keys.MISSING_FILES,
        read_keys.INDEX_ANSWERS,
        read_keys.LEARN_STATISTICS,
        read_keys.FILE_SKIPPING,
        read_keys.DATA_GROUPING,
        read_keys.MAX_STALENESS,
    ),
    Use.SESSION: (keys.USE_HIVE_PARTITIONING,),
    Use.SESSION_CATALOG: (keys.PARTITION_COLUMNS,),
    Use.INSERT: (
        write_keys.DYNAMIC_PARTITION,
        write_keys.DYNAMIC_PARTITION_MODE,
        write_keys.PARTITION_OVERWRITE_MODE,
    ),
    Use.WRITE: (
        write_keys.WRITE_DISTRIBUTION_MODE,
        write_keys.WRITE_MAX_OPEN_WRITERS,
        write_keys.WRITE_MAX_FILE_SIZE,
        write_keys.WRITE_STATISTICS_COLUMNS,
        write_keys.HIVE_COMPATIBLE,
        write_keys.MAX_DYNAMIC_PARTITIONS,
        write_keys.MAX_DYNAMIC_PARTITIONS_PER_TASK,
        write_keys.MAX_RECORDS_PER_FILE,
        write_keys.TXN_APP_ID,
        write_keys.TXN_VERSION,
        write_keys.PARTITION_COMMIT_TRIGGER,
        table_keys.PARTITION_STRATEGY,
        table_keys.IN_DATA_FILE,
    ),
    Use.STREAM: (
        read_keys.STARTING_VERSION,
        read_keys.MAX_FILES_PER_TRIGGER,
        read_keys.MAX_BYTES_PER_TRIGGER,
        read_keys.SKIP_CHANGE_COMMITS,
    ),
}


@dataclass(frozen=True, slots=True)
class Given:
    """The given settings, by place; keys ignore case.

    Attributes:
        table: The table's name, for messages.
        catalog: The catalog's name in SQL, for messages.
        options: The options of the read, the write or the stream.
        session: Keys without a catalog prefix in the session's conf.
        catalog_conf: The session's ``spark.sql.catalog.<catalog>.<key>``, by key.
        properties: The table's properties.
        process: The settings of the service's process.
        others: The names of all other options. They belong to the format and are not checked, except that a misspelled
            option of catalog-ext is refused.
        others_of_catalog: The other keys of the catalog in the session's conf, checked for the same reason.
    """

    table: str = ""
    catalog: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    session: Mapping[str, str] = field(default_factory=dict)
    catalog_conf: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    process: Mapping[str, str] = field(default_factory=dict)
    others: Collection[str] = ()
    others_of_catalog: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class _Text:
    name: str
    text: str
    place: str


def names(use: Use) -> tuple[str, ...]:
    """Return all names, in lower case, by which a setting of the use can be given, with aliases and Spark's keys."""
    settings = (*_SETTINGS[use], *(_OF_STRICT if use is Use.READ else ()))
    found = [name for s in settings for name in (*s.names, *([s.spark] if s.spark else []))]
    return tuple(name.lower() for name in found)


def resolve(use: Use, given: Given) -> Resolved:
    """Return the typed values by key; None for a setting that is not given and has no default.

    ``missing-files`` is None too if it is not given, because an option of Spark's reader then decides; the same holds
    for ``partitionOverwriteMode``, whose default differs in the session catalog.

    Raises:
        InvalidConfigurationError: A value is invalid for its key, or an option, or a key of the session's conf for the
            catalog, looks like a misspelled setting.
    """
    scope = _OPTIONS[use]
    if scope is not None:
        keys.check_options(given.others, scope)
    check_catalog_keys(given.others_of_catalog, given.catalog)
    if use is Use.SESSION_CATALOG:
        return {keys.PARTITION_COLUMNS.key: _partition_mode(given)}
    found: dict[str, bool | int | str | None] = {
        setting.key: _value(setting, _texts(setting, use, given)) for setting in _SETTINGS[use]
    }
    if use is Use.READ:
        found[STRICT] = _strict(given)
    if use is Use.WRITE:
        _check_batch(given.table, found)
    return found


def _check_batch(table: str, found: Resolved) -> None:
    app_id, version = write_keys.TXN_APP_ID.key, write_keys.TXN_VERSION.key
    if (found[app_id] is None) is not (found[version] is None):
        raise InvalidConfigurationError(
            f"A write to {table} has one of the options '{app_id}' and '{version}' without the other: give both to "
            "have a batch committed once, or neither.",
            {"table": table},
        )


def _partition_mode(given: Given) -> str:
    """Return the partition mode (virtual or declared) of a table in Spark's session catalog.

    The mode in the table's properties wins over the session's conf, which is a default for tables without a mode.
    """
    own = stated_mode(given.properties)
    if own is not None:
        return str(own)
    place = f"the session conf 'spark.sql.catalog.{given.catalog}.{{name}}'"
    found = next(_in(given.catalog_conf, keys.PARTITION_COLUMNS.names, place), None)
    if found is None:
        return str(PartitionMode.DECLARED)  # existing queries of the session catalog must not change
    return str(_parsed(keys.PARTITION_COLUMNS, replace(found, text=found.text.lower())))


def _value(setting: Setting[Any], texts: Iterator[_Text]) -> Any:  # noqa: ANN401 -- a value of the setting's type
    nearest = next(texts, None)
    if nearest is None:
        if setting.default is None or setting in (keys.MISSING_FILES, write_keys.PARTITION_OVERWRITE_MODE):
            return None
        return setting.value_of(setting.default)
    return _parsed(setting, nearest)


def _parsed(setting: Setting[Any], given: _Text) -> Any:  # noqa: ANN401 -- a value of the setting's type
    text = given.text.strip()
    if given.name == setting.spark:
        text = _of_spark(setting, text)
    try:
        return setting.form.parse(text)
    except ValueError as error:
        value = given.text[:60]
        raise InvalidConfigurationError(
            f"{value!r} is no value of {given.place}: {error}.", {"key": setting.key, "value": value}
        ) from error


def _of_spark(setting: Setting[Any], text: str) -> str:
    """Return the value of a setting that is equivalent to a value of Spark's own conf."""
    if setting is keys.MISSING_FILES:
        return "skip" if text.lower() == "true" else "error"
    # For Spark a negative number of records means no limit.
    return "0" if text.startswith("-") else text


def _texts(setting: Setting[Any], use: Use, given: Given) -> Iterator[_Text]:
    """Yield the given texts of a setting, in the order of their precedence."""
    scopes = setting.scopes
    if _OPTIONS[use] in scopes:
        yield from _in(given.options, setting.names, f"the option {{name!r}} of the {use}")
    if Scope.SQL in scopes:
        yield from _in(given.session, setting.names, "the session conf {name!r}")
    if Scope.SESSION in scopes:
        yield from _in(
            given.catalog_conf, setting.names, f"the session conf 'spark.sql.catalog.{given.catalog}.{{name}}'"
        )
    if setting.spark and not setting.spark_last:
        yield from _in(given.session, (setting.spark,), "the session conf {name!r}")
    if Scope.TABLE in scopes:
        yield from _in(given.properties, setting.names, f"the property {{name!r}} of table {given.table}")
    if setting.spark and setting.spark_last:
        yield from _in(given.session, (setting.spark,), "the session conf {name!r}")
    yield from _in(given.process, (setting.key,), "the setting {name!r} of the service")


def _in(texts: Mapping[str, str], known: tuple[str, ...], place: str) -> Iterator[_Text]:
    for name in known:
        text = property_value(texts, name)
        if text is not None:
            yield _Text(name, text, place.format(name=name))


def _strict(given: Given) -> str | None:
    levels = (
        (given.options, "option of the read"),
        (given.session, "session"),
        (given.catalog_conf, f"catalog {given.catalog}"),
        (given.properties, f"table {given.table}"),
    )
    for texts, level in levels:
        for setting in _OF_STRICT:  # the newer key first: it wins at the same level
            for found in _in(texts, setting.names, "{name}"):
                value = _parsed(setting, found)
                return f"{found.name} = {found.text} ({level})" if value in (True, "strict") else None
    return None
