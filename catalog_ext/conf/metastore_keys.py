"""The settings of a Hive Metastore: its connection (timeouts, TLS, Kerberos, user), and the follower of its changes.

Most connection settings also have Hive's own name, which is looked up where Hive's clients do: in Spark's conf
(``spark.hadoop.`` or ``spark.`` in front) and in hive-site.xml. The names of catalog-ext override Hive's names,
wherever they are given.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from catalog_ext.conf.setting import TEXT, TIME, TRUE_OR_FALSE, Form, Scope, Setting, settings_in, text_value, words
from catalog_ext.metastore.errors import InvalidConfigurationError
from catalog_ext.metastore.hive.thrift.hive_site import value_of
from catalog_ext.metastore.runtime.users import current_user

if TYPE_CHECKING:
    from collections.abc import Mapping
    from ssl import SSLContext

    from catalog_ext.metastore.hive.thrift.access import Access
    from catalog_ext.metastore.hive.thrift.uris import Kerberos

_PLACES = (Scope.SESSION, Scope.ENVIRONMENT)
_PATH = Form("a path on the driver's machine", text_value)


def _names(text: str) -> frozenset[str]:
    if text.strip().lower() == "none":
        return frozenset()
    names = frozenset(name.strip().lower() for name in text.split(",") if name.strip())
    if any(not name.replace("_", "").isalnum() and name != "*" for name in names):
        raise ValueError("give names of databases with commas between them, or *")
    return names


METASTORE_CONNECT_TIMEOUT = Setting(
    "metastore.connect-timeout", "5s", TIME, _PLACES,
    "Timeout for a connection to one metastore server, including the TLS and Kerberos handshakes.",
)  # fmt: skip
METASTORE_CALL_TIMEOUT = Setting(
    "metastore.call-timeout", "60s", TIME, _PLACES, "Timeout for the answer of a metastore server to one call."
)
METASTORE_URI_SELECTION = Setting(
    "metastore.uri-selection", "sequential", words("sequential", "random"), _PLACES,
    "Order in which several metastore servers are tried. The server that answered last is used again.",
    hive=("hive.metastore.uri.selection", "metastore.thrift.uri.selection"),
)  # fmt: skip
METASTORE_TLS = Setting(
    "metastore.tls", "false", TRUE_OR_FALSE, _PLACES,
    "Whether connections to the metastore use TLS. The server's certificate must be valid and issued for its host "
    "name.",
    hive=("hive.metastore.use.SSL", "metastore.use.SSL"),
)  # fmt: skip
METASTORE_TRUSTSTORE = Setting(
    "metastore.truststore", None, _PATH, _PLACES,
    "File with trusted CA certificates: PEM, PKCS12 or JKS. Default: the system's certificates.",
    hive=("hive.metastore.truststore.path", "metastore.truststore.path"),
)  # fmt: skip
METASTORE_TRUSTSTORE_PASSWORD = Setting(
    "metastore.truststore-password", None, TEXT, _PLACES,
    "Password of the truststore.", hive=("hive.metastore.truststore.password", "metastore.truststore.password"),
)  # fmt: skip
METASTORE_TRUSTSTORE_TYPE = Setting(
    "metastore.truststore-type", None, words("jks", "pkcs12", "pem"), _PLACES,
    "Type of the truststore, as in Hive's configuration. catalog-ext detects the type from the file itself; other "
    "values are refused.",
    hive=("hive.metastore.truststore.type", "metastore.truststore.type"),
)  # fmt: skip
METASTORE_SASL = Setting(
    "metastore.sasl", "false", TRUE_OR_FALSE, _PLACES,
    "Whether the metastore requires Kerberos.", hive=("hive.metastore.sasl.enabled", "metastore.sasl.enabled"),
)  # fmt: skip
METASTORE_KERBEROS_PRINCIPAL = Setting(
    "metastore.kerberos-principal", None, Form("`hive/_HOST@REALM`", text_value), _PLACES,
    "Kerberos principal of the metastore; `_HOST` is replaced with the host of its address.",
    hive=("hive.metastore.kerberos.principal", "metastore.kerberos.principal"),
)  # fmt: skip
METASTORE_CLIENT_PRINCIPAL = Setting(
    "metastore.client-principal", None, Form("`name@REALM`", text_value), _PLACES,
    "Kerberos principal of this client. Default: that of the ticket cache, or the first one of the keytab.",
    hive=("spark.kerberos.principal",),
)  # fmt: skip
METASTORE_CLIENT_KEYTAB = Setting(
    "metastore.client-keytab", None, _PATH, _PLACES,
    "Keytab of this client. Default: the ticket cache that `kinit` fills.", hive=("spark.kerberos.keytab",),
)  # fmt: skip
METASTORE_SET_UGI = Setting(
    "metastore.set-ugi", "true", TRUE_OR_FALSE, _PLACES,
    "Whether a metastore without Kerberos gets a user name (`HADOOP_USER_NAME`, otherwise the user of the process), "
    "as Hive's own client sends it. The embedded metastore gets no user name.",
    hive=("hive.metastore.execute.setugi", "metastore.execute.setugi"),
)  # fmt: skip

FOLLOW = Setting(
    "follow", "false", TRUE_OR_FALSE, _PLACES,
    "Whether the session's service follows the metastore in the background: it imports the changes of Hive engines "
    "into the index. If several processes have the setting, one of them follows. `catalog-ext serve --follow` and "
    "`catalog-ext follow` do not need it.",
)  # fmt: skip
FOLLOW_DATABASES = Setting(
    "follow.databases", "none", Form("comma-separated names, `*` for all, or `none`", _names), _PLACES,
    "Databases of the metastore whose new tables are imported by the follower. Tables that the index has are "
    "followed in any case.",
)  # fmt: skip
FOLLOW_INTERVAL = Setting(
    "follow.interval", "1s", TIME, _PLACES,
    "Interval at which the follower reads new events from the metastore.",
)  # fmt: skip
FOLLOW_COMPARE_INTERVAL = Setting(
    "follow.compare-interval", "1m", TIME, _PLACES,
    "Interval at which the follower compares partitions with the index, if the metastore keeps no event log.",
)  # fmt: skip

METASTORE_SETTINGS = settings_in(globals())


def hive_texts(spark: Mapping[str, str], site: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that are given under Hive's names, by the keys of catalog-ext."""
    found = ((setting.key, value_of(setting.hive, spark, site)) for setting in METASTORE_SETTINGS)
    return {key: text for key, text in found if text is not None}


