"""The decisions that the connector shares with Python, against the golden files of ``tests/contract``.

``tests/unit/test_golden_decisions.py`` has the other half, ``tests/contract/README.md`` the list. The Scala classes are
called through the session's JVM. Words that stand in the middle of a Scala method are taken from its source.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, IllegalArgumentException

from catalog_ext.metastore import errors
from catalog_ext.metastore.hive.mapping.hive_text import hive_delimiter
from catalog_ext.metastore.model.types import quote_text
from catalog_ext.metastore.runtime.processes import is_gone, this_host
from catalog_ext.metastore.runtime.users import acting_for, current_user
from tests.contract.golden import read

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from tests.integration.spark_driver import Driver

pytestmark = pytest.mark.spark

SOURCES: dict[str, str] = {}
"""The Scala files by name; files of several releases that have one name are joined."""
for _path in sorted((Path(__file__).parents[3] / "catalog_ext/connector/src").rglob("*.scala")):
    SOURCES[_path.name] = SOURCES.get(_path.name, "") + _path.read_text(encoding="utf-8")
ALL = "\n".join(SOURCES.values())
CONNECTOR = "org.apache.spark.sql.catalogext"
CATALYST = "org.apache.spark.sql.catalyst"


@dataclass(frozen=True)
class Scala:
    """The connector's objects in the JVM of a session."""

    spark: SparkSession

    @property
    def jvm(self) -> Any:
        return self.spark._jvm

    def module(self, name: str, package: str = CONNECTOR) -> Any:
        """A Scala object, by its name below the package."""
        found = self.jvm
        for part in f"{package}.{name}$".split("."):
            found = getattr(found, part)
        return getattr(found, "MODULE$")

    def constant(self, name: str, field: str) -> Any:
        """The private value of a Scala object; a companion class that uses it lengthens its name."""
        return self.field(self.module(name), field)

    def field(self, of: Any, name: str) -> Any:
        """The private value of an object."""
        found = next(f for f in of.getClass().getDeclaredFields() if re.split(r"\$\$", f.getName())[-1] == name)
        found.setAccessible(True)
        return found.get(of)

    def private(self, of: Any, name: str) -> Any:
        """The result of a private method without parameters."""
        found = next(m for m in of.getClass().getDeclaredMethods() if re.split(r"\$\$", m.getName())[-1] == name)
        found.setAccessible(True)
        return found.invoke(of, self.array("java.lang.Object"))

    def array(self, kind: str, *items: Any) -> Any:
        of = self.jvm
        for part in kind.split("."):
            of = getattr(of, part)
        made = self.spark.sparkContext._gateway.new_array(of, len(items))  # type: ignore[union-attr]
        for place, item in enumerate(items):
            made[place] = item
        return made

    def seq(self, *items: Any) -> Any:
        return self.jvm.PythonUtils.toSeq(list(items))

    def map(self, items: dict[str, str]) -> Any:
        return self.jvm.PythonUtils.toScalaMap(items)

    def dict(self, items: Any) -> dict[str, Any]:
        return dict(self.jvm.scala.jdk.javaapi.CollectionConverters.asJava(items))

    def list(self, items: Any) -> list[Any]:
        return list(self.jvm.scala.jdk.javaapi.CollectionConverters.asJava(items))

    def literal(self, text: str) -> str:
        """The value of a SQL literal, as Spark's parser reads it."""
        return str(self.module("parser.CatalystSqlParser", CATALYST).parseExpression(text).eval(None).toString())


def option(found: Any) -> Any:
    return found.get() if found.isDefined() else None


def _pair(found: Any) -> tuple[Any, Any]:
    return found._1(), found._2()


@pytest.fixture(scope="module")
def scala(driver: Driver) -> Iterator[Scala]:
    with driver.connected("http://127.0.0.1:9", "none") as spark:
        made = Scala(spark)
        made.module("SparkSession", "org.apache.spark.sql.classic").setActiveSession(spark._jsparkSession)
        yield made


def words(file: str, *patterns: str) -> set[str]:
    """The texts in a Scala source that the patterns capture."""
    found = [match for pattern in patterns for match in re.findall(pattern, SOURCES[file])]
    assert found, file
    return {word for match in found for word in ((match,) if isinstance(match, str) else match) if word}


