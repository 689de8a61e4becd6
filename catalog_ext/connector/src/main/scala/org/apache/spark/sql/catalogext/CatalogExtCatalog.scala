package org.apache.spark.sql.catalogext

import org.apache.spark.sql.catalogext.release.CatalogWithViews
import org.apache.spark.sql.catalogext.views.ViewOperations
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** The catalog that `spark.sql.catalog.<name>` names: every table and view in it is one of the index. */
class CatalogExtCatalog extends CatalogWithViews {
  private var viewOperations: ViewOperations = _

  override protected def views: ViewOperations = viewOperations

  override def initialize(name: String, options: CaseInsensitiveStringMap): Unit = {
    super.initialize(name, options)
    viewOperations = new ViewOperations(name, client, namespaces)
  }
}
