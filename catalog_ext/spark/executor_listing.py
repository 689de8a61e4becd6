"""Listing of large trees by a Spark cluster's executors, where the driver alone would take minutes."""

from __future__ import annotations

import logging
import re
import secrets
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from itertools import islice
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.storage.listed import Descend, Listed, ListedDirectory, ListedFile, ListingFailure
from catalog_ext.metastore.storage.listing import list_tree
from catalog_ext.metastore.storage.locations import Location, shown
from catalog_ext.metastore.storage.parallel import in_parallel
from catalog_ext.metastore.storage.partial_tree import WantedBelow, list_part
from catalog_ext.spark.listing_task import ListingTask, unpacked

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence
    from concurrent.futures import Future

    from catalog_ext.metastore.storage.store import Storage

logger = logging.getLogger(__name__)

_SHARED = ("s3a", "hdfs")
"""What an executor sees as the driver does; on another machine a local path is another directory."""

_DIRECTORIES_A_SLOT = 8
_TASKS_A_SLOT = 4
_SAMPLE = 4
_ENTRIES_OF_A_JOB = 500_000
"""What the tasks of one job send, packed to some ten bytes each; those of the next wait meanwhile."""

_REASON = re.compile(r"^(?:[\w.]*\.)?(\w*(?:Error|Exception): .+)$", re.MULTILINE)


class ExecutorListing:
    """Lists trees from a number of directories on by the executors of this process' Spark session, others by itself.

    The driver walks down until there are several directories for each slot of the cluster. Those go to tasks, which
    list them whole; what ``descend`` turns down of it is left out afterwards. Where the executors cannot, the driver
    lists the rest, and a warning says why: slower, and the same.

    Args:
        threshold: Directories that hold files, from which on executors are asked.
    """

    def __init__(self, threshold: int) -> None:
        self._threshold = threshold

    def __call__(
        self, storage: Storage, root: str | Location, *, descend: Descend, depth_hint: int, selective: bool = False,
        expected: int | None = None,
    ) -> Generator[Listed, None, None]:  # fmt: skip
        """Yield what ``list_tree`` yields, and raise what it raises."""
        place = root if isinstance(root, Location) else Location.parse(root)
        cluster = _cluster()
        few = expected is not None and expected < self._threshold
        if cluster is None or few or depth_hint < 2 or place.scheme not in _SHARED:
            return list_tree(storage, place, descend=descend, depth_hint=depth_hint, selective=selective)
        tree = _Tree(storage, place, descend, depth_hint, selective=selective)
        return _list(tree, cluster, self._threshold, expected)


class _Tree:
    """A tree that is walked down from its root, as far as it goes."""

    def __init__(self, storage: Storage, root: Location, descend: Descend, depth_hint: int, *, selective: bool) -> None:
        self.storage = storage
        self.root = root
        self.descend = descend
        self.left = depth_hint
        self.directories = [""]
        self._selective = selective
        self._has_directories = storage.store_has_directories(root)

    def walk(self, enough: int) -> Iterator[Listed]:
        """Yield what lies above, until there are enough directories or only one level is left below them."""
        while self.directories and len(self.directories) < enough and self.left > 1:
            above, self.directories = self.directories, []
            for events, below in in_parallel(self._level, above, self.storage.listing_threads):
                yield from events
                if self._has_directories:
                    yield from map(ListedDirectory, below)
                self.directories += below
            self.left -= 1

    def list_here(self, directories: Sequence[str]) -> Iterator[Listed]:
        """Yield what lies below those directories."""
        for some in batched(directories, self.storage.listing_threads):
            for events in in_parallel(self._whole, some, len(some)):
                yield from events

    def _level(self, directory: str) -> tuple[list[Listed], list[str]]:
        below: dict[str, None] = {}

        def note(child: str) -> bool:
            if self.descend(child):
                below[child] = None
            return False

        events = list_part(self.storage, self.root, directory, descend=note, depth_hint=1, selective=True)
        return list(events), list(below)

    def _whole(self, directory: str) -> list[Listed]:
        return list(
            list_part(
                self.storage, self.root, directory, descend=self.descend, depth_hint=self.left,
                selective=self._selective,
            )
        )  # fmt: skip


