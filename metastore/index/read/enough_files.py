"""As many files of a plan as hold the rows that are wanted, so that a query with a LIMIT plans no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterator


def enough_files(plan: pa.RecordBatchReader, rows: int) -> pa.RecordBatchReader:
    """Return the first files of a plan that hold so many rows; those whose rows are unknown count for none."""

    def batches() -> Iterator[pa.RecordBatch]:
        wanted = rows
        with plan:
            for batch in plan:
                held = pc.cumulative_sum(pc.fill_null(batch.column("rows"), 0))
                enough = pc.index(pc.greater_equal(held, wanted), value=True).as_py()
                if enough >= 0:
                    yield batch.slice(0, enough + 1)
                    return
                wanted -= held[-1].as_py() if len(held) else 0
                yield batch

    return pa.RecordBatchReader.from_batches(plan.schema, batches())
