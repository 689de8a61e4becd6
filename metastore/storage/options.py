"""Connection options of S3 and HDFS, which users set once for both Spark and Python.

They are read from Hadoop's own keys (``fs.s3a.endpoint``, ``fs.s3a.bucket.NAME.endpoint``, with or without the prefix
``spark.hadoop.``) and from short names (``endpoint``, ``access_key``). A short name overrides a Hadoop key, and the key
of a bucket overrides the general key. Credentials that are not set come from AWS's usual chain (environment, profile,
instance role). For HDFS, Hadoop's ``dfs.*`` keys are used, for example to describe a name service.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from catalog_ext.metastore.errors import InvalidConfigurationError
from catalog_ext.metastore.storage.locations import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_HADOOP_NAMES = {
    "endpoint": "endpoint", "endpoint.region": "region", "access.key": "access_key", "secret.key": "secret_key",
    "session.token": "session_token", "path.style.access": "path_style", "connection.ssl.enabled": "ssl",
    "aws.credentials.provider": "anonymous",
}  # fmt: skip
_FLAGS = frozenset({"path_style", "ssl", "anonymous"})
_PREFIX = "fs.s3a."
_BUCKET_PREFIX = "fs.s3a.bucket."
_HDFS_PREFIX = "dfs."
_SPARK_PREFIX = "spark.hadoop."
_FAMILIES = ("fs.", "dfs.", "hadoop.", "io.", "ipc.")
"""The prefixes of keys that configure Hadoop's access to stores, whether this module reads the keys or not."""

_NEARLY = 0.9
"""The least similarity (difflib's ratio, 0 to 1) at which a key counts as a misspelled one: about one wrong letter."""

_ANONYMOUS_PROVIDER = "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"
SHORT_NAMES = tuple(sorted(_HADOOP_NAMES.values()))


@dataclass(frozen=True, slots=True)
class S3Options:
    """The connection options of one S3 bucket; ``None`` leaves an option to the store's default.

    Attributes:
        endpoint: Host, ``host:port`` or URL of the store; ``None`` is Amazon S3.
        region: The region that requests are signed for.
        access_key: Access key id; ``None`` uses the usual AWS chain.
        secret_key: Secret key.
        session_token: Token of temporary credentials.
        path_style: Whether the bucket is in the path (``True``) or in the host name (``False``).
        ssl: Whether an endpoint without a scheme is reached by https.
        anonymous: Whether requests are unsigned.
    """

    endpoint: str | None = None
    region: str | None = None
    access_key: str | None = field(default=None, repr=False)
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    path_style: bool | None = None
    ssl: bool = True
    anonymous: bool = False

    @property
    def scheme(self) -> str:
        """``http`` or ``https``: the endpoint's own scheme, otherwise from ``ssl``."""
        scheme, separator, _ = (self.endpoint or "").partition("://")
        if separator:
            return scheme.lower()
        return "https" if self.ssl else "http"

    @property
    def host(self) -> str | None:
        """The endpoint's host and port without a scheme; ``None`` for Amazon S3."""
        if self.endpoint is None:
            return None
        return self.endpoint.rpartition("://")[2].rstrip("/")

    def check(self, bucket: str | None = None) -> None:
        """Check that the options fit together.

        Raises:
            InvalidConfigurationError: Only one of the two keys is set, or the endpoint is not a host or an http URL.
        """
        where = f" of the bucket {bucket!r}" if bucket else ""
        if (self.access_key is None) != (self.secret_key is None) and not self.anonymous:
            missing = "secret_key" if self.secret_key is None else "access_key"
            raise InvalidConfigurationError(
                f"The storage options{where} have no {missing}. Give access_key and secret_key together, or neither "
                "to use AWS's own credential chain."
            )
        if self.session_token is not None and self.access_key is None and not self.anonymous:
            raise InvalidConfigurationError(
                f"The storage options{where} have a session_token without access_key and secret_key."
            )
        host = self.host
        if host is not None and (
            not re.fullmatch(r"[A-Za-z0-9._\[\]:-]+", host) or self.scheme not in ("http", "https")
        ):
            raise InvalidConfigurationError(
                f"The storage option endpoint{where} is not a host, host:port or http(s) URL without a path."
            )


@dataclass(frozen=True, slots=True)
class StorageOptions:
    """The general options of S3, the options of single buckets, and those of HDFS.

    Attributes:
        default: The options of a bucket that has no options of its own.
        buckets: The options by bucket name.
        hdfs: Hadoop's ``dfs.*`` keys.
    """

    default: S3Options = field(default_factory=S3Options)
    buckets: Mapping[str, S3Options] = field(default_factory=lambda: MappingProxyType({}))
    hdfs: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def parse(cls, settings: Mapping[str, object] | None) -> StorageOptions:
        """Parse the connection options in ``settings``.

        Args:
            settings: Hadoop keys and short names. Hadoop keys that do not concern the connection of a bucket are
                ignored, so a whole Hadoop or Spark configuration can be given.

        Raises:
            InvalidConfigurationError: A short name is unknown, or a value is invalid.
        """
        general: dict[str, Any] = {}
        short: dict[str, Any] = {}
        buckets: dict[str, dict[str, Any]] = {}
        hdfs: dict[str, str] = {}
        for key, value in (settings or {}).items():
            if value is None:
                continue
            if "." not in key:
                short[_short_name(key)] = _typed(_short_name(key), key, value)
                continue
            hadoop = key.removeprefix(_SPARK_PREFIX)
            if hadoop.startswith(_HDFS_PREFIX):
                hdfs[hadoop] = str(value).lower() if isinstance(value, bool) else str(value)
            elif hadoop.startswith(_BUCKET_PREFIX):
                _take_bucket_key(hadoop, value, buckets)
            elif (name := _HADOOP_NAMES.get(hadoop.removeprefix(_PREFIX))) and hadoop.startswith(_PREFIX):
                general[name] = _typed(name, hadoop, value)
        return cls._build({**general, **short}, buckets, hdfs)

    @classmethod
    def _build(
        cls, general: Mapping[str, Any], buckets: Mapping[str, Mapping[str, Any]], hdfs: Mapping[str, str]
    ) -> StorageOptions:
        default = S3Options(**general)
        default.check()
        own = {bucket: replace(default, **fields) for bucket, fields in buckets.items()}
        for bucket, options in own.items():
            options.check(bucket)
        return cls(default, MappingProxyType(own), MappingProxyType(dict(hdfs)))

    def for_bucket(self, bucket: str) -> S3Options:
        """Return the options of ``bucket``."""
        return self.buckets.get(bucket, self.default)

    def to_hadoop(self) -> dict[str, str]:
        """Return the options as Hadoop's keys (``fs.s3a.…``, ``dfs.…``), secrets included."""
        keys = _hadoop_keys(_PREFIX, self.default)
        for bucket, options in self.buckets.items():
            keys.update(_hadoop_keys(f"{_BUCKET_PREFIX}{bucket}.", options))
        keys.update(self.hdfs)
        return keys


