"""Recognizes secret settings by their names, so that no secret is stored or shown."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T")

HIDDEN = "***"

_SECRET = re.compile(
    r"(?:password|passwd|passphrase|(?:^|[^a-z0-9])(?:pass|pwd|secret|token|credentials?"
    r"|(?:secret|access|account|private|api|encryption)[._-]?key(?:[._-]id)?|session[._-]?token|sas[._-]?token"
    r"|secret[._-]?access[._-]?key|account[._-]key[._-].*))$"
)


def is_secret(name: str) -> bool:
    """Return whether a setting of this name holds a password, a key or a token.

    >>> [is_secret(n) for n in ("fs.s3a.secret.key", "sslpassword", "aws_session_token", "accessKey")]
    [True, True, True, True]
    >>> [is_secret(n) for n in ("fs.s3a.aws.credentials.provider", "token-file", "primary.key", "secretary")]
    [False, False, False, False]
    """
    return _SECRET.search(name.lower()) is not None


def drop_secrets(settings: Mapping[str, T]) -> dict[str, T]:
    """Return the settings whose names do not say that they are secrets."""
    return {name: value for name, value in settings.items() if not is_secret(name)}
