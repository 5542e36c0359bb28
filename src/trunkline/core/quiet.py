"""Work that only a commit can make is not looked for while nobody commits.

To say that nothing was committed since costs a server far less than to look for new rows. So while
a service finds nothing, it asks that first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trunkline.core.calls import Call, scalar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from trunkline.core.db import AsyncDb


def commits_seen() -> Call[str]:
    """A text that changes with every commit of the server that wrote something."""
    return Call("_commits_seen", {}, scalar, safe_to_repeat=True)


class Quiet:
    """Leaves out a kind of work while nothing can have come for it."""

    def __init__(self, db: AsyncDb):
        self._db = db
        self._busy = True
        self._nothing_since: str | None = None

    async def unless_still(self, work: Callable[[], Awaitable[int]]) -> int:
        """Do the work; how much it was. Left out if it last was none and nobody committed since."""
        seen: str | None = None
        if not self._busy:
            seen = await self._db.run(commits_seen())
        if seen is not None and seen == self._nothing_since:
            return 0
        self._nothing_since = None
        done = await work()
        self._busy = done > 0
        if not done:
            self._nothing_since = seen  # what was committed after that is looked for again
        return done