def test_times_of_one_file(scala: Scala) -> None:
    golden, footer = read("file_times.json"), scala.module("scan.Footer")
    for one, other in golden["same"]:
        assert footer.isSameTime(one, other), (one, other)
        assert footer.isSameTime(other, one), (one, other)
    for one, other in golden["different"]:
        assert not footer.isSameTime(one, other), (one, other)
        assert not footer.isSameTime(other, one), (one, other)


def test_hidden_names(scala: Scala) -> None:
    golden, load = read("hidden_names.json"), scala.module("commands.LoadDataExec")
    assert [name for name in golden["hidden"] if not load.isHidden(name)] == []
    assert [name for name in golden["visible"] if load.isHidden(name)] == []
    assert [text for text in golden["leave_out_hidden"] if not load.beginsWithWildcard(text)] == []
    assert [text for text in golden["take_hidden"] if load.beginsWithWildcard(text)] == []
    assert load.Staging() == golden["staging"]
    assert words("HiveStatements.scala", r"Staging\}/([a-z-]+)\$") == {golden["copies"]}


def test_types_have_the_golden_text(scala: Scala) -> None:
    golden, metadata = read("column_types.json"), scala.module("catalog.TableMetadata")
    parser = scala.module("parser.CatalystSqlParser", CATALYST)
    for text, canonical in golden["types"].items():
        assert metadata.typeText(parser.parseDataType(text)) == canonical
        assert metadata.typeText(parser.parseDataType(canonical)) == canonical
    for comment in golden["comments"]:
        struct = parser.parseDataType(f"struct<a:int comment {quote_text(comment)}>")
        assert struct.apply(0).getComment().get() == comment
        assert parser.parseDataType(metadata.typeText(struct)).apply(0).getComment().get() == comment


def test_names_and_literals_of_sql(scala: Scala) -> None:
    golden, text = read("sql_text.json"), scala.module("parser.SqlText")
    quoting = scala.module("util.QuotingUtils", CATALYST)
    assert {name: quoting.quoteIfNeeded(name) for name in golden["names"]} == golden["names"]
    assert {literal: scala.literal(literal) for literal in golden["literals"]} == golden["literals"]
    assert [scala.literal(text.literal(each)) for each in golden["texts"]] == golden["texts"]
    assert [scala.literal(quote_text(each)) for each in golden["texts"]] == golden["texts"], "what Python writes"


def test_names_of_tables_have_the_golden_parts(scala: Scala) -> None:
    argument = scala.module("session.TableArgument")
    for text, parts in read("table_names.json")["names"].items():
        found = option(argument.parts(text))
        named = None if found is None else [part.lower() for part in scala.list(found)]
        assert (named and named[-2:]) == parts, text


def test_separators_of_delimited_text(scala: Scala) -> None:
    golden, expressions = read("separators.json"), scala.module("csv.CSVExprUtils", CATALYST)
    assert {text: expressions.toDelimiterStr(text) for text in golden["separators"]} == golden["separators"]
    for text in golden["refused"]:
        # Spark reads past the end of a text that ends within an escape: this error has no condition of Spark.
        with pytest.raises((IllegalArgumentException, Py4JJavaError), match=r"Invalid value|StringIndexOutOfBounds"):
            expressions.toDelimiterStr(text)
    lazy = read("serde_options.json")["classes"]["LAZY"]
    for text, character in golden["serde"].items():
        found = option(scala.module("formats.HiveText").of(scala.map({"serde": lazy, "sep": text})))
        assert hive_delimiter(scala.dict(scala.private(found, "own"))["field.delim"]) == character, text


def test_headers_of_csv_files(scala: Scala) -> None:
    golden, headers = read("csv_headers.json"), scala.module("formats.CsvHeaders")

    def csv_options(options: dict[str, str]) -> Any:
        return scala.jvm.org.apache.spark.sql.catalyst.csv.CSVOptions(scala.map(options), True, "UTC")

    for by_name, tables in ((True, golden["by_name"]), (False, golden["by_position"])):
        for options in tables:
            of_hive = scala.module("formats.HiveText").of(scala.map(options)).isDefined()
            assert (not of_hive and headers.areRead(csv_options(options))) is by_name, options
    for case in golden["headers"]:
        found = headers.safeNames(scala.seq(*case["row"]), csv_options(case["options"]), False)
        assert scala.list(found) == case["names"]
    any_case = scala.module("package", f"{CATALYST}.analysis").caseInsensitiveResolution()
    for case in golden["misfits"]:
        names = (scala.seq(*case[kind]) for kind in ("header", "columns", "keys"))
        unknown, missing = (scala.list(part) for part in _pair(headers.misfit(*names, any_case)))
        assert bool(unknown and missing) is case["refused"], case


