"""What watching tables asks of the database: one builder per SQL function."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trunkline.broker.models import WatchedTable
from trunkline.core.calls import Call, many, one, scalar

if TYPE_CHECKING:
    from collections.abc import Sequence


def watch(
    relation: str,
    *,
    on_insert: bool = True,
    on_update: bool = True,
    on_delete: bool = True,
    on_truncate: bool = True,
    columns: Sequence[str] | None = None,
    condition: str | None = None,
) -> Call[WatchedTable]:
    """Watch a table: what is written to it becomes events."""
    return Call(
        "broker_watch",
        {
            "relation": relation,
            "on_insert": on_insert,
            "on_update": on_update,
            "on_delete": on_delete,
            "on_truncate": on_truncate,
            "columns": None if columns is None else list(columns),
            "condition": condition,
        },
        one(WatchedTable),
        safe_to_repeat=True,
        types={"relation": "regclass", "columns": "text[]"},
    )


def unwatch(relation: str) -> Call[bool]:
    """Stop watching a table; whether it was watched."""
    return Call(
        "broker_unwatch",
        {"relation": relation},
        scalar,
        safe_to_repeat=True,
        types={"relation": "regclass"},
    )


def watched(relation: str | None = None) -> Call[list[WatchedTable]]:
    """Watched tables, what is watched of them, and what is wrong."""
    return Call(
        "broker_watched",
        {"relation": relation},
        many(WatchedTable),
        safe_to_repeat=True,
        types={"relation": "regclass"},
    )
