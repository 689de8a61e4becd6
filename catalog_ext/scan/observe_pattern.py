"""Reads the files that match a table's location with wildcards into the scratch database."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from catalog_ext.context import Progress, RepairProgress
from catalog_ext.metastore.index.database.texts import is_storable
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.storage.entries import NOT_TEXT
from catalog_ext.scan.location_pattern import LocationPattern, PatternLayout
from catalog_ext.scan.observe import INCOMPLETE, MISSING, printable
from catalog_ext.scan.walk import Walk
from catalog_ext.scan.walk_states import FoundFile, expression

if TYPE_CHECKING:
    from catalog_ext.metastore.errors import CatalogExtError
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.predicates.tree import Predicate
    from catalog_ext.metastore.storage.entries import ListedFile, ListedOther
    from catalog_ext.metastore.storage.locations import Location
    from catalog_ext.metastore.storage.store import Storage
    from catalog_ext.scan.scratch import Scratch
    from catalog_ext.scan.scratch_comparison import FileRow

_BUFFER_ROWS = 5000


class PatternObserver:
    """Finds the files that match a table's location pattern; a bound predicate limits which partitions are listed."""

    def __init__(
        self,
        storage: Storage,
        table: Table,
        pattern: LocationPattern,
        predicate: Predicate | None,
        scratch: Scratch,
        progress: Progress,
    ) -> None:
        self._storage = storage
        self._pattern = pattern
        self._layout = PatternLayout(table.definition, pattern, predicate)
        self._scratch = scratch
        self._progress = progress
        self._partitions: dict[str, None] = {}
        self._files: list[FileRow] = []
        self._seen = 0
        self._lock = threading.Lock()
        self._failures: list[tuple[Location, CatalogExtError]] = []
        self._missing: list[int] = []
        self._odd: list[tuple[str, str, int, int, str]] = []

    def observe(self) -> None:
        """Record every matching file, and the paths that are missing or cannot be listed.

        Raises:
            StorageError: The directory above all matches cannot be listed.
            LocationNotFoundError: The bucket does not exist.
        """
        walk = Walk(
            self._storage,
            list(self._pattern.alternatives),
            self._layout.pruner,
            keys=len(self._layout.keys),
            take=self._take,
            failed=self._fail,
            left_out=self._leave_out,
        )
        matches = walk.run()
        self._flush()
        for place, error in self._failures:
            if place == self._pattern.root:
                raise error
        self._missing = matches.missing()
        skipped: list[tuple[str, str, int | None, int | None, str]] = [
            (printable(self._pattern.relative(place)), "", None, None, f"{INCOMPLETE}{error.message}")
            for place, error in self._failures
        ]
        skipped += self._odd
        skipped += [(str(self._pattern.alternatives[number]), "", 0, 0, MISSING) for number in self._missing]
        self._scratch.insert("skipped", skipped)

    def keep_unseen(self, *, missing_too: bool) -> None:
        """Keep registered files in directories that could not be listed, by recording them as if they had been listed.

        With ``missing_too``, files under explicitly named paths that do not exist are kept as well.
        """
        unlisted = [self._pattern.relative(place) for place, _ in self._failures]
        missing = self._missing if missing_too else []
        if not unlisted and not missing:
            return
        root = self._pattern.root.key.count("/") + 1 if self._pattern.root.key else 0
        named = [expression(self._pattern.alternatives[number].components[root:]) for number in missing]

        def is_unseen(path: str) -> bool:
            return any(not d or path.startswith(f"{d}/") for d in unlisted) or any(e.fullmatch(path) for e in named)

        rows = self._scratch.rows("SELECT name, path, size, modified_ms, etag FROM indexed_files")
        for chunk in batched((row for row in rows if is_unseen(row[1])), _BUFFER_ROWS):
            names = dict.fromkeys((row[0],) for row in chunk)
            self._scratch.insert("listed_partitions", names)
            self._scratch.insert("listed_files", chunk)

    def _take(self, file: FoundFile) -> None:
        path = self._pattern.relative(file.location)
        if self._layout.ignores(path):
            return
        if not is_storable(path):
            self._skip(printable(path), NOT_TEXT, file)
            return
        judged = self._layout.judge(file.directory)
        if judged.reason:
            self._skip(path, judged.reason, file)
        elif judged.name is not None:
            self._partitions[judged.name] = None
            self._files.append((judged.name, path, file.size, file.modified_ms, file.etag))
            if len(self._files) >= _BUFFER_ROWS:
                self._flush()

    def _skip(self, path: str, reason: str, file: FoundFile) -> None:
        self._seen += 1
        self._scratch.insert("skipped", [(path, "", 1, file.size, reason)])

    def _fail(self, place: Location, error: CatalogExtError) -> None:
        with self._lock:
            self._failures.append((place, error))

    def _leave_out(self, place: Location, found: ListedFile | ListedOther, reason: str) -> None:
        path = "/".join(part for part in (self._pattern.relative(place), found.directory, found.name) if part)
        with self._lock:
            self._odd.append((printable(path), "", 1, found.size, reason))

    def _flush(self) -> None:
        self._seen += len(self._files)
        self._scratch.insert("listed_partitions", ((name,) for name in self._partitions))
        self._scratch.insert("listed_files", self._files)
        self._partitions.clear()
        self._files.clear()
        count = self._scratch.count("SELECT count(*) FROM listed_partitions")
        self._progress(RepairProgress("listing", count, self._seen))
