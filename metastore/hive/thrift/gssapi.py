"""The part of GSS-API (RFC 2743, in C RFC 2744) that a Kerberos client needs, through ctypes from MIT's library.

No PyPI package contains that library or installs without a compiler and its headers. The library's C interface has been
stable for decades, and nearly every Linux system has it.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint32, c_void_p

from catalog_ext.metastore.errors import EnvironmentSetupError

_MISSING = (
    "Kerberos needs MIT's library libgssapi_krb5, which is not on this system ({}). Install it: apt-get install "
    "libgssapi-krb5-2, or dnf install krb5-libs."
)
_LIBRARY = "libgssapi_krb5.so.2"

CONTINUE_NEEDED = 1
MUTUAL, REPLAY, SEQUENCE, CONFIDENTIAL, INTEGRITY = 2, 4, 8, 16, 32
_ERRORS = 0xFFFF0000
_GSS_CODE, _MECHANISM_CODE = 1, 2
_INITIATE = 1


class _Oid(ctypes.Structure):
    _fields_ = (("length", c_uint32), ("elements", c_void_p))


class _OidSet(ctypes.Structure):
    _fields_ = (("count", c_size_t), ("elements", POINTER(_Oid)))


class _Buffer(ctypes.Structure):
    _fields_ = (("length", c_size_t), ("value", c_void_p))


class _Element(ctypes.Structure):
    _fields_ = (("key", c_char_p), ("value", c_char_p))


class _Store(ctypes.Structure):
    _fields_ = (("count", c_uint32), ("elements", POINTER(_Element)))


class GssError(Exception):
    """An error of the GSS-API library, with its text."""


class Gssapi:
    """The functions of the GSS-API library that this package uses, with their argument types.

    Args:
        library: The loaded library.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self.kerberos = _oid(b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02")
        self._principal = _oid(b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02\x01")
        self._mechanisms = _OidSet(1, ctypes.pointer(self.kerberos))
        buffer, handle, status = POINTER(_Buffer), POINTER(c_void_p), POINTER(c_uint32)
        oid = POINTER(_Oid)
        self._declare("gss_import_name", buffer, oid, handle)
        self._declare("gss_release_name", handle)
        self._declare("gss_release_buffer", buffer)
        self._declare("gss_release_cred", handle)
        self._declare("gss_delete_sec_context", handle, buffer)
        self._declare(
            "gss_init_sec_context", c_void_p, handle, c_void_p, oid, c_uint32, c_uint32, c_void_p, buffer, c_void_p,
            buffer, status, c_void_p,
        )  # fmt: skip
        self._declare("gss_wrap", c_void_p, c_int, c_uint32, buffer, POINTER(c_int), buffer)
        self._declare("gss_unwrap", c_void_p, buffer, buffer, POINTER(c_int), status)
        self._declare(
            "gss_acquire_cred_from", c_void_p, c_uint32, POINTER(_OidSet), c_int, POINTER(_Store), handle, c_void_p,
            status,
        )  # fmt: skip
        library.gss_display_status.argtypes = [status, c_uint32, c_int, oid, status, buffer]
        library.gss_display_status.restype = c_uint32

    def _declare(self, name: str, *types: object) -> None:
        function = getattr(self._library, name)
        function.argtypes = [POINTER(c_uint32), *types]
        function.restype = c_uint32

    def call(self, name: str, *arguments: object) -> int:
        """Call a function of the library and return its status, which may have supplementary bits.

        Raises:
            GssError: The function failed.
        """
        minor = c_uint32()
        major: int = getattr(self._library, name)(byref(minor), *arguments)
        if major & _ERRORS:
            raise GssError(self._text(major, minor.value))
        return major

    def name(self, principal: str) -> c_void_p:
        """Return the library's name object for a principal; the caller must release it."""
        found = c_void_p()
        self.call("gss_import_name", byref(_buffer(principal.encode())), byref(self._principal), byref(found))
        return found

    def credential(self, principal: str | None, store: dict[str, str]) -> c_void_p:
        """Return the credential of a principal from a credential store; the caller must release it.

        Args:
            principal: The principal; None for the store's default one.
            store: MIT's elements: ``ccache``, ``client_keytab``.

        Raises:
            GssError: The store has no usable credential for the principal.
        """
        elements = (_Element * len(store))(*(_Element(k.encode(), v.encode()) for k, v in store.items()))
        name = c_void_p() if principal is None else self.name(principal)
        found = c_void_p()
        try:
            self.call(
                "gss_acquire_cred_from", name, 0, byref(self._mechanisms), _INITIATE,
                byref(_Store(len(store), elements)), byref(found), None, None,
            )  # fmt: skip
        finally:
            self.release("gss_release_name", name)
        return found

    def release(self, function: str, handle: c_void_p) -> None:
        """Release an object of the library, and set its handle to empty."""
        if handle.value is not None:
            self.call(function, byref(handle))

    def take(self, buffer: _Buffer) -> bytes:
        """Return the bytes of a buffer that the library allocated, and release the buffer."""
        data = ctypes.string_at(buffer.value, buffer.length) if buffer.length else b""
        self.call("gss_release_buffer", byref(buffer))
        return data

    def _text(self, major: int, minor: int) -> str:
        of_kerberos = self._status(minor, _MECHANISM_CODE) if minor else ""
        return of_kerberos or self._status(major, _GSS_CODE)

    def _status(self, code: int, kind: int) -> str:
        minor, more, text = c_uint32(), c_uint32(), _Buffer()
        self._library.gss_display_status(byref(minor), code, kind, byref(self.kerberos), byref(more), byref(text))
        return self.take(text).decode("utf-8", "replace")


class SecurityContext:
    """The client's side of a Kerberos security context with a server; used by one thread at a time.

    Args:
        server: The server's principal.
        credential: The client's credential; empty for that of the ticket cache.
    """

    def __init__(self, server: str, credential: c_void_p) -> None:
        self._api = gssapi()
        self._credential = credential
        self._context = c_void_p()
        self._server = self._api.name(server)
        self.established = False

    def step(self, token: bytes) -> bytes:
        """Process a token of the server, and return the token to send next; the first call gets an empty token.

        Raises:
            GssError: There is no ticket, or the server's answer is wrong.
        """
        answer, flags = _Buffer(), c_uint32()
        status = self._api.call(
            "gss_init_sec_context", self._credential, byref(self._context), self._server, byref(self._api.kerberos),
            MUTUAL | REPLAY | SEQUENCE | CONFIDENTIAL | INTEGRITY, 0, None, byref(_buffer(token)), None,
            byref(answer), byref(flags), None,
        )  # fmt: skip
        self.established = not status & CONTINUE_NEEDED
        return self._api.take(answer)

    def wrap(self, data: bytes, *, confidential: bool) -> bytes:
        """Return the data as a signed message, which is also encrypted if ``confidential`` is true."""
        found, encrypted = _Buffer(), c_int()
        self._api.call(
            "gss_wrap", self._context, int(confidential), 0, byref(_buffer(data)), byref(encrypted), byref(found)
        )
        if confidential and not encrypted.value:
            self._api.take(found)
            raise GssError("the session's key cannot encrypt")
        return self._api.take(found)

    def unwrap(self, data: bytes, *, confidential: bool) -> bytes:
        """Return the contents of a message that the server has wrapped.

        Raises:
            GssError: The message is not from the server, was sent before, or is not encrypted although ``confidential``
                is true.
        """
        found, encrypted = _Buffer(), c_int()
        status = self._api.call("gss_unwrap", self._context, byref(_buffer(data)), byref(found), byref(encrypted), None)
        answer = self._api.take(found)
        if status:
            raise GssError("a message came twice or out of its order")
        if confidential and not encrypted.value:
            raise GssError("a message that must be encrypted was not")
        return answer

    def close(self) -> None:
        """Release the library's context and name objects."""
        if self._context.value is not None:
            self._api.call("gss_delete_sec_context", byref(self._context), None)
        self._api.release("gss_release_name", self._server)
        self._api.release("gss_release_cred", self._credential)


@functools.cache
def gssapi() -> Gssapi:
    """Return the loaded GSS-API library.

    Raises:
        EnvironmentSetupError: The library is not installed on this system.
    """
    try:
        return Gssapi(ctypes.CDLL(ctypes.util.find_library("gssapi_krb5") or _LIBRARY))
    except (OSError, AttributeError) as error:
        raise EnvironmentSetupError(_MISSING.format(error)) from error


def _oid(elements: bytes) -> _Oid:
    text = ctypes.create_string_buffer(elements, len(elements))
    oid = _Oid(len(elements), ctypes.cast(text, c_void_p))
    oid._kept = text  # keep the bytes as long as the pointer to them
    return oid


def _buffer(data: bytes) -> _Buffer:
    buffer = _Buffer(len(data), ctypes.cast(c_char_p(data), c_void_p))
    buffer._kept = data  # keep the bytes as long as the pointer to them
    return buffer
