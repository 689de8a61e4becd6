"""The resolved arguments of ``connect`` and ``configure``: index, metastore, warehouse and stores, with defaults."""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from catalog_ext.conf.key_suggestions import check_catalog_keys, check_variables
from catalog_ext.conf.keys import INDEX, LISTING_TARGET_PREFIXES, LISTING_THREADS, STORAGE, of_catalog, process_settings
from catalog_ext.conf.metastore_keys import (
    METASTORE_CALL_TIMEOUT,
    METASTORE_CONNECT_TIMEOUT,
    hive_texts,
    metastore_access,
)
from catalog_ext.conf.service_keys import READ_TOKEN_FILE
from catalog_ext.metastore.errors import InvalidConfigurationError
from catalog_ext.metastore.hive.thrift.hive_site import METASTORE_URIS, site_settings, value_of
from catalog_ext.metastore.model.secrets import HIDDEN, is_secret
from catalog_ext.metastore.runtime.private_files import STATE_FOLDER
from catalog_ext.metastore.storage.locations import canonical_location
from catalog_ext.metastore.storage.options import check_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog_ext.metastore.hive.thrift.forwarder import Guard
    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore
    from catalog_ext.metastore.storage.store import Storage

DEFAULT_WAREHOUSE = "spark-warehouse"


class _Unset(Enum):
    UNSET = "unset"


UNSET: Final = _Unset.UNSET
MetastoreArgument: TypeAlias = str | Literal[_Unset.UNSET] | None

_OF_SECRETS = frozenset({INDEX.key, STORAGE.key})

EMBEDDED: Final = "embedded"
"""The ``metastore`` argument that asks for the embedded server by name."""

_NO_METASTORE = "none"


@dataclass(frozen=True, slots=True, repr=False)
class Settings:
    """The resolved arguments of a catalog.

    Attributes:
        name: The catalog's name in SQL.
        index: SQLAlchemy URL of the index, perhaps with a password.
        metastore: ``thrift://…`` URIs, ``embedded``, or None for no metastore.
        warehouse: Canonical location of managed tables.
        storage: Settings for the stores, by Hadoop's names or short names.
        state: The local folder of the embedded components.
        conf: The settings by key from Spark's conf, the environment or Hive's files (``catalog_ext.conf.keys``).
        given: The names among ``warehouse``, ``metastore`` and ``index`` that the user gave; the rest are defaults.
    """

    name: str
    index: str
    metastore: str | None
    warehouse: str
    state: Path
    storage: Mapping[str, object] = field(default_factory=dict)
    conf: Mapping[str, str] = field(default_factory=dict)
    given: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        # Imported here: every start of the command line would otherwise load the database modules.
        from catalog_ext.metastore.index.database.urls import shown_index

        shown = {
            "name": self.name, "index": shown_index(self.index), "metastore": self.metastore,
            "warehouse": self.warehouse, "state": str(self.state), "storage": without_secrets(self.storage),
            "conf": without_secrets(self.conf),
        }  # fmt: skip
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    @classmethod
    def resolve(
        cls, *, name: str = "lake", index: str | None = None, metastore: MetastoreArgument = UNSET,
        warehouse: str | None = None, storage: Mapping[str, object] | None = None,
        site: Mapping[str, str] | None = None, spark: Mapping[str, str] | None = None,
    ) -> Settings:  # fmt: skip
        """Return the settings for these arguments; an argument wins over the environment, which wins over the default.

        Args:
            name: The catalog's name in SQL.
            index: SQLAlchemy URL or path of the index; ``CATALOG_EXT_INDEX``; a SQLite file beside the warehouse.
            metastore: URIs, ``embedded`` or None; ``CATALOG_EXT_METASTORE`` (``none`` for None); the metastore of
                Spark's own configuration; the embedded one.
            warehouse: Location of managed tables; ``CATALOG_EXT_WAREHOUSE``; ``spark-warehouse`` in the working folder.
            storage: Settings for the stores.
            site: The settings of hive-site.xml (``hive_site``): the metastore's URIs, and its connection settings.
            spark: The conf of the Spark session, whose ``spark.sql.catalog.<name>.<key>`` win over the environment, and
                whose settings for Hive win over hive-site.xml.

        Raises:
            InvalidConfigurationError: A value is malformed.
        """
        if not name.isidentifier():
            raise InvalidConfigurationError(f"{name!r} is not a catalog name. Use letters, digits and '_'.")
        check_names(storage or {})
        named_index = index or os.environ.get("CATALOG_EXT_INDEX")
        named_warehouse = warehouse or os.environ.get("CATALOG_EXT_WAREHOUSE")
        location = _location(named_warehouse or DEFAULT_WAREHOUSE)
        state = (None if named_warehouse else folder_of(named_index)) or _state_folder(location)
        chosen = named_index or str(state / "index.db")
        chosen_metastore = _metastore(metastore, value_of(METASTORE_URIS, spark or {}, site or {}))
        check_catalog_keys(of_catalog(spark or {}, name), name, warns=True)
        check_variables(os.environ)
        conf = hive_texts(spark or {}, site or {}) | process_settings(os.environ, spark or {}, name)
        named = {
            "warehouse": named_warehouse,
            "index": named_index,
            # A metastore in Hive's configuration files is a default and does not count as given: these files do not
            # know this index.
            "metastore": metastore is not UNSET or os.environ.get("CATALOG_EXT_METASTORE"),
        }
        given = frozenset(what for what, value in named.items() if value)
        return cls(name, chosen, chosen_metastore, location, state, dict(storage or {}), conf, given)

    @property
    def embedded_folder(self) -> Path:
        """The folder of the embedded metastore."""
        return embedded_folder(self.state)

    def open_storage(self, options: Mapping[str, object] | None = None) -> Storage:
        """Return the stores.

        Args:
            options: The connection settings for S3; the catalog's own ``storage`` if left out.

        Raises:
            InvalidConfigurationError: An option or setting is malformed.
        """
        # Imported here: callers that only need paths do not load the stores and pyarrow.
        from catalog_ext.metastore.index.database.urls import index_file
        from catalog_ext.metastore.storage.store import Storage

        index = index_file(self.index)

        return Storage(
            self.storage if options is None else options,
            listing_threads=LISTING_THREADS.read(self.conf),
            target_prefixes=LISTING_TARGET_PREFIXES.read(self.conf),
            indexes=() if index is None else (os.path.abspath(index),),
        )

    def connect_metastore(self, uris: str, guard: Guard | None = None) -> HiveMetastore:
        """Return a client of the metastore servers at the URIs; nothing is sent before its first call.

        Args:
            uris: The servers. If the settings name the embedded metastore, settings for TLS, Kerberos and the user are
                ignored.
            guard: Checks the identity of a server before each call to it.

        Raises:
            InvalidConfigurationError: The URIs or a setting are malformed, or the truststore cannot be read.
            EnvironmentSetupError: A library that the settings need is missing.
        """
        # Imported here: commands without a metastore need no thrift.
        from catalog_ext.metastore.hive.thrift.access import PLAIN
        from catalog_ext.metastore.hive.thrift.connect import connect

        return connect(
            uris,
            connect_timeout=METASTORE_CONNECT_TIMEOUT.read(self.conf),
            call_timeout=METASTORE_CALL_TIMEOUT.read(self.conf),
            guard=guard,
            access=PLAIN if self.metastore == EMBEDDED else metastore_access(self.conf),
        )