@pytest.mark.parametrize("case", read("serde_options.json")["tables"])
def test_settings_of_serdes(scala: Scala, case: dict[str, Any]) -> None:
    options = {**case["options"], "serde": read("serde_options.json")["classes"][case["options"]["serde"]]}
    text = option(scala.module("formats.HiveText").of(scala.map(options)))
    settings = scala.dict(scala.private(text, "own"))
    if "field.delim" in settings:
        settings["field.delim"] = hive_delimiter(settings["field.delim"])
    assert settings == case["settings"]
    assert (text.headerLines(), text.footerLines()) == (case["header"], case["footer"])


def test_unquoted_text_refuses_the_separator_that_an_escape_means(scala: Scala) -> None:
    table = {
        "table_id": 1, "namespace": "s", "name": "t", "table_type": "EXTERNAL", "format": "csv",
        "location": "file:///t", "columns": [], "partition_columns": [], "partition_mode": "declared", "options": {},
        "properties": {}, "comment": None, "owner": None, "version": 1, "statistics": {},
        "totals": {"partitions": 0, "files": 0, "bytes": 0, "rows": None},
    }  # fmt: skip
    metadata = scala.module("catalog.TableMetadata").fromJson(
        scala.module("service.Json").mapper().readTree(json.dumps(table))
    )
    guard = scala.module("scan.UnquotedText").guard
    for text, separator in read("separators.json")["separators"].items():
        writers = guard(None, metadata, scala.map({"quote": "", "sep": text}))
        assert scala.list(scala.field(writers, "refused")) == [separator, "\n", "\r"], text


def test_names_of_users(scala: Scala) -> None:
    golden, user = read("users.json"), scala.module("service.SessionUser")
    for name, kept in golden["names"].items():
        sent = option(user.encode(name))
        with acting_for(sent and unquote(sent)):
            assert (current_user() if sent else None) == kept, ascii(name)
    assert option(user.encode("x" * 300)) == "x" * golden["longest"]


def test_directories_and_patterns_of_locations(scala: Scala) -> None:
    golden = read("locations.json")
    for location, partition, own, directory in golden["directories"]:
        assert own or scala.module("scan.FilePaths").join(location, partition) == directory
    statement = scala.module("commands.TableStatement")
    assert {text: statement.escaped(text) for text in golden["patterns"]} == golden["patterns"]


def test_transactions_in_names_of_files(scala: Scala) -> None:
    golden, writer = read("staged_names.json"), scala.module("write.StagingDataWriter")
    for task, attempt, counter, extension, name in golden["names"]:
        assert writer.fileName(task, golden["transaction"], attempt, counter, extension) == name
        assert writer.isOwn(name)
    assert not any(map(writer.isOwn, golden["others"]))


def test_ids_of_machines(scala: Scala) -> None:
    write = scala.module("write.CatalogExtWrite")
    for boot, numbers, machine in read("hosts.json")["machines"]:
        assert write.machine(boot, numbers) == machine
    owner = write.owner(scala.spark._jsparkSession)
    assert owner.rpartition("@")[2].rpartition(":")[0] == this_host()
    assert not is_gone(owner)


def test_statistics_that_contradict_each_other(scala: Scala) -> None:
    """With counts above 32 bits, which Py4J passes as Java's Long."""
    measured, integer = scala.module("write.MeasuredColumn"), scala.module("IntegerType", "org.apache.spark.sql.types")
    for case in read("file_statistics.json")["columns"]:
        parts = (scala.jvm.scala.Option.apply(case[name]) for name in ("min", "max", "nulls"))
        column = scala.jvm.org.apache.spark.sql.catalogext.write.MeasuredColumn(*parts)
        merged = measured.merged(scala.seq(scala.jvm.scala.Tuple2(column, case["rows"])), integer)
        assert merged.isUnknown() is case["contradicts"], case


