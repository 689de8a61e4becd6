"""The decisions that Python and the connector share, against the golden files of ``tests/contract``.

``tests/integration/connector/test_golden_decisions.py`` has the other half, ``tests/contract/README.md`` the list.
"""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import botocore.session
import pytest

from catalog_ext.conf import keys, read_keys, write_keys
from catalog_ext.conf.resolution import Given, Use, names, resolve
from catalog_ext.metastore import errors
from catalog_ext.metastore.commit.plan import Promotion
from catalog_ext.metastore.commit.transaction import transaction_id_in
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import InvalidConfigurationError, InvalidIdentifierError, InvalidInputError
from catalog_ext.metastore.hive.mapping.clauses import StorageClauses
from catalog_ext.metastore.hive.mapping.formats import storage_of
from catalog_ext.metastore.hive.mapping.hive_text import hive_delimiter, line_parameters, serde_settings
from catalog_ext.metastore.index.read.history import CHANGES_SCHEMA, Removals
from catalog_ext.metastore.index.read.metadata_groups import Function
from catalog_ext.metastore.index.read.partition_groups import GROUP_SCHEMA, WantedGroups
from catalog_ext.metastore.index.read.partitions import PARTITION_SCHEMA
from catalog_ext.metastore.index.read.planned_files import PLAN_SCHEMA, with_bounds
from catalog_ext.metastore.model.alterations import reads_headers
from catalog_ext.metastore.model.etags import same_time
from catalog_ext.metastore.model.identifiers import MAX_IDENTIFIER_LENGTH, TableIdentifier
from catalog_ext.metastore.model.partition_names import MAX_VALUE_LENGTH, is_hidden
from catalog_ext.metastore.model.separators import separator_of
from catalog_ext.metastore.model.tables import (
    FORMATS,
    LOCATION_WILDCARDS_PROPERTY,
    Column,
    ColumnStatistics,
    PartitionMode,
    Table,
    TableDefinition,
    TableType,
    Totals,
)
from catalog_ext.metastore.model.types import parse_type, quote_name, quote_text, unquote_text
from catalog_ext.metastore.model.values import Key, cast_text
from catalog_ext.metastore.predicates.evaluation import Evaluator
from catalog_ext.metastore.predicates.json import predicate_from_json
from catalog_ext.metastore.predicates.partition_specs import ANY_VALUE, MAX_COMPONENT_BYTES, TIME_ZONE_OPTION
from catalog_ext.metastore.predicates.tree import Match, Operator, bind
from catalog_ext.metastore.runtime import users
from catalog_ext.metastore.runtime.processes import machine_id
from catalog_ext.metastore.runtime.tracing import TRACEPARENT
from catalog_ext.metastore.runtime.users import acting_for, current_user
from catalog_ext.metastore.storage.patterns import escape, parse_pattern
from catalog_ext.metastore.transactions.staging_locations import COPIES, DEFAULT_STAGING
from catalog_ext.repair import verification
from catalog_ext.repair.options import RepairMode
from catalog_ext.scan.csv_dialect import Dialect, header_names
from catalog_ext.scan.text_lines import ReaderOptions
from catalog_ext.service import application, keepalive
from catalog_ext.service.handlers import views as view_handlers
from catalog_ext.service.messages import tables as table_messages
from catalog_ext.service.messages.core import Request
from catalog_ext.service.messages.partitions import clauses_of
from catalog_ext.service.messages.writes import MAX_FILES, counted_files_of
from catalog_ext.service.operations import CONTRACT, operations_of
from catalog_ext.spark.tracing import PROPERTY
from catalog_ext.tables import partition_strategy
from tests.contract.golden import read

if TYPE_CHECKING:
    from catalog_ext.catalog import Catalog

TIMES = read("file_times.json")
HIDDEN = read("hidden_names.json")
TYPES = read("column_types.json")
SQL = read("sql_text.json")
SEPARATORS = read("separators.json")
SERDES = read("serde_options.json")
USERS = read("users.json")
PROTOCOL = read("protocol.json")
WORDS = read("words.json")
LIMITS = read("limits.json")["limits"]
SETTINGS = read("setting_names.json")


def test_times_of_one_file() -> None:
    for one, other in TIMES["same"]:
        assert same_time(one, other), (one, other)
        assert same_time(other, one), (one, other)
    for one, other in TIMES["different"]:
        assert not same_time(one, other), (one, other)
        assert not same_time(other, one), (one, other)


