"""What only an object store does: requests that are counted, credentials, throttling, markers."""

from __future__ import annotations

import secrets
import socket
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import boto3
import pytest
from botocore.config import Config

from catalog_ext.metastore.errors import LocationNotFoundError, StorageAccessDeniedError, StorageUnavailableError
from catalog_ext.metastore.runtime.retry import Backoff
from catalog_ext.metastore.storage.entries import ListedFile, ListingFailure
from catalog_ext.metastore.storage.listing import list_tree
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.storage.s3.client import Timeouts
from catalog_ext.metastore.storage.store import Storage
from tests.integration.faulty_store import FaultyStore
from tests.kit.pattern_cases import matched

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from catalog_ext.metastore.storage.entries import Descend, Listed
    from tests.servers.stores import S3Server

FEW_WAITS = Backoff(retries=2, first_s=0.05, longest_s=0.1)


@dataclass
class Bucket:
    """A bucket on a server; keys are put with boto3, which takes any key."""

    server: S3Server
    name: str

    @property
    def options(self) -> dict[str, str]:
        return {
            "endpoint": self.server.endpoint,
            "access_key": self.server.access_key,
            "secret_key": self.server.secret_key,
            "region": self.server.region,
        }

    def put(self, keys: Iterable[str]) -> None:
        client = boto3.client(
            "s3",
            endpoint_url=self.server.direct_endpoint,
            aws_access_key_id=self.server.access_key,
            aws_secret_access_key=self.server.secret_key,
            region_name=self.server.region,
            config=Config(s3={"addressing_style": "path"}, max_pool_connections=16),
        )
        try:
            with ThreadPoolExecutor(16) as pool:
                list(pool.map(lambda key: client.put_object(Bucket=self.name, Key=key, Body=b""), keys))
        finally:
            client.close()

    def files(
        self,
        depth_hint: int,
        *,
        root: str = "t",
        storage: Storage | None = None,
        descend: Descend = lambda _: True,
        selective: bool = False,
    ) -> list[str]:
        place = f"s3a://{self.name}/{root}"
        store = storage or Storage(self.options)
        return files_of(list_tree(store, place, descend=descend, depth_hint=depth_hint, selective=selective))


def files_of(listed: Iterable[Listed]) -> list[str]:
    files = [item for item in listed if isinstance(item, ListedFile)]
    return sorted(f"{item.directory}/{item.name}" if item.directory else item.name for item in files)


@pytest.fixture(scope="module")
def seaweed(s3_server: S3Server) -> Bucket:
    return Bucket(s3_server, s3_server.make_bucket(f"requests-{secrets.token_hex(4)}"))


@pytest.fixture(scope="module")
def moto(moto_server: S3Server) -> Bucket:
    return Bucket(moto_server, moto_server.make_bucket(f"requests-{secrets.token_hex(4)}"))


@pytest.fixture(scope="module")
def flat(seaweed: Bucket) -> Bucket:
    """2,500 partitions of one key, with a file each, below ``flat``."""
    seaweed.put(f"flat/ds={number:04d}/a.parquet" for number in range(2500))
    return seaweed


@pytest.fixture(scope="module")
def nested(seaweed: Bucket) -> Bucket:
    """3 x 12 x 20 partitions of three keys, with a file each, below ``nested``."""
    seaweed.put(f"nested/o={o}/m={m}/d={d}/a.parquet" for o in range(3) for m in range(12) for d in range(20))
    return seaweed


def test_one_key_costs_a_request_for_a_thousand_files(flat: Bucket) -> None:
    before = flat.server.counts()
    assert len(flat.files(1, root="flat")) == 2500
    assert flat.server.counts() - before == Counter(LIST=3)


def test_many_small_partitions_do_not_cost_a_request_each(flat: Bucket) -> None:
    before = flat.server.counts()
    assert len(flat.files(2, root="flat")) == 2500  # the depth is wrong on purpose: 2,500 prefixes are found
    requests = flat.server.counts() - before
    assert requests["LIST"] <= 3 + 4 + 3  # to find the prefixes, a sample of them, the level above
    assert sum(requests.values()) == requests["LIST"]


def test_three_keys_cost_their_prefixes_and_pages(nested: Bucket) -> None:
    before = nested.server.counts()
    assert len(nested.files(3, root="nested")) == 720
    assert (nested.server.counts() - before)["LIST"] <= 1 + 3 + 36


def test_a_prefix_that_is_turned_down_costs_nothing(nested: Bucket) -> None:
    wanted = {"o=1", "o=1/m=7", "o=1/m=7/d=3"}
    before = nested.server.counts()
    files = nested.files(3, root="nested", descend=wanted.__contains__, selective=True)
    assert files == ["o=1/m=7/d=3/a.parquet"]
    requests = nested.server.counts() - before
    assert requests == Counter(LIST=4)
    prefixes = [request.prefix for request in nested.server.proxy.requests()[-4:]]
    assert prefixes == ["nested/", "nested/o=1/", "nested/o=1/m=7/", "nested/o=1/m=7/d=3/"]


