"""`Gate`: services stand aside while pg_cron does their work."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from trunkline.broker import calls

if TYPE_CHECKING:
    from trunkline.core.db import AsyncDb

_ASK_EVERY = 5.0  # seconds


class Gate:
    """Whether the work is the services'; asked now and then."""

    def __init__(self, db: AsyncDb):
        self._db = db
        self._ours = True
        self._asked_at = float("-inf")

    async def is_open(self) -> bool:
        """True while `broker_schedule` names the services."""
        now = time.monotonic()
        if now - self._asked_at >= _ASK_EVERY:
            self._ours = (await self._db.run(calls.scheduled()))[0].by_whom == "services"
            self._asked_at = now
        return self._ours
