"""Detects misspelled settings and refuses them, since they would have no effect."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from catalog_ext.conf.keys import SETTINGS
from catalog_ext.conf.setting import ENVIRONMENT_PREFIX, Scope, Setting
from catalog_ext.metastore.errors import InvalidConfigurationError
from catalog_ext.metastore.runtime.wording import NEARLY, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

logger = logging.getLogger(__name__)

_NEARLY_OURS = 0.85
"""The similarity from which on an environment variable counts as misspelled. It is high, because variables also belong
to other programs, unlike keys below a catalog's prefix."""
_OF_SPARK = frozenset({"defaultdatabase"})
"""Keys below the prefix ``spark_catalog`` that Spark itself reads."""


def check_catalog_keys(names: Iterable[str], catalog: str, *, warns: bool = False) -> None:
    """Check that a session's conf has no misspelled or misplaced key for the catalog.

    A name that resembles no known key is accepted (with ``warns``, logged): it may be for another release, or for a
    former catalog of this name. The names are the keys behind ``spark.sql.catalog.<catalog>.``.

    Raises:
        InvalidConfigurationError: A key is misspelled or misplaced, and would have no effect.
    """
    given_there = {name.lower(): s for s in SETTINGS if Scope.SESSION in s.scopes for name in s.names}
    elsewhere = {name.lower(): s for s in SETTINGS for name in s.names}
    for name in names:
        lower = name.lower()
        if lower in given_there or lower in _OF_SPARK or _is_of_family(lower, given_there):
            continue
        key = f"spark.sql.catalog.{catalog}.{name[:60]}"
        setting = elsewhere.get(lower)
        if setting is not None:
            raise InvalidConfigurationError(
                f"{key!r} would change nothing: {setting.key!r} is no setting of a session's catalog. Give it as "
                f"{_places(setting)}.",
                {"key": key},
            )
        near = nearest(name, given_there, NEARLY)
        if near is not None:
            raise InvalidConfigurationError(
                f"{key!r} is no setting of a catalog, and would change nothing. Did you mean "
                f"'spark.sql.catalog.{catalog}.{near}'?",
                {"key": key},
            )
        if warns:
            logger.warning("%r is no setting that this release of catalog-ext has, and changes nothing.", key)


def check_variables(environment: Mapping[str, str]) -> None:
    """Check the environment variables of catalog-ext: their values, and that none looks misspelled.

    All values are checked at once, because a command may not read every setting.

    Raises:
        InvalidConfigurationError: A value does not fit its setting, or a variable looks misspelled, and would have no
            effect.
    """
    known = {s.variable: s for s in SETTINGS if Scope.ENVIRONMENT in s.scopes}
    others = {s.variable for s in SETTINGS}
    ours = {variable.removeprefix(ENVIRONMENT_PREFIX): s for variable, s in known.items()}
    for variable in environment:
        if variable in known and environment[variable]:
            _check_value(known[variable], environment[variable])
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable in others:
            continue
        near = nearest(variable.removeprefix(ENVIRONMENT_PREFIX), ours, _NEARLY_OURS)
        if near is not None:
            raise InvalidConfigurationError(
                f"The environment variable {variable[:80]} is unknown to catalog-ext, and would change nothing. "
                f"Did you mean {ENVIRONMENT_PREFIX}{near}? One for another program needs a name that differs more.",
                {"key": variable[:80]},
            )


def _check_value(setting: Setting[object], text: str) -> None:
    try:
        setting.value_of(text)
    except InvalidConfigurationError as error:
        raise InvalidConfigurationError(
            f"The environment variable {setting.variable} is not valid. {error.message}", error.parameters
        ) from error


def _is_of_family(name: str, known: Iterable[str]) -> bool:
    """Return whether the name is a known key that ends in ``<table>`` or ``<user>``, with a user's own name there."""
    return any("<" in each and name.startswith(each.partition("<")[0]) for each in known)


def _places(setting: Setting[Any]) -> str:
    places = []
    for scope in setting.scopes:
        if scope is Scope.ENVIRONMENT:
            argument = f"the argument {setting.key} of catalog_ext.configure or the "
            places.append(f"{argument if setting.key in _ARGUMENTS else ''}environment variable {setting.variable}")
        else:
            places.append(str(scope))
    return " or ".join(places)


_ARGUMENTS = frozenset({"index", "metastore", "warehouse", "storage"})