def test_formats_of_created_tables(scala: Scala) -> None:
    formats, created = read("formats.json")["formats"], scala.module("session.CreatedFormats")
    assert set(scala.list(created.Known())) == set(formats)
    assert words("DescribedPartitions.scala", r'case "(\w+)" => \w+ScanBuilder') == set(formats)
    assert words("SparkWritePlan.scala", r'case "(\w+)" => (?:new|HiveText)') == set(formats)
    ident = scala.jvm.org.apache.spark.sql.connector.catalog.Identifier.of(scala.array("java.lang.String", "s"), "t")
    key = "spark.sql.catalog.spark_catalog.create.formats"
    try:
        for text, expected in read("create_formats.json")["values"].items():
            scala.spark.conf.set(key, text)
            if expected is None:
                with pytest.raises(AnalysisException, match=r"create\.formats"):
                    created.makes(ident, "parquet")
            else:
                assert [each for each in formats if created.makes(ident, each)] == expected, text
    finally:
        scala.spark.conf.unset(key)


def _without_not_null(predicate: dict[str, Any]) -> dict[str, Any]:
    parts = predicate["args"] if predicate["op"] == "and" else [predicate]
    rest = [part for part in parts if part["op"] != "is_not_null"] or parts
    return rest[0] if len(rest) == 1 else {"op": "and", "args": rest}


def test_filters_have_the_golden_predicates(scala: Scala) -> None:
    expressions = scala.module("scan.PredicateTranslator")
    none = expressions.chars(scala.jvm.org.apache.spark.sql.types.StructType())
    translator = scala.jvm.org.apache.spark.sql.catalogext.scan.PredicateTranslator(
        scala.map({"k": "k"}), scala.jvm.java.time.ZoneId.of("UTC"), none
    )
    golden = read("predicates.json")["filters"]
    empty = {each: scala.spark.createDataFrame(scala.spark.sparkContext.emptyRDD(), f"k {each}")
             for each in {case["type"] for case in golden}}  # fmt: skip
    for case in golden:
        plan = empty[case["type"]].where(case["sql"])._jdf.queryExecution().optimizedPlan()
        found = option(translator.translate(scala.seq(plan.condition())))
        predicate = None if found is None else _without_not_null(json.loads(found.toString()))
        expected = case["json"]
        if expected is None:
            assert predicate is None or predicate["op"] == "is_not_null", case
        else:
            assert predicate == expected, case


def test_spark_agrees_with_the_golden_values_of_filters(scala: Scala) -> None:
    for kind in sorted({case["type"] for case in read("predicates.json")["filters"]}):
        cases = [case for case in read("predicates.json")["filters"] if case["type"] == kind and case["json"]]
        texts = list(dict.fromkeys(text for case in cases for text in (*case["matches"], *case["others"])))
        rows = scala.spark.createDataFrame([(i, text) for i, text in enumerate(texts)], "i INT, t STRING")
        typed = rows.selectExpr("i", f"CAST(t AS {kind}) k")
        answers = typed.selectExpr("i", *(f"coalesce({case['sql']}, false) c{n}" for n, case in enumerate(cases)))
        by_text = {texts[row.i]: row for row in answers.collect()}
        for n, case in enumerate(cases):
            assert all(by_text[text][f"c{n}"] for text in case["matches"]), case
            assert not any(by_text[text][f"c{n}"] for text in case["others"]), case


def test_error_conditions(scala: Scala) -> None:
    golden, connector = read("errors.json"), scala.module("service.ConnectorErrors")
    names = re.findall(r"val (\w+): Condition = own", SOURCES["ConnectorErrors.scala"])
    mine = {found.code(): found.sqlState() for found in (getattr(connector, name)() for name in names)}
    shared = {golden["prefix"] + name: state for name, state in golden["conditions"].items()}
    assert {code: mine[code] for code in shared} == shared
    codes = {found.code for name in errors.__all__ if hasattr(found := getattr(errors, name), "code")}
    assert codes & mine.keys() == shared.keys(), "conditions that are of both languages"
    handled = {*re.findall(r'\.is\("(\w+)"\)', ALL), "COMMIT_STATE_UNKNOWN"}
    assert handled == set(golden["handled"])
    assert words("ServiceClient.scala", r'case "(\w+)" => (?:true|false)') == set(golden["kinds"])
    assert [name for name in golden["parameters"] if f'"{name}"' not in ALL] == []


