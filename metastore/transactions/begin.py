"""The begin of a write: dead writers of its table are recovered, then its row is made in the index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.fault_points import fault_point
from catalog_ext.metastore.commit.plan import CREATIONS
from catalog_ext.metastore.commit.transaction import NOT_READ, BegunWrite, State, Transaction
from catalog_ext.metastore.runtime.users import signed
from catalog_ext.metastore.transactions.planning import Planner, definition_of

if TYPE_CHECKING:
    from catalog_ext.metastore.commit.transaction import BeginWrite
    from catalog_ext.metastore.transactions.recovery import Recovery
    from catalog_ext.metastore.transactions.steps.resources import Resources


class Beginning:
    """Begins writes.

    Args:
        resources: Those of commits.
        recovery: Recovers what dead writers left.
    """

    def __init__(self, resources: Resources, recovery: Recovery) -> None:
        self._transactions = resources.index.transactions
        self._planner = Planner(resources.index, resources.storage)
        self._recovery = recovery

    def begin(self, request: BeginWrite) -> BegunWrite:
        """Return the transaction of a new write; see ``Transactions.begin``."""
        fault_point("begin.before")
        # A creation, and a batch of an application, always look for dead writers first.
        if request.app_id is None and not isinstance(request.asked, CREATIONS):
            begun = self._begun(request, looks=True)
            if begun is not None:
                return begun
        shown = str(definition_of(request).identifier)
        self._recovery.of_table(None if request.table is None else request.table.table_id, shown, request.app_id)
        begun = self._begun(request, looks=False)
        assert begun is not None, "without looking for dead writers it begins"
        return begun

    def _begun(self, request: BeginWrite, *, looks: bool) -> BegunWrite | None:
        """Plan and begin a write; None where it looks for dead writers (``looks``) and finds some."""
        transaction_id = request.transaction_id
        plan = self._planner.plan(request, transaction_id)
        if self._is_duplicate(request):
            return BegunWrite("", plan, {}, plan.lease_ms, duplicate=True)
        creates = isinstance(request.asked, CREATIONS)
        transaction = Transaction(
            transaction_id=transaction_id,
            table_id=None if creates or request.table is None else request.table.table_id,
            table=str(definition_of(request).identifier),
            operation=request.operation,
            state=State.OPEN,
            owner=signed(request.owner),
            base_version=_base_version(request),
            began_at_ms=0,
            expires_at_ms=0,
            plan=plan,
            app_id=request.app_id,
            app_version=request.app_version,
        )
        replaced = request.table.table_id if creates and request.table is not None else None
        begun = (
            self._transactions.begin_among_living(transaction, request.planned)
            if looks
            else self._transactions.begin(transaction, replaced, request.planned)
        )
        if begun is None:
            return None
        fault_point("begin.after")
        return BegunWrite(transaction_id, begun.plan, begun.plan.locations, begun.plan.lease_ms)

    def _is_duplicate(self, request: BeginWrite) -> bool:
        if request.app_id is None or request.app_version is None or request.table is None:
            return False
        known = self._transactions.find_application(request.table.table_id, request.app_id)
        return known is not None and known.app_version >= request.app_version


def _base_version(request: BeginWrite) -> int:
    if request.table is None:
        return 0
    is_read = request.reads_replaced or not isinstance(request.asked, CREATIONS)
    return request.table.version if is_read else NOT_READ
