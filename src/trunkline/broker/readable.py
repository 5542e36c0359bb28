"""Reading events of which one may be larger, as JSON, than the server can send: 1 GB.

A number such as 1e131071 is short where it is kept and long as JSON. One such event must not hold
up its handler: it comes without what is in it, and ends as a dead letter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from trunkline.core.errors import DatabaseError

if TYPE_CHECKING:
    from trunkline.core.calls import Call
    from trunkline.core.db import AsyncDb

T = TypeVar("T")

_TOO_LARGE = "54000"  # a limit of the server's program was exceeded


class Reading(Protocol[T]):
    """Makes a call that reads events."""

    def __call__(self, *, readable: bool = False) -> Call[T]:
        """With ``readable``, one that leaves out what the server cannot send."""


async def read(db: AsyncDb, reading: Reading[T]) -> T:
    """Run a call that reads events; what is too large is left out, if anything is."""
    try:
        return await db.run(reading())
    except DatabaseError as error:
        if error.sqlstate != _TOO_LARGE:
            raise
    return await db.run(reading(readable=True))
