"""Filters out equal rows of store and index before the detailed comparison, since most repairs find few differences.

As rows arrive, they are distributed to buckets by partition, each bucket is digested, and the rows are stored in a
temporary file. Buckets with equal digests on both sides have equal rows, and these rows are not read again. The rows of
all other buckets go to the scratch database, so that the comparison there finds whole partitions.
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
"""A file: the partition's name, the path in it, bytes, modification time in milliseconds since 1970, ETag."""

PartitionRow: TypeAlias = "tuple[str] | tuple[str, str | None, int, int]"
"""A partition: its name; if registered also its explicit location or None, the number of files, and their bytes."""

_BUCKETS = 1 << 14
_IN_MEMORY = 1 << 20
"""The bytes of a side's rows that are kept in memory; the rows of a larger table spill to a file."""

_MASK = _BUCKETS - 1
# A secret salt, so that an attacker cannot construct files whose hashes cancel out a difference.
_SALT = secrets.token_hex(8)


class Everything:
    """One side of the comparison (the store or the index), which sends all its rows to the scratch database.

    Args:
        scratch: The repair's scratch database.
        side: ``listed`` for the store, or ``indexed`` for the index. The index's partitions have to come before their
            files.
    """

    def __init__(self, scratch: Scratch, side: str) -> None:
        self._scratch = scratch
        self._side = side

    def partitions(self, rows: Sequence[PartitionRow]) -> None:
        """Add partitions."""
        self._scratch.insert(f"{self._side}_partitions", rows)

    def shown_by_files(self, rows: Sequence[PartitionRow]) -> None:
        """Add partitions that are known only from their files, on a store that also lists directories."""
        self._scratch.insert(f"{self._side}_partitions", rows)

    def files(self, rows: Sequence[FileRow]) -> None:
        """Add files."""
        self._scratch.insert(f"{self._side}_files", rows)


class _Digested(Everything):
    """A side that adds up the digests of rows by bucket, and stores the rows in an unnamed temporary file."""

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
        # Add up the squares of the hashes, because Python's hash of a tuple is nearly linear in its numbers: without
        # squares two files that swap their sizes or times would give the same sum. An ETag that only one side has makes
        # the digests differ here, but the detailed comparison ignores it.
        for name, path, size, modified_ms, etag in rows if self._with_files else ():
            if self._timeless and transaction_id_in(path) is not None:
                modified_ms = 0
            digest = hash((_SALT, name, path, size, modified_ms, etag))
            digests[hash(name) & _MASK] += digest * digest
        self._keep("files", rows)

    def _keep(self, kind: str, rows: Sequence[tuple[Any, ...]]) -> None:
        with _translated():
            # Rows are only texts and numbers, for which ``marshal`` takes a seventh of the time of ``pickle``.
            data = marshal.dumps((f"{self._side}_{kind}", list(rows)))
            self._rows.write(len(data).to_bytes(8, "big"))
            self._rows.write(data)

    def kept(self) -> Iterator[tuple[str, list[tuple[Any, ...]]]]:
        """Yield the stored rows in their order, each group with the scratch table that it belongs to."""
        with _translated():
            self._rows.seek(0)
            while length := self._rows.read(8):
                yield marshal.loads(self._rows.read(int.from_bytes(length, "big")))


class _Indexed(_Digested):
    """The index's side of the comparison.

    Partitions with an explicit location go to the scratch database directly: the table's listing lacks them.
    """

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


class ScratchComparison:
    """The two sides of a comparison, store and index, whose equal rows are filtered out. Call ``close`` at the end.

    Args:
        scratch: The repair's scratch database.
        with_files: Whether partitions are equal only if their files are equal.
        timeless: Whether to ignore the modification times of files that this catalog has written.

    Attributes:
        listed: The store's side; used by a single thread.
        indexed: The index's side; used by a single thread, which may differ from the other side's.
    """

    def __init__(self, scratch: Scratch, *, with_files: bool, timeless: bool) -> None:
        self._scratch = scratch
        self.listed = _Digested(scratch, "listed", with_files=with_files, timeless=timeless)
        self.indexed = _Indexed(scratch, with_files=with_files, timeless=timeless)

    def close(self) -> None:
        """Delete the temporary files."""
        self.listed.close()
        self.indexed.close()

    def compare(self) -> None:
        """Insert the rows of differing buckets into the scratch database; count the registered rows of equal ones.

        If a partition is new to the index, the names of all equal partitions are inserted too: the new partition may
        have the values of an equal one in another spelling.
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