def metastore_access(conf: Mapping[str, str]) -> Access:
    """Return the connection settings of the metastore.

    Raises:
        InvalidConfigurationError: A setting is malformed or missing, or the truststore cannot be read.
        EnvironmentSetupError: A required library is missing.
    """
    # Imported here: without a metastore, or with the embedded one, thrift and ssl are not needed.
    from catalog_ext.metastore.hive.thrift.access import Access

    shuffled = METASTORE_URI_SELECTION.read(conf) == "random"
    tls = _tls(conf) if METASTORE_TLS.read(conf) else None
    if METASTORE_SASL.read(conf):
        return Access(tls, kerberos=_kerberos(conf), shuffled=shuffled)
    user = None
    if METASTORE_SET_UGI.read(conf):
        user = os.environ.get("HADOOP_USER_NAME") or current_user()
    return Access(tls, user=user, shuffled=shuffled)


def _tls(conf: Mapping[str, str]) -> SSLContext:
    from catalog_ext.metastore.hive.thrift.tls import tls_context

    if METASTORE_TRUSTSTORE_TYPE.text(conf) is not None:
        METASTORE_TRUSTSTORE_TYPE.read(conf)
    path = METASTORE_TRUSTSTORE.text(conf)
    return tls_context(None if path is None else Path(path), METASTORE_TRUSTSTORE_PASSWORD.text(conf))


def _kerberos(conf: Mapping[str, str]) -> Kerberos:
    from catalog_ext.metastore.hive.thrift.uris import Kerberos

    server = METASTORE_KERBEROS_PRINCIPAL.text(conf)
    if server is None:
        raise InvalidConfigurationError(
            "The metastore wants Kerberos (hive.metastore.sasl.enabled), and nothing says what its own principal is. "
            "Set hive.metastore.kerberos.principal, for example hive/_HOST@REALM."
        )
    keytab = METASTORE_CLIENT_KEYTAB.text(conf)
    if keytab is not None and not Path(keytab).is_file():
        raise InvalidConfigurationError(
            f"The keytab {keytab} is not there. Correct metastore.client-keytab (spark.kerberos.keytab), or leave it "
            "out and get a ticket with kinit.",
            {"keytab": keytab},
        )
    return Kerberos(server, METASTORE_CLIENT_PRINCIPAL.text(conf), keytab)
