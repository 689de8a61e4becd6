"""The partition codec of the connector, and what its tasks know of paths, against the golden files.

``tests/unit/model/test_golden_partitions.py`` has the other half. The Scala classes are called through the
session's JVM.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import SparkRuntimeException
from pyspark.sql import functions as F

from tests.contract.golden import IDENTIFIERS, KEY_TYPES, NAMES, ORDER, VALUES, NameCase, ValueCase

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import Column, SparkSession

    from tests.integration.spark_driver import Driver

pytestmark = pytest.mark.spark


@dataclass(frozen=True)
class Codec:
    """The connector's classes that name partitions and read names, for one partition column ``k``."""

    spark: SparkSession

    @property
    def _classes(self) -> Any:
        return self.spark._jvm.org.apache.spark.sql.catalogext  # type: ignore[union-attr]

    def _seq(self, *items: Any) -> Any:
        return self.spark._jvm.PythonUtils.toSeq(list(items))  # type: ignore[union-attr]

    def _schema(self, data_type: str) -> Any:
        return self.spark._jvm.org.apache.spark.sql.types.StructType.fromDDL(f"k {data_type}")  # type: ignore[union-attr]

    def name_of(self, data_type: str, row: Any, *, directories: bool = True) -> str:
        """The directory's name of a row whose only column is the key."""
        field = self._schema(data_type).apply(0)
        plain = self._classes.catalog.PartitionColumns.plainSchema(self._schema(data_type))
        attributes = self.spark._jvm.org.apache.spark.sql.catalyst.types.DataTypeUtils.toAttributes(plain)  # type: ignore[union-attr]
        key = self._classes.write.PartitionKey(field, attributes.apply(0))
        writer = self._classes.write.RowPartitioner("t", self._seq(key), attributes, "UTC", directories, False)
        return str(getattr(writer, "of")(row))  # noqa: B009 - a Scala method whose name Python has no objection to

    def row_of(self, data_type: str, text: str | None) -> Any:
        """A row as a write gets it: the text cast to the type, CHAR padded."""
        value: Column = F.lit(text)
        if data_type.startswith("char"):
            value = F.rpad(value, int(data_type[5:-1]), " ")
        elif not data_type.startswith("varchar"):
            value = value.cast(data_type)
        return self.spark.range(1).select(value)._jdf.queryExecution().executedPlan().executeCollect()[0]

    def parse(self, data_type: str, name: str) -> Any:
        """The row of typed values that a partition's name stands for."""
        jvm: Any = self.spark._jvm
        unpadded = jvm.org.apache.spark.api.python.PythonUtils.toScalaMap({})
        return self._classes.catalog.PartitionValues(self._schema(data_type), "UTC", unpadded).parse(name)


@pytest.fixture(scope="module")
def codec(driver: Driver) -> Iterator[Codec]:
    with driver.connected("http://127.0.0.1:9", "none") as spark:
        yield Codec(spark)


def _refused(codec: Codec, case: NameCase, row: Any, *, directories: bool) -> bool:
    try:
        codec.name_of(case.type, row, directories=directories)
    except SparkRuntimeException as error:
        if error.getCondition() != "CATALOG_EXT_INVALID_VALUE":
            raise
        return True
    return False


@pytest.mark.parametrize("data_type", sorted({case.type for case in NAMES}))
def test_a_value_has_the_golden_name(codec: Codec, data_type: str) -> None:
    found, expected = [], []
    for case in NAMES:
        if case.type != data_type:
            continue
        row = codec.row_of(case.type, case.text)
        if case.refused:
            assert _refused(codec, case, row, directories=True), case
        else:
            found.append((case.text, codec.name_of(case.type, row)))
            expected.append((case.text, case.name))
        if case.refused == "always":
            assert _refused(codec, case, row, directories=False), case
        else:
            found.append((case.text, codec.name_of(case.type, row, directories=False)))
            expected.append((case.text, case.upload_name or case.name))
    assert found == expected


def _value(codec: Codec, case: ValueCase) -> tuple[str, bool, str | None]:
    try:
        row = codec.parse(case.type, case.name)
    except SparkRuntimeException as error:
        if error.getCondition() != "CATALOG_EXT_INVALID_VALUE":
            raise
        return case.name, True, None
    if row.isNullAt(0):
        return case.name, False, None
    if case.type.startswith(("string", "char", "varchar")):
        return case.name, False, str(row.getUTF8String(0).toString())
    if case.type == "binary":
        return case.name, False, bytes(row.getBinary(0)).decode("utf-8")
    return case.name, False, _unescaped(codec.name_of(case.type, row))


def _unescaped(name: str) -> str:
    return name.removeprefix("k=").replace("%3A", ":")


@pytest.mark.parametrize("data_type", sorted({case.type for case in VALUES}))
def test_a_name_has_the_golden_value(codec: Codec, data_type: str) -> None:
    cases = [case for case in VALUES if case.type == data_type]
    assert [_value(codec, case) for case in cases] == [(case.name, case.refused, case.value) for case in cases]


@pytest.mark.parametrize("data_type", ORDER)
def test_spark_sorts_in_the_golden_order(codec: Codec, data_type: str) -> None:
    texts = ORDER[data_type]
    kind = "string" if data_type.startswith("char") else data_type
    rows = codec.spark.createDataFrame(list(enumerate(texts)), "i INT, t STRING").orderBy(F.col("t").cast(kind))
    assert [row.i for row in rows.collect()] == list(range(len(texts)))


def test_names_of_tables_are_the_golden_ones(codec: Codec) -> None:
    names = codec._classes.SessionNames
    assert {name: names.valid(name) for name in IDENTIFIERS} == IDENTIFIERS


def test_what_the_index_says_of_keys_of_a_type(codec: Codec) -> None:
    types = codec._classes.catalog.KeyTypes

    def found(text: str) -> dict[str, object]:
        data_type = codec._schema(text).apply(0).dataType()
        said = {"exact": types.isExact, "answered": types.isAnswered, "compared": types.isCompared}
        return {"type": text, **{name: ask(data_type) for name, ask in said.items()}}

    assert [found(case["type"]) for case in KEY_TYPES] == KEY_TYPES
