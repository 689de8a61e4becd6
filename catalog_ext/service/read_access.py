"""What a token for reading opens: the operations and procedures that change neither tables nor files."""

from __future__ import annotations

from collections.abc import Mapping

from catalog_ext.metastore.errors import ReadOnlyTokenError

READS_ONLY = "catalog_ext.reads_only"
"""The key of a request's scope that is True where its token may only read."""

READABLE = frozenset({
    "ping", "namespaces/list", "namespaces/load", "tables/list", "tables/load", "tables/hive_clauses", "tables/plan",
    "tables/changes", "tables/metadata", "settings/load", "settings/resolve", "partitions/list", "partitions/groups",
    "paths/load", "paths/plan", "paths/listed", "views/list", "views/refresh", "procedures/list", "procedures/call",
})  # fmt: skip
"""Operations by name; a new one is refused until it is listed. ``views/refresh`` derives the partitions of a view from
those of its tables, as the service would do by itself."""

READABLE_PROCEDURES = frozenset({"drift", "status", "view_dependencies"})


def require_readable(operation: str, request: object) -> None:
    """Return if a token for reading opens an operation.

    Args:
        operation: A known operation.
        request: The request's parsed body.

    Raises:
        ReadOnlyTokenError: It changes something, or may.
    """
    refused = operation
    if operation in READABLE:
        if operation != "procedures/call":
            return
        named = request.get("procedure") if isinstance(request, Mapping) else None
        if isinstance(named, str) and named.lower() in READABLE_PROCEDURES:
            return
        refused = f"CALL {str(named)[:60]}"
    raise ReadOnlyTokenError(
        f"{refused} is refused: the statement may change something, and the session has the service's token for "
        "reading, which opens SELECT, SHOW and DESCRIBE. Give a session that writes the service's own token, by the "
        "catalog's option token-file.",
        {"operation": refused},
    )
