"""Work that only a commit can make is not looked for while nobody commits.

To say that nothing was committed since costs a server far less than to look for new rows. So while
a service finds nothing, it asks that first. Of the services of a process that share `Commits` the
quickest asks: what it learns the others need not ask for, and a commit wakes them.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trunkline.core.calls import Call, scalar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from trunkline.core.db import AsyncDb


def commits_seen() -> Call[str]:
    """A text that changes with every commit of the server that wrote something."""
    return Call("_commits_seen", {}, scalar, safe_to_repeat=True)


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """What the server said of its commits; everything is in it that was committed before."""

    seen: str
    asked_at: float


class Commits:
    """What the services of a process know of the commits of their server."""

    def __init__(self) -> None:
        self.last: Answer | None = None
        self._told: list[Callable[[str], None]] = []

    def tell(self, told: Callable[[str], None]) -> None:
        """Call this with whatever is seen."""
        self._told.append(told)

    async def ask(self, db: AsyncDb) -> Answer:
        """Ask the server."""
        asked_at = time.monotonic()
        answer = Answer(await db.run(commits_seen()), asked_at)
        if self.last is None or self.last.asked_at < asked_at:
            self.last = answer
            for told in self._told:
                told(answer.seen)
        return answer


class Quiet:
    """Leaves out a kind of work while nothing can have come for it.

    An answer that another got for ``commits`` will do if it is new and younger than ``within``
    seconds; ``wake`` is called when another learns of a commit.
    """

    def __init__(
        self,
        db: AsyncDb,
        *,
        commits: Commits | None = None,
        within: float = 0.0,
        wake: Callable[[], None] | None = None,
    ):
        self._db = db
        self._commits = commits or Commits()
        self._within = within
        self._wake = wake
        self._busy = True
        self._used: Answer | None = None
        self._nothing_since: str | None = None
        self._commits.tell(self._heard)

    async def unless_still(self, work: Callable[[], Awaitable[int]]) -> int:
        """Do the work; how much it was. Left out if it last was none and nobody committed since."""
        nothing_since, self._nothing_since = self._nothing_since, None
        seen = None if self._busy else await self._seen()
        if seen is not None and seen == nothing_since:
            self._nothing_since = seen
            return 0
        done = await work()
        self._busy = done > 0
        if not done:
            self._nothing_since = seen  # what was committed after that is looked for again
        return done

    async def _seen(self) -> str:
        known = self._commits.last
        if (
            known is None
            or known is self._used
            or time.monotonic() >= known.asked_at + self._within
        ):
            known = await self._commits.ask(self._db)
        self._used = known
        return known.seen

    def _heard(self, seen: str) -> None:
        if self._wake is not None and self._nothing_since not in {None, seen}:
            self._wake()
