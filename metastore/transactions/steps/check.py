"""Step 1, ``check``: compares the write with the table and the store, before conflicts are decided."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.fault_points import fault_point
from catalog_ext.metastore.commit.json import digest_of
from catalog_ext.metastore.commit.partition_plans import COMMANDS
from catalog_ext.metastore.transactions.steps.check_command import CommandCheck
from catalog_ext.metastore.transactions.steps.check_write import WriteCheck

if TYPE_CHECKING:
    from catalog_ext.metastore.commit.commit import Commit
    from catalog_ext.metastore.transactions.resources import Resources


def check(resources: Resources, commit: Commit) -> Commit:
    """Return the commit with its checked plan, which contains everything that a recovery needs.

    Only directories of new partitions are created; nothing else changes on the store. The files that a partition
    command moves are recorded in the index.

    Raises:
        CatalogExtError: The write does not fit the table or the store; see ``WriteCheck.checked`` and
            ``CommandCheck.checked``.
    """
    fault_point("check.before")
    plan = commit.plan
    if isinstance(plan.asked, COMMANDS):
        checked = CommandCheck(resources, commit.transaction).checked(plan.asked)
    else:
        checked = WriteCheck(resources, commit).checked(plan.asked)
        assert checked.write is not None, "a write was checked"
        write = replace(checked.write, digest=digest_of(commit.files, commit.recorded))
        checked = replace(checked, change=write)
    fault_point("check.after")
    return replace(commit, transaction=replace(commit.transaction, plan=checked))
