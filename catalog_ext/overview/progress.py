"""How far a repair, a registration or an import is, and that in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from catalog_ext.metastore.runtime.wording import counted

PHASES = {
    "listing": "Listing the store",
    "comparing": "Comparing with the index",
    "verifying": "Looking into files",
    "applying": "Applying changes",
    "delivering": "Telling the metastore",
}
"""The words of the phases."""


@dataclass(frozen=True, slots=True)
class RepairProgress:
    """How far a repair is.

    Attributes:
        phase: ``listing``, ``comparing``, ``verifying``, ``applying`` or ``delivering``.
        partitions: Partitions seen (listing) or dealt with (applying) so far.
        files: Files, likewise; looked into so far (verifying).
        total: How many partitions there will be, where known (applying).
        left_s: Seconds that this phase still takes, as fast as it went so far; None where nobody knows. Applying goes
            by ``total``; listing by what is registered, or on a local disk by the directories right below the table's.
    """

    phase: str
    partitions: int
    files: int
    total: int | None = None
    left_s: float | None = None


Progress = Callable[[RepairProgress], None]


def no_progress(_: RepairProgress) -> None:
    """Ignore how far a repair or an import is."""


def in_words(report: RepairProgress) -> tuple[str, str]:
    """Return the phase in words, and what was counted so far; ``''`` where nothing was."""
    counts = counted(report.partitions, "partition")
    if report.total is not None:
        counts = f"{report.partitions:,} of {counted(report.total, 'partition')}"
    if report.files:
        counts += f", {counted(report.files, 'file')}"
    if report.left_s is not None:
        counts += f", about {_duration(report.left_s)} left"
    if not (report.partitions or report.files):
        counts = ""
    return PHASES.get(report.phase, report.phase), counts


def _duration(seconds: float) -> str:
    """Return it as exactly as an estimate is."""
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
