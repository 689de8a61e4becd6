package org.apache.spark.sql.catalogext

import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.catalogext.commands.{MarkPartitionCommands, PartitionCommandStrategy,
  ResolvePartitionCommands, ShowSignatures, TableCommandStrategy}
import org.apache.spark.sql.catalogext.parser.{StatementParser, StatementSyntax}
import org.apache.spark.sql.catalogext.paths.{AdHocReads, RefuseAdHocChanges}
import org.apache.spark.sql.catalogext.release.Views
import org.apache.spark.sql.catalogext.scan.DistinctLiterals
import org.apache.spark.sql.catalogext.session.{ConnectorJars, EndHiddenColumns, ExpandHiddenColumns, ExplainHiddenKeys,
  ListHiddenKeys, MarkAliasedRelations, MarkComparedRows, MarkJoinSides, MarkListedRelations, RefuseRowChanges,
  ResolveGivenNames, ResolveQualifiedNames, ResolveRenamedColumns, SessionGuards, SessionListings, ShowJoinColumns}
import org.apache.spark.sql.catalogext.views.{EvolvingViews, ResolveViewPartitions, StoredInSession, ViewCommandStrategy}
import org.apache.spark.sql.catalogext.write.{BaseVersions, MarkInserts, ResolveInserts}

/** What `spark.sql.extensions` names: the commands that Spark has for its own tables only, and what INSERT means. */
class CatalogExtExtensions extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit = {
    ConnectorJars.checkSpark()
    extensions.injectParser((session, parser) => new StatementParser(session, parser, StatementSyntax.All))
    // First: the rules below look relations up by their names.
    extensions.injectHintResolutionRule(new ResolveGivenNames(_))
    extensions.injectHintResolutionRule(new MarkInserts(_))
    extensions.injectHintResolutionRule(new AdHocReads(_))
    extensions.injectResolutionRule(_ => new RefuseAdHocChanges)
    extensions.injectHintResolutionRule(new SessionGuards(_))
    // A parameter has its value only now, before Spark 4.3, and what EXECUTE IMMEDIATE runs in 4.0.
    extensions.injectResolutionRule(session => new ResolveGivenNames(session).late(Seq(
      new MarkInserts(session), new AdHocReads(session), new SessionGuards(session), new MarkPartitionCommands(session),
      new ResolveViewPartitions(session), new MarkAliasedRelations(session)) ++ Views.byName(session)))
    extensions.injectResolutionRule(new SessionListings(_))
    extensions.injectResolutionRule(_ => new ResolveInserts)
    extensions.injectResolutionRule(_ => new ShowSignatures)
    extensions.injectHintResolutionRule(new MarkPartitionCommands(_))
    extensions.injectHintResolutionRule(new ResolveViewPartitions(_))
    extensions.injectResolutionRule(_ => new ResolvePartitionCommands)
    extensions.injectHintResolutionRule(_ => MarkJoinSides)
    extensions.injectResolutionRule(_ => ShowJoinColumns)
    extensions.injectHintResolutionRule(new MarkAliasedRelations(_))
    extensions.injectResolutionRule(_ => ResolveQualifiedNames)
    extensions.injectHintResolutionRule(_ => MarkComparedRows)
    extensions.injectResolutionRule(_ => EndHiddenColumns)
    extensions.injectResolutionRule(_ => ExpandHiddenColumns)
    extensions.injectHintResolutionRule(_ => MarkListedRelations)
    extensions.injectResolutionRule(_ => ListHiddenKeys)
    extensions.injectResolutionRule(new EvolvingViews(_))
    extensions.injectPostHocResolutionRule(_ => ExplainHiddenKeys)
    extensions.injectResolutionRule(_ => ResolveRenamedColumns)
    extensions.injectPostHocResolutionRule(_ => RefuseRowChanges)
    extensions.injectOptimizerRule(_ => DistinctLiterals)
    extensions.injectPlannerStrategy(_ => BaseVersions)
    extensions.injectPlannerStrategy(new PartitionCommandStrategy(_))
    extensions.injectPlannerStrategy(_ => ViewCommandStrategy)
    extensions.injectPlannerStrategy(_ => StoredInSession)
    extensions.injectPlannerStrategy(new TableCommandStrategy(_))
    Views.inject(extensions)
  }
}
