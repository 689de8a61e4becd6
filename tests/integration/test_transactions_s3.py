"""The engine of writes on S3: what only a store without directories can show."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from metastore.errors import LocationNotFoundError
from metastore.index import Index
from metastore.storage.store import Storage
from metastore.transactions.checking import Checker

if TYPE_CHECKING:
    from pathlib import Path

    from catalog_ext.demo.servers import SeaweedServer


def test_a_table_is_created_where_no_key_lies_yet_but_not_in_a_bucket_that_is_not_there(
    s3_server: SeaweedServer, tmp_path: Path
) -> None:
    s3_server.make_bucket("creation")
    storage = Storage(
        {
            "endpoint": s3_server.endpoint,
            "access_key": s3_server.access_key,
            "secret_key": s3_server.secret_key,
            "region": s3_server.region,
            "path_style": "true",
        }
    )
    with Index.open(str(tmp_path / "index.db")) as index:
        checker = Checker(index, storage, 4)
        assert checker.empty_location("s3a://creation/warehouse/new", "_staging")
        with pytest.raises(LocationNotFoundError, match="there is no bucket 'creation-missing'"):
            checker.empty_location("s3a://creation-missing/new", "_staging")
