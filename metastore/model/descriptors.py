"""The descriptor of a partition whose files are read in another way than those of its table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from catalog_ext.metastore.model.json import columns_from_list, columns_to_list, to_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog_ext.metastore.model.tables import Column


@dataclass(frozen=True)
class PartitionDescriptor:
    """A partition's own format, options and columns, if they differ from its table's.

    Attributes:
        format: The format of the partition's files (``catalog_ext.metastore.model.tables.FORMATS``).
        options: Spark's reader options of the format.
        columns: The columns of the files, in Spark's types. Columns at the table's positions have the table's names.
        hive: The metastore's data: ``serde``, ``input_format``, ``output_format``, ``serde_parameters`` and ``columns``
            (lists of a name, Hive's type and a comment).
    """

    format: str
    options: Mapping[str, str]
    columns: tuple[Column, ...]
    hive: Mapping[str, Any]

    @cached_property
    def text(self) -> str:
        """The descriptor as JSON text; equal descriptors have equal text."""
        return to_json(self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """Return the descriptor as JSON values."""
        return {
            "format": self.format,
            "options": dict(self.options),
            "columns": columns_to_list(self.columns),
            "hive": dict(self.hive),
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> PartitionDescriptor:
        """Return the descriptor from the JSON values of ``to_dict``."""
        return cls(value["format"], value["options"], columns_from_list(value["columns"]), value["hive"])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartitionDescriptor) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)
