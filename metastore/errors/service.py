"""Errors of the service, and of the machine it is to run on."""

from __future__ import annotations

from catalog_ext.metastore.errors.root import CatalogExtError


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
