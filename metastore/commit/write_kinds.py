"""The kinds of change that a transaction makes."""

from __future__ import annotations

from catalog_ext.metastore.backports import StrEnum


class WriteKind(StrEnum):
    """The kinds of change, as written in the service's messages and in the stored plan."""

    APPEND = "append"
    OVERWRITE_PARTITIONS = "overwrite_partitions"
    OVERWRITE = "overwrite"
    CREATE = "create"
    REPLACE = "replace"
    CREATE_OR_REPLACE = "create_or_replace"
    ADD_PARTITIONS = "add_partitions"
    DROP_PARTITIONS = "drop_partitions"
    RENAME_PARTITION = "rename_partition"
    RELOCATE_PARTITION = "relocate_partition"
    EXCHANGE_PARTITIONS = "exchange_partitions"
    ROLLBACK = "rollback"
