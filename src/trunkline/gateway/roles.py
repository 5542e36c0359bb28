"""Roles that a token may name: no superuser, and only roles that the gateway may become."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from trunkline.core.acting import may_not_act
from trunkline.core.execution import translated
from trunkline.gateway.problems import Unauthenticated

if TYPE_CHECKING:
    from trunkline.core.db import AsyncDb

_BELIEVED_FOR = 60.0  # seconds
_MOST = 1_000  # roles that are remembered
_MAY_BECOME = """
select r.rolsuper, pg_has_role(session_user, r.oid, 'member') from pg_roles r where r.rolname = %s
"""


class Roles:
    """Refuses superusers, whom no grant and no policy binds, and roles the gateway may not become.

    A role that was accepted is believed for a minute. A membership that is revoked meanwhile is
    refused by Postgres when a call takes the role.
    """

    def __init__(self, db: AsyncDb):
        self._db = db
        self._accepted: dict[str, float] = {}

    async def check(self, role: str) -> None:
        """Check a role; raises `Unauthenticated` for a superuser and `Forbidden` for others."""
        if time.monotonic() - self._accepted.get(role, -_BELIEVED_FOR) < _BELIEVED_FOR:
            return
        async with self._db.connection() as connection:
            with translated(connection):
                answer = await connection.execute(_MAY_BECOME, [role])
                superuser, member = await answer.fetchone() or (False, False)
            if not (superuser or member):
                raise may_not_act(connection, role)
        if superuser:
            raise Unauthenticated(
                f'the token names the role "{role}", which is a superuser.',
                hint="Expected a role that grants and policies bind.",
            )
        if len(self._accepted) >= _MOST:
            self._accepted.clear()
        self._accepted[role] = time.monotonic()
