package org.apache.spark.sql.catalogext.formats

import java.io.{InputStream, Reader}
import java.util.Locale

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.core.util.JsonParserDelegate
import com.fasterxml.jackson.core.{JsonFactory, JsonParser, JsonToken}
import com.univocity.parsers.csv.CsvParser
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.catalogext.scan.UnquotedTextReader
import org.apache.spark.sql.catalogext.service.ConnectorErrors
import org.apache.spark.sql.catalyst.analysis.Resolver
import org.apache.spark.sql.catalyst.csv.{CSVExprUtils, CSVOptions}
import org.apache.spark.sql.catalyst.expressions.{BoundReference, Expression, Literal, UnsafeProjection}
import org.apache.spark.sql.catalyst.json.JSONOptionsInRead
import org.apache.spark.sql.catalyst.util.ResolveDefaultColumns
import org.apache.spark.sql.catalyst.{FileSourceOptions, InternalRow}
import org.apache.spark.sql.connector.read.PartitionReader
import org.apache.spark.sql.execution.datasources.v2.csv.{CSVPartitionReaderFactory, CSVScan}
import org.apache.spark.sql.execution.datasources.v2.json.JsonPartitionReaderFactory
import org.apache.spark.sql.execution.datasources.v2.{FilePartitionReaderFactory, FileScan}
import org.apache.spark.sql.execution.datasources.{CodecStreams, HadoopFileLinesReader, PartitionedFile}
import org.apache.spark.sql.types.{ArrayType, DataType, MapType, StringType, StructField, StructType}

/**
 * Selects the readers of a scan: Spark's own readers, or a reader of this package that wraps them
 * (`docs/design/16-text-formats.md`).
 */
object FileReaders {
  /**
   * The reader factory for a scan's files: Spark's own one, or one that wraps it.
   *
   * @param files Spark's readers
   * @param isRegistered whether the files belong to a registered table; an ad-hoc path has no Hive SerDe
   * @param keys the names of the partition columns, which a CSV header may contain too
   */
  def of(files: FilePartitionReaderFactory, isRegistered: Boolean, keys: Seq[String]): FilePartitionReaderFactory =
    files match {
      case csv: CSVPartitionReaderFactory =>
        val hive = if (isRegistered) HiveText.of(csv.options.parameters) else None
        hive.fold[FilePartitionReaderFactory] {
          val read: CSVPartitionReaderFactory => FilePartitionReaderFactory =
            if (isRegistered) UnquotedTextReader.of else identity
          if (CsvHeaders.areRead(csv.options)) new CsvHeaderReaderFactory(csv, keys, read) else read(csv)
        }(new HiveTextReaderFactory(csv, _))
      case json: JsonPartitionReaderFactory => JsonKeys.inAnyCase(json)
      case other => other
    }

  /**
   * Whether a file may be split between tasks. Hive's header and footer lines are counted per file, which prevents a
   * split.
   */
  def isSplitable(scan: FileScan): Path => Boolean = scan match {
    case csv: CSVScan if HiveText.of(csv.options.asCaseSensitiveMap().asScala).exists(!_.isSplitable) => _ => false
    case other => other.isSplitable
  }
}

/**
 * Matches the columns of CSV files by the names in each file's header. Spark matches them by position and ignores the
 * header.
 */
object CsvHeaders {
  val EnforceSchema = "enforceschema"

  /** An explicit `enforceSchema` keeps Spark's meaning: true matches by position, false checks every header. */
  def areRead(options: CSVOptions): Boolean = options.headerFlag && !options.parameters.contains(EnforceSchema)

  /** The names in a file's header, spelled as `CSVUtils.makeSafeHeader` does; None if the file has no header. */
  def read(csv: CSVPartitionReaderFactory, file: PartitionedFile, caseSensitive: Boolean): Option[Seq[String]] = {
    val header = if (csv.options.multiLine) firstRecord(csv, file) else firstLine(csv, file)
    header.map(names => safeNames(names, csv.options, caseSensitive))
  }

