"""The two sides of a repair, of which only what may differ is compared row by row: most repairs find little to do.

Rows are digested into buckets by their partitions as they arrive, and wait in a temporary file. Buckets with equal
digests have equal rows, and nothing looks at these rows again. The rows of all other buckets go to the scratch
database, so that the comparison there finds whole partitions.
"""

from __future__ import annotations

import marshal
import secrets
import tempfile
from contextlib import contextmanager
from itertools import chain
from operator import ne
from typing import TYPE_CHECKING, Any, TypeAlias

from catalog_ext.metastore.commit.transaction import transaction_id_in
from catalog_ext.scan.scratch import scratch_failed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from catalog_ext.scan.scratch import Scratch

FileRow: TypeAlias = tuple[str, str, int, int, "int | None"]
"""A partition's name, a file's path in it, its bytes, its modification time in milliseconds since 1970, its ETag."""

PartitionRow: TypeAlias = "tuple[str] | tuple[str, str | None, int, int]"
"""A partition's name; of a registered one also its location if it has one of its own, its files and their bytes."""

_BUCKETS = 1 << 14
_IN_MEMORY = 1 << 20
"""Bytes of a side's rows that wait in memory; those of a larger table wait in a file."""

_MASK = _BUCKETS - 1
# The digest of a row cannot be computed outside this process, so that no file can be made to cancel out another one.
_SALT = secrets.token_hex(8)


class Everything:
    """Sends all rows of one side to the scratch database.

    Args:
        scratch: The repair's.
        side: ``listed``, or ``indexed``, which gets partitions before their files.
    """

    def __init__(self, scratch: Scratch, side: str) -> None:
        self._scratch = scratch
        self._side = side

    def partitions(self, rows: Sequence[PartitionRow]) -> None:
        """Take partitions."""
        self._scratch.insert(f"{self._side}_partitions", rows)

    def shown_by_files(self, rows: Sequence[PartitionRow]) -> None:
        """Take directories that are known by their files, on a store that lists directories, too."""
        self._scratch.insert(f"{self._side}_partitions", rows)

    def files(self, rows: Sequence[FileRow]) -> None:
        """Take files."""
        self._scratch.insert(f"{self._side}_files", rows)


class _Digested(Everything):
    """Adds up the digests of rows by bucket, and keeps the rows themselves in a file without a name."""

    def __init__(self, scratch: Scratch, side: str, *, with_files: bool, timeless: bool) -> None:
        super().__init__(scratch, side)
        self.digests = [0] * _BUCKETS
        self._with_files = with_files
        self._timeless = timeless
        with _translated():
            self._rows = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 -- closed by ``close``

    def close(self) -> None:
        self._rows.close()

    def partitions(self, rows: Sequence[PartitionRow]) -> None:
        digests = self.digests
        for row in rows:
            digests[hash(row[0]) & _MASK] += hash(f"{_SALT}{row[0]}")
        self._keep("partitions", rows)

    def shown_by_files(self, rows: Sequence[PartitionRow]) -> None:
        self._keep("partitions", rows)

    def files(self, rows: Sequence[FileRow]) -> None:
        digests = self.digests
        # The squares of the hashes are added up, because Python's hash of a tuple is nearly linear in its numbers:
        # without the squares two files that swap their sizes or times would leave the sum as it was.
        # An ETag that only one side knows makes a difference here, and none where the rows are compared.
        for name, path, size, modified_ms, etag in rows if self._with_files else ():
            if self._timeless and transaction_id_in(path) is not None:
                modified_ms = 0
            digest = hash((_SALT, name, path, size, modified_ms, etag))
            digests[hash(name) & _MASK] += digest * digest
        self._keep("files", rows)

    def _keep(self, kind: str, rows: Sequence[tuple[Any, ...]]) -> None:
        with _translated():
            # Nothing but texts and numbers: ``marshal`` takes a seventh of the time of ``pickle``.
            data = marshal.dumps((f"{self._side}_{kind}", list(rows)))
            self._rows.write(len(data).to_bytes(8, "big"))
            self._rows.write(data)

    def kept(self) -> Iterator[tuple[str, list[tuple[Any, ...]]]]:
        """Yield the rows in their order, with the table of the scratch database that they belong to."""
        with _translated():
            self._rows.seek(0)
            while length := self._rows.read(8):
                yield marshal.loads(self._rows.read(int.from_bytes(length, "big")))


class _Indexed(_Digested):
    """Sends partitions with a location of their own to the scratch database: the table's listing does not show them."""

    def __init__(self, scratch: Scratch, *, with_files: bool, timeless: bool) -> None:
        super().__init__(scratch, "indexed", with_files=with_files, timeless=timeless)
        self._everything = Everything(scratch, "indexed")
        self._elsewhere: set[str] = set()
        self.count = 0

    def partitions(self, rows: Sequence[PartitionRow]) -> None:
        elsewhere = [row for row in rows if row[1:2] != (None,)]
        if elsewhere:
            self._everything.partitions(elsewhere)
            self._elsewhere.update(row[0] for row in elsewhere)
            rows = [row for row in rows if row[0] not in self._elsewhere]
        self.count += len(rows)
        super().partitions(rows)

    def files(self, rows: Sequence[FileRow]) -> None:
        if self._elsewhere:
            self._everything.files([row for row in rows if row[0] in self._elsewhere])
            rows = [row for row in rows if row[0] not in self._elsewhere]
        super().files(rows)


class Sides:
    """Two sides of which only what may differ goes to the scratch database; close it.

    Args:
        scratch: The repair's.
        with_files: Whether partitions are equal only if their files are.
        timeless: Whether the times of files that a write of this catalog has made are ignored.

    Attributes:
        listed: Takes what was listed, from one thread.
        indexed: Takes what is registered, from one thread, which may be another.
    """

    def __init__(self, scratch: Scratch, *, with_files: bool, timeless: bool) -> None:
        self._scratch = scratch
        self.listed = _Digested(scratch, "listed", with_files=with_files, timeless=timeless)
        self.indexed = _Indexed(scratch, with_files=with_files, timeless=timeless)

    def close(self) -> None:
        """Delete the rows that wait."""
        self.listed.close()
        self.indexed.close()

    def compare(self) -> None:
        """Put the rows of all differing buckets into the scratch database, and count the rows of the others.

        If a partition is new to the index, the names of all other partitions are inserted too: it may be one of them in
        another spelling.
        """
        scratch = self._scratch
        differs = bytes(map(ne, self.listed.digests, self.indexed.digests))
        if any(differs):
            for table, rows in chain(self.listed.kept(), self.indexed.kept()):
                if some := [row for row in rows if differs[hash(row[0]) & _MASK]]:
                    scratch.insert(table, some)
        here = "SELECT count(*) FROM indexed_partitions WHERE location IS NULL"
        scratch.in_sync = self.indexed.count - scratch.count(here)
        new = "SELECT EXISTS (SELECT 1 FROM listed_partitions WHERE name NOT IN (SELECT name FROM indexed_partitions))"
        if scratch.in_sync and scratch.count(new):
            for table, rows in self.indexed.kept():
                if table == "indexed_partitions":
                    names = [(row[0],) for row in rows if not differs[hash(row[0]) & _MASK]]
                    scratch.insert("partitions_in_sync", names)


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise scratch_failed(error) from error
