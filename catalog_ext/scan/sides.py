"""The two sides of a repair, and which parts of them are the same: most repairs find next to nothing to do.

Rows are digested into buckets by their partitions while they come, and wait in a file. Where the digests of a bucket
are equal, so are the rows, and nothing looks at them again; the rows of the other buckets go to the scratch database,
all of them, so that what compares there finds whole partitions.
"""

from __future__ import annotations

import marshal
import secrets
import tempfile
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

from catalog_ext.metastore.commit.transaction import transaction_id_in
from catalog_ext.scan.scratch import scratch_failed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from catalog_ext.scan.scratch import Scratch

FileRow: TypeAlias = tuple[str, str, int, int, "int | None"]
"""A partition's name, a file's path in it, its bytes, its modification time in milliseconds since 1970, its ETag."""

PartitionRow: TypeAlias = tuple[str, str | None, int, int]
"""A registered partition's name, its location if it has one of its own, its files and their bytes."""

_BUCKETS = 1 << 14
_IN_MEMORY = 1 << 20
"""Bytes of a side's rows that wait in memory; those of a larger table wait in a file."""

_MASK = _BUCKETS - 1
# What is stored elsewhere cannot be made to have the digest of something else.
_SALT = secrets.token_hex(8)


Listed: TypeAlias = "AllListed | _ListedSide"
"""Takes what a listing found."""

Indexed: TypeAlias = "AllIndexed | _IndexedSide"
"""Takes what is registered: partitions before their files."""


class AllListed:
    """Has all that was listed compared in the scratch database."""

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch

    def partitions(self, names: Sequence[str]) -> None:
        """Take directories of partitions."""
        self._scratch.insert("listed_partitions", zip(names, strict=True), columns=1, ignore=True)

    shown_by_files = partitions
    """Take directories that are known by their files, on a store that lists directories, too."""

    def files(self, rows: Sequence[FileRow]) -> None:
        """Take files."""
        self._scratch.insert("listed_files", rows, columns=5)


class AllIndexed:
    """Has all that is registered compared in the scratch database."""

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch

    def partitions(self, rows: Sequence[PartitionRow]) -> None:
        """Take partitions."""
        self._scratch.insert("indexed_partitions", rows, columns=4)

    def files(self, rows: Sequence[FileRow]) -> None:
        """Take files."""
        self._scratch.insert("indexed_files", rows, columns=5)


