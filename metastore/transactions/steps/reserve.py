"""Step 2, ``reserve``: claims the commit's partitions in the index. From then on the commit is finished, or undone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.fault_points import fault_point
from catalog_ext.metastore.commit.transaction import Transaction

if TYPE_CHECKING:
    from catalog_ext.metastore.commit.commit import Commit
    from catalog_ext.metastore.transactions.resources import Resources


def reserve(resources: Resources, commit: Commit) -> Commit:
    """Reserve the commit, and return it; if its batch was committed before, return it with that version.

    A repeated call, as after a lost answer, returns the reservation of the first call.

    Raises:
        ConflictError: Another writer was first.
        CatalogExtError: The index refused the reservation or does not answer; see ``Commits.reserve``.
    """
    fault_point("reserve.before")
    found = resources.index.commits.reserve(commit)
    fault_point("reserve.after")
    if not isinstance(found, Transaction):
        return replace(commit, duplicate_version=found.version)
    # If an earlier call has reserved the commit, use that call's plan, and read its files from the index.
    is_as_sent = found.plan is commit.plan and not (found.plan.write and found.plan.write.waiting)
    return replace(commit, transaction=found, all_files=commit.all_files if is_as_sent else None)
