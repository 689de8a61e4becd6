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

/** What `spark.sql.extensions` names: the commands that Spark has for its own tables only, and what INSERT means. */
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
 * The rules of one subject, by the phase of Spark's that they run in. Rules before the resolution (`byNames`, `hints`) see
 * a statement as it was parsed, once, in the order of the groups; those of the resolution are repeated until nothing
 * changes.
 *
 * @param byNames rules before the resolution that look at names. They are repeated during it where a name was not known
 *                before: that of IDENTIFIER with a parameter, whose value Spark has later
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
 * Names come first, because the rules of the other groups look at names. Those match different statements and nodes, so that
 * their order among each other is free (`tests/integration/connector/test_rule_groups.py` shows both).
 */
private[catalogext] object RuleGroups {
  /** IDENTIFIER(…) becomes the name that it stands for: Spark itself does so after the rules that need the name. */
  private val Names = RuleGroup(
    hints = Seq(new ResolveGivenNames(_)),
    resolution = Seq(session => new ResolveGivenNames(session).late(byNames.map(_(session))), _ => ResolveRenamedColumns))

  /**
   * INSERT gets the meaning of `docs/spec/semantics.md`. Before the resolution, because Spark's first rule there takes the
   * clauses away that decide it.
   */
  private val Inserts = RuleGroup(
    byNames = Seq(new MarkInserts(_)),
    resolution = Seq(_ => new ResolveInserts),
    postHoc = Seq(_ => RefuseRowChanges),
    strategies = Seq(_ => BaseVersions))

  /** A path in the place of a table is read. Before the resolution, because Spark has no table function of the name then. */
  private val AdHocPaths = RuleGroup(byNames = Seq(new AdHocReads(_)), resolution = Seq(_ => new RefuseAdHocChanges))

  /** Statements that Spark sends to its own session catalog without asking ours, which it does when it resolves names. */
  private val SessionCatalog = RuleGroup(byNames = Seq(new SessionGuards(_)), resolution = Seq(new SessionListings(_)))

  /**
   * Hive's statements on partitions of tables and views, and ANALYZE. Spark resolves them for tables of its own only, so
   * that the resolution has to find commands of ours in their place.
   */
  private val PartitionStatements = RuleGroup(
    byNames = Seq(new MarkPartitionCommands(_), new ResolveViewPartitions(_)),
    resolution = Seq(_ => new ShowSignatures, _ => new ResolvePartitionCommands),
    strategies = Seq(
      new PartitionCommandStrategy(_), _ => ViewCommandStrategy, _ => StoredInSession, new TableCommandStrategy(_)))

  /**
   * Virtual partition columns are Spark's metadata columns, which it forgets in joins, DISTINCT, ROLLUP, aliases and
   * listings. Before the resolution a rule puts a mark into the plan that Spark cannot resolve; during it another rule adds
   * the columns and takes the mark away.
   */
  private val HiddenColumns = RuleGroup(
    byNames = Seq(new MarkAliasedRelations(_)),
    hints = Seq(_ => MarkJoinSides, _ => MarkComparedRows, _ => MarkListedRelations),
    resolution = Seq(_ => ShowJoinColumns, _ => ResolveQualifiedNames, _ => EndHiddenColumns, _ => ExpandHiddenColumns,
      _ => ListHiddenKeys),
    postHoc = Seq(_ => ExplainHiddenKeys))

  /** Views in our catalogs, and before Spark 4.2 CREATE TABLE … LIKE, which Spark refuses while it resolves them. */
  private val OfViews = RuleGroup(byNames = Views.rules, resolution = Seq(new EvolvingViews(_)))

  /** Keeps Spark from offering the index an aggregation that has lost its DISTINCT. */
  private val Answers = RuleGroup(optimizer = Seq(_ => DistinctLiterals))

  /** In the order in which they are injected. */
  val all: Seq[RuleGroup] =
    Seq(Names, Inserts, AdHocPaths, SessionCatalog, PartitionStatements, HiddenColumns, OfViews, Answers)

  private def byNames: Seq[RuleGroup.Make] = all.flatMap(_.byNames)

  /** What the rules before the resolution make of a statement, with the groups in this order. */
  def prepared(session: SparkSession, plan: LogicalPlan, groups: Seq[RuleGroup] = all): LogicalPlan =
    groups.flatMap(group => group.byNames ++ group.hints).foldLeft(plan)((changed, make) => make(session)(changed))
}