class _Side:
    """The rows of one side: their digests by bucket, and themselves in a file that has no name."""

    def __init__(self, *, with_files: bool, timeless: bool) -> None:
        self.digests = [0] * _BUCKETS
        self._with_files = with_files
        self._timeless = timeless
        with _translated():
            self._rows = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 -- closed by ``close``

    def close(self) -> None:
        self._rows.close()

    def keep(self, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        with _translated():
            # Nothing but texts and numbers: ``marshal`` takes a seventh of the time of ``pickle``.
            data = marshal.dumps((table, list(rows)))
            self._rows.write(len(data).to_bytes(8, "big"))
            self._rows.write(data)

    def digest_names(self, names: Iterable[str]) -> None:
        digests = self.digests
        for name in names:
            digests[hash(name) & _MASK] += hash(f"{_SALT}{name}")

    def digest_files(self, rows: Iterable[FileRow]) -> None:
        if not self._with_files:
            return
        digests = self.digests
        if self._timeless:
            rows = (row if transaction_id_in(row[1]) is None else (*row[:3], 0, row[4]) for row in rows)
        # Of a text, never of the tuple: digests are added up, and what a change of one number does to the hash of a
        # tuple is nearly the same for each tuple, so that two files which swap their sizes or times would cancel out.
        # An ETag that one side does not know makes a difference here, and none where the rows are compared.
        for name, path, size, modified_ms, etag in rows:
            digests[hash(name) & _MASK] += hash(f"{_SALT}{name}\0{path}\0{size}\0{modified_ms}\0{etag}")

    def kept(self) -> Iterator[tuple[str, list[tuple[Any, ...]]]]:
        """Yield what was kept, in its order; a row's first field is its partition's name."""
        with _translated():
            self._rows.seek(0)
            while length := self._rows.read(8):
                yield marshal.loads(self._rows.read(int.from_bytes(length, "big")))


class _ListedSide(_Side):
    def partitions(self, names: Sequence[str]) -> None:
        self.digest_names(names)
        self.shown_by_files(names)

    def shown_by_files(self, names: Sequence[str]) -> None:
        self.keep("listed_partitions", list(zip(names, strict=True)))

    def files(self, rows: Sequence[FileRow]) -> None:
        self.digest_files(rows)
        self.keep("listed_files", rows)


class _IndexedSide(_Side):
    def __init__(self, scratch: Scratch, *, with_files: bool, timeless: bool) -> None:
        super().__init__(with_files=with_files, timeless=timeless)
        self._all = AllIndexed(scratch)
        self._elsewhere: set[str] = set()
        self.count = 0

    def partitions(self, rows: Sequence[PartitionRow]) -> None:
        elsewhere = [row for row in rows if row[1] is not None]
        if elsewhere:
            # No listing of the table's own location shows them.
            self._all.partitions(elsewhere)
            self._elsewhere.update(row[0] for row in elsewhere)
            rows = [row for row in rows if row[1] is None]
        self.count += len(rows)
        self.digest_names(row[0] for row in rows)
        self.keep("indexed_partitions", rows)

    def files(self, rows: Sequence[FileRow]) -> None:
        if self._elsewhere:
            self._all.files([row for row in rows if row[0] in self._elsewhere])
            rows = [row for row in rows if row[0] not in self._elsewhere]
        self.digest_files(rows)
        self.keep("indexed_files", rows)


class Sides:
    """Two sides of which only what may differ goes to the scratch database; close it.

    Args:
        scratch: The repair's.
        with_files: Whether partitions are the same only if their files are.
        timeless: Whether files that a write has made are the same whatever their times are.

    Attributes:
        listed: Takes what was listed, from one thread.
        indexed: Takes what is registered, from one thread, which may be another.
    """

    def __init__(self, scratch: Scratch, *, with_files: bool, timeless: bool) -> None:
        self._scratch = scratch
        self.listed = _ListedSide(with_files=with_files, timeless=timeless)
        self.indexed = _IndexedSide(scratch, with_files=with_files, timeless=timeless)

    def close(self) -> None:
        """Delete what waits."""
        self.listed.close()
        self.indexed.close()

    def compare(self) -> None:
        """Put the rows of all buckets that differ into the scratch database, and of the others how many there are.

        Where a partition is new to the index, the names of all others go there, too: it may be one of them by another
        spelling.
        """
        scratch = self._scratch
        both = zip(self.listed.digests, self.indexed.digests, strict=True)
        differs = bytes(one != other for one, other in both)
        if any(differs):
            for table, rows in chain(self.listed.kept(), self.indexed.kept()):
                if some := [row for row in rows if differs[hash(row[0]) & _MASK]]:
                    scratch.insert(table, some, columns=len(some[0]), ignore=table == "listed_partitions")
        here = "SELECT count(*) FROM indexed_partitions WHERE location IS NULL"
        scratch.in_sync = self.indexed.count - scratch.count(here)
        new = "SELECT EXISTS (SELECT 1 FROM listed_partitions WHERE name NOT IN (SELECT name FROM indexed_partitions))"
        if scratch.in_sync and scratch.count(new):
            for table, rows in self.indexed.kept():
                if table == "indexed_partitions":
                    names = [(row[0],) for row in rows if not differs[hash(row[0]) & _MASK]]
                    scratch.insert("partitions_in_sync", names, columns=1)


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise scratch_failed(error) from error