class _Jobs:
    """Spark jobs that list directories of a tree, one of them ahead of what is read."""

    def __init__(self, cluster: SparkContext, tree: _Tree, directories_a_job: int) -> None:
        self._cluster = cluster
        self._tree = tree
        self._size = directories_a_job
        self._group = f"catalog-ext-listing-{secrets.token_hex(8)}"
        storage = tree.storage
        self._task = ListingTask(
            version("catalog-ext"), storage.options.to_hadoop(), storage.listing_threads, str(tree.root), tree.left,
            storage.own_files.databases,
        )  # fmt: skip

    def run(self, directories: Sequence[str]) -> Iterator[Listed]:
        """Yield what lies below the directories; where the executors cannot list any, the driver does it."""
        pool = ThreadPoolExecutor(1, thread_name_prefix="catalog-ext-listing-job")
        left = batched(directories, self._size)
        asked: list[tuple[Sequence[str], Future[list[bytes]]]] = []
        try:
            while True:
                asked += [(some, pool.submit(self._job, some)) for some in islice(left, 2 - len(asked))]
                if not asked:
                    return
                yield from self._answer(*asked[0])
                del asked[0]
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            if any(not answer.done() for _, answer in asked):
                self._cluster.cancelJobGroup(self._group)

    def _job(self, directories: Sequence[str]) -> list[bytes]:
        what = f"catalog-ext lists {len(directories)} directories of {shown(str(self._tree.root))}"
        self._cluster.setJobGroup(self._group, what, interruptOnCancel=True)
        tasks = min(len(directories), _TASKS_A_SLOT * self._cluster.defaultParallelism)
        parts: list[bytes] = self._cluster.parallelize(directories, tasks).mapPartitions(self._task).collect()
        return parts

    def _answer(self, directories: Sequence[str], answer: Future[list[bytes]]) -> Iterator[Listed]:
        try:
            parts = answer.result()
        except (PySparkException, Py4JError, OSError) as error:
            reason = _REASON.findall(str(error))
            logger.warning(
                "The executors could not list %d directories of %s, and the driver does it, which takes longer: %s. "
                "Install catalog-ext in the executors' Python and give them the driver's rights on the store, or set "
                "repair.distributed-listing-threshold to none",
                len(directories), shown(str(self._tree.root)), reason[-1] if reason else error,
            )  # fmt: skip
            yield from self._tree.list_here(directories)
            return
        # A job that lacks the answer of a task is an error, and the tasks say themselves what they could not list.
        wanted = WantedBelow(directories, self._tree.descend)
        for part in parts:
            yield from (
                event for event in unpacked(part) if isinstance(event, ListingFailure) or wanted(event.directory)
            )


def _list(tree: _Tree, cluster: SparkContext, threshold: int, expected: int | None) -> Generator[Listed, None, None]:
    """Yield the tree: what lies above by the driver, then the executors' part if it is large enough."""
    yield from tree.walk(_DIRECTORIES_A_SLOT * cluster.defaultParallelism)
    directories = tree.directories
    if expected is None:
        sample, directories = directories[:_SAMPLE], directories[_SAMPLE:]
        files: set[str] = set()
        for event in tree.list_here(sample):
            if isinstance(event, ListedFile):
                files.add(event.directory)
            yield event
        expected = len(files) * len(tree.directories) // max(1, len(sample))
    if expected < threshold:
        yield from tree.list_here(directories)
        return
    entries = max(1, expected // max(1, len(tree.directories)))
    directories_a_job = max(cluster.defaultParallelism, _ENTRIES_OF_A_JOB // entries)
    yield from _Jobs(cluster, tree, directories_a_job).run(directories)


def _cluster() -> SparkContext | None:
    """Return the context of this process' session, if it has executors of its own."""
    context = SparkContext._active_spark_context
    if context is None or context._jsc is None or context._jsc.sc().isLocal():
        return None
    return context
