package org.apache.spark.sql.catalogext.session

import org.apache.spark.sql.{SaveMode, SparkSession}
import org.apache.spark.sql.catalogext.CatalogExtSource
import org.apache.spark.sql.catalogext.catalog.CatalogExtTable
import org.apache.spark.sql.catalogext.release.{Inserts, LikeTables, SavedTable}
import org.apache.spark.sql.catalogext.service.ConnectorErrors
import org.apache.spark.sql.catalyst.analysis.{TableAlreadyExistsException, UnresolvedIdentifier, UnresolvedNamespace,
  UnresolvedTable, UnresolvedTableOrView, UnresolvedView}
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.connector.catalog.{CatalogManager, Identifier}
import org.apache.spark.sql.connector.catalog.CatalogV2Implicits._
import org.apache.spark.sql.connector.expressions.{FieldReference, IdentityTransform}
import org.apache.spark.sql.errors.QueryCompilationErrors
import org.apache.spark.sql.execution.datasources.DataSource
import org.apache.spark.sql.internal.SQLConf

/**
 * Guards statements that Spark sends to its own session catalog without asking the connector, and whose name is a table
 * of the index. Each would create a second, hidden table in Spark's catalog, or return a wrong result.
 */
class SessionGuards(session: SparkSession) extends Rule[LogicalPlan] {
  private val names = new IndexedNames(session)

  override def apply(plan: LogicalPlan): LogicalPlan =
    if (names.sessionCatalog.isEmpty) plan else plan.resolveOperators(guarded)

  private def guarded: PartialFunction[LogicalPlan, LogicalPlan] = {
    case create @ CreateTable(name, _, _, spec: UnresolvedTableSpec, _) if becomesOurs(name, spec, hasRows = false) =>
      create.copy(tableSpec = ours(spec))
    case create @ CreateTableAsSelect(name, _, _, spec: UnresolvedTableSpec, _, _, _)
        if becomesOurs(name, spec, hasRows = true) =>
      create.copy(tableSpec = ours(spec))
    case create @ CreateTableAsSelect(_, _, _, spec: UnresolvedTableSpec, options, _, _) if saysFormat(spec, options) =>
      create.copy(tableSpec = withFormat(spec, options))
    case replace @ ReplaceTableAsSelect(_, _, _, spec: UnresolvedTableSpec, options, _, _) if saysFormat(spec, options) =>
      replace.copy(tableSpec = withFormat(spec, options))
    case replace @ ReplaceTable(name, _, _, spec: UnresolvedTableSpec, _)
        if becomesOurs(name, spec, hasRows = false, replaces = true) =>
      replace.copy(tableSpec = ours(spec))
    case replace @ ReplaceTableAsSelect(name, _, _, spec: UnresolvedTableSpec, _, _, _)
        if becomesOurs(name, spec, hasRows = true, replaces = true) =>
      replace.copy(tableSpec = ours(spec))
    case LikeTables(Named(ident), ifNotExists) => taken(ident, ifNotExists, "CREATE TABLE")
    case create: CreateView if Named.unapply(create.child).isDefined =>
      taken(Named.unapply(create.child).get, create.allowExisting, "CREATE VIEW")
    case RenameTable(from, to, _) if names.inSession(target(from, to)).isDefined =>
      throw new TableAlreadyExistsException(names.inSession(target(from, to)).get._2)
    case SavedTable(desc, mode, query) if names.inSession(desc.identifier.nameParts).isDefined =>
      saved(desc, mode, query, names.inSession(desc.identifier.nameParts).get._2)
    case SavedTable(desc, _, query) if created(desc).isDefined => createdBy(desc, query, created(desc).get)
    case own @ SavedTable(desc, _, _) =>
      // Spark's own command needs the namespace in Spark's catalog.
      prepareNamespace(desc.identifier.nameParts)
      own
    case drop: DropTable if SQLConf.get.useV1Command && Named.unapply(drop.child).isDefined =>
      throw legacy("DROP TABLE")
    case drop: DropNamespace if SQLConf.get.useV1Command && hasOurs(drop.namespace) => throw legacy("DROP DATABASE")
    case show: ShowTables if SQLConf.get.useV1Command && hasOurs(show.namespace) => throw legacy("SHOW TABLES")
  }

