"""The settings of the connection to a Hive Metastore: time, TLS, Kerberos, who we are.

Each has Hive's own name of it too, which is found where Hive's clients find it: in Spark's conf (``spark.hadoop.`` or
``spark.`` in front) and in hive-site.xml. Our own names go before, wherever they are given.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from catalog_ext.conf.setting import TIME, Scope, Setting, flag, seconds, text_value, word
from catalog_ext.metastore.errors import InvalidConfigurationError
from catalog_ext.metastore.hive.thrift.hive_site import value_of
from catalog_ext.metastore.runtime.users import current_user

if TYPE_CHECKING:
    from collections.abc import Mapping
    from ssl import SSLContext

    from catalog_ext.metastore.hive.thrift.access import Access
    from catalog_ext.metastore.hive.thrift.uris import Kerberos

_PLACES = (Scope.SESSION, Scope.ENVIRONMENT)
_TRUE_OR_FALSE = "`true` or `false`"
_PATH = "a path on the driver's machine"
_STORES = ("jks", "pkcs12", "pem")

METASTORE_CONNECT_TIMEOUT: Setting[float] = Setting(
    "metastore.connect-timeout", "5s",
    "How long each metastore server has to accept a connection, and to show and see certificates and tickets.",
    TIME, seconds, _PLACES,
)  # fmt: skip
METASTORE_CALL_TIMEOUT: Setting[float] = Setting(
    "metastore.call-timeout", "60s", "How long a metastore server has to answer one call.", TIME, seconds, _PLACES
)
METASTORE_URI_SELECTION: Setting[str] = Setting(
    "metastore.uri-selection", "sequential",
    "Which of several metastore servers is tried first; the one that answered last is kept.",
    "`sequential` or `random`", word("sequential", "random"), _PLACES,
    hive=("hive.metastore.uri.selection", "metastore.thrift.uri.selection"),
)  # fmt: skip
METASTORE_TLS: Setting[bool] = Setting(
    "metastore.tls", "false",
    "Whether the metastore is spoken to over TLS; its certificate must be valid and name its host.",
    _TRUE_OR_FALSE, flag, _PLACES, hive=("hive.metastore.use.SSL", "metastore.use.SSL"),
)  # fmt: skip
METASTORE_TRUSTSTORE: Setting[str] = Setting(
    "metastore.truststore", None,
    "File with the certificates of the authorities that are believed: PEM, PKCS12 or JKS; otherwise the system's.",
    _PATH, text_value, _PLACES, hive=("hive.metastore.truststore.path", "metastore.truststore.path"),
)  # fmt: skip
METASTORE_TRUSTSTORE_PASSWORD: Setting[str] = Setting(
    "metastore.truststore-password", None, "Password of the truststore.",
    "text", text_value, _PLACES, hive=("hive.metastore.truststore.password", "metastore.truststore.password"),
)  # fmt: skip
METASTORE_TRUSTSTORE_TYPE: Setting[str] = Setting(
    "metastore.truststore-type", None,
    "Kind of the truststore, for Hive; here the file itself says it, and other kinds are refused.",
    "`jks`, `pkcs12` or `pem`", word(*_STORES), _PLACES,
    hive=("hive.metastore.truststore.type", "metastore.truststore.type"),
)  # fmt: skip
METASTORE_SASL: Setting[bool] = Setting(
    "metastore.sasl", "false", "Whether the metastore wants Kerberos.",
    _TRUE_OR_FALSE, flag, _PLACES, hive=("hive.metastore.sasl.enabled", "metastore.sasl.enabled"),
)  # fmt: skip
METASTORE_KERBEROS_PRINCIPAL: Setting[str] = Setting(
    "metastore.kerberos-principal", None,
    "The metastore's own principal; `_HOST` in it stands for the host of its address.",
    "`hive/_HOST@REALM`", text_value, _PLACES,
    hive=("hive.metastore.kerberos.principal", "metastore.kerberos.principal"),
)  # fmt: skip
METASTORE_CLIENT_PRINCIPAL: Setting[str] = Setting(
    "metastore.client-principal", None,
    "The principal that we are to the metastore; otherwise that of the ticket cache, or the keytab's first.",
    "`name@REALM`", text_value, _PLACES, hive=("spark.kerberos.principal",),
)  # fmt: skip
METASTORE_CLIENT_KEYTAB: Setting[str] = Setting(
    "metastore.client-keytab", None, "Keytab that tickets are got by; otherwise the ticket cache, which `kinit` fills.",
    _PATH, text_value, _PLACES, hive=("spark.kerberos.keytab",),
)  # fmt: skip
METASTORE_SET_UGI: Setting[bool] = Setting(
    "metastore.set-ugi", "true",
    "Whether a metastore without Kerberos is told who we are (`HADOOP_USER_NAME`, otherwise the process's user), as "
    "Hive's own client does. The embedded one is not.",
    _TRUE_OR_FALSE, flag, _PLACES, hive=("hive.metastore.execute.setugi", "metastore.execute.setugi"),
)  # fmt: skip

METASTORE_SETTINGS: tuple[Setting[Any], ...] = (
    METASTORE_CONNECT_TIMEOUT, METASTORE_CALL_TIMEOUT, METASTORE_URI_SELECTION, METASTORE_TLS, METASTORE_TRUSTSTORE,
    METASTORE_TRUSTSTORE_PASSWORD, METASTORE_TRUSTSTORE_TYPE, METASTORE_SASL, METASTORE_KERBEROS_PRINCIPAL,
    METASTORE_CLIENT_PRINCIPAL, METASTORE_CLIENT_KEYTAB, METASTORE_SET_UGI,
)  # fmt: skip


def hive_texts(spark: Mapping[str, str], site: Mapping[str, str]) -> dict[str, str]:
    """Return what Hive's own names say, by our keys."""
    found = ((setting.key, value_of(setting.hive, spark, site)) for setting in METASTORE_SETTINGS)
    return {key: text for key, text in found if text is not None}


def metastore_access(conf: Mapping[str, str]) -> Access:
    """Return how the metastore is spoken to.

    Raises:
        InvalidConfigurationError: A setting is not of its form, one is missing, or the truststore cannot be read.
        EnvironmentSetupError: A library that is needed is missing.
    """
    # Not at the top: who has no metastore, or the embedded one, starts without thrift's parts and ssl.
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
