"""`Maintainer`: the service that calls ``trunkline.maintain()`` now and then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trunkline.core.execution import translated
from trunkline.core.service import Service

if TYPE_CHECKING:
    from trunkline.core.db import AsyncDb


class Maintainer(Service):
    """Seals, retires and rotates. Any number may run: each duty is done by one at a time."""

    name = "maintainer"

    def __init__(self, db: AsyncDb, *, interval: float = 5.0):
        self.interval = interval
        self._db = db

    async def run_once(self) -> int:
        async with self._db.connection() as connection:
            with translated():
                await connection.execute("call trunkline.maintain()")
        return 0
