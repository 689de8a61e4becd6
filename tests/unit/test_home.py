"""An index has one metastore and one warehouse, and says so to who opens it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from catalog_ext.conf.home import at_home, record
from catalog_ext.conf.resolved import Settings
from catalog_ext.metastore.errors import InvalidConfigurationError
from tests.index_cases import local_index

if TYPE_CHECKING:
    from pathlib import Path


def test_defaults_are_the_indexes_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    first = Settings.resolve(warehouse=str(tmp_path / "w1" / "wh"))
    elsewhere = at_home(Settings.resolve(index=first.index), record(first))
    assert (elsewhere.warehouse, elsewhere.metastore, elsewhere.state) == (first.warehouse, "embedded", first.state)
    served = Settings.resolve(warehouse=str(tmp_path / "wh"), metastore="thrift://B:9083/,thrift://a:9083")
    assert at_home(Settings.resolve(), record(served)).metastore == "thrift://a:9083,thrift://b:9083"
    assert at_home(Settings.resolve(metastore="thrift://b:9083"), record(served)).metastore == "thrift://b:9083"
    assert at_home(Settings.resolve(metastore=None), record(served)).metastore is None


@pytest.mark.parametrize(
    ("given", "named"),
    [({"metastore": "thrift://other:1"}, "thrift://other:1"), ({"warehouse": "s3://b/other"}, "s3a://b/other")],
)
def test_another_one_is_refused_with_both_names(tmp_path: Path, given: dict[str, str], named: str) -> None:
    first = record(Settings.resolve(warehouse=str(tmp_path / "wh"), metastore="thrift://a:9083"))
    with pytest.raises(InvalidConfigurationError, match=r"belongs to the .* adopt") as raised:
        at_home(Settings.resolve(index="i.db", **given), first)
    assert named in raised.value.message
    assert first[next(iter(given))] in raised.value.message


def test_the_first_record_stays_until_it_is_replaced(tmp_path: Path) -> None:
    with local_index(tmp_path) as index:
        assert index.properties() == {}
        assert index.add_properties({"warehouse": "file:///a"}) == {"warehouse": "file:///a"}
        both = {"warehouse": "file:///a", "metastore": "thrift://a:1"}
        assert index.add_properties(both | {"warehouse": "file:///b"}) == both
        index.replace_properties({"warehouse": "file:///b"})
        assert index.properties() == both | {"warehouse": "file:///b"}
