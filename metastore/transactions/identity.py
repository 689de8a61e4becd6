"""Which file is which: other engines give names again; ours, which carry their transaction's id, are given once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.transaction import transaction_id_in

if TYPE_CHECKING:
    from catalog_ext.metastore.commit.removals import Removal
    from catalog_ext.metastore.storage.entries import Entry
    from catalog_ext.metastore.storage.locations import Location


def has_own_name(file: Location) -> bool:
    """Return whether nobody gives a file that name again, so that its size and time need not be compared.

    The index may have another time for such a file than the store.
    """
    return transaction_id_in(file.name) is not None


def is_same_file(there: Entry, recorded: Removal) -> bool:
    """Return whether what is at a place now is the file that was recorded there, whatever any clock says."""
    return has_own_name(there.location) or recorded.is_still(there.size, there.modified_ms)