def test_hidden_names() -> None:
    assert [name for name in HIDDEN["hidden"] if not is_hidden(name)] == []
    assert [name for name in HIDDEN["visible"] if is_hidden(name)] == []
    for expected, texts in ((False, HIDDEN["leave_out_hidden"]), (True, HIDDEN["take_hidden"])):
        found = {text: parse_pattern(f"file:///d/{text}")[0].components[-1].matches_hidden for text in texts}
        assert found == dict.fromkeys(texts, expected)
    assert (HIDDEN["staging"], HIDDEN["copies"]) == (DEFAULT_STAGING, COPIES)


@pytest.mark.parametrize(("text", "canonical"), TYPES["types"].items())
def test_a_type_has_the_golden_text(text: str, canonical: str) -> None:
    assert str(parse_type(text)) == canonical
    assert str(parse_type(canonical)) == canonical


def test_a_comment_in_a_type_is_read_as_it_was_written() -> None:
    for literal in SQL["literals"]:
        (field,) = parse_type(f"struct<a:int comment {literal}>").fields
        assert field.comment == SQL["literals"][literal], literal
    for comment in TYPES["comments"]:
        text = f"struct<a:int comment {quote_text(comment)}>"
        assert parse_type(text).fields[0].comment == comment
        assert str(parse_type(text)) == text


def test_names_and_literals_of_sql() -> None:
    assert {name: quote_name(name) for name in SQL["names"]} == SQL["names"]
    assert {literal: unquote_text(literal) for literal in SQL["literals"]} == SQL["literals"]
    assert [unquote_text(quote_text(text)) for text in SQL["texts"]] == SQL["texts"]


@pytest.mark.parametrize(("text", "parts"), read("table_names.json")["names"].items())
def test_a_name_of_a_table_has_the_golden_parts(text: str, parts: list[str] | None) -> None:
    if parts is None:
        with pytest.raises(InvalidIdentifierError):
            TableIdentifier.parse(text, "lake")
    else:
        assert TableIdentifier.parse(text, "lake") == TableIdentifier(*parts)


def test_separators_of_delimited_text() -> None:
    assert {text: separator_of(text) for text in SEPARATORS["separators"]} == SEPARATORS["separators"]
    assert [separator_of(text) for text in SEPARATORS["refused"]] == SEPARATORS["refused"]
    for text, separator in SEPARATORS["separators"].items():
        assert Dialect.of(ReaderOptions({"sep": text})).separator == separator, text
        settings = storage_of("csv", {"sep": text}, "file:///t").serde_parameters
        assert len(separator) > 1 or hive_delimiter(settings["field.delim"]) == separator, text
    lazy = SERDES["classes"]["LAZY"]
    found = {sep: serde_settings({"serde": lazy, "sep": sep})["field.delim"] for sep in SEPARATORS["serde"]}
    assert {sep: hive_delimiter(text) for sep, text in found.items()} == SEPARATORS["serde"]


def test_headers_of_csv_files() -> None:
    golden = read("csv_headers.json")
    for by_name, tables in ((True, golden["by_name"]), (False, golden["by_position"])):
        for options in tables:
            definition = TableDefinition(TableIdentifier("s", "t"), TableType.EXTERNAL, "csv", "", (), options=options)
            assert reads_headers(definition) is by_name, options
    for case in golden["headers"]:
        assert header_names(case["row"], ReaderOptions(case["options"])) == case["names"]
    for case in golden["misfits"]:
        columns, partition_columns = (tuple(Column(n, "int") for n in case[kind]) for kind in ("columns", "keys"))
        definition = TableDefinition(
            TableIdentifier("s", "t"), TableType.EXTERNAL, "csv", "", columns, partition_columns
        )  # fmt: skip
        found = verification._misfit(case["header"], definition, ReaderOptions({}))
        assert (found is not None) is case["refused"], case


@pytest.mark.parametrize("case", SERDES["tables"])
def test_settings_of_serdes(case: dict[str, Any]) -> None:
    options = {**case["options"], "serde": SERDES["classes"][case["options"]["serde"]]}
    settings = serde_settings(options)
    settings.pop("serialization.format", None)
    if "field.delim" in settings:
        settings["field.delim"] = hive_delimiter(settings["field.delim"])
    assert settings == case["settings"]
    lines = line_parameters(options)
    assert int(lines.get("skip.header.line.count", "0")) == case["header"]
    assert int(lines.get("skip.footer.line.count", "0")) == case["footer"]


def test_names_of_users() -> None:
    for name in USERS["refused"]:
        with pytest.raises(InvalidInputError, match="cannot be printed"), acting_for(name):
            pass
    for kept in filter(None, USERS["names"].values()):
        with acting_for(unquote(quote(kept))):
            assert current_user() == kept
    with acting_for("  "):
        assert current_user() == getpass.getuser()
    with acting_for("x" * (USERS["longest"] + 1)):
        assert current_user() == "x" * USERS["longest"]