def test_constants_of_the_protocol(scala: Scala) -> None:
    golden, options = read("protocol.json"), scala.module("catalog.CatalogOptions")
    client, headers = "service.ServiceClient", golden["headers"]
    assert scala.constant(client, "Contract") == str(golden["contract"])
    assert scala.constant(client, "ContractHeader") == headers["contract"]
    assert scala.constant(client, "IndexHeader") == headers["index"]
    assert scala.constant(client, "KeepaliveHeader") == headers["keepalive"]
    assert scala.module("service.SessionUser").Header() == headers["user"]
    assert scala.module("service.TraceContext").Header() == headers["trace"]
    assert scala.constant(client, "NoIndexYet") == golden["no_index_yet"]
    assert scala.constant(client, "Misdirected") == golden["misdirected"]
    assert scala.constant("service.TraceContext", "Property") == golden["trace_property"]
    assert options.TokenVariable() == golden["token_variable"]
    defaults = {
        options.Uri(): None, options.Token(): None, options.TokenFile(): None,
        options.RequestTimeout(): scala.constant("catalog.CatalogOptions", "DefaultRequestTimeout"),
        options.RetryTimeout(): scala.constant("catalog.CatalogOptions", "DefaultRetryTimeout"),
    }  # fmt: skip
    assert defaults == golden["options"]


def test_operations_that_the_connector_asks_for(scala: Scala) -> None:
    golden = read("protocol.json")["operations"]
    called = set(re.findall(r'\.(?:call|stream)\("([a-z_]+(?:/[a-z_]+)+)"', ALL))
    assert called | {f"partitions/{word}" for word in words("PartitionCommandStrategy.scala", r'send\("(\w+)"')} == set(
        golden
    )
    repeated, body = scala.module("service.RepeatedRequests"), scala.module("service.Json").obj(scala.seq())
    assert {operation: repeated.isRepeatable(operation, body) for operation in golden} == golden


def test_words_of_the_protocol(scala: Scala) -> None:
    golden = read("words.json")
    kinds = re.findall(r'extends SparkWriteKind\("(\w+)", "([^"]+)"\)', SOURCES["WriteTarget.scala"])
    assert dict(kinds) == golden["writes/begin kind"]["sent"]
    operators = re.findall(
        r'"([^"]+)"', re.findall(r"Operators = Seq\((.*?)\)", SOURCES["PartitionStatements.scala"])[0]
    )
    mode = scala.module("commands.RepairPartitions").mode
    sent = {
        "writes/delete operation": words("PartitionDeletion.scala", r'send\("(\w+)"'),
        "partitions/groups wanted": words("PartitionGroups.scala", r'val \w+ = "(\w+)"'),
        "tables/metadata function": words("MetadataGroups.scala", r'(?:Number\(|number\(table, )"(\w+)"'),
        "tables/changes removals": words("StreamingFiles.scala", r'if \(skipChanges\) "(\w+)" else "(\w+)"'),
        "tables/alter change": words("TableAlterations.scala", r'\bof\("(\w+)", '),
        "views/put kind": set(re.findall(r'views\.put\(ident, view, "(\w+)"\)', ALL)),
        "clause op": {{"==": "=", "<>": "!="}.get(each, each) for each in operators}
        | words("PartitionStatements.scala", r'KeyComparison\(key, "([^"]+)"')
        | words("PartitionClauses.scala", r'KeyComparison\(key, "([^"]+)"'),
        "predicate op": words("PredicateTranslator.scala", r'(?:comparison|ordered)\("([^"]+)"')
        | words("RequestBodies.scala", r'(?:"op" -> text\(|joined\()"(\w+)"'),
        "repair mode": {mode(add, drop) for add in (True, False) for drop in (True, False)},
        "table_type": words("TableDefinitions.scala", r'if \(external\) "(\w+)" else "(\w+)"'),
        "storage": words("TableDefinitions.scala", r'"hive\.[a-z-]+" -> "(\w+)"'),
        "statistics": words("FileStatistics.scala", r'"(\w+)" -> ') | words("FileStaging.scala", r'\.put\("(\w+)"'),
        "use": set(re.findall(r'ResolvedSettings\.of\(\s*"(\w+)"', ALL))
        | words("ResolvedSettings.scala", r'\bof\("(\w+)", client'),
        "checksums": {f"Checksum{name}" for name in scala.list(scala.constant("write.UploadedPart", "Checksums"))},
    }  # fmt: skip
    assert {field: sorted(found) for field, found in sent.items()} == {
        field: sorted(entry["sent"]) for field, entry in golden.items() if field in sent
    }
    understood = {
        "writes/begin promotion": words("WriteTransaction.scala", r'case "(\w+)" => (?:true|false)'),
        "table_type": set(re.findall(r'(?:tableType|string\("table_type"\)) == "(\w+)"', ALL)),
        "partition_mode": words("TableMetadata.scala", r'"(declared|virtual)"'),
        "property": {word for word in golden["property"]["understood"] if f'"{word}"' in ALL},
    }
    assert {field: sorted(found) for field, found in understood.items()} == {
        field: sorted(entry["understood"])
        for field, entry in golden.items()
        if field != "about" and "understood" in entry
    }
    assert sent.keys() | understood.keys() | {"writes/begin kind", "about"} == golden.keys()


