"""Which roles nobody becomes through the gateway, whatever a token says."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from trunkline.core.execution import translated
from trunkline.gateway.problems import Unauthenticated

if TYPE_CHECKING:
    from trunkline.core.db import AsyncDb

_BELIEVED_FOR = 60.0  # seconds
_MOST = 1_000  # roles that are remembered
_IS_SUPERUSER = "select exists (select from pg_roles where rolname = %s and rolsuper)"


class Roles:
    """Refuses superusers: no grant and no policy binds them."""

    def __init__(self, db: AsyncDb):
        self._db = db
        self._ordinary: dict[str, float] = {}

    async def check(self, role: str) -> None:
        """Raises `Unauthenticated` for a role that nobody may have here."""
        if time.monotonic() - self._ordinary.get(role, -_BELIEVED_FOR) < _BELIEVED_FOR:
            return
        async with self._db.connection() as connection:
            with translated(connection):
                answer = await connection.execute(_IS_SUPERUSER, [role])
                row = await answer.fetchone()
        if row is None or row[0]:
            raise Unauthenticated(
                f'the token names the role "{role}", which is a superuser.',
                hint="Expected a role that grants and policies bind.",
            )
        if len(self._ordinary) >= _MOST:
            self._ordinary.clear()
        self._ordinary[role] = time.monotonic()