def test_a_character_of_a_newer_unicode_is_accepted() -> None:
    with acting_for("a\U0003fffd"):
        assert current_user() == "a\U0003fffd"


def test_directories_and_patterns_of_locations() -> None:
    golden = read("locations.json")
    for location, partition, own, directory in golden["directories"]:
        definition = TableDefinition(TableIdentifier("s", "t"), TableType.EXTERNAL, "csv", location, ())
        assert Table(1, definition, 1, Totals(), 0).directory(partition, own) == directory
    assert {text: escape(text) for text in golden["patterns"]} == golden["patterns"]


def test_transactions_in_names_of_files() -> None:
    golden = read("staged_names.json")
    assert {transaction_id_in(case[-1]) for case in golden["names"]} == {golden["transaction"]}
    assert [transaction_id_in(name) for name in golden["others"]] == [None] * len(golden["others"])


def test_ids_of_machines() -> None:
    for boot, numbers, machine in read("hosts.json")["machines"]:
        assert machine_id(boot, numbers) == machine


def test_statistics_that_contradict_each_other() -> None:
    for case in read("file_statistics.json")["columns"]:
        bounds = (None if bound is None else str(bound) for bound in (case["min"], case["max"]))
        assert ColumnStatistics(*bounds, case["nulls"]).contradicts(case["rows"]) is case["contradicts"], case


def test_formats_of_created_tables() -> None:
    assert list(FORMATS) == read("formats.json")["formats"]
    for text, formats in read("create_formats.json")["values"].items():
        if formats is None:
            with pytest.raises(InvalidConfigurationError):
                keys.CREATE_FORMATS.value_of(text)
        else:
            value = keys.CREATE_FORMATS.value_of(text)
            assert [each for each in FORMATS if each in value or "*" in value] == formats, text


@pytest.mark.parametrize("case", read("predicates.json")["filters"], ids=lambda case: f"{case['type']}-{case['sql']}")
def test_a_predicate_matches_the_golden_values(case: dict[str, Any]) -> None:
    if case["json"] is None:
        return
    key = Key(0, "k", parse_type(case["type"]))
    evaluator = Evaluator(bind(predicate_from_json(case["json"]), [key], "t"), [key])
    texts = [*case["matches"], *case["others"]]
    found = [evaluator.matches([None if text is None else cast_text(text, key.type)]) for text in texts]
    assert found == [True] * len(case["matches"]) + [False] * len(case["others"])


def test_error_conditions() -> None:
    golden = read("errors.json")
    codes = {found.code: found for name in errors.__all__ if hasattr(found := getattr(errors, name), "code")}
    assert {name: codes[golden["prefix"] + name].sqlstate for name in golden["conditions"]} == golden["conditions"]
    assert [name for name in golden["handled"] if golden["prefix"] + name not in codes] == []
    assert list(errors.ErrorKind) == golden["kinds"]


def test_constants_of_the_protocol(catalog: Catalog) -> None:
    headers = PROTOCOL["headers"]
    assert PROTOCOL["contract"] == CONTRACT
    assert [
        headers["contract"], headers["index"], headers["user"],
    ] == [application.CONTRACT_HEADER, application.INDEX_HEADER, application.USER_HEADER]  # fmt: skip
    assert (headers["keepalive"], headers["trace"]) == (keepalive.HEADER, TRACEPARENT)
    assert (PROTOCOL["no_index_yet"], PROTOCOL["misdirected"]) == (application._UNKNOWN, application._MISDIRECTED)
    assert PROTOCOL["trace_property"] == PROPERTY
    assert keys.TOKEN.variable == PROTOCOL["token_variable"]
    own = (keys.URI, keys.TOKEN, keys.TOKEN_FILE, keys.REQUEST_TIMEOUT, keys.RETRY_TIMEOUT)
    assert {setting.key: setting.default for setting in own} == PROTOCOL["options"]
    assert PROTOCOL["operations"].keys() - operations_of(catalog).keys() == set()


