"""Step 4, ``apply``: one transaction of the index makes all changes of the commit visible together."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.fault_points import fault_point
from catalog_ext.metastore.runtime.tracing import span

if TYPE_CHECKING:
    from catalog_ext.metastore.commit.commit import Commit
    from catalog_ext.metastore.transactions.resources import Resources


def apply(resources: Resources, commit: Commit) -> Commit:
    """Apply the commit to the index, and return it with its outcome; if it is already committed, change nothing.

    Raises:
        HiveLockLostError: The Hive locks are not held any more.
        CatalogExtError: The index refused the changes or does not answer; see ``Commits.apply``.
    """
    fault_point("apply.before")
    resources.lock.confirm()
    with span("commit_rows"):
        committed = resources.index.commits.apply(commit, deliver=resources.delivers)
    fault_point("apply.after")
    return replace(commit, transaction=committed)
