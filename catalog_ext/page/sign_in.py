"""Access to the page: sessions that begin with a token, protection of forms against other sites, and a throttle."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import threading
import time
from collections import OrderedDict, deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SESSION_S = 12 * 3600
"""The duration of a session in seconds."""

_MOST_SESSIONS = 1000
_VISITOR = re.compile(r"[\w-]{22}", re.ASCII)
_WRONG_S, _MOST_WRONG, _MOST_CLIENTS = 60.0, 5, 1000


class Sessions:
    """The sessions of a service, stored by the hashes of their random cookies. Threads may share it.

    The browser gets only the cookie, never a token.
    """

    def __init__(self, tokens: Sequence[str], clock: Callable[[], float] = time.monotonic) -> None:
        self._tokens = [token.encode() for token in tokens]
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._ends: OrderedDict[bytes, float] = OrderedDict()
        self._lock = threading.Lock()

    def open(self, token: str) -> str | None:
        """Return the cookie of a new session; None for a wrong token. The comparison takes constant time."""
        given = token.encode("utf-8", "replace")
        if sum(hmac.compare_digest(given, each) for each in self._tokens) == 0:
            return None
        cookie = secrets.token_urlsafe(32)
        with self._lock:
            self._ends[_hash(cookie)] = self._clock() + SESSION_S
            while len(self._ends) > _MOST_SESSIONS:
                self._ends.popitem(last=False)
        return cookie

    def is_open(self, cookie: str | None) -> bool:
        """Return whether the cookie's session has neither ended nor expired."""
        if not cookie:
            return False
        key = _hash(cookie)
        with self._lock:
            end = self._ends.get(key)
            if end is not None and end <= self._clock():
                del self._ends[key]
                end = None
        return end is not None

    def close(self, cookie: str | None) -> None:
        """End a session."""
        if cookie:
            with self._lock:
                self._ends.pop(_hash(cookie), None)

    @staticmethod
    def new_visitor() -> str:
        """Return a random cookie for a browser that has not signed in yet."""
        return secrets.token_urlsafe(16)

    @staticmethod
    def is_visitor(cookie: str) -> bool:
        """Return whether a cookie has the form of a visitor's cookie."""
        return _VISITOR.fullmatch(cookie) is not None

    def form_key(self, cookie: str) -> str:
        """Return the key that a form must contain, computed from the browser's cookie; other sites cannot do that."""
        return hmac.new(self._key, cookie.encode(), hashlib.sha256).hexdigest()

    def is_form_key(self, given: str, cookie: str | None) -> bool:
        """Return whether a form's key belongs to this cookie."""
        return bool(cookie) and hmac.compare_digest(
            given.encode("utf-8", "replace"), self.form_key(cookie or "").encode()
        )


class WrongTokens:
    """Throttles sign-ins: after five wrong tokens from an address in a minute, all tokens from it are refused.

    The address may try again when the oldest of them is a minute old.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._wrong: OrderedDict[str, deque[float]] = OrderedDict()
        self._lock = threading.Lock()

    def note(self, client: str) -> None:
        """Count a wrong token from an address."""
        with self._lock:
            times = self._wrong.setdefault(client, deque(maxlen=_MOST_WRONG))
            times.append(self._clock())
            self._wrong.move_to_end(client)
            while len(self._wrong) > _MOST_CLIENTS:
                self._wrong.popitem(last=False)

    def wait_s(self, client: str) -> float:
        """Return the seconds for which tokens from this address are refused; 0 for none."""
        with self._lock:
            times = self._wrong.get(client)
            if times is None or len(times) < _MOST_WRONG:
                return 0.0
            return max(times[0] + _WRONG_S - self._clock(), 0.0)


def _hash(cookie: str) -> bytes:
    return hashlib.sha256(cookie.encode("utf-8", "replace")).digest()
