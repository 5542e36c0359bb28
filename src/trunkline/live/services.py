"""Background services of live tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trunkline.core import telemetry
from trunkline.core.service import Service
from trunkline.live import calls

if TYPE_CHECKING:
    from trunkline.core.db import AsyncDb

logger = telemetry.get_logger(__name__)


class LiveTagger(Service):
    """Makes tables live whose comment says so. Any number may run; what is done stays done."""

    name = "live-tagger"
    interval = 5.0

    def __init__(self, db: AsyncDb):
        self._db = db

    async def run_once(self) -> int:
        changed = await self._db.run(calls.watch_tagged())
        for table in changed:
            logger.info("table became live" if table["live"] else "table live no longer", **table)
        return 0
