"""The root of the error tree, and the errors of the service and of the machine that it runs on."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from catalog_ext.metastore.backports import StrEnum

if TYPE_CHECKING:
    from collections.abc import Mapping

    from typing_extensions import Self


class ErrorKind(StrEnum):
    """Says which of Spark's two families of exceptions an error becomes."""

    ANALYSIS = "analysis"
    """The statement is wrong, or does not fit what is there: an ``AnalysisException``."""
    RUNTIME = "runtime"
    """The statement could not be done: a ``SparkRuntimeException``."""


class CatalogExtError(Exception):
    """An unexpected error; the root of every error that catalog-ext raises on purpose.

    Remedy: look into the service's log for its traceback, and report it.

    Args:
        message: The problem, the table and value it concerns, and the remedy, in one or two sentences.
        parameters: Values named in the message, for programs.
    """

    code: ClassVar[str] = "CATALOG_EXT_ERROR"
    retryable: ClassVar[bool] = False
    sqlstate: ClassVar[str] = "XX000"
    """What JDBC clients branch on; spark-sql prints the Java trace of an error that has none, or one of class XX."""
    kind: ClassVar[ErrorKind] = ErrorKind.RUNTIME

    def __init__(self, message: str, parameters: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.parameters: dict[str, str] = dict(parameters or {})

    def about(self, what: str, parameters: Mapping[str, str]) -> Self:
        """Return the error with its subject in front of the message, and with more parameters."""
        return type(self)(f"{what}: {self.message}", {**parameters, **self.parameters})


class ServiceError(CatalogExtError):
    """The service of the catalog failed.

    Remedy: Look into its log.
    """

    code = "CATALOG_EXT_SERVICE_ERROR"
    sqlstate = "58000"


class UnauthorizedError(ServiceError):
    """The service does not know the token.

    Remedy: Give the token of `catalog-ext serve` by `token`, `token-file` or CATALOG_EXT_TOKEN.
    """

    code = "CATALOG_EXT_UNAUTHORIZED"
    sqlstate = "28000"


class ReadOnlyTokenError(ServiceError):
    """The token of the session may read and not write.

    Remedy: Give a session that writes the token of `catalog-ext serve --token-file`, not that of `--read-token-file`.
    """

    code = "CATALOG_EXT_READ_ONLY_TOKEN"
    sqlstate = "42501"


class EnvironmentSetupError(CatalogExtError):
    """Java, PySpark or a jar is missing or does not fit.

    Remedy: Install what the message names.
    """

    code = "CATALOG_EXT_ENVIRONMENT_SETUP"
    sqlstate = "58000"