  /** The first line with content. Like Spark with single-line records, it skips comments and blank lines. */
  private def firstLine(csv: CSVPartitionReaderFactory, file: PartitionedFile): Option[Seq[String]] = {
    val whole = file.copy(start = 0, length = file.fileSize)
    val reader = new HadoopFileLinesReader(whole, csv.options.lineSeparatorInRead, csv.broadcastedConf.value.value)
    try {
      val lines = reader.map(line => new String(line.getBytes, 0, line.getLength, csv.options.charset))
      CSVExprUtils.extractHeader(lines, csv.options)
        .flatMap(line => Option(new CsvParser(csv.options.asParserSettings).parseLine(line))).map(_.toSeq)
    } finally reader.close()
  }

  private def firstRecord(csv: CSVPartitionReaderFactory, file: PartitionedFile): Option[Seq[String]] = {
    val settings = csv.options.asParserSettings
    settings.setReadInputOnSeparateThread(false)
    settings.setLineSeparatorDetectionEnabled(csv.options.lineSeparatorInRead.isEmpty)
    settings.setInputBufferSize(BufferChars)
    val parser = new CsvParser(settings)
    val in = CodecStreams.createInputStream(csv.broadcastedConf.value.value, file.toPath)
    try {
      parser.beginParsing(in, csv.options.charset)
      Option(parser.parseNext()).map(_.toSeq)
    } finally try parser.stopParsing() finally in.close()
  }

  private[formats] def safeNames(row: Seq[String], options: CSVOptions, caseSensitive: Boolean): Seq[String] = {
    def folded(name: String) = if (caseSensitive || name == null) name else name.toLowerCase(Locale.ROOT)
    val repeated = row.groupBy(folded).collect { case (name, all) if all.length > 1 => name }.toSet
    row.zipWithIndex.map { case (name, place) =>
      if (name == null || name.isEmpty || name == options.nullValue) s"_c$place"
      else if (repeated(folded(name))) s"$name$place"
      else name
    }
  }

  /**
   * The names of a header that are neither columns nor keys, and the columns that the header lacks. A file with both is
   * refused; `catalog_ext/repair/verification.py` has the same rule.
   */
  private[catalogext] def misfit(
      header: Seq[String], columns: Seq[String], keys: Seq[String], resolver: Resolver): (Seq[String], Seq[String]) =
    (header.filterNot(name => (columns ++ keys).exists(resolver(_, name))),
      columns.filterNot(column => header.exists(resolver(column, _))))

  private val BufferChars = 4096
}

/**
 * Reads each file by its own header. A column that is missing in the header has its default or NULL, and names that the
 * table does not have are ignored. A file without any column of the table is refused, because its first line is
 * probably a row and not a header.
 *
 * @param read creates the reader of files whose columns have the order of the schema
 */
