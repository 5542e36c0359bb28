"""`Arrivals`: a driver that waits for something new, woken by NOTIFY; polling is the net."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import psycopg

from trunkline.core.listen import CHANNEL

if TYPE_CHECKING:
    from collections.abc import Sequence

_RETRY_AFTER = 5.0  # seconds before a lost connection is opened again


class Arrivals:
    """Hears keys with one of the prefixes on a connection of its own."""

    def __init__(self, dsn: str, prefixes: Sequence[str]):
        self._dsn = dsn
        self._prefixes = tuple(prefixes)
        self._connection: psycopg.Connection[Any] | None = None
        self._retry_at = 0.0

    def wait(self, timeout: float) -> None:
        """Return when something came, or after ``timeout``; without a connection it just waits."""
        until = time.monotonic() + timeout
        try:
            listening = self._listening()
            if listening is None:
                return  # just opened: look once more before waiting
            while (left := until - time.monotonic()) > 0:
                for notice in listening.notifies(timeout=left, stop_after=1):
                    if notice.payload.startswith(self._prefixes):
                        return
        except psycopg.Error:
            self.close()
            self._retry_at = time.monotonic() + _RETRY_AFTER
            time.sleep(max(0.0, until - time.monotonic()))

    def close(self) -> None:
        """Stop listening."""
        listening, self._connection = self._connection, None
        if listening is not None:
            listening.close()

    def _listening(self) -> psycopg.Connection[Any] | None:
        if self._connection is not None:
            return self._connection
        if time.monotonic() < self._retry_at:
            raise psycopg.OperationalError("waiting to reconnect")
        self._connection = psycopg.connect(self._dsn, autocommit=True, connect_timeout=5)
        self._connection.execute(f"listen {CHANNEL}")
        return None
