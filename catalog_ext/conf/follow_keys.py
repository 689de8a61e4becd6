"""The settings of following: how the changes of others in the metastore reach the index."""

from __future__ import annotations

from typing import Any

from catalog_ext.conf.setting import TIME, Scope, Setting, flag, seconds

_PROCESS = (Scope.SESSION, Scope.ENVIRONMENT)


def _names(text: str) -> frozenset[str]:
    if text.strip().lower() == "none":
        return frozenset()
    names = frozenset(name.strip().lower() for name in text.split(",") if name.strip())
    if any(not name.replace("_", "").isalnum() and name != "*" for name in names):
        raise ValueError("give names of databases with commas between them, or *")
    return names


FOLLOW: Setting[bool] = Setting(
    "follow", "false",
    "Whether the session's service follows the metastore in the background: what Hive engines change there reaches the "
    "index. Of several processes one does it. `catalog-ext serve --follow` and `catalog-ext follow` need no setting.",
    "`true` or `false`", flag, _PROCESS,
)  # fmt: skip
FOLLOW_DATABASES: Setting[frozenset[str]] = Setting(
    "follow.databases", "none",
    "Databases of the metastore whose new tables are imported while it is followed; tables that the index has are "
    "followed anyway.",
    "names with commas between them, `*` for all, or `none`", _names, _PROCESS,
)  # fmt: skip
FOLLOW_INTERVAL: Setting[float] = Setting(
    "follow.interval", "1s", "How often the metastore's log is asked for what is new while it is followed.",
    TIME, seconds, _PROCESS,
)  # fmt: skip
FOLLOW_COMPARE_INTERVAL: Setting[float] = Setting(
    "follow.compare-interval", "1m",
    "How often the partitions of a metastore that keeps no log are compared with the index while it is followed.",
    TIME, seconds, _PROCESS,
)  # fmt: skip

FOLLOW_SETTINGS: tuple[Setting[Any], ...] = (FOLLOW, FOLLOW_DATABASES, FOLLOW_INTERVAL, FOLLOW_COMPARE_INTERVAL)
"""All of them, in the order of the reference page."""
