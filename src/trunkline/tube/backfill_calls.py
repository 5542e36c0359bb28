"""What backfills ask of the database: one builder per SQL function."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trunkline.core.calls import Call, many, scalar
from trunkline.tube.models import Backfill

if TYPE_CHECKING:
    from datetime import timedelta


def schedule(
    tube: str,
    *,
    relation: str | None = None,
    order_by: str | None = None,
    chunk: int = 10_000,
    throttle: timedelta | None = None,
) -> Call[list[int]]:
    """Emit every row of a table anew, in chunks, behind live changes; the backfills' numbers."""
    arguments = {
        "tube": tube,
        "relation": relation,
        "order_by": order_by,
        "chunk": chunk,
        "throttle": throttle,
    }
    if throttle is None:
        del arguments["throttle"]
    return Call(
        "tube_backfill_schedule",
        arguments,
        lambda rows: [row["backfill"] for row in rows],
        safe_to_repeat=True,
        types={"relation": "regclass"},
    )


def step(backfill: int) -> Call[bool]:
    """Do the next chunk of a backfill; whether there is more to do."""
    return Call("tube_backfill_step", {"backfill": backfill}, scalar, safe_to_repeat=True)


def status(tube: str | None = None) -> Call[list[Backfill]]:
    """Backfills of a tube, newest first: how far they are and what they wait for."""
    return Call("tube_backfill_status", {"tube": tube}, many(Backfill), safe_to_repeat=True)


def pause(tube: str, *, pause: bool = True) -> Call[int]:
    """Pause the backfills of a tube, or go on with them."""
    return Call("tube_backfill_pause", {"tube": tube, "pause": pause}, scalar, safe_to_repeat=True)


def cancel(tube: str) -> Call[int]:
    """Give up the backfills of a tube that are under way."""
    return Call("tube_backfill_cancel", {"tube": tube}, scalar, safe_to_repeat=True)
