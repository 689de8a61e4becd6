"""The root of the error tree, and the errors of the service and of the machine that it runs on."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from catalog_ext.metastore.backports import StrEnum

if TYPE_CHECKING:
    from collections.abc import Mapping

    from typing_extensions import Self


class ErrorKind(StrEnum):
    """The family of Spark exceptions that an error becomes in Spark."""

    ANALYSIS = "analysis"
    """The statement is wrong, or does not fit the existing objects: an ``AnalysisException``."""
    RUNTIME = "runtime"
    """The statement could not be executed: a ``SparkRuntimeException``."""


class CatalogExtError(Exception):
    """An unexpected error; the root of every error that catalog-ext raises on purpose.

    Remedy: Look into the service's log for its traceback, and report it.

    Args:
        message: The problem, the table and value that it concerns, and the remedy, in one or two sentences.
        parameters: Values named in the message, for programs.
    """

    code: ClassVar[str] = "CATALOG_EXT_ERROR"
    retryable: ClassVar[bool] = False
    sqlstate: ClassVar[str] = "XX000"
    """The SQLSTATE for JDBC clients; spark-sql prints a Java stack trace for errors without one or with class XX."""
    kind: ClassVar[ErrorKind] = ErrorKind.RUNTIME

    def __init__(self, message: str, parameters: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.parameters: dict[str, str] = dict(parameters or {})

    def about(self, what: str, parameters: Mapping[str, str]) -> Self:
        """Return a copy of the error with a subject in front of the message, and with additional parameters."""
        return type(self)(f"{what}: {self.message}", {**parameters, **self.parameters})


class ServiceError(CatalogExtError):
    """The service of the catalog failed.

    Remedy: Look into the service's log.
    """

    code = "CATALOG_EXT_SERVICE_ERROR"
    sqlstate = "58000"


class UnauthorizedError(ServiceError):
    """The service does not accept the token.

    Remedy: Set the token of `catalog-ext serve` by `token`, `token-file` or CATALOG_EXT_TOKEN.
    """

    code = "CATALOG_EXT_UNAUTHORIZED"
    sqlstate = "28000"


class ReadOnlyTokenError(ServiceError):
    """The session's token allows reads but not writes.

    Remedy: Give a session that writes the token of `catalog-ext serve --token-file`, not that of `--read-token-file`.
    """

    code = "CATALOG_EXT_READ_ONLY_TOKEN"
    sqlstate = "42501"


class EnvironmentSetupError(CatalogExtError):
    """Java, PySpark or a jar is missing or has an unsupported version.

    Remedy: Install what the message names.
    """

    code = "CATALOG_EXT_ENVIRONMENT_SETUP"
    sqlstate = "58000"
