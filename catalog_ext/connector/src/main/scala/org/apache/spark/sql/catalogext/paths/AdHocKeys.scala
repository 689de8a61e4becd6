package org.apache.spark.sql.catalogext.paths

import java.util.Locale

import org.apache.spark.SparkThrowable
import org.apache.spark.sql.catalogext.service.ConnectorErrors
import org.apache.spark.sql.catalogext.catalog.PartitionNames
import org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.StructType
import org.apache.spark.unsafe.types.UTF8String

/** The keys in the directories of a location, as the service finds them too. */
object AdHocKeys {
  /** Each `key=value` component in order: the key, and the value as it is on the store. */
  def of(location: String): Seq[(String, String)] =
    location.replaceFirst("^[a-z0-9]+://[^/]*", "").split('/').toSeq.flatMap { component =>
      val equals = component.indexOf('=')
      Option.when(equals > 0) {
        ExternalCatalogUtils.unescapePathName(component.take(equals)) -> component.drop(equals + 1)
      }
    }

  /** The same by the key in lower case; of a key that comes twice the first value. */
  def byName(location: String): Map[String, String] =
    of(location).reverse.map { case (key, value) => lower(key) -> value }.toMap

  /** The partition's name: the keys in the order given, NULL for one that is not in the location. */
  def partitionName(location: String, keys: Seq[String]): String = {
    val values = byName(location)
    keys.map { key =>
      s"${PartitionNames.escape(key)}=${values.getOrElse(lower(key), ExternalCatalogUtils.DEFAULT_PARTITION_NAME)}"
    }.mkString("/")
  }

  /** Raises an error unless all directories have the same keys, each once. */
  def checkAgreement(directories: Iterable[String]): Unit = {
    val kinds = directories.groupBy(directory => of(directory).map { case (key, _) => lower(key) }.sorted)
    kinds.find { case (keys, _) => keys.distinct.length < keys.length }.foreach { case (_, several) =>
      throw layout(s"The path '${several.head}' has a key twice, so that its value is not known.", several)
    }
    if (kinds.size > 1) {
      val shown = kinds.values.map(_.head).toSeq.sorted.take(5)
      throw layout("The files disagree on the keys in their paths: " +
        shown.map(d => s"${of(d).map(_._1).mkString(", ")} in '$d'").mkString("; ") + ".", shown)
    }
  }

  def lower(key: String): String = key.toLowerCase(Locale.ROOT)

  private def layout(what: String, paths: Iterable[String]): Throwable = ConnectorErrors.analysis(
    ConnectorErrors.PathLayout,
    s"$what Narrow the path or filter on a key, so that one kind is left, or SET use_hive_partitioning = 0 to read " +
      "without keys.", Map("paths" -> paths.take(5).mkString("\n")))
}

/** Says of a directory whether the filters that its keys decide rule it out; later keys are not known yet. */
class DirectoryPruner(keys: Seq[String], filters: Seq[(Set[Int], Expression)]) extends Serializable {
  def prunes(location: String): Boolean = filters.nonEmpty && {
    val found = AdHocKeys.byName(location)
    val known = keys.indices.filter(i => found.contains(AdHocKeys.lower(keys(i)))).toSet
    val row = new GenericInternalRow(keys.map(key => found.get(AdHocKeys.lower(key)).map(value).orNull[Any]).toArray)
    filters.exists { case (needed, filter) => needed.subsetOf(known) && !holds(filter, row) }
  }

  private def value(raw: String): Any =
    if (raw == ExternalCatalogUtils.DEFAULT_PARTITION_NAME) null
    else UTF8String.fromString(ExternalCatalogUtils.unescapePathName(raw))

  private def holds(filter: Expression, row: GenericInternalRow): Boolean = try filter.eval(row) == true catch {
    // The driver evaluates it again on what comes back, and fails there.
    case _: SparkThrowable => true
  }
}

object DirectoryPruner extends PredicateHelper {
  /** @param schema the keys under Spark's names, in the order of `keys` */
  def apply(keys: Seq[String], schema: StructType, filters: Seq[Expression]): DirectoryPruner = {
    val resolver = SQLConf.get.resolver
    // A filter on a column of the file itself, like $path, is the driver's.
    val parts = filters.flatMap(splitConjunctivePredicates).filterNot(part => !part.deterministic ||
      part.references.isEmpty || part.references.exists(a => !schema.fieldNames.exists(resolver(_, a.name))) ||
      part.exists(e => e.isInstanceOf[PlanExpression[_]] || e.isInstanceOf[PythonUDF]))
    new DirectoryPruner(keys, parts.map { part =>
      val bound = part.transform { case a: Attribute =>
        val index = schema.indexWhere(field => resolver(field.name, a.name))
        BoundReference(index, schema(index).dataType, nullable = true)
      }
      bound.collect { case reference: BoundReference => reference.ordinal }.toSet -> bound
    })
  }
}
