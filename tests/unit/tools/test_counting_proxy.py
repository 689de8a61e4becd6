from __future__ import annotations

import itertools
import socket
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.servers.counting_proxy import CountingProxy, RequestReader, S3Request, classify

STREAM = (
    b"PUT /bucket/a%20b?x-id=PutObject HTTP/1.1\r\nHost: h\r\nContent-Length: 14\r\nExpect: 100-continue\r\n\r\n"
    b"GET / HTTP/1.1"  # a body that looks like a request
    b"GET /bucket?list-type=2&prefix=t%2Fds%3D1%2F&delimiter=%2F HTTP/1.1\r\nHost: h\r\n\r\n"
    b"PUT /bucket/chunks HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\nTrailer: 1\r\n\r\n"
    b"HEAD /bucket/a HTTP/1.1\r\nHost: h\r\n\r\n"
)
REQUESTS = [
    S3Request("PUT", "bucket", "a b"),
    S3Request("LIST", "bucket", "", "t/ds=1/"),
    S3Request("PUT", "bucket", "chunks"),
    S3Request("HEAD", "bucket", "a"),
]


@pytest.mark.parametrize(
    ("method", "target", "headers", "operation"),
    [
        ("GET", "/", {}, "LIST_BUCKETS"),
        ("GET", "/b", {}, "LIST"),
        ("GET", "/b/?prefix=x", {}, "LIST"),
        ("GET", "/b?versions", {}, "LIST"),
        ("GET", "/b?uploads", {}, "LIST_UPLOADS"),
        ("GET", "/b?location", {}, "GET_BUCKET"),
        ("GET", "/b/k", {}, "GET"),
        ("GET", "/b/k?prefix=x", {}, "GET"),
        ("GET", "/b/k?uploadId=1", {}, "LIST_PARTS"),
        ("HEAD", "/b", {}, "HEAD_BUCKET"),
        ("HEAD", "/b/k", {}, "HEAD"),
        ("PUT", "/b", {}, "PUT_BUCKET"),
        ("PUT", "/b/k", {}, "PUT"),
        ("PUT", "/b/k", {"x-amz-copy-source": "/b/j"}, "COPY"),
        ("PUT", "/b/k?partNumber=1&uploadId=2", {}, "UPLOAD_PART"),
        ("POST", "/b?delete", {}, "DELETE_MANY"),
        ("POST", "/b/k?uploads", {}, "CREATE_UPLOAD"),
        ("POST", "/b/k?uploadId=2", {}, "COMPLETE_UPLOAD"),
        ("POST", "/b/k", {}, "POST"),
        ("DELETE", "/b/k?uploadId=2", {}, "ABORT_UPLOAD"),
        ("DELETE", "/b/k", {}, "DELETE"),
    ],
)
def test_operations(method: str, target: str, headers: dict[str, str], operation: str) -> None:
    assert classify(method, target, headers).operation == operation


@given(cuts=st.lists(st.integers(0, len(STREAM)), max_size=20))
def test_requests_are_found_however_the_bytes_are_cut(cuts: list[int]) -> None:
    reader = RequestReader()
    edges = [0, *sorted(cuts), len(STREAM)]
    found = [request for start, end in itertools.pairwise(edges) for request in reader.feed(STREAM[start:end])]
    assert found == REQUESTS


def test_the_proxy_passes_bytes_unchanged_and_counts_them() -> None:
    received = bytearray()
    with socket.create_server(("127.0.0.1", 0)) as upstream:

        def answer() -> None:
            connection, _ = upstream.accept()
            with connection:
                while len(received) < len(STREAM):
                    received.extend(connection.recv(1 << 16))
                connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")

        server = threading.Thread(target=answer)
        server.start()
        proxy = CountingProxy("127.0.0.1", upstream.getsockname()[1])
        with socket.create_connection(("127.0.0.1", proxy.port)) as client:
            client.sendall(STREAM)
            said = b""
            while piece := client.recv(1 << 16):
                said += piece
        server.join()
    assert bytes(received) == STREAM
    assert said == b"HTTP/1.1 200 OK\r\n\r\n"
    assert proxy.requests() == REQUESTS
    assert proxy.counts() == {"PUT": 2, "LIST": 1, "HEAD": 1}
    assert proxy.list_requests() == 1
    proxy.stop()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", proxy.port))


def test_a_proxy_without_a_server_closes_the_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    proxy = CountingProxy("127.0.0.1", port)
    with socket.create_connection(("127.0.0.1", proxy.port)) as client:
        assert client.recv(1) == b""
    proxy.stop()
