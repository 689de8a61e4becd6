"""Who we say that we are on a new connection, and servers that will not hear it."""

from __future__ import annotations

import logging
import socket
import threading
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from hmsclient.genthrift.hive_metastore import ThriftHiveMetastore
from hmsclient.genthrift.hive_metastore.ttypes import MetaException
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportException

from catalog_ext.metastore.errors import MetastoreUnavailableError
from catalog_ext.metastore.hive.thrift.access import Access
from catalog_ext.metastore.hive.thrift.connect import connect
from catalog_ext.metastore.hive.thrift.uris import was_request_sent

if TYPE_CHECKING:
    from collections.abc import Iterator


class Handler:
    """What the server does when it is called."""

    def __init__(self, refusal: str | None = None) -> None:
        self.calls: Counter[str] = Counter()
        self._refusal = refusal

    def set_ugi(self, user: str, groups: list[str]) -> list[str]:
        self.calls[f"set_ugi {user} {groups}"] += 1
        if self._refusal is not None:
            raise MetaException(self._refusal)
        return [user]

    def get_all_databases(self) -> list[str]:
        self.calls["get_all_databases"] += 1
        return ["default"]


@contextmanager
def _serving(handler: Handler, *, knows_the_call: bool = True) -> Iterator[str]:
    processor = ThriftHiveMetastore.Processor(handler)
    if not knows_the_call:
        del processor._processMap["set_ugi"]

    def answer(connection: socket.socket) -> None:
        transport = TSocket()
        transport.setHandle(connection)
        protocol = TBinaryProtocol(TBufferedTransport(transport))
        try:
            while True:
                processor.process(protocol, protocol)
        except TTransportException:
            transport.close()

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        yield f"thrift://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)


def test_it_is_said_once_a_connection() -> None:
    handler = Handler()
    with _serving(handler) as uri:
        client = connect(uri, access=Access(user="alice"))
        for _ in range(3):
            assert client.list_databases() == ["default"]
        assert handler.calls == {"set_ugi alice []": 1, "get_all_databases": 3}
        client.close()
        client.list_databases()
        assert handler.calls["set_ugi alice []"] == 2
        client.close()


def test_it_is_not_said_by_default() -> None:
    handler = Handler()
    with _serving(handler) as uri:
        client = connect(uri)
        client.list_databases()
        assert handler.calls == {"get_all_databases": 1}
        client.close()


@pytest.mark.parametrize(("knows", "reason"), [(True, "not today"), (False, "Unknown function set_ugi")])
def test_a_server_that_will_not_hear_it(knows: bool, reason: str, caplog: pytest.LogCaptureFixture) -> None:
    handler = Handler("not today")
    with _serving(handler, knows_the_call=knows) as uri, caplog.at_level(logging.WARNING):
        client = connect(uri, access=Access(user="alice"))
        for _ in range(2):
            assert client.list_databases() == ["default"]
            client.close()
    (warned,) = [r.getMessage() for r in caplog.records if r.name.startswith("catalog_ext")]
    assert f"'alice' for its user ({reason}" in warned
    assert "metastore.set-ugi=false" in warned


def test_a_server_that_hangs_up_has_got_no_call() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def hang_up() -> None:
            for _ in range(3):
                listener.accept()[0].close()

        thread = threading.Thread(target=hang_up, daemon=True)
        thread.start()
        client = connect(f"thrift://127.0.0.1:{listener.getsockname()[1]}", access=Access(user="alice"))
        with pytest.raises(
            MetastoreUnavailableError, match=r"who we are, broke off.*use\.SSL.*sasl\.enabled"
        ) as caught:
            client.list_databases()
        thread.join()
    assert not was_request_sent(caught.value)
