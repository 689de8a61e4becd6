"""The locations of a transaction's files before and after promotion (``docs/spec/commit-protocol.md``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.plan import Promotion
from catalog_ext.metastore.commit.transaction import TRANSACTION_ID
from catalog_ext.metastore.errors import InvalidInputError
from catalog_ext.metastore.model.partition_names import is_hidden
from catalog_ext.metastore.storage.locations import Location, shown
from catalog_ext.metastore.storage.promotion import StagedLocation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog_ext.metastore.commit.plan import WritePlan
    from catalog_ext.metastore.commit.staged_files import StagedFile
    from catalog_ext.metastore.commit.transaction import BegunWrite

DEFAULT_STAGING = "_catalog_ext_staging"
COPIES = "load-"
"""The prefix of directories in ``DEFAULT_STAGING`` to which LOAD DATA LOCAL copies files before they are loaded."""
DATA = "_catalog_ext_data"
"""The subdirectory of a table for partitions that relocating overwrites have written."""


def copies_directory(directory: str) -> str | None:
    """Return the directory of LOAD DATA LOCAL's copies (``COPIES``) that contains a path; None for other paths."""
    components = directory.split("/")
    copied = len(components) > 1 and components[0] == DEFAULT_STAGING and components[1].startswith(COPIES)
    return "/".join(components[:2]) if copied else None


def without_transaction_ids(name: str) -> str:
    """Return a name in which transaction ids are replaced, for a file that will get another transaction's id."""
    return TRANSACTION_ID.sub("id", name)


def relocation_base(location: str, transaction_id: str) -> str:
    """Return the directory under which a relocating overwrite creates its partitions' directories."""
    return f"{location}/{DATA}/{transaction_id}"


@dataclass(frozen=True, slots=True)
class TaskDirectories:
    """The directories in which tasks of a transaction put files under their final names until the commit.

    Attributes:
        directory: The base directory: the files of a partition go into the subdirectory of its name.
        own: The directories of partitions whose files go elsewhere, by partition name.
    """

    directory: str
    own: Mapping[str, str]


def task_directories(begun: BegunWrite) -> TaskDirectories:
    """Return the directories of a transaction's tasks; for multipart uploads these are the final directories."""
    plan = begun.plan
    uploads = plan.promotion is Promotion.UPLOAD and not plan.hides_uploads
    whole = task_directory(plan, begun.transaction_id, plan.base if uploads else plan.location)
    own = begun.partition_locations.items()
    return TaskDirectories(whole, {name: task_directory(plan, begun.transaction_id, at) for name, at in own})


def task_directory(plan: WritePlan, transaction_id: str, location: str) -> str:
    """Return the directory for the task files of a table's or partition's ``location``, a URI."""
    uploads = plan.promotion is Promotion.UPLOAD and not plan.hides_uploads
    staging = "" if uploads else f"{plan.staging}/{transaction_id}"
    return str(below(Location.parse(location), staging)).removesuffix("/")


class StagingLocations:
    """The locations of the files of one transaction: where they are staged, and their targets."""

    def __init__(self, transaction_id: str, plan: WritePlan) -> None:
        self._id = transaction_id
        self._plan = plan
        self.location = Location.parse(plan.location)
        self._directories: dict[str, Location] = {}

    def directory(self, partition: str) -> Location:
        """Return the partition's directory, in which its files finally are."""
        if partition not in self._directories:
            self._directories[partition] = Location.parse(self._plan.directory(partition))
        return self._directories[partition]

    def staging_directories(self) -> list[Location]:
        """Return every directory that may contain staged files; none if uploads go to the final names."""
        if self._plan.promotion is Promotion.UPLOAD and not self._plan.hides_uploads:
            return []
        own = map(Location.parse, self._plan.locations.values())
        return [place.join(self._staging) for place in (self.location, *own)]

    def upload_prefixes(self) -> list[Location]:
        """Return the locations below which the transaction's uploads may be: the table's, and partitions' elsewhere."""
        own = map(Location.parse, self._plan.locations.values())
        return [self.location, *(place for place in own if not self.location.contains(place))]

    def locate(self, file: StagedFile) -> StagedLocation:
        """Return the source and the target of a file."""
        target = below(self.directory(file.partition), file.name)
        if file.source is not None:
            source = Location.parse(file.source)
            return StagedLocation(
                target, file.size, source=source, modified_ms=file.modified_ms, mark=self._id, etag=file.etag
            )
        hidden = self.put(file.partition, file.name)
        if file.upload is not None:
            hidden_upload = hidden if self._plan.hides_uploads else None
            return StagedLocation(target, file.size, upload=file.upload, hidden_upload=hidden_upload, mark=self._id)
        return StagedLocation(target, file.size, source=hidden)

    def put(self, partition: str, name: str) -> Location:
        """Return the location at which a task puts a file, or to which it sends its upload."""
        if self._plan.promotion is Promotion.UPLOAD and not self._plan.hides_uploads:
            return below(self.directory(partition), name)
        if partition in self._plan.locations:
            return below(Location.parse(self._plan.locations[partition]), f"{self._staging}/{name}")
        path = f"{partition}/{name}" if partition else name
        return below(self.location, f"{self._staging}/{path}")

    def check(self, file: StagedFile) -> None:
        """Check that the file's name and upload fit the transaction.

        Raises:
            InvalidInputError: The name is hidden, has a slash or lacks the transaction's id, or the file was staged in
                another way than the plan says.
        """
        name = file.name
        if is_hidden(name) or "/" in name or self._id not in name:
            raise InvalidInputError(
                f"The staged file {shown(name)} of transaction {self._id} has a name that it may not have: it must "
                "carry the transaction's id, and begin with neither '_' nor '.'.",
                {"transaction": self._id, "file": name[:200]},
            )
        if self._plan.moves_user_files:
            staged_as_planned = file.source is not None
        else:
            staged_as_planned = (file.upload is not None) is (self._plan.promotion is Promotion.UPLOAD)
        if not staged_as_planned:
            raise InvalidInputError(
                f"The staged file {shown(name)} of transaction {self._id} was not written in the way that the table's "
                f"store needs ({self._plan.promotion}).",
                {"transaction": self._id, "file": name[:200]},
            )
        if file.partition and any(part in ("", ".", "..") for part in file.partition.split("/")):
            raise InvalidInputError(
                f"{shown(file.partition)} is no partition's name.", {"partition": file.partition[:200]}
            )
        directory = self.directory(file.partition)
        if directory.scheme != self.location.scheme:
            raise InvalidInputError(
                f"The partition {shown(file.partition)} lies at {shown(str(directory))}, on another store than its "
                f"table ({shown(str(self.location))}), and cannot be written. Move it to the table's.",
                {"partition": file.partition[:200]},
            )

    @property
    def _staging(self) -> str:
        return f"{self._plan.staging}/{self._id}"


def below(parent: Location, path: str) -> Location:
    """Return the location of a relative path below ``parent``."""
    # Do not normalize the path: the name must stay exactly as it is on the store.
    return Location(parent.scheme, parent.bucket, f"{parent.key}/{path}" if parent.key and path else parent.key or path)