  /** The name of a new table that a statement is about to create in the index. */
  private object Named {
    def unapply(plan: LogicalPlan): Option[Identifier] = plan match {
      case UnresolvedIdentifier(name, _) =>
        // Spark's own commands need the namespace in Spark's catalog.
        prepareNamespace(name)
        names.inSession(name).map(_._2)
      case _ => None
    }
  }

  private def prepareNamespace(name: Seq[String]): Unit =
    if (name.length > 1) names.sessionNamespace(name.init).foreach(names.sessionCatalog.get.namespaceExists)

  private def isOurs(spec: UnresolvedTableSpec): Boolean = CatalogExtSource.isProvider(spec.provider)

  /**
   * Whether a Spark statement creates or replaces a table of the index: an existing one, or a new one because of
   * `create.formats`.
   */
  private def becomesOurs(
      name: LogicalPlan, spec: UnresolvedTableSpec, hasRows: Boolean, replaces: Boolean = false): Boolean =
    !isOurs(spec) && (Named.unapply(name).isDefined || (name match {
      // With a LOCATION and without a query, the table is for existing files: leave it to Spark, because a table of the
      // index would not show them before a repair.
      case UnresolvedIdentifier(parts, _) if hasRows || spec.location.isEmpty =>
        names.possibleInSession(parts)
          .exists(ident => CreatedFormats.of(ident, spec).isDefined && !(replaces && isSparks(ident)))
      case _ => false
    }))

  /** Whether the name is a table of Spark's own, which stays one when it is replaced. */
  private def isSparks(ident: Identifier): Boolean = names.sessionCatalog.get.tableExists(ident)

  /**
   * The specification with USING catalog_ext, so that Spark sends the statement to the connector's catalog, which knows
   * whether the table exists.
   */
  private def ours(spec: UnresolvedTableSpec): UnresolvedTableSpec = {
    val format = spec.provider.orElse(spec.serde.flatMap(_.storedAs))
    spec.copy(
      provider = Some(CatalogExtSource.Name), serde = None,
      properties = spec.properties ++ format.map(CatalogExtSource.Format -> _))
  }

  /**
   * Whether the write's options, and not the table's properties, name the format of the files: with the format
   * `catalog_ext` a DataFrame writer passes it as an option.
   */
  private def saysFormat(spec: UnresolvedTableSpec, options: Map[String, String]): Boolean =
    isOurs(spec) && formatIn(options).isDefined && formatIn(spec.properties).isEmpty

  private def withFormat(spec: UnresolvedTableSpec, options: Map[String, String]): UnresolvedTableSpec =
    spec.copy(properties = spec.properties ++ formatIn(options).map(CatalogExtSource.Format -> _))

  private def formatIn(options: Map[String, String]): Option[String] =
    options.collectFirst { case (key, value) if key.equalsIgnoreCase(CatalogExtSource.Format) => value }

  private def taken(ident: Identifier, silently: Boolean, command: String): LogicalPlan =
    if (silently) NoopCommand(command, ident.namespace().toSeq :+ ident.name())
    else throw new TableAlreadyExistsException(ident)

  /** The new name of a rename. As in Spark, a name without a namespace stays in the namespace of the old one. */
  private def target(from: LogicalPlan, to: Seq[String]): Seq[String] = {
    val old = from match {
      case table: UnresolvedTable => table.multipartIdentifier
      case table: UnresolvedTableOrView => table.multipartIdentifier
      case view: UnresolvedView => view.multipartIdentifier
      case _ => to
    }
    if (to.length == 1) old.dropRight(1) ++ to else to
  }

