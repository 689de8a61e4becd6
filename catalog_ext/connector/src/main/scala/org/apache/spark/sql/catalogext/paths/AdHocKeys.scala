package org.apache.spark.sql.catalogext.paths

import java.util.Locale

import org.apache.spark.SparkThrowable
import org.apache.spark.sql.catalogext.catalog.PartitionValues
import org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.StructType

/**
 * What tasks need to know of the names of directories. The service has the same rules, and `tests/contract/path_keys.json`
 * holds both to them.
 */
object AdHocKeys {
  /** Whether a file stands for a directory: S3N and EMR wrote such objects, and S3A hides them. */
  def isMarker(name: String): Boolean = name.endsWith("_$folder$")

  /** Whether a file or a directory is overlooked. */
  def isHidden(name: String): Boolean = (name.startsWith("_") || name.startsWith(".")) && !name.contains("=")

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

  def lower(key: String): String = key.toLowerCase(Locale.ROOT)
}

/** Says of a directory whether the filters that its keys decide rule it out; later keys are not known yet. */
class DirectoryPruner(keys: Seq[String], filters: Seq[(Set[Int], Expression)]) extends Serializable {
  def prunes(location: String): Boolean = filters.nonEmpty && {
    val found = AdHocKeys.byName(location)
    val known = keys.indices.filter(i => found.contains(AdHocKeys.lower(keys(i)))).toSet
    val values = keys.map[Any](key => found.get(AdHocKeys.lower(key)).map(PartitionValues.text).orNull)
    val row = new GenericInternalRow(values.toArray)
    filters.exists { case (needed, filter) => needed.subsetOf(known) && !holds(filter, row) }
  }

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