def test_a_pattern_lists_only_what_can_match(nested: Bucket) -> None:
    storage = Storage(nested.options)
    before, asked = nested.server.counts(), len(nested.server.proxy.requests())
    found = matched(storage, f"s3://{nested.name}/nested/o=1/m=?/d={{3,4}}/*")
    assert len(found) == 20
    prefixes = {request.prefix for request in nested.server.proxy.requests()[asked:] if request.operation == "LIST"}
    assert all(not prefix.startswith(("nested/o=0/", "nested/o=2/")) for prefix in prefixes)
    # One listing of the months; a directory is found by a HEAD that fails and a LIST of one key.
    assert (nested.server.counts() - before)["LIST"] <= 1 + 20


def test_markers_are_no_files_and_doubled_slashes_are_kept(moto: Bucket) -> None:
    moto.put(["t/", "t/k=1/", "t/k=1/a", "t/k=2/", "t/k=3//b", "t//c", "t/k=3/d", "t/e", "t/k=3/j=1/f"])
    expected = sorted(["k=1/a", "k=3//b", "//c", "k=3/d", "e", "k=3/j=1/f"])
    for depth_hint in (1, 2, 3):
        assert moto.files(depth_hint) == expected
        assert moto.files(depth_hint, selective=True) == expected


@pytest.mark.parametrize("field", ["access_key", "secret_key"])
def test_bad_credentials_are_an_error_that_says_so(nested: Bucket, field: str) -> None:
    storage = Storage({**nested.options, field: "wrong"})
    with pytest.raises(StorageAccessDeniedError, match="credentials") as denied:
        storage.check_directory(f"s3a://{nested.name}/nested")
    assert "wrong" not in denied.value.message
    with pytest.raises(StorageAccessDeniedError, match="credentials"):
        nested.files(3, root="nested", storage=storage)
    with pytest.raises(StorageAccessDeniedError):
        matched(storage, f"s3a://{nested.name}/nested/*")


def test_a_request_without_credentials_is_denied(nested: Bucket) -> None:
    storage = Storage({"endpoint": nested.server.endpoint, "anonymous": True})
    with pytest.raises(StorageAccessDeniedError):
        storage.check_directory(f"s3a://{nested.name}/nested")


def test_a_bucket_that_is_not_there(seaweed: Bucket) -> None:
    storage = Storage(seaweed.options)
    for call in (storage.check_directory, storage.list_directory, lambda root: matched(storage, f"{root}/*")):
        with pytest.raises(LocationNotFoundError, match="no bucket 'no-such-bucket'"):
            call("s3://no-such-bucket/t")
    for depth_hint in (1, 3):
        with pytest.raises(LocationNotFoundError, match="no bucket 'no-such-bucket'"):
            list(list_tree(storage, "s3://no-such-bucket", descend=lambda _: True, depth_hint=depth_hint))


def test_an_endpoint_that_refuses_fails_in_seconds(seaweed: Bucket) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # bound and not listening: a connection is refused
        storage = Storage({**seaweed.options, "endpoint": f"http://127.0.0.1:{bound.getsockname()[1]}"})
        start = time.monotonic()
        with pytest.raises(StorageUnavailableError, match="does not answer"):
            storage.check_directory("s3://bucket/t")
        assert time.monotonic() - start < 15


def test_an_endpoint_that_stays_silent_fails_by_its_timeout(seaweed: Bucket) -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(8)
        options = {**seaweed.options, "endpoint": f"http://127.0.0.1:{listening.getsockname()[1]}"}
        storage = Storage(options, timeouts=Timeouts(connect_s=1.0, request_s=1.0))
        start = time.monotonic()
        with pytest.raises(StorageUnavailableError, match="does not answer"):
            storage.list_directory("s3://bucket/t")
        assert time.monotonic() - start < 20


@pytest.fixture
def throttled(nested: Bucket) -> Iterator[tuple[FaultyStore, Storage]]:
    """Five LISTs of one prefix are answered with SlowDown, then none: more than the client's own three attempts."""
    left = [5]

    def fault(prefix: str) -> tuple[int, str] | None:
        if prefix != "nested/o=1/" or not left[0]:
            return None
        left[0] -= 1
        return 503, "SlowDown"

    with FaultyStore(nested.server.direct_endpoint, fault) as proxy:
        yield proxy, Storage({**nested.options, "endpoint": proxy.endpoint}, backoff=FEW_WAITS)


