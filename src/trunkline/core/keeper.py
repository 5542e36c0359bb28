"""`ServerKeeper`: the service that keeps the embedded server up."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from trunkline.core import telemetry
from trunkline.core.service import Service

if TYPE_CHECKING:
    from trunkline.core.embedded import Server

logger = telemetry.get_logger(__name__)


class ServerKeeper(Service):
    """Starts the server again when its main process is gone, however that came about."""

    name = "server-keeper"

    def __init__(self, server: Server, *, interval: float = 1.0):
        self.interval = interval
        self._server = server

    async def run_once(self) -> int:
        if self._server.running:
            return 0
        logger.warning("the server is gone", data=str(self._server.data))
        await asyncio.to_thread(self._server.start)
        logger.info("the server is back")
        return 1
