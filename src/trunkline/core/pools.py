"""Pools that lend the connection again that came back last.

psycopg's lend in turn. A session that has just worked has its plans and the server's caches at
hand, and what is not lent for a while is closed.
"""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from trunkline.core.eager import EagerConnection


class AsyncPool(AsyncConnectionPool[EagerConnection]):
    """Otherwise as psycopg's."""

    async def _get_ready_connection(self, timeout: float | None) -> EagerConnection | None:
        self._pool.rotate(1)
        return await super()._get_ready_connection(timeout)


class Pool(ConnectionPool[psycopg.Connection[Any]]):
    """Otherwise as psycopg's."""

    def _get_ready_connection(self, timeout: float | None) -> psycopg.Connection[Any] | None:
        self._pool.rotate(1)
        return super()._get_ready_connection(timeout)