def test_throttling_is_waited_for(nested: Bucket, throttled: tuple[FaultyStore, Storage]) -> None:
    proxy, storage = throttled
    listed = list(list_tree(storage, f"s3a://{nested.name}/nested", descend=lambda _: True, depth_hint=3))
    assert len(files_of(listed)) == 720
    assert not [item for item in listed if isinstance(item, ListingFailure)]
    assert proxy.prefixes.count("nested/o=1/") >= 6


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        (403, "AccessDenied", StorageAccessDeniedError),
        (503, "SlowDown", StorageUnavailableError),
        (500, "InternalError", StorageUnavailableError),
    ],
)
@pytest.mark.parametrize("bad", ["o=1", "o=1/m=7"])
def test_a_prefix_that_fails_stops_no_other(
    nested: Bucket, status: int, code: str, error: type[Exception], bad: str
) -> None:
    def fault(prefix: str) -> tuple[int, str] | None:
        return (status, code) if prefix.startswith(f"nested/{bad}/") else None

    backoff = Backoff(retries=1, first_s=0.01)
    with FaultyStore(nested.server.direct_endpoint, fault) as proxy:
        storage = Storage({**nested.options, "endpoint": proxy.endpoint}, backoff=backoff)
        root = f"s3a://{nested.name}/nested"
        listed = list(list_tree(storage, root, descend=lambda _: True, depth_hint=3, selective=True))
    failures = [item for item in listed if isinstance(item, ListingFailure)]
    assert {failure.directory for failure in failures} == {bad}
    assert all(isinstance(failure.error, error) for failure in failures)
    expected = 720 - (240 if bad == "o=1" else 20)
    assert len(files_of(listed)) == expected


def test_a_root_that_fails_raises(nested: Bucket) -> None:
    with FaultyStore(nested.server.direct_endpoint, lambda prefix: (403, "AccessDenied")) as proxy:
        storage = Storage({**nested.options, "endpoint": proxy.endpoint})
        for depth_hint in (1, 3):
            with pytest.raises(StorageAccessDeniedError, match="access is denied"):
                nested.files(depth_hint, root="nested", storage=storage)


def listing_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("catalog-ext-listing")]


def test_stopping_early_ends_the_threads(nested: Bucket) -> None:
    listing = list_tree(
        Storage(nested.options), f"s3a://{nested.name}/nested", descend=lambda _: True, depth_hint=3, selective=True
    )
    assert isinstance(next(listing), ListedFile)
    assert listing_threads()
    listing.close()
    deadline = time.monotonic() + 10
    while listing_threads() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert listing_threads() == []


def test_stopping_early_does_not_wait_for_a_busy_store(nested: Bucket) -> None:
    def fault(prefix: str) -> tuple[int, str] | None:
        return None if prefix in ("nested/", "nested/o=0/") else (503, "SlowDown")

    with FaultyStore(nested.server.direct_endpoint, fault) as proxy:
        storage = Storage(
            {**nested.options, "endpoint": proxy.endpoint}, backoff=Backoff(retries=9, first_s=30, longest_s=30)
        )
        storage.target_prefixes = 3
        listing = list_tree(storage, f"s3a://{nested.name}/nested", descend=lambda _: True, depth_hint=3)
        assert isinstance(next(listing), ListedFile)
        start = time.monotonic()
        listing.close()
        while listing_threads() and time.monotonic() - start < 20:
            time.sleep(0.02)
        assert listing_threads() == []


def test_an_error_of_the_caller_reaches_the_caller(nested: Bucket) -> None:
    def descend(directory: str) -> bool:
        raise KeyError(directory)

    for depth_hint in (1, 3):
        with pytest.raises(KeyError, match="o="):
            nested.files(depth_hint, root="nested", descend=descend)


def test_a_bucket_of_its_own_has_its_own_options(nested: Bucket) -> None:
    own = {f"fs.s3a.bucket.{nested.name}.{key}": value for key, value in {
        "endpoint": nested.server.endpoint,
        "access.key": nested.server.access_key,
        "secret.key": nested.server.secret_key,
        "endpoint.region": nested.server.region,
    }.items()}  # fmt: skip
    storage = Storage({"endpoint": "http://127.0.0.1:1", "access_key": "x", "secret_key": "y", **own})
    storage.check_directory(f"s3a://{nested.name}/nested")


def test_credentials_come_from_the_environment_when_none_are_given(
    nested: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", nested.server.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", nested.server.secret_key)
    Storage({"endpoint": nested.server.endpoint}).check_directory(f"s3a://{nested.name}/nested")


def test_files_are_looked_at_several_at_a_time() -> None:
    """Four HEAD requests wait for each other, which those of a single thread would do for ever."""
    together = threading.Barrier(4)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            together.wait(20)
            self.send_response(200)
            self.send_header("Content-Length", "3")
            self.send_header("Last-Modified", "Wed, 21 Oct 2015 07:28:00 GMT")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing is printed."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        storage = Storage(
            {"endpoint": f"http://127.0.0.1:{server.server_address[1]}", "access_key": "a", "secret_key": "b"}
        )
        entries = storage.stat_many([Location("s3a", "bucket", f"key-{number}") for number in range(16)])
        server.shutdown()
    assert [entry.size for entry in entries if entry is not None] == [3] * 16
