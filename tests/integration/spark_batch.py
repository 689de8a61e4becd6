"""A write through Spark's own interfaces, called by Py4J, so that a test decides what its attempts do and when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Batch:
    """An INSERT of ``(x INT, k INT)`` into ``lake.w.<table>``, as Spark's driver and one task of it do it."""

    def __init__(self, spark: SparkSession, table: str) -> None:
        context: Any = spark.sparkContext
        self.gateway = context._gateway
        self.jvm = context._jvm
        self.connector = self.jvm.org.apache.spark.sql.connector
        session = spark._jsparkSession
        catalog = session.sessionState().catalogManager().catalog("lake")
        privilege = self.connector.catalog.TableWritePrivilege.INSERT
        target = catalog.loadTable(
            self.connector.catalog.Identifier.of(self._array(self.jvm.java.lang.String, "w"), table),
            self.jvm.java.util.Collections.singleton(privilege),
        )
        nothing = self.jvm.java.util.Optional.empty()
        options = self.jvm.org.apache.spark.sql.util.CaseInsensitiveStringMap.empty()
        info = self.connector.write.LogicalWriteInfoImpl("query", target.schema(), options, nothing, nothing)
        self.batch = target.newWriteBuilder(info).build().toBatch()
        self.factory = self.batch.createBatchWriterFactory(self.connector.write.PhysicalWriteInfoImpl(1))

    def _array(self, of: Any, *items: Any) -> Any:
        array = self.gateway.new_array(of, len(items))
        for i, item in enumerate(items):
            array[i] = item
        return array

    def attempt(self, number: int) -> Any:
        """The writer of an attempt of task 0, which has been given the rows of two partitions."""
        writer = self.factory.createWriter(0, number)
        for x, k in ((1, 1), (3, 1), (2, 2)):
            row = self._array(self.jvm.java.lang.Object, x, k)
            writer.write(self.jvm.org.apache.spark.sql.catalyst.expressions.GenericInternalRow(row))
        return writer

    def held(self, owner: Any, field: str) -> Any:
        """The value of a private field of an object of the connector."""
        (found,) = [f for f in owner.getClass().getDeclaredFields() if f.getName() == field]
        found.setAccessible(True)
        return found.get(owner)

    def end(self, writer: Any) -> Any:
        """The writer's message to the driver."""
        message = writer.commit()
        writer.close()
        return message

    def commit(self, message: Any) -> None:
        self.batch.commit(self._array(self.connector.write.WriterCommitMessage, message))

    def abort(self) -> None:
        self.batch.abort(self._array(self.connector.write.WriterCommitMessage))