  /** The plan of `df.write.saveAsTable` with one of Spark's formats if the table is in the index, by save mode. */
  private def saved(desc: CatalogTable, mode: SaveMode, query: LogicalPlan, ident: Identifier): LogicalPlan = {
    val name = CatalogManager.SESSION_CATALOG_NAME +: ident.namespace().toSeq :+ ident.name()
    val options = desc.storage.properties
    mode match {
      case SaveMode.Append =>
        checkFormat(desc, ident)
        checkKeys(desc, ident)
        AppendData.byName(Inserts.target(name), query, options)
      case SaveMode.Overwrite =>
        ReplaceTableAsSelect(
          UnresolvedIdentifier(name), desc.partitionColumnNames.map(key => IdentityTransform(FieldReference(Seq(key)))),
          query, spec(desc), options, orCreate = true)
      case SaveMode.Ignore => NoopCommand("SAVE AS TABLE", name)
      case SaveMode.ErrorIfExists => throw new TableAlreadyExistsException(ident)
    }
  }

  /** The identifier of the table of the index that `saveAsTable` is to create. */
  private def created(desc: CatalogTable): Option[Identifier] =
    names.possibleInSession(desc.identifier.nameParts)
      .filter(ident => desc.provider.exists(CreatedFormats.makes(ident, _)) && !isSparks(ident))

  private def createdBy(desc: CatalogTable, query: LogicalPlan, ident: Identifier): LogicalPlan =
    CreateTableAsSelect(
      UnresolvedIdentifier(CatalogManager.SESSION_CATALOG_NAME +: ident.namespace().toSeq :+ ident.name()),
      desc.partitionColumnNames.map(key => IdentityTransform(FieldReference(Seq(key)))) ++
        desc.bucketSpec.map(_.asTransform),
      query, spec(desc), desc.storage.properties, ignoreIfExists = false)

  private def spec(desc: CatalogTable): UnresolvedTableSpec =
    SavedTable.spec(desc, CatalogExtSource.Name, Map(CatalogExtSource.Format -> desc.provider.get))

  /**
   * Raises Spark's own error for a different format. Hive tables, for which Spark knows no other provider name, may
   * have been imported, so they are accepted.
   */
  private def checkFormat(desc: CatalogTable, ident: Identifier): Unit =
    for (given <- desc.provider if !given.equalsIgnoreCase("hive"); table <- loaded(ident)) {
      val Seq(there, here) = Seq(table.metadata.format, given).map(DataSource.lookupDataSource(_, SQLConf.get))
      if (there != here) throw QueryCompilationErrors.mismatchedTableFormatError(ident.toString, there, here)
    }

  private def loaded(ident: Identifier): Option[CatalogExtTable] = names.sessionCatalog.get.loadTable(ident) match {
    case table: CatalogExtTable => Some(table)
    case _ => None
  }

  private def checkKeys(desc: CatalogTable, ident: Identifier): Unit = {
    lazy val keys = loaded(ident).toSeq.flatMap(_.metadata.partitionColumns.fieldNames)
    if (desc.bucketSpec.isDefined || (desc.partitionColumnNames.nonEmpty && desc.partitionColumnNames != keys)) {
      throw ConnectorErrors.analysis(ConnectorErrors.InvalidInput,
        s"The rows are to be partitioned by (${desc.partitionColumnNames.mkString(", ")})" +
          s"${desc.bucketSpec.fold("")(_ => " and bucketed")}, and table $ident is partitioned by " +
          s"(${keys.mkString(", ")}). Leave out partitionBy and bucketBy: the table knows its keys.")
    }
  }

  private def hasOurs(namespace: LogicalPlan): Boolean = namespace match {
    case UnresolvedNamespace(name, _) =>
      names.sessionNamespace(name).exists(names.sessionCatalog.get.indexedIn(_).nonEmpty)
    case _ => false
  }

  private def legacy(command: String): Throwable = ConnectorErrors.notSupported(
    s"$command does not see tables of catalog-ext while spark.sql.legacy.useV1Command is true. Set it to false.")
}