def test_words_of_the_protocol() -> None:
    known: dict[str, Any] = {
        "writes/begin kind": WriteKind,
        "writes/begin promotion": Promotion,
        "writes/delete operation": ("delete", "truncate"),
        "partitions/groups wanted": WantedGroups,
        "tables/metadata function": Function,
        "tables/changes removals": Removals,
        "tables/alter change": table_messages._READERS,
        "views/put kind": (view_handlers._CREATE, view_handlers._CREATE_OR_REPLACE, view_handlers._REPLACE),
        "predicate op": {*Operator, *Match, "and", "or", "not", "true", "false", "in", "is_null", "is_not_null"},
        "repair mode": RepairMode,
        "table_type": TableType,
        "partition_mode": PartitionMode,
        "storage": StorageClauses.__dataclass_fields__,
        "use": Use,
        "property": {
            "comment", keys.PARTITION_COLUMNS.key, LOCATION_WILDCARDS_PROPERTY,
            *(setting.key for setting in keys.SETTINGS if setting.key in ("partitioned-on", "file_format")),
        },
    }  # fmt: skip
    for field, words in known.items():
        mine = {str(word) for word in words}
        assert {*WORDS[field].get("sent", ()), *WORDS[field].get("understood", ())} <= mine, field
    assert set(WORDS["writes/begin promotion"]["understood"]) == set(Promotion)
    assert set(WORDS["partition_mode"]["understood"]) == set(PartitionMode)
    assert known.keys() | {"clause op", "statistics", "checksums", "about"} == WORDS.keys()


def test_words_of_clauses_and_statistics() -> None:
    for word in WORDS["clause op"]["sent"]:
        values = [] if word == ANY_VALUE else ["1"]
        clause = {"comparisons": [{"column": "k", "op": word, "values": values}]}
        (comparisons,) = clauses_of(Request({"clauses": [clause]}), open_keys=True).clauses
        assert comparisons[0].operator == word
    column: dict[str, Any] = dict.fromkeys(WORDS["statistics"]["sent"])
    file = {"partition": "", "path": "f", "size": 1, "modified_ms": 1, "rows": 1, "statistics": {"a": column}}
    assert counted_files_of(Request({"files": [file]}))[""][0].path == "f"


def test_checksums_are_fields_of_the_stores_client() -> None:
    """A commit passes the checksums of a part on to boto3, by these names (``storage/uploads.py``)."""
    part = botocore.session.get_session().get_service_model("s3").shape_for("CompletedPart")
    assert set(WORDS["checksums"]["sent"]) <= part.members.keys()


def test_limits_of_requests_and_values() -> None:
    mine = {
        "files in a request of writes": MAX_FILES,
        "files in a request of statistics": MAX_FILES,
        "bytes of a request's body": application.MAX_BODY_BYTES,
        "characters of a user's name": users._LONGEST,
        "bytes of a directory's name": MAX_COMPONENT_BYTES,
        "characters of a partition value": MAX_VALUE_LENGTH,
        "characters of a table's name": MAX_IDENTIFIER_LENGTH,
        "bytes of an object's key": partition_strategy._LONGEST_KEY,
    }
    assert {name: limit["service"] for name, limit in LIMITS.items()} == mine
    for name, limit in LIMITS.items():
        assert limit["connector"] <= limit["service"], name
        assert limit["connector"] == limit["service"] or not limit.get("equal"), name


@pytest.mark.parametrize("use", SETTINGS["uses"])
def test_settings_that_the_connector_takes(use: str) -> None:
    kinds = {"text": str, "long": int, "flag": bool}
    values = resolve(Use(use), Given("s.t"))
    taken = SETTINGS["uses"][use]
    assert taken.keys() - values.keys() == set()
    for key, kind in taken.items():
        value = values[key]
        assert value is None or (isinstance(value, kinds[kind]) and isinstance(value, bool) is (kind == "flag")), key
        assert key == "strict" or key.lower() in names(Use(use)), key


def test_words_among_the_values_of_settings() -> None:
    known = {setting.key: setting for setting in keys.SETTINGS}
    for key, word in SETTINGS["values"].items():
        assert str(known[key].value_of(word)) == word


def test_settings_that_the_connector_reads_by_itself() -> None:
    assert [setting.key for setting in write_keys.LOCK_SETTINGS] == SETTINGS["lock_settings"]
    assert sorted((keys.CREATE_FORMATS.key, keys.CREATE_DATABASES.key)) == SETTINGS["session_only"]
    assert write_keys.TIME_ZONE.key == SETTINGS["option"]
    assert SETTINGS["option"].lower() == TIME_ZONE_OPTION
    assert read_keys.STRICT_CHECK.key == "hive.strict.checks.no.partition.filter"


def test_columns_of_arrow_answers() -> None:
    schemas = {
        "tables/plan": PLAN_SCHEMA,
        "partitions/groups": GROUP_SCHEMA,
        "partitions/list": PARTITION_SCHEMA,
        "tables/changes": CHANGES_SCHEMA,
    }
    golden = read("arrow_columns.json")
    for operation, columns in golden["columns"].values():
        assert set(columns) - set(schemas[operation].names) == set(), operation
    assert golden["bounds"].format(number=0) in with_bounds(["a"]).names
