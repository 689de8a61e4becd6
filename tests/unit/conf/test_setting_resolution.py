"""The settings of reads, writes and streams as the service resolves them: places, precedence, types, errors."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from catalog_ext.conf.resolution import STRICT, Given, Use, names, resolve
from catalog_ext.metastore.errors import InvalidConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

SIZE, OPEN = "write.max-file-size", "write.max-open-writers"
MISSING, IGNORE = "missing-files", "spark.sql.files.ignoreMissingFiles"
CHECK, MODE = "hive.strict.checks.no.partition.filter", "hive.mapred.mode"


def given(**places: Mapping[str, str]) -> Given:
    return Given("s.t", "lake", **places)


def test_settings_not_given_have_defaults() -> None:
    assert resolve(Use.READ, given()) == {
        MISSING: None,
        "index-answers": True,
        "statistics.learn": True,
        "file-skipping": True,
        "preserve-data-grouping": False,
        "max-staleness": None,
        STRICT: None,
    }
    assert resolve(Use.SESSION, given()) == {"use_hive_partitioning": True}
    assert resolve(Use.SESSION_CATALOG, given()) == {"partition-columns": "declared"}
    assert resolve(Use.INSERT, given()) == {
        "hive.exec.dynamic.partition": True, "hive.exec.dynamic.partition.mode": "nonstrict",
        "partitionOverwriteMode": None,
    }  # fmt: skip
    assert resolve(Use.STREAM, given()) == {
        "startingVersion": None, "maxFilesPerTrigger": None, "maxBytesPerTrigger": None, "skipChangeCommits": False,
    }  # fmt: skip
    written = resolve(Use.WRITE, given())
    assert (written[SIZE], written[OPEN], written["hive-compatible"]) == (2**30, 0, True)
    assert (written["partition_strategy"], written["hive.exec.max.dynamic.partitions"]) == ("auto", None)


def test_the_nearest_place_wins() -> None:
    places: dict[str, dict[str, str]] = {
        "options": {"Write.Max-File-Size": "1 g"},
        "catalog_conf": {"hive_sink_max_file_size": "2 mb"},
        "properties": {"WRITE.MAX-FILE-SIZE": "3k"},
        "process": {SIZE: "4"},
    }
    for place, size in (("options", 2**30), ("catalog_conf", 2**21), ("properties", 3 * 2**10), ("process", 4)):
        assert resolve(Use.WRITE, given(**places))[SIZE] == size
        del places[place]
    assert resolve(Use.WRITE, given(session={SIZE: "7"}))[SIZE] == 2**30, "a plain conf of that name is not read"


@pytest.mark.parametrize(
    ("properties", "conf", "mode"),
    [
        ({}, {"partition-columns": " Virtual"}, "virtual"),
        ({}, {"Partition-Columns": "declared"}, "declared"),
        ({"partition-columns": "virtual"}, {}, "virtual"),
        ({"partition-columns": "declared"}, {"partition-columns": "virtual"}, "declared"),
        ({"Partition-Columns": "of an imported table"}, {}, "virtual"),
    ],
)
def test_in_the_session_catalog_a_tables_own_mode_goes_before_the_conf(
    properties: dict[str, str], conf: dict[str, str], mode: str
) -> None:
    places = given(properties=properties, catalog_conf=conf, process={"partition-columns": "virtual"})
    assert resolve(Use.SESSION_CATALOG, places) == {"partition-columns": mode}


def test_sparks_own_confs_have_their_places() -> None:
    ignore = {IGNORE: "true"}
    assert resolve(Use.READ, given(session=ignore, properties={MISSING: "error"}))[MISSING] == "skip"
    assert resolve(Use.READ, given(session=ignore, catalog_conf={MISSING: "error"}))[MISSING] == "error"
    writers = {"spark.sql.maxConcurrentOutputFileWriters": "5"}
    assert resolve(Use.WRITE, given(session=writers))[OPEN] == 5
    assert resolve(Use.WRITE, given(session=writers, properties={OPEN: "3"}))[OPEN] == 3
    assert resolve(Use.WRITE, given(session={"spark.sql.files.maxRecordsPerFile": "-1"}))["maxRecordsPerFile"] == 0


@pytest.mark.parametrize(
    ("places", "said"),
    [
        ({"options": {CHECK: "true"}}, f"{CHECK} = true (option of the read)"),
        ({"session": {MODE: "strict"}}, f"{MODE} = strict (session)"),
        ({"session": {MODE: "strict", CHECK: "false"}}, None),
        ({"session": {MODE: "nonstrict"}, "properties": {CHECK: "true"}}, None),
        ({"catalog_conf": {CHECK: "true"}}, f"{CHECK} = true (catalog lake)"),
        ({"properties": {"Hive.Mapred.Mode": "strict"}}, f"{MODE} = strict (table s.t)"),
    ],
)
def test_strict_mode_is_read_from_the_nearest_place_and_the_newer_key(
    places: dict[str, Mapping[str, str]], said: str | None
) -> None:
    assert resolve(Use.READ, given(**places))[STRICT] == said


@pytest.mark.parametrize(
    ("use", "places", "message"),
    [
        (Use.READ, {"options": {MISSING: "ignore"}}, "'ignore' is no value of the option 'missing-files' of the read"),
        (Use.READ, {"catalog_conf": {MISSING: "x"}}, "'spark.sql.catalog.lake.missing-files'"),
        (Use.READ, {"session": {MODE: "x"}}, "'x' is no value of hive.mapred.mode"),
        (Use.SESSION, {"session": {"use_hive_partitioning": "maybe"}}, "'maybe' is no value of the session conf"),
        (Use.WRITE, {"properties": {SIZE: "1 x"}}, "the property 'write.max-file-size' of table s.t: give a size"),
        (Use.WRITE, {"options": {"txn-app-id": "a"}}, "one of the options 'txn-app-id' and 'txn-version' without"),
        (Use.STREAM, {"options": {"maxBytesPerTrigger": "0"}}, "the option 'maxBytesPerTrigger' of the stream"),
        (Use.STREAM, {"options": {"startingVersion": "first"}}, "or 'latest'"),
        (Use.INSERT, {"session": {"hive.exec.dynamic.partition": "lenient"}}, "give 1, 0, true or false"),
        (Use.SESSION_CATALOG, {"catalog_conf": {"partition-columns": "x"}}, "'spark.sql.catalog.lake.partition-"),
    ],
)
def test_a_text_that_is_refused_is_named_with_its_place(
    use: Use, places: dict[str, Mapping[str, str]], message: str
) -> None:
    with pytest.raises(InvalidConfigurationError, match=re.escape(message)):
        resolve(use, given(**places))


def test_a_setting_without_default_may_be_left_out() -> None:
    left_out, batch = (resolve(Use.WRITE, given(options=o)) for o in ({}, {"txn-app-id": "a", "txn-version": "3"}))
    assert (left_out["txn-app-id"], left_out["txn-version"]) == (None, None)
    assert (batch["txn-app-id"], batch["txn-version"]) == ("a", 3)


def test_every_name_is_found_in_every_case() -> None:
    for use in Use:
        assert all(name == name.lower() for name in names(use))
    assert {"hive_sink_max_file_size", "spark.sql.maxconcurrentoutputfilewriters"} <= {*names(Use.WRITE)}
    assert {CHECK, MODE, IGNORE.lower()} <= {*names(Use.READ)}


def test_values_are_those_of_json() -> None:
    for use in Use:
        found = resolve(use, given())
        assert all(value is None or isinstance(value, (bool, int, str)) for value in found.values())


def test_what_an_overwrite_replaces() -> None:
    spark = "spark.sql.sources.partitionOverwriteMode"

    def mode(**places: Mapping[str, str]) -> object:
        return resolve(Use.INSERT, given(**places))["partitionOverwriteMode"]

    assert mode(options={"PartitionOverwriteMode": "STATIC"}, session={spark: "dynamic"}) == "static"
    assert mode(session={spark: "DYNAMIC"}) == "dynamic"
    with pytest.raises(InvalidConfigurationError, match="'statik' is no value of the option 'partitionOverwriteMode'"):
        mode(options={"partitionOverwriteMode": "statik"})


@pytest.mark.parametrize(
    ("use", "option", "meant"),
    [
        (Use.READ, "file-skiping", "file-skipping"), (Use.READ, "maxStaleness", "max-staleness"),
        (Use.WRITE, "txnAppId", "txn-app-id"), (Use.INSERT, "overwritemode", "overwrite-mode"),
        (Use.STREAM, "startingVersions", "startingVersion"),
    ],
)  # fmt: skip
def test_a_misspelt_option_is_refused(use: Use, option: str, meant: str) -> None:
    with pytest.raises(InvalidConfigurationError, match=f"{option!r} is no option of a .* Did you mean '{meant}'"):
        resolve(use, given(others=["header", option]))


SPARKS = """
    path recursiveFileLookup pathGlobFilter modifiedBefore modifiedAfter ignoreMissingFiles ignoreCorruptFiles
    mergeSchema datetimeRebaseMode int96RebaseMode header sep delimiter encoding charset quote escape comment
    inferSchema preferDate enforceSchema nullValue nanValue dateFormat timestampFormat timestampNTZFormat
    maxColumns mode multiLine columnNameOfCorruptRecord samplingRatio emptyValue locale lineSep compression
    timeZone wholetext parquet.block.size parquet.compression orc.compress orc.bloom.filter.columns
    parquet.bloom.filter.enabled maxFilesPerTrigger maxBytesPerTrigger latestFirst maxFileAge cleanSource
    checkpointLocation queryName versionAsOf timestampAsOf maxRecordsPerFile partitionOverwriteMode
    replaceWhere overwriteSchema startingTimestamp ignoreChanges some-company's
"""


@pytest.mark.parametrize("use", [Use.READ, Use.WRITE, Use.INSERT, Use.STREAM, Use.SESSION])
def test_options_of_formats_and_of_other_uses_pass(use: Use) -> None:
    ours = [name for other in Use for name in names(other)]
    assert resolve(use, given(others=[*SPARKS.split(), *ours])) == resolve(use, given())