class CsvHeaderReaderFactory(
    csv: CSVPartitionReaderFactory,
    keys: Seq[String],
    read: CSVPartitionReaderFactory => FilePartitionReaderFactory)
  extends FilePartitionReaderFactory {

  override protected def options: FileSourceOptions = csv.options

  // Read these settings now, on the driver: a task has no access to the session's conf.
  private val resolver = csv.sqlConf.resolver
  private val caseSensitive = csv.sqlConf.caseSensitiveAnalysis
  private val corrupt = csv.dataSchema.filter(_.name == csv.options.columnNameOfCorruptRecord)
  private val columns = csv.dataSchema.filterNot(corrupt.contains)

  override def buildReader(file: PartitionedFile): PartitionReader[InternalRow] = CsvHeaders.read(csv, file, caseSensitive) match {
    case Some(header) if !isAsSchema(header) => byName(file, header)
    case _ => read(csv).buildReader(file)
  }

  private def isAsSchema(header: Seq[String]): Boolean =
    header.length == columns.length && header.zip(columns).forall { case (name, field) => resolver(name, field.name) }

  private def byName(file: PartitionedFile, header: Seq[String]): PartitionReader[InternalRow] = {
    val found = header.map(name => columns.find(field => resolver(field.name, name)))
    check(file, header)
    val inFile = StructType(found.zipWithIndex.map { case (field, place) =>
      field.getOrElse(StructField(s"${CsvHeaderReaderFactory.LeftOut}$place", StringType))
    } ++ corrupt)
    // Use the order of the file's header: if all columns are read, Spark's parser takes them by position.
    val there = StructType(inFile.filter(field => csv.readDataSchema.fieldNames.contains(field.name)))
    // Pass no filters: a filter may name a column that the file lacks. Spark evaluates all filters again after the
    // scan.
    val reader = read(csv.copy(dataSchema = inFile, readDataSchema = there, filters = Nil)).buildReader(file)
    if (there == csv.readDataSchema) reader else new ProjectedReader(reader, projection(there))
  }

  private def check(file: PartitionedFile, header: Seq[String]): Unit = {
    val (unknown, missing) = CsvHeaders.misfit(header, columns.map(_.name), keys, resolver)
    if (unknown.nonEmpty && missing.nonEmpty) throw ConnectorErrors.runtime(ConnectorErrors.InvalidInput,
      s"The header of the file ${file.toPath} is (${shown(header)}), and the columns are (${shown(columns.map(_.name))}): " +
        s"it has ${shown(unknown)}, which is no column, and lacks ${shown(missing)}. Either the file has no header, or " +
        "a column is called otherwise. Write the file again with the names of the columns, or set the option " +
        "enforceSchema to true to read all files by position.",
      Map("file" -> file.toPath.toString, "column" -> missing.head))
  }

  private def shown(names: Seq[String]): String = names.mkString(", ").take(300)

  private def projection(there: StructType): Seq[Expression] = {
    val missing = ResolveDefaultColumns.existenceDefaultValues(csv.readDataSchema)
    val data = csv.readDataSchema.zipWithIndex.map { case (field, i) =>
      there.getFieldIndex(field.name).fold[Expression](Literal(missing(i), field.dataType))(
        BoundReference(_, field.dataType, nullable = true))
    }
    data ++ csv.partitionSchema.zipWithIndex.map { case (key, i) =>
      BoundReference(there.length + i, key.dataType, nullable = true)
    }
  }
}

private object CsvHeaderReaderFactory {
  val LeftOut = "\u0000left out "
}

private class ProjectedReader(inner: PartitionReader[InternalRow], values: Seq[Expression])
  extends PartitionReader[InternalRow] {
  private val projection = UnsafeProjection.create(values)

  override def next(): Boolean = inner.next()
  override def get(): InternalRow = projection(inner.get())
  override def close(): Unit = inner.close()
}

/**
 * Matches the keys of JSON objects regardless of case, at any depth, as Hive's JsonSerDe does. Spark's parser compares
 * them case-sensitively, and returns NULL for a key in another case.
 *
 * The keys of a MAP are values and keep their case. With `spark.sql.caseSensitive` names are case-sensitive here too.
 */
object JsonKeys {
  def inAnyCase(json: JsonPartitionReaderFactory): JsonPartitionReaderFactory =
    // With a single VARIANT column, the names in a document are not columns.
    if (json.sqlConf.caseSensitiveAnalysis || json.options.parameters.contains("singlevariantcolumn")) json
    // Pass no filters: the parser drops a row by a column's first value, which a later key of the record may replace.
    // Spark evaluates all filters again after the scan.
    else json.copy(filters = Nil, options = new AnyCaseOptions(
      json.options, json.sqlConf.sessionLocalTimeZone, json.sqlConf.columnNameOfCorruptRecord, json.readDataSchema))
}

private class AnyCaseOptions(given: JSONOptionsInRead, zone: String, corruptRecord: String, schema: StructType)
  extends JSONOptionsInRead(given.parameters, zone, corruptRecord) {
  override def buildJsonFactory(): JsonFactory = new AnyCaseFactory(super.buildJsonFactory(), schema)
}

private class AnyCaseFactory(settings: JsonFactory, schema: StructType) extends JsonFactory(settings, null) {
  private val root = new ObjectKeys(schema)

  private def renaming(parser: JsonParser): JsonParser = parser match {
    case done: AnyCaseParser => done
    case plain => new AnyCaseParser(plain, root)
  }

  override def createParser(in: InputStream): JsonParser = renaming(super.createParser(in))
  override def createParser(in: Reader): JsonParser = renaming(super.createParser(in))
  override def createParser(text: String): JsonParser = renaming(super.createParser(text))
  override def createParser(bytes: Array[Byte]): JsonParser = renaming(super.createParser(bytes))
  override def createParser(bytes: Array[Byte], offset: Int, length: Int): JsonParser =
    renaming(super.createParser(bytes, offset, length))
}

