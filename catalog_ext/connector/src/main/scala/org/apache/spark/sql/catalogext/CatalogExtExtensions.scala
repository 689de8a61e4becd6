package org.apache.spark.sql.catalogext

import org.apache.spark.sql.{SparkSession, SparkSessionExtensions}
import org.apache.spark.sql.catalogext.commands.{MarkPartitionCommands, PartitionCommandStrategy, RefuseRowChanges,
  ResolvePartitionCommands, ShowSignatures, TableCommandStrategy}
import org.apache.spark.sql.catalogext.parser.{StatementParser, StatementSyntax}
import org.apache.spark.sql.catalogext.paths.{AdHocReads, RefuseAdHocChanges}
import org.apache.spark.sql.catalogext.release.Views
import org.apache.spark.sql.catalogext.scan.DistinctLiterals
import org.apache.spark.sql.catalogext.session.{ConnectorJars, EndHiddenColumns, ExpandHiddenColumns, ExplainHiddenKeys,
  ListHiddenKeys, MarkAliasedRelations, MarkComparedRows, MarkJoinSides, MarkListedRelations, ResolveGivenNames,
  ResolveQualifiedNames, ResolveRenamedColumns, SessionGuards, SessionListings, ShowJoinColumns}
import org.apache.spark.sql.catalogext.views.{EvolvingViews, ResolveViewPartitions, StoredInSession, ViewCommandStrategy}
import org.apache.spark.sql.catalogext.write.{BaseVersions, MarkInserts, ResolveInserts}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.SparkStrategy

/**
 * The class of `spark.sql.extensions`. It adds commands that Spark has for its own tables only, and the rules for
 * INSERT.
 */
class CatalogExtExtensions extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit = {
    ConnectorJars.checkSpark()
    extensions.injectParser((session, parser) => new StatementParser(session, parser, StatementSyntax.All))
    RuleGroups.all.foreach { group =>
      (group.byNames ++ group.hints).foreach(extensions.injectHintResolutionRule)
      group.resolution.foreach(extensions.injectResolutionRule)
      group.postHoc.foreach(extensions.injectPostHocResolutionRule)
      group.optimizer.foreach(extensions.injectOptimizerRule)
      group.strategies.foreach(extensions.injectPlannerStrategy)
    }
  }
}

/**
 * The rules of one subject, by phase of Spark's analyzer and optimizer. Rules before the resolution (`byNames`,
 * `hints`) are part of Spark's batch `Hints`. Spark repeats this batch until the plan does not change, as it does with
 * the rules of the resolution.
 *
 * @param byNames rules before the resolution that look at names. They run again during the resolution if a name was not
 *                known before, such as IDENTIFIER with a parameter, whose value Spark fills in later
 */
private[catalogext] case class RuleGroup(
    byNames: Seq[RuleGroup.Make] = Nil,
    hints: Seq[RuleGroup.Make] = Nil,
    resolution: Seq[RuleGroup.Make] = Nil,
    postHoc: Seq[RuleGroup.Make] = Nil,
    optimizer: Seq[RuleGroup.Make] = Nil,
    strategies: Seq[SparkSession => SparkStrategy] = Nil)

private[catalogext] object RuleGroup {
  type Make = SparkSession => Rule[LogicalPlan]
}

/**
 * The rule groups of this connector. Their order is arbitrary: they match different statements and plan nodes, and
 * rules that look at names find the names that `Names` has evaluated in the next repetition of the batch
 * (`tests/integration/connector/test_rule_groups.py`). With `Names` first Spark needs one repetition less.
 */
private[catalogext] object RuleGroups {
  /**
   * Replaces IDENTIFIER(…) with the name that it evaluates to. Spark does this only after the rules that need the name.
   */
  private val Names = RuleGroup(
    hints = Seq(new ResolveGivenNames(_)),
    resolution = Seq(session => new ResolveGivenNames(session).late(byNames.map(_(session))), _ => ResolveRenamedColumns))

  /**
   * Gives INSERT the semantics of `docs/spec/semantics.md`. It runs before the resolution, because Spark's first rule
   * there removes the clauses that decide the semantics.
   */
  private val Inserts = RuleGroup(
    byNames = Seq(new MarkInserts(_)),
    resolution = Seq(_ => new ResolveInserts),
    postHoc = Seq(_ => RefuseRowChanges),
    strategies = Seq(_ => BaseVersions))

  /**
   * Reads a path in place of a table name, also by the table function `files`. It runs before the resolution, in which
   * Spark would look for a function `files` and fail.
   */
  private val AdHocPaths = RuleGroup(byNames = Seq(new AdHocReads(_)), resolution = Seq(_ => new RefuseAdHocChanges))

  /**
   * Handles statements that Spark sends to its own session catalog, without asking the catalog of this connector, when
   * it resolves names.
   */
  private val SessionCatalog = RuleGroup(byNames = Seq(new SessionGuards(_)), resolution = Seq(new SessionListings(_)))

  /**
   * Hive's partition statements on tables and views, and ANALYZE. Spark resolves these for its own tables only, so they
   * must be replaced with commands of this connector before the resolution.
   */
  private val PartitionStatements = RuleGroup(
    byNames = Seq(new MarkPartitionCommands(_), new ResolveViewPartitions(_)),
    resolution = Seq(_ => new ShowSignatures, _ => new ResolvePartitionCommands),
    strategies = Seq(
      new PartitionCommandStrategy(_), _ => ViewCommandStrategy, _ => StoredInSession, new TableCommandStrategy(_)))

  /**
   * Virtual partition columns are Spark's metadata columns, which Spark loses in joins, DISTINCT, ROLLUP, aliases and
   * listings. A rule before the resolution puts a marker into the plan that Spark cannot resolve. A rule during the
   * resolution adds the columns and removes the marker.
   */
  private val HiddenColumns = RuleGroup(
    byNames = Seq(new MarkAliasedRelations(_)),
    hints = Seq(_ => MarkJoinSides, _ => MarkComparedRows, _ => MarkListedRelations),
    resolution = Seq(_ => ShowJoinColumns, _ => ResolveQualifiedNames, _ => EndHiddenColumns, _ => ExpandHiddenColumns,
      _ => ListHiddenKeys),
    postHoc = Seq(_ => ExplainHiddenKeys))

  /**
   * Resolves views in catalogs of this connector. Before Spark 4.2 also CREATE TABLE … LIKE, which Spark refuses during
   * the resolution.
   */
  private val OfViews = RuleGroup(byNames = Views.rules, resolution = Seq(new EvolvingViews(_)))

  /** Stops Spark from pushing down `count(DISTINCT 1)` as a plain count: Spark would lose the DISTINCT. */
  private val Answers = RuleGroup(optimizer = Seq(_ => DistinctLiterals))

  /** All groups, in the order in which they are injected. */
  val all: Seq[RuleGroup] =
    Seq(Names, Inserts, AdHocPaths, SessionCatalog, PartitionStatements, HiddenColumns, OfViews, Answers)

  private def byNames: Seq[RuleGroup.Make] = all.flatMap(_.byNames)
}