def embedded_folder(state: Path) -> Path:
    """Return the folder of the embedded metastore in the folder of all embedded components."""
    return state / "metastore"


def hive_site(metastore: MetastoreArgument) -> Mapping[str, str]:
    """Return the settings of hive-site.xml; empty if the argument excludes a metastore that is configured there.

    Raises:
        InvalidConfigurationError: The file cannot be read.
    """
    if metastore is None or (isinstance(metastore, str) and metastore.lower() in (_NO_METASTORE, EMBEDDED)):
        return {}
    return site_settings()


def without_secrets(settings: Mapping[str, object]) -> dict[str, object]:
    """Return the settings with secrets replaced by ``***``, also within texts that contain several settings."""
    return {key: HIDDEN if is_secret(key) or key in _OF_SECRETS else value for key, value in settings.items()}


def _location(text: str) -> str:
    if "://" not in text and not text.startswith("file:"):
        return canonical_location(str(Path(text).absolute()))
    return canonical_location(text)


def _state_folder(warehouse: str) -> Path:
    parent = Path(warehouse.removeprefix("file://")).parent if warehouse.startswith("file://") else Path.cwd()
    return parent / STATE_FOLDER


def folder_of(index: str | None) -> Path | None:
    """Return the state folder (of the embedded metastore) that contains the index; None if the index is elsewhere."""
    path = (index or "").removeprefix("sqlite+pysqlite:///").removeprefix("sqlite:///")
    folder = Path(os.path.abspath(Path(path).expanduser())).parent
    return folder if path and "://" not in path and folder.name == STATE_FOLDER else None


def _metastore(argument: MetastoreArgument, configured: str | None) -> str | None:
    if argument is not UNSET:
        return None if argument is None else check_metastore(argument)
    environment = os.environ.get("CATALOG_EXT_METASTORE")
    return check_metastore(environment) if environment else configured or EMBEDDED


def check_metastore(text: str) -> str | None:
    """Return the metastore that a text names: URIs, ``embedded``, or None for ``none``.

    Raises:
        InvalidConfigurationError: The text is another word, and does not look like an address.
    """
    host = text.strip().lower()
    if host in (EMBEDDED, _NO_METASTORE):
        return None if host == _NO_METASTORE else EMBEDDED
    if not set(host) & set(":./[,"):
        near = difflib.get_close_matches(host, (EMBEDDED, _NO_METASTORE), 1)
        question = f"Did you mean {near[0]!r}? " if near else ""
        raise InvalidConfigurationError(
            f"{text[:200]!r} is no metastore. {question}Write thrift://host:9083 (several with commas between them), "
            f"{EMBEDDED!r} or {_NO_METASTORE!r}; a server of one word as thrift://{host[:200] or 'host'}.",
            {"metastore": text[:200]},
        )
    return text


_CONFIGURATION = ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "HIVE_CONF_DIR", "SPARK_CONF_DIR", "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_CONFIG_FILE", "KRB5CCNAME", "KRB5_CLIENT_KTNAME")  # fmt: skip
"""Environment variables that name folders and files of configuration and secrets."""


def private_paths(settings: Settings) -> list[str]:
    """Return absolute paths that no statement may read: index, state folder, tokens, configuration, and /proc."""
    # Imported here: every start of the command line would otherwise load the database modules.
    from catalog_ext.metastore.index.database.urls import index_file

    named = [os.environ.get(variable, "").removeprefix("FILE:") for variable in _CONFIGURATION]
    token_file = READ_TOKEN_FILE.text(settings.conf)
    index = index_file(settings.index)
    # On Linux /proc shows the environment and open files of every process of the user, and so its secrets.
    found = [settings.state, Path("/proc"), *map(Path, filter(None, (*named, token_file)))]
    if index is not None:
        found.append(index)
    if "HOME" in os.environ:
        found += [Path(os.environ["HOME"], name) for name in (".aws", ".ssh")]
    return [os.path.abspath(path) for path in found]
