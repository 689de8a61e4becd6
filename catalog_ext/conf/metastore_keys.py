"""The settings of a Hive Metastore: its connection (timeouts, TLS, Kerberos, user), and following.

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
    "How long each metastore server has to accept a connection, and to show and see certificates and tickets.",
)  # fmt: skip
METASTORE_CALL_TIMEOUT = Setting(
    "metastore.call-timeout", "60s", TIME, _PLACES, "How long a metastore server has to answer one call."
)
METASTORE_URI_SELECTION = Setting(
    "metastore.uri-selection", "sequential", words("sequential", "random"), _PLACES,
    "Which of several metastore servers is tried first; the one that answered last is kept.",
    hive=("hive.metastore.uri.selection", "metastore.thrift.uri.selection"),
)  # fmt: skip
METASTORE_TLS = Setting(
    "metastore.tls", "false", TRUE_OR_FALSE, _PLACES,
    "Whether the metastore is spoken to over TLS; its certificate must be valid and name its host.",
    hive=("hive.metastore.use.SSL", "metastore.use.SSL"),
)  # fmt: skip
METASTORE_TRUSTSTORE = Setting(
    "metastore.truststore", None, _PATH, _PLACES,
    "File with the certificates of the authorities that are believed: PEM, PKCS12 or JKS; otherwise the system's.",
    hive=("hive.metastore.truststore.path", "metastore.truststore.path"),
)  # fmt: skip
METASTORE_TRUSTSTORE_PASSWORD = Setting(
    "metastore.truststore-password", None, TEXT, _PLACES,
    "Password of the truststore.", hive=("hive.metastore.truststore.password", "metastore.truststore.password"),
)  # fmt: skip
METASTORE_TRUSTSTORE_TYPE = Setting(
    "metastore.truststore-type", None, words("jks", "pkcs12", "pem"), _PLACES,
    "Kind of the truststore, for Hive; here the file itself says it, and other kinds are refused.",
    hive=("hive.metastore.truststore.type", "metastore.truststore.type"),
)  # fmt: skip
METASTORE_SASL = Setting(
    "metastore.sasl", "false", TRUE_OR_FALSE, _PLACES,
    "Whether the metastore wants Kerberos.", hive=("hive.metastore.sasl.enabled", "metastore.sasl.enabled"),
)  # fmt: skip
METASTORE_KERBEROS_PRINCIPAL = Setting(
    "metastore.kerberos-principal", None, Form("`hive/_HOST@REALM`", text_value), _PLACES,
    "The metastore's own principal; `_HOST` in it stands for the host of its address.",
    hive=("hive.metastore.kerberos.principal", "metastore.kerberos.principal"),
)  # fmt: skip
METASTORE_CLIENT_PRINCIPAL = Setting(
    "metastore.client-principal", None, Form("`name@REALM`", text_value), _PLACES,
    "The principal that we are to the metastore; otherwise that of the ticket cache, or the keytab's first.",
    hive=("spark.kerberos.principal",),
)  # fmt: skip
METASTORE_CLIENT_KEYTAB = Setting(
    "metastore.client-keytab", None, _PATH, _PLACES,
    "Keytab that tickets are got by; otherwise the ticket cache, which `kinit` fills.", hive=("spark.kerberos.keytab",),
)  # fmt: skip
METASTORE_SET_UGI = Setting(
    "metastore.set-ugi", "true", TRUE_OR_FALSE, _PLACES,
    "Whether a metastore without Kerberos gets the name of our user (`HADOOP_USER_NAME`, otherwise the process's "
    "user), as from Hive's own client. The embedded one does not.",
    hive=("hive.metastore.execute.setugi", "metastore.execute.setugi"),
)  # fmt: skip

FOLLOW = Setting(
    "follow", "false", TRUE_OR_FALSE, _PLACES,
    "Whether the session's service follows the metastore in the background: what Hive engines change there reaches the "
    "index. Of several processes one does it. `catalog-ext serve --follow` and `catalog-ext follow` need no setting.",
)  # fmt: skip
FOLLOW_DATABASES = Setting(
    "follow.databases", "none", Form("names with commas between them, `*` for all, or `none`", _names), _PLACES,
    "Databases of the metastore whose new tables are imported while it is followed; tables that the index has are "
    "followed anyway.",
)  # fmt: skip
FOLLOW_INTERVAL = Setting(
    "follow.interval", "1s", TIME, _PLACES,
    "How often the metastore's log is asked for what is new while it is followed.",
)  # fmt: skip
FOLLOW_COMPARE_INTERVAL = Setting(
    "follow.compare-interval", "1m", TIME, _PLACES,
    "How often the partitions of a metastore that keeps no log are compared with the index while it is followed.",
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