def test_limits_of_requests_and_values(scala: Scala) -> None:
    mine = {
        "files in a request of writes": scala.constant("write.WriteTransaction", "MostFiles"),
        "files in a request of statistics": scala.module("service.StatisticsRequests").FilesAtOnce(),
        "bytes of a request's body": 4 * scala.constant("write.WriteTransaction", "MostCharacters"),
        "characters of a user's name": scala.constant("service.SessionUser", "Longest"),
        "bytes of a directory's name": scala.constant("write.RowPartitioner", "LongestComponent"),
        "characters of a partition value": scala.constant("write.RowPartitioner", "TooLong") - 1,
        "characters of a table's name": scala.constant("SessionNames", "MaxLength"),
        "bytes of an object's key": scala.constant("write.UploadStaging", "LongestKey"),
    }
    assert {name: limit["connector"] for name, limit in read("limits.json")["limits"].items()} == mine


def _constant(source: str, name: str) -> str:
    """The text of a constant, by its name in a source file; a qualified name is of another object."""
    owner, _, field = name.rpartition(".")
    text = SOURCES[source]
    if owner:
        text = next(t.split(f"object {owner} ", 1)[1] for t in SOURCES.values() if f"object {owner} " in t)
    found = re.search(rf'val {field}(?:: String)? = "([^"]+)"', text)
    assert found is not None, name
    return found[1]


def test_settings_that_the_connector_takes() -> None:
    golden = read("setting_names.json")
    taken: dict[str, str] = {}
    for source, text in SOURCES.items():
        for kind, name in re.findall(r'\.(text|long|flag)\(("[^"]+"|[A-Z]\w*(?:\.[A-Z]\w*)?)\)', text):
            taken[name.strip('"') if name.startswith('"') else _constant(source, name)] = kind
    assert taken == {key: kind for settings in golden["uses"].values() for key, kind in settings.items()}


def test_words_among_the_values_of_settings() -> None:
    compared = set(re.findall(r'\.text\([^()]*\)\.contains\("([\w-]+)"\)', ALL))
    compared |= words("ReadOptions.scala", r'chosen == "(\w+)"') | words("InsertRules.scala", r'\(_ == "(\w+)"\)')
    assert compared | words("StreamingSource.scala", r'case Some\("(\w+)"\)') == set(
        read("setting_names.json")["values"].values()
    )


def test_settings_that_the_connector_reads_by_itself(scala: Scala) -> None:
    golden = read("setting_names.json")
    assert sorted(scala.list(scala.constant("commands.PartitionClauses", "LockSettings"))) == golden["lock_settings"]
    of = "session.CreatedFormats"
    assert sorted(scala.constant(of, name) for name in ("Formats", "Databases")) == golden["session_only"]
    assert scala.module("util.DateTimeUtils", CATALYST).TIMEZONE_OPTION() == golden["option"]


def test_columns_of_arrow_answers() -> None:
    golden = read("arrow_columns.json")
    for place, (_, columns) in golden["columns"].items():
        read_here = words(place.rpartition("/")[2], r'getVector\("(\w+)"\)|(?:numbers|texts)\("(\w+)"\)')
        assert sorted(read_here) == columns, place
    assert words("FileSkipping.scala", r'getVector\(s"(\w+)\$i"\)') == {golden["bounds"].removesuffix("{number}")}
