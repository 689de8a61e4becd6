"""The files in spark_conf/ say what the code wants to hear."""

from __future__ import annotations

import re
from pathlib import Path

import click

from catalog_ext.cli.init_conf import for_this_spark
from catalog_ext.cli.main import cli
from catalog_ext.conf import keys
from catalog_ext.conf.keys import SETTINGS
from catalog_ext.conf.setting import Scope
from catalog_ext.metastore.hive.thrift.hive_site import METASTORE_URIS, read_site, site_settings, value_of
from catalog_ext.metastore.hive.thrift.uris import parse_uris
from catalog_ext.metastore.storage.options import StorageOptions
from catalog_ext.spark.session import CATALOG_CLASS, EXTENSIONS_CLASS, SESSION_CATALOG, SESSION_CATALOG_CLASS
from catalog_ext.spark.storage import s3a_packages
from tests.kit.sparks import since

PROJECT = Path(__file__).resolve().parents[3]
CONF = PROJECT / "spark_conf"
_CATALOG = "spark.sql.catalog.lake"


def _lines(*, commented: bool) -> dict[str, str]:
    """The settings of spark-defaults.conf; with ``commented``, those that are switched off with a ``#`` too."""
    pattern = re.compile(r"#?(spark\.\S+)\s+(\S.*)" if commented else r"(spark\.\S+)\s+(\S.*)")
    # As init-conf writes it: what S3A needs is another version with an older Spark.
    text = for_this_spark((CONF / "spark-defaults.conf").read_text())
    found = (pattern.fullmatch(line) for line in text.splitlines())
    return {m.group(1): m.group(2).strip() for m in found if m}


def test_every_line_is_a_setting_or_a_comment() -> None:
    lines = (CONF / "spark-defaults.conf").read_text().splitlines()
    wrong = [line for line in lines if line and not line.startswith("#") and not re.fullmatch(r"spark\.\S+ +\S+", line)]
    assert wrong == []


def test_the_catalog_and_its_extensions_are_the_connectors() -> None:
    settings = _lines(commented=False)
    assert settings[_CATALOG] == CATALOG_CLASS
    assert settings["spark.sql.extensions"] == EXTENSIONS_CLASS
    folder = PROJECT / "catalog_ext/connector/src/main/scala"
    for name in (CATALOG_CLASS, EXTENSIONS_CLASS, SESSION_CATALOG_CLASS):
        package, _, simple = name.rpartition(".")
        sources = (folder / package.replace(".", "/")).glob("*.scala")
        assert any(re.search(rf"\bclass {simple}\b", source.read_text()) for source in sources), name


def test_the_catalogs_options_are_settings_with_good_values() -> None:
    in_session = {s.key: s for s in SETTINGS if Scope.SESSION in s.scopes}
    options = {
        k.removeprefix(f"{_CATALOG}."): v for k, v in _lines(commented=True).items() if k.startswith(f"{_CATALOG}.")
    }
    assert {"uri", "token-file"} <= set(options) <= set(in_session)
    for key, value in options.items():
        assert in_session[key].value_of(value) is not None
    assert options["request-timeout"] == keys.REQUEST_TIMEOUT.default
    assert options["missing-files"] == keys.MISSING_FILES.default


def test_the_session_catalog_is_off_and_reaches_the_same_service() -> None:
    session = f"spark.sql.catalog.{SESSION_CATALOG}"
    settings, switched_off = _lines(commented=False), _lines(commented=True)
    assert not [key for key in settings if key.startswith(session)]
    assert switched_off[session] == SESSION_CATALOG_CLASS
    for option in ("uri", "token-file"):
        assert switched_off[f"{session}.{option}"] == settings[f"{_CATALOG}.{option}"]


def test_the_uri_is_where_serve_listens_by_default() -> None:
    serve = cli.get_command(click.Context(cli), "serve")
    assert serve is not None
    defaults = {p.name: p.default for p in serve.params}
    assert _lines(commented=False)[f"{_CATALOG}.uri"] == f"http://{defaults['host']}:{defaults['port']}"


def test_s3a_is_fetched_as_the_code_fetches_it() -> None:
    settings = _lines(commented=False)
    assert {k: v for k, v in settings.items() if k in s3a_packages()} == s3a_packages()


@since((4, 3), "the Hadoop that the file names")
def test_what_lies_here_is_for_the_newest_spark() -> None:
    text = (CONF / "spark-defaults.conf").read_text()
    assert for_this_spark(text) == text


def test_the_s3a_settings_are_those_that_python_reads() -> None:
    s3a = {k: v for k, v in _lines(commented=True).items() if k.startswith("spark.hadoop.fs.s3a.")}
    options = StorageOptions.parse(s3a).default
    assert (options.endpoint, options.path_style, options.access_key) == ("http://127.0.0.1:8333", True, "...")
    assert set(options_of(s3a)) == {k.removeprefix("spark.hadoop.") for k in s3a}


def options_of(settings: dict[str, str]) -> dict[str, str]:
    """The Hadoop keys that Python took over."""
    hadoop = StorageOptions.parse(settings).to_hadoop()
    return {k: v for k, v in hadoop.items() if k != "fs.s3a.connection.ssl.enabled"}


def test_the_metastore_of_hive_site_is_found() -> None:
    uris = value_of(METASTORE_URIS, {}, site_settings({"SPARK_CONF_DIR": str(CONF)}))
    assert uris is not None
    assert [(a.host, a.port) for a in parse_uris(uris)] == [("127.0.0.1", 9083)]
    assert "hive.metastore.client.socket.timeout" in read_site(CONF / "hive-site.xml")


def test_the_connectors_logger_is_its_package() -> None:
    properties = dict(
        re.split(r"\s*=\s*", line, maxsplit=1)
        for line in (CONF / "log4j2.properties").read_text().splitlines()
        if line and not line.startswith("#")
    )
    assert properties["logger.catalogext.name"] == CATALOG_CLASS.rpartition(".")[0]
    assert properties["rootLogger.appenderRef.stderr.ref"] == properties["appender.console.name"]
    loggers = {key.split(".")[1] for key in properties if key.startswith("logger.")}
    assert all({f"logger.{name}.name", f"logger.{name}.level"} <= set(properties) for name in loggers)