def check_names(settings: Iterable[str], *, whole: bool = True) -> None:
    """Check that no key is unknown or misspelled; the values are checked where they are used.

    Args:
        settings: The keys.
        whole: Whether the keys may be a whole configuration, with keys of other programs.

    Raises:
        InvalidConfigurationError: A short name is unknown, a Hadoop key looks like a misspelled known key, or ``whole``
            is False and a key is neither a short name nor a Hadoop key.
    """
    for key in settings:
        if "." not in key:
            _short_name(key)
        elif not whole and not key.removeprefix(_SPARK_PREFIX).startswith(_FAMILIES):
            raise _unknown(key, None)
        elif (meant := _misspelt(key)) is not None:
            raise _unknown(key, meant)


def _misspelt(key: str) -> str | None:
    """Return the Hadoop key that is probably meant by a misspelled key; None for a correct or unrelated key."""
    before, prefix, name = key.partition(_PREFIX)
    if name in _HADOOP_NAMES or not prefix:
        return None
    if name.startswith("bucket."):
        # A bucket's name may contain dots, so compare each possible end of the key with the names of settings.
        parts = name.split(".")
        ends = [".".join(parts[n:]) for n in range(2, len(parts))]
        if any(end in _HADOOP_NAMES for end in ends):
            return None
    else:
        ends = [name]
    for end in ends:
        if close := difflib.get_close_matches(end, _HADOOP_NAMES, 1, _NEARLY):
            return f"{before}{prefix}{name.removesuffix(end)}{close[0]}"
    return None


def _unknown(key: str, meant: str | None) -> InvalidConfigurationError:
    hint = "" if meant is None else f" Did you mean {meant!r}?"
    return InvalidConfigurationError(
        f"The storage option {shown(key)} is unknown.{hint} The options are {', '.join(SHORT_NAMES)}, and Hadoop's "
        "fs.s3a.* and dfs.* keys.",
        {"option": key},
    )


def _short_name(key: str) -> str:
    if key in SHORT_NAMES:
        return key
    close = difflib.get_close_matches(key, SHORT_NAMES, 1)
    raise _unknown(key, close[0] if close else None)


def _take_bucket_key(key: str, value: object, buckets: dict[str, dict[str, Any]]) -> None:
    # A bucket's name may contain dots, so compare the end of the key with the known settings, longest first.
    rest = key.removeprefix(_BUCKET_PREFIX)
    for suffix in sorted(_HADOOP_NAMES, key=len, reverse=True):
        if rest.endswith(f".{suffix}") and (bucket := rest.removesuffix(f".{suffix}")):
            name = _HADOOP_NAMES[suffix]
            buckets.setdefault(bucket, {})[name] = _typed(name, key, value)
            return


def _typed(name: str, key: str, value: object) -> str | bool | None:
    if name in _FLAGS:
        return _flag(name, key, value)
    if not isinstance(value, str):
        raise InvalidConfigurationError(f"The storage option {key!r} must be text, not {type(value).__name__}.")
    # Skip empty values: Hadoop treats an empty value as unset.
    return value.strip() or None


def _flag(name: str, key: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).strip()
    if name == "anonymous" and "." in key:
        return _ANONYMOUS_PROVIDER in re.split(r"[\s,]+", text)
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    raise InvalidConfigurationError(f"The storage option {key!r} is {shown(text)}; it must be true or false.")


def _hadoop_keys(prefix: str, options: S3Options) -> dict[str, str]:
    texts = {
        "endpoint": f"{options.scheme}://{options.host}" if options.host else None,
        "endpoint.region": options.region,
        "access.key": options.access_key,
        "secret.key": options.secret_key,
        "session.token": options.session_token,
        "path.style.access": _path_style_text(options),
        "connection.ssl.enabled": None if options.scheme == "https" else "false",
        "aws.credentials.provider": _ANONYMOUS_PROVIDER if options.anonymous else None,
    }
    return {f"{prefix}{name}": text for name, text in texts.items() if text is not None}


def _path_style_text(options: S3Options) -> str | None:
    # Python uses path-style addresses by default for a custom endpoint; S3A must be set to do the same.
    style = options.path_style if options.path_style is not None else (True if options.host else None)
    return None if style is None else str(style).lower()
