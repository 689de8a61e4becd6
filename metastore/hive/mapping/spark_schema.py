"""The schema that Spark stores in a table's parameters (``spark.sql.sources.*``): names with case, exact types.

Spark's Hive catalog uses Spark's own readers for a table whose parameters name a provider; Hive engines ignore these
parameters. Spark's class ``HiveExternalCatalog`` writes and reads this form.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import InvalidTypeError, UnsupportedFormatError
from catalog_ext.metastore.model.spark_json import field_from_json, field_to_json
from catalog_ext.metastore.model.tables import Column
from catalog_ext.metastore.model.types import Field

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PROVIDER = "spark.sql.sources.provider"
PARTITION_PROVIDER = "spark.sql.partitionProvider"
_SCHEMA = "spark.sql.sources.schema"
_PART_COLUMNS = f"{_SCHEMA}.numPartCols"
_PART_COLUMN = f"{_SCHEMA}.partCol."
SPARK_BUCKETS = f"{_SCHEMA}.numBuckets"
SPARK_BUCKET_COLUMN = f"{_SCHEMA}.bucketCol."
FROM_SERDE = "from deserializer"
"""The comment that Hive gives to columns that come from a SerDe (``MetaStoreUtils.determineFieldComment``)."""
_PLACEHOLDER = (Column("col", "array<string>", comment=FROM_SERDE),)
"""The placeholder column that Spark's Hive catalog writes for a table that Hive engines cannot read."""

_MAX_PARAMETER = 4000
"""The longest parameter value that every metastore database can store, in characters."""


def schema_parameters(provider: str, columns: Sequence[Column], keys: Sequence[Column]) -> dict[str, str]:
    """Return the parameters by which Spark's Hive catalog recognizes one of its tables, and finds its columns."""
    fields = [field_to_json(Field(c.name, c.data_type, comment=c.comment)) for c in (*columns, *keys)]
    parameters = {PROVIDER: provider} | _split(json.dumps({"type": "struct", "fields": fields}, separators=(",", ":")))
    if keys:
        parameters |= {PARTITION_PROVIDER: "catalog", _PART_COLUMNS: str(len(keys))}
        parameters |= {f"{_PART_COLUMN}{i}": key.name for i, key in enumerate(keys)}
    return parameters


def is_schema_parameter(name: str) -> bool:
    """Return whether Spark's Hive catalog uses the parameter for its schema."""
    return name.startswith(("spark.sql.sources.", "spark.sql.create.")) or name == PARTITION_PROVIDER


def describes_columns(name: str) -> bool:
    """Return whether the parameter holds columns; parameters on buckets, sort order and Spark's release do not."""
    return name in (_SCHEMA, PARTITION_PROVIDER) or name.startswith(
        (f"{_SCHEMA}.numPart", f"{_SCHEMA}.part.", _PART_COLUMN)
    )


def keeps_columns_from_hive(provider: str, columns: Sequence[Column]) -> bool:
    """Return whether the columns are only Spark's placeholder: the real columns are then in Spark's schema alone."""
    return provider != "hive" and tuple(columns) == _PLACEHOLDER


def read_schema(parameters: Mapping[str, str], table: str) -> tuple[tuple[Column, ...], tuple[Column, ...]] | None:
    """Return the columns and partition columns that Spark stores in the parameters; None if it stores none.

    Raises:
        UnsupportedFormatError: The schema is damaged or has a type that is not supported here.
    """
    text = _joined(parameters, table)
    if text is None:
        return None
    try:
        fields = [field_from_json(f) for f in json.loads(text)["fields"]]
        keys = [parameters[f"{_PART_COLUMN}{i}"] for i in range(int(parameters.get(_PART_COLUMNS, "0")))]
        by_name = {f.name: f for f in fields}
        partition_columns = tuple(_column(by_name[key]) for key in keys)
    except (ValueError, KeyError, TypeError, InvalidTypeError) as error:
        raise UnsupportedFormatError(
            f"The Spark schema in the parameters of the metastore's table {table} cannot be read: "
            f"{type(error).__name__}: {error}.",
            {"table": table},
        ) from error
    return tuple(_column(f) for f in fields if f.name not in keys), partition_columns


def _column(field: Field) -> Column:
    return Column(field.name, str(field.type), field.nullable, field.comment)


def _split(text: str) -> dict[str, str]:
    if len(text) <= _MAX_PARAMETER:
        return {_SCHEMA: text}
    parts = [text[i : i + _MAX_PARAMETER] for i in range(0, len(text), _MAX_PARAMETER)]
    return {f"{_SCHEMA}.numParts": str(len(parts))} | {f"{_SCHEMA}.part.{i}": part for i, part in enumerate(parts)}


def _joined(parameters: Mapping[str, str], table: str) -> str | None:
    if _SCHEMA in parameters or f"{_SCHEMA}.numParts" not in parameters:
        return parameters.get(_SCHEMA)
    try:
        return "".join(parameters[f"{_SCHEMA}.part.{i}"] for i in range(int(parameters[f"{_SCHEMA}.numParts"])))
    except (ValueError, KeyError) as error:
        raise UnsupportedFormatError(
            f"The Spark schema in the parameters of the metastore's table {table} is incomplete: {error} is missing.",
            {"table": table},
        ) from error
