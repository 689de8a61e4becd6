"""What a batch of events has come to, as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from catalog_ext.metastore.errors import CatalogExtError

if TYPE_CHECKING:
    from catalog_ext.events.store_events import EventsOutcome


def outcome_json(outcome: EventsOutcome) -> dict[str, Any]:
    """Return the fields of ``events/put`` (``docs/spec/service.md``)."""
    return {
        "events": outcome.events,
        "ignored": outcome.ignored,
        "left": len(outcome.left),
        "tables": [
            {
                "table": each.table,
                "looked_at": each.looked_at,
                "added": each.added,
                "dropped": each.dropped,
                "changed": each.changed,
                "version": each.version,
                "error": each.error.message if isinstance(each.error, CatalogExtError) else each.error,
            }
            for each in outcome.tables
        ],
    }
