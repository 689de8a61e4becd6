"""Deletions on stores that differ from Amazon's: each object is deleted, or reported as kept."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.errors import StorageError, StorageUnavailableError
from catalog_ext.metastore.runtime.retry import Backoff
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.storage.store import Storage
from tests.servers.scripted_store import ScriptedStore

if TYPE_CHECKING:
    from collections.abc import Iterator

DONE = (200, "<DeleteResult/>")
PLACES = [Location("s3a", "bucket", f"t/{name}") for name in "abc"]
UPLOADS = "<ListMultipartUploadsResult>{}<IsTruncated>true</IsTruncated></ListMultipartUploadsResult>"


@pytest.fixture(scope="module")
def store() -> Iterator[ScriptedStore]:
    with ScriptedStore() as scripted:
        yield scripted


@pytest.fixture(scope="module")
def storage(store: ScriptedStore) -> Storage:
    return Storage(store.options, backoff=Backoff(retries=2, first_s=0.001))


def errors(**codes: str) -> tuple[int, str]:
    """The answer that some keys, by their last letter, were not deleted, each with the code of its error."""
    kept = (f"<Error><Key>t/{k}</Key><Code>{c}</Code><Message>made</Message></Error>" for k, c in codes.items())
    return 200, f"<DeleteResult>{''.join(kept)}</DeleteResult>"


def asked(store: ScriptedStore) -> list[str]:
    """The keys of each request to delete several, or the path of one to delete an object."""
    return [
        "".join(re.findall("<Key>t/(.)</Key>", one.body.decode())) if one.method == "POST" else one.path
        for one in store.requests
    ]


def test_deletion_carries_an_md5(store: ScriptedStore, storage: Storage) -> None:
    """Ceph, older MinIO, OVH and CubeFS answer MissingContentMD5 to what boto3 sends since release 1.36."""
    store.script([DONE])
    storage.delete_files(PLACES)
    (request,) = store.requests
    digest = base64.b64encode(hashlib.md5(request.body, usedforsecurity=False).digest()).decode("ascii")
    assert request.headers["Content-MD5"] == digest


@pytest.mark.parametrize("code", ["InternalError", "SlowDown", "ServiceUnavailable"])
def test_keys_for_which_the_store_was_busy_are_asked_for_again(
    store: ScriptedStore, storage: Storage, code: str
) -> None:
    """A 200 with errors of single keys is no error for boto3, which repeats nothing."""
    store.script([errors(b=code, c=code), errors(c=code), DONE])
    storage.delete_files(PLACES)
    assert asked(store) == ["abc", "bc", "c"]


def test_key_that_stays_busy_is_reported(store: ScriptedStore, storage: Storage) -> None:
    store.script([errors(b="SlowDown", c="AccessDenied"), errors(b="SlowDown")])
    with pytest.raises(StorageError, match="2 files could not be deleted"):
        storage.delete_files(PLACES)
    assert asked(store) == ["abc", "b", "b"]
    store.script([errors(b="SlowDown")])
    with pytest.raises(StorageUnavailableError):
        storage.delete_files(PLACES)


def test_key_that_is_gone_is_deleted(store: ScriptedStore, storage: Storage) -> None:
    """Clean-ups are repeated: one that waits for a key which is gone would never end."""
    store.script([errors(a="NoSuchKey")])
    storage.delete_files(PLACES)
    assert asked(store) == ["abc"]


@pytest.mark.parametrize("name", ["\x01", "\r", "\ufffe"])
def test_key_that_xml_cannot_carry_is_deleted_by_itself(store: ScriptedStore, storage: Storage, name: str) -> None:
    """S3 refuses the request of all keys (MalformedXML), or deletes nothing and reports no error."""
    store.script([DONE, (204, "")])
    odd = Location("s3a", "bucket", f"t/{name}")
    storage.delete_files([PLACES[0], odd, PLACES[1]])
    together, alone = asked(store)
    assert (together, alone) == ("ab", f"/bucket/t/{''.join(f'%{byte:02X}' for byte in name.encode())}")
    store.script([DONE, (403, "<Error><Code>AccessDenied</Code><Message>made</Message></Error>")])
    with pytest.raises(StorageError):
        storage.delete_files([PLACES[0], odd])


def test_store_without_multi_object_delete_deletes_each(store: ScriptedStore, storage: Storage) -> None:
    """Google Cloud Storage: nothing was ever deleted there."""
    refusal = "<Error><Code>NotImplemented</Code><Message>made</Message></Error>"
    store.script([(501, refusal), (204, "")])
    storage.delete_files(PLACES)
    assert asked(store)[0] == "abc"
    assert sorted(asked(store)[1:]) == [f"/bucket/t/{name}" for name in "abc"]


@pytest.mark.parametrize(
    "more",
    ["", "<Upload><Key>t/f</Key><UploadId>u</UploadId><Initiated>2026-01-01T00:00:00Z</Initiated></Upload>"],
    ids=["without markers", "same page again"],
)
def test_uploads_without_an_end_are_an_error(store: ScriptedStore, storage: Storage, more: str) -> None:
    """Vacuum and recovery failed with a KeyError, or asked for the same page for ever."""
    store.script([(200, UPLOADS.format(more))])
    with pytest.raises(StorageError, match="does not say where they begin"):
        list(storage.uploads_to(Location.parse("s3a://bucket/t")).pending(Location.parse("s3a://bucket/t")))
    assert len(store.requests) <= 2
