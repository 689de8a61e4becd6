package org.apache.spark.sql.catalogext.formats

import java.io.{InputStream, Reader}
import java.util.Locale

import scala.collection.mutable

import com.fasterxml.jackson.core.{JsonFactory, JsonParser, JsonToken}
import com.fasterxml.jackson.core.util.JsonParserDelegate

import org.apache.spark.sql.catalyst.json.JSONOptionsInRead
import org.apache.spark.sql.execution.datasources.v2.json.JsonPartitionReaderFactory
import org.apache.spark.sql.types.{ArrayType, DataType, MapType, StructType}

/**
 * Finds the keys of JSON objects in any case, at any depth, as Hive's JsonSerDe does. Spark's parser compares them with
 * the names of the columns as they are written, and shows NULL for a key of another case.
 *
 * The keys of a MAP are values and keep their case. A session with `spark.sql.caseSensitive` compares names with case.
 */
object JsonKeys {
  def inAnyCase(json: JsonPartitionReaderFactory): JsonPartitionReaderFactory =
    // The names of a single VARIANT column's values are no columns.
    if (json.sqlConf.caseSensitiveAnalysis || json.options.parameters.contains("singlevariantcolumn")) json
    // Without filters, which Spark evaluates again after the scan: its parser drops a row by the first value of a column,
    // which a later key of the record may replace.
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

/** What the schema says of the values at one place of a document: fields by name, elements, or nothing. */
private sealed trait ValueKeys
private case object NoKeys extends ValueKeys
private class ElementKeys(val element: ValueKeys) extends ValueKeys

private class ObjectKeys(schema: StructType) extends ValueKeys {
  private val fields = schema.fields.map(field => ValueKeys.of(field.dataType))
  private val exact = schema.fieldNames.zipWithIndex.toMap
  private val inLowerCase = schema.fieldNames.zipWithIndex.groupBy(_._1.toLowerCase(Locale.ROOT)).collect {
    // Two columns that differ in case only are found by their exact names alone.
    case (name, Array((_, place))) => name -> place
  }
  // Files may have any number of keys that the table has not.
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

/** An object or array that is being read; `exact` are the places whose keys had the case of the column. */
private class OpenValue(val keys: ValueKeys, val isObject: Boolean) {
  val exact: mutable.BitSet = if (isObject) mutable.BitSet.empty else null
  var next: ValueKeys = keys match {
    case elements: ElementKeys => elements.element
    // A record that is an array of objects is as many rows.
    case record: ObjectKeys if !isObject => record
    case _ => NoKeys
  }
}

/** Gives keys the spelling of the schema. Where an object has a key in several cases, the schema's own spelling wins. */
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
          // A name that no column has: the value of the exact key, which came before, stays.
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
