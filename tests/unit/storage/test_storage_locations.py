"""Locations: one canonical form, nothing decoded, hostile names refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog_ext.metastore.errors import InvalidInputError
from catalog_ext.metastore.storage.locations import Location, canonical_location, locations_equal

COMPONENTS = st.text(
    alphabet=st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=20
).filter(lambda text: text not in (".", ".."))
PATHS = st.lists(COMPONENTS, min_size=1, max_size=5).map("/".join)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("s3://bucket/key", "s3a://bucket/key"),
        ("s3n://bucket/key", "s3a://bucket/key"),
        ("S3A://bucket/key/", "s3a://bucket/key"),
        ("s3a://bucket", "s3a://bucket"),
        ("s3a://bucket//", "s3a://bucket"),
        ("s3a://bucket//a///b/", "s3a://bucket/a/b"),
        ("s3a://bucket/a%2Fb/k=a%20b", "s3a://bucket/a%2Fb/k=a%20b"),
        ("s3a://bucket/a?b#c", "s3a://bucket/a?b#c"),
        ("s3a://my.bucket-1/ds=2025-01-01 10:00", "s3a://my.bucket-1/ds=2025-01-01 10:00"),
        ("/warehouse/trips", "file:///warehouse/trips"),
        ("//warehouse//trips/", "file:///warehouse/trips"),
        ("file:/warehouse/trips", "file:///warehouse/trips"),
        ("file:///warehouse/trips", "file:///warehouse/trips"),
        ("file:////warehouse/./trips", "file:///warehouse/trips"),
        ("file://localhost/warehouse", "file:///warehouse"),
        ("/", "file:///"),
        ("hdfs://name:8020/warehouse//trips/", "hdfs://name:8020/warehouse/trips"),
        ("HDFS://nameservice1/a%2Fb/k=a?b#c", "hdfs://nameservice1/a%2Fb/k=a?b#c"),
        ("hdfs://name:8020", "hdfs://name:8020/"),
        ('/a%2Fb/é/it\'s "x"; DROP TABLE t', 'file:///a%2Fb/é/it\'s "x"; DROP TABLE t'),
        ("/line\nbreak", "file:///line\nbreak"),
        ("/a..b/..c/d..", "file:///a..b/..c/d.."),
        ("/ leading and trailing ", "file:/// leading and trailing "),
    ],
)
def test_one_canonical_form(text: str, canonical: str) -> None:
    assert canonical_location(text) == canonical
    assert canonical_location(canonical) == canonical


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("trips", "relative"),
        ("./trips", "relative"),
        ("file:trips", "relative"),
        ("file://host/trips", "three slashes"),
        ("file://trips", "three slashes"),
        ("hdfs:///trips", "does not name the HDFS"),
        ("hdfs:/trips", "does not name the HDFS"),
        ("hdfs://user@name:8020/trips", "does not name the HDFS"),
        ("hdfs://name:8020/../trips", "'..'"),
        ("gs://bucket/trips", "'gs', which is not supported"),
        ("s3a:bucket/trips", "names no bucket"),
        ("s3a:///trips", "bucket name"),
        ("s3a://buc*ket/trips", "bucket name"),
        ("s3a://bucket/../other", "'..'"),
        ("/a/../b", "'..'"),
        ("/a/..", "'..'"),
        ("/nul\0byte", "NUL"),
        ("/lone\udc80surrogate", "Unicode"),
    ],
)
def test_what_is_refused(text: str, words: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        canonical_location(text)
    assert words in refused.value.message


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        ("file:/a/b", "/a//b/", True), ("file:///a/./b", "file:/a/b", True), ("s3://b/k", "s3a://b/k/", True),
        ("s3n://b/k", "s3a://b/k", True), ("hdfs://n:8020/k", "hdfs://n:8020/k", True), ("/a", "/b", False),
        ("hdfs://n:8020/k", "hdfs://m:8020/k", False), ("/a%20b", "/a b", False), ("gs://b/k", "gs://b/k", False),
        (None, "/a", False), (None, None, False), ("a", "a", False),
    ],
)  # fmt: skip
def test_locations_are_equal_however_they_are_spelled(left: str | None, right: str | None, equal: bool) -> None:
    assert locations_equal(left, right) is equal


def test_a_secret_in_the_location_is_not_repeated() -> None:
    with pytest.raises(InvalidInputError) as refused:
        canonical_location("s3a://AKIAKEY:topsecret@bucket/trips")
    assert "topsecret" not in str(refused.value)
    assert "AKIAKEY" not in str(refused.value)
    assert "topsecret" not in str(refused.value.parameters)


def test_a_long_location_is_shortened_in_the_message() -> None:
    with pytest.raises(InvalidInputError) as refused:
        canonical_location("x" * 10_000)
    assert len(refused.value.message) < 500
    assert "10000 characters" in refused.value.message


def test_a_long_location_is_kept_whole() -> None:
    assert canonical_location("/" + "x" * 10_000) == "file:///" + "x" * 10_000


def test_relative_is_relative_to_the_base() -> None:
    trips = Location.parse("s3://bucket/trips")
    assert str(Location.parse("k=1/x", base=trips)) == "s3a://bucket/trips/k=1/x"
    assert str(Location.parse("/elsewhere", base=trips)) == "file:///elsewhere"
    with pytest.raises(InvalidInputError):
        Location.parse("../other", base=Location.parse("/trips"))


def test_contains_compares_components() -> None:
    trips = Location.parse("s3a://bucket/trips")
    assert trips.contains(Location.parse("s3://bucket/trips"))
    assert trips.contains(Location.parse("s3n://bucket/trips/k=1"))
    assert not trips.contains(Location.parse("s3a://bucket/trips2"))
    assert not trips.contains(Location.parse("s3a://other/trips/k=1"))
    assert not trips.contains(Location.parse("/bucket/trips"))
    assert Location.parse("s3a://bucket").contains(trips)
    assert Location.parse("/").contains(Location.parse("/a"))


def test_overlaps_goes_both_ways() -> None:
    parent, child, other = (Location.parse(text) for text in ("/a/b", "/a/b/c", "/a/bc"))
    assert parent.overlaps(child)
    assert child.overlaps(parent)
    assert not parent.overlaps(other)


def test_relative_to_something_else_is_an_error() -> None:
    with pytest.raises(InvalidInputError, match="does not lie below"):
        Location.parse("/a/bc").relative_to(Location.parse("/a/b"))


def test_name_parent_and_path() -> None:
    location = Location.parse("s3://bucket/trips/k=1")
    assert (location.name, str(location.parent), location.path) == ("k=1", "s3a://bucket/trips", "bucket/trips/k=1")
    root = Location.parse("s3://bucket")
    assert (root.name, root.parent, root.path) == ("", root, "bucket")
    assert Location.parse("/").path == "/"


@given(PATHS, st.sampled_from(["/", "s3://bucket/", "s3a://bucket/trips", "/trips"]))
def test_joining_and_taking_apart_are_inverse(path: str, parent_text: str) -> None:
    parent = Location.parse(parent_text)
    child = parent.join(path)
    assert child.relative_to(parent) == path
    assert parent.contains(child)
    assert Location.parse(str(child)) == child
    assert child.name == path.rpartition("/")[2]