/**
 * What the schema expects at one place of a JSON document: the fields of an object, the elements of an array, or a
 * scalar.
 */
private sealed trait ValueKeys
private case object NoKeys extends ValueKeys
private class ElementKeys(val element: ValueKeys) extends ValueKeys

private class ObjectKeys(schema: StructType) extends ValueKeys {
  private val fields = schema.fields.map(field => ValueKeys.of(field.dataType))
  private val exact = schema.fieldNames.zipWithIndex.toMap
  private val inLowerCase = schema.fieldNames.zipWithIndex.groupBy(_._1.toLowerCase(Locale.ROOT)).collect {
    // If several columns differ only in case, match each of them exactly.
    case (name, Array((_, place))) => name -> place
  }
  // Caches the keys of the table only; a file may have any number of other keys.
  private val known = mutable.HashMap.empty[String, Int]

  def name(place: Int): String = schema(place).name
  def value(place: Int): ValueKeys = fields(place)

  def placeOf(key: String): Int = known.getOrElse(key, {
    val found = exact.getOrElse(key, inLowerCase.getOrElse(key.toLowerCase(Locale.ROOT), -1))
    if (known.size < ObjectKeys.MostKnown) known(key) = found
    found
  })
}

private object ObjectKeys {
  val MostKnown = 10000
}

private object ValueKeys {
  def of(dataType: DataType): ValueKeys = dataType match {
    case struct: StructType => new ObjectKeys(struct)
    case array: ArrayType => new ElementKeys(of(array.elementType))
    case map: MapType => new ElementKeys(of(map.valueType))
    case _ => NoKeys
  }
}

/** The object or array that is being read; `exact` has the fields whose key was spelled exactly as the column. */
private class OpenValue(val keys: ValueKeys, val isObject: Boolean) {
  val exact: mutable.BitSet = if (isObject) mutable.BitSet.empty else null
  var next: ValueKeys = keys match {
    case elements: ElementKeys => elements.element
    // The top level of a record may be an array of objects, each of which is a row.
    case record: ObjectKeys if !isObject => record
    case _ => NoKeys
  }
}

/**
 * Renames keys to the schema's spelling. If an object has a key in several spellings, the schema's own spelling wins.
 */
private class AnyCaseParser(inner: JsonParser, root: ObjectKeys) extends JsonParserDelegate(inner) {
  private var open: List[OpenValue] = Nil
  private var renamed: String = _

  override def nextToken(): JsonToken = {
    val token = delegate.nextToken()
    renamed = null
    token match {
      case JsonToken.FIELD_NAME => rename()
      case JsonToken.START_OBJECT => open ::= new OpenValue(expected, isObject = true)
      case JsonToken.START_ARRAY => open ::= new OpenValue(expected, isObject = false)
      case JsonToken.END_OBJECT | JsonToken.END_ARRAY => open = open.tail
      case _ =>
    }
    token
  }

  private def expected: ValueKeys = if (open.isEmpty) root else open.head.next

  private def rename(): Unit = {
    val around = open.head
    around.keys match {
      case keys: ObjectKeys =>
        val key = delegate.currentName()
        val place = keys.placeOf(key)
        around.next = if (place < 0) NoKeys else keys.value(place)
        if (place >= 0) {
          if (key == keys.name(place)) around.exact += place
          // This key differs in case from a column whose exact key came before: ignore it, so that the exact key's
          // value stays.
          else renamed = if (around.exact(place)) AnyCaseParser.Ignored else keys.name(place)
        }
      case _ =>
    }
  }

  override def currentName(): String = if (renamed == null) delegate.currentName() else renamed
  override def getCurrentName: String = currentName()
  override def getText: String = if (renamed == null) delegate.getText else renamed

  override def skipChildren(): JsonParser = {
    val token = delegate.currentToken()
    delegate.skipChildren()
    if (token == JsonToken.START_OBJECT || token == JsonToken.START_ARRAY) open = open.tail
    this
  }
}

private object AnyCaseParser {
  val Ignored = "\u0000"
}
