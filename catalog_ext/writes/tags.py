"""Commands on tags: names of versions that vacuum keeps."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from catalog_ext.display import Rows
from catalog_ext.metastore.model.as_of import time_of

if TYPE_CHECKING:
    from catalog_ext.context import Context
    from catalog_ext.metastore.index.write.version_holds import Tag


class Tags:
    """Makes, lists and removes the tags of tables."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def tag(self, table: str, version: int, name: str, until: str | datetime | None = None) -> Tag:
        """Give a version of a table a name. Vacuum keeps the version, until a time or until ``untag``.

        Args:
            table: The table's name.
            version: The version; ``history`` lists them.
            name: The name, unique among the table's tags. A name of digits only is refused.
            until: When the tag ends: a time, or text such as ``2027-01-31`` or ``2027-01-31T12:00:00+01:00``. Without a
                zone it is UTC. None: at ``untag``.

        Raises:
            TableNotFoundError: There is no table of that name.
            InvalidInputError: The name or the time is not valid.
            AlreadyExistsError: The table has a tag of that name.
            VersionNotFoundError: The table has no such version.
            VersionExpiredError: Vacuum has removed the version, or is about to.
        """
        found = self._context.load_table(table)
        return self._context.index.version_holds.tag(found, version, name, _milliseconds(until))

    def untag(self, table: str, name: str) -> Tag:
        """Remove a tag and return it. Vacuum then removes the version like any other.

        Raises:
            TableNotFoundError: There is no table of that name.
            VersionNotFoundError: The table has no tag of that name.
        """
        return self._context.index.version_holds.untag(self._context.load_table(table), name)

    def tags(self, table: str) -> Rows[Tag]:
        """Return the tags of a table by name.

        Raises:
            TableNotFoundError: There is no table of that name.
        """
        return Rows("tags", self._context.index.version_holds.tags(self._context.load_table(table)))


def _milliseconds(until: str | datetime | None) -> int | None:
    if until is None:
        return None
    at = time_of(until) if isinstance(until, str) else until
    return round((at if at.tzinfo else at.replace(tzinfo=timezone.utc)).timestamp() * 1000)
