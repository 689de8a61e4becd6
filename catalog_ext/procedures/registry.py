"""The procedures of a catalog by name, for ``CALL <catalog>.system.<name>(…)``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import ProcedureNotFoundError
from catalog_ext.metastore.runtime.wording import did_you_mean
from catalog_ext.procedures import metastore, partitions, tables, tags, versions, views, writes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog_ext.procedures.procedure import Procedure

PROCEDURES: Sequence[Procedure] = (
    *tables.PROCEDURES, *partitions.PROCEDURES, *writes.PROCEDURES, *versions.PROCEDURES, *tags.PROCEDURES,
    *views.PROCEDURES, *metastore.PROCEDURES,
)  # fmt: skip
_BY_NAME = {p.name: p for p in PROCEDURES}


def find_procedure(name: str, namespace: str = "") -> Procedure:
    """Return the procedure with this name, in any case.

    ``namespace`` is put before names in the error, so that they can be copied into a CALL: ``lake.system.``.

    Raises:
        ProcedureNotFoundError: There is no such procedure.
    """
    procedure = _BY_NAME.get(name.lower())
    if procedure is None:
        raise ProcedureNotFoundError(
            f"There is no procedure {namespace}{name[:60]}. {did_you_mean(name[:60], _BY_NAME, prefix=namespace)}The "
            f"catalog's procedures are: {', '.join(_BY_NAME)}.",
            {"procedure": name[:60]},
        )
    return procedure
