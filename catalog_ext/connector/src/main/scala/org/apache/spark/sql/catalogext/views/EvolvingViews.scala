package org.apache.spark.sql.catalogext.views

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalogext.CatalogExtCatalog
import org.apache.spark.sql.catalyst.analysis.{SchemaEvolution, SchemaTypeEvolution}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, View}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.classic
import org.apache.spark.sql.connector.catalog.{CatalogManager, LookupCatalog}

/**
 * Views WITH SCHEMA EVOLUTION and TYPE EVOLUTION in our catalogs have the columns that their query has now.
 *
 * Where the stored columns are others, Spark alters the view while it reads it, and always in its own session catalog,
 * which does not have the view. So a query finds the view with the new columns here; what is stored stays as it was.
 */
class EvolvingViews(session: SparkSession) extends Rule[LogicalPlan] with LookupCatalog {
  override protected lazy val catalogManager: CatalogManager =
    session.asInstanceOf[classic.SparkSession].sessionState.catalogManager

  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperatorsUp {
    case view: View if view.child.resolved && follows(view) && view.desc.schema != view.child.schema && isOurs(view) =>
      view.copy(desc = view.desc.copy(schema = view.child.schema))
  }

  private def follows(view: View): Boolean =
    !view.isTempView && (view.desc.viewSchemaMode match {
      case SchemaEvolution | SchemaTypeEvolution => true
      case _ => false
    })

  private def isOurs(view: View): Boolean = view.desc.identifier.catalog.exists { name =>
    catalogManager.isCatalogRegistered(name) && catalogManager.catalog(name).isInstanceOf[CatalogExtCatalog]
  }
}
