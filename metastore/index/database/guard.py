"""What an open index asks before it changes anything: whether its database was put back to an earlier time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from catalog_ext.metastore.errors import IndexRestoredError


class IndexGuard(Protocol):
    """Compares the counter of the index with the one on the store."""

    @property
    def behind(self) -> IndexRestoredError | None:
        """The reason why the index changes nothing; None where it is current, as far as is known."""
        ...

    def require_current(self) -> None:
        """Return unless the index is older than what it once wrote (``IndexRestoredError``)."""
        ...

    def advance(self) -> None:
        """Raise the counter, here and on the store, before files are deleted that a backup may still name.

        Raises:
            IndexRestoredError: The index is older than what it once wrote.
            StorageError: The store does not answer.
        """
        ...

    def note_version(self, table_id: int, version: int) -> None:
        """Note the newest version of a table; one that is older than noted before shows that the index was put back."""
        ...

    def forget(self) -> None:
        """Compare again before the next change: a connection to the database's server is a new one."""
        ...
