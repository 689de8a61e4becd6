"""The progress of a repair, a registration or an import, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.metastore.runtime.wording import counted

if TYPE_CHECKING:
    from catalog_ext.context import RepairProgress

PHASES = {
    "listing": "Listing the store",
    "comparing": "Comparing with the index",
    "verifying": "Looking into files",
    "applying": "Applying changes",
    "delivering": "Telling the metastore",
}
"""The phases in words."""


def in_words(report: RepairProgress) -> tuple[str, str]:
    """Return the phase in words, and the counts so far (``''`` while they are 0)."""
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
    """Return an estimated duration in one or two units."""
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
