"""Objects that are looked for by their keys: what is found, and with how many listings."""

from __future__ import annotations

import pytest

from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.storage.store import Storage
from tests.servers.paged_keys import PagedKeys

KEYS = [f"t/k={partition}/part-{number:03}" for partition in range(3) for number in range(200)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wanted", "requests", "starts_after"),
    [
        (KEYS[:100], 2, True),
        (KEYS[::100], 6, True),
        (["t/k=1/part-0", "t/k=1/part-000x", "t/k=9/part-000", "a", "z"], 3, True),
        (KEYS[::100], 12, False),
    ],
)
def test_objects_are_found_among_others(wanted: list[str], requests: int, starts_after: bool) -> None:
    with PagedKeys(KEYS, of_page=60) as store:
        store.starts_after = starts_after
        places = [Location("s3a", "bucket", key) for key in wanted]
        found = Storage(store.options).identify_many(places)
        assert [None if entry is None else entry.location.key for entry in found] == [
            key if key in KEYS else None for key in wanted
        ]
        assert all(entry.etag is not None for entry in found if entry is not None)
        assert len(store.asked) <= requests


def test_nothing_is_asked_for_no_object() -> None:
    assert Storage().identify_many([]) == []
