"""Which file on the store is the one that was recorded."""

from __future__ import annotations

import json

import pytest

from catalog_ext.metastore.commit.file_identity import indexed_file, is_same
from catalog_ext.metastore.commit.removals import Removal, removal_from_json, removal_to_json
from catalog_ext.metastore.model.etags import etag_hash, same_etag
from catalog_ext.metastore.model.tables import DataFile

OWN = f"s3a://b/t/k=1/part-0-{'0123456789abcdef' * 2}.parquet"
HIVES = "s3a://b/t/k=1/000000_0"


@pytest.mark.parametrize(
    ("recorded", "now", "same"),
    [
        (indexed_file(OWN, DataFile(OWN, 1, 5_000, etag=7)), (1, 90_000, 7), True),
        (indexed_file(OWN, DataFile(OWN, 1, 5_000, etag=7)), (1, 5_000, 8), False),
        (indexed_file(OWN, DataFile(OWN, 1, 5_000, etag=None)), (1, 90_000, 8), True),
        (indexed_file(OWN, DataFile(OWN, 1, 5_000, etag=7)), (1, 90_000, None), True),
        # A RENAME has listed it: a copy that brings the same content back has a later time.
        (Removal(OWN, 1, 5_000, 7), (1, 90_000, 7), False),
        (Removal(OWN, 1, 5_000, 7), (1, 5_000, 7), True),
        (indexed_file(HIVES, DataFile(HIVES, 1, 5_000, etag=7)), (1, 5_123, 7), True),
        (indexed_file(HIVES, DataFile(HIVES, 1, 5_000, etag=7)), (1, 5_000, 8), False),
        (indexed_file(HIVES, DataFile(HIVES, 1, 5_000, etag=7)), (1, 90_000, 7), False),
        (indexed_file(HIVES, DataFile(HIVES, 1, 5_000, etag=None)), (1, 5_000, 8), True),
    ],
)
def test_file_is_same_if_nothing_known_of_it_differs(
    recorded: Removal, now: tuple[int, int, int | None], same: bool
) -> None:
    assert is_same(recorded, *now) is same
    assert removal_from_json(json.loads(json.dumps(removal_to_json(recorded)))) == recorded


def test_etag_has_one_hash_however_it_is_written() -> None:
    bare = etag_hash("9e107d9d372bb6826bd81d3542a419d6-2")
    assert bare is not None
    assert -(1 << 63) <= bare < 1 << 63
    for written in ('"9e107d9d372bb6826bd81d3542a419d6-2"', b'W/"9e107d9d372bb6826bd81d3542a419d6-2"'):
        assert etag_hash(written) == bare
    assert etag_hash("9e107d9d372bb6826bd81d3542a419d6-3") != bare
    assert [etag_hash(nothing) for nothing in (None, "", '""')] == [None, None, None]
    assert (same_etag(bare, None), same_etag(bare, bare), same_etag(bare, 1)) == (True, True, False)
