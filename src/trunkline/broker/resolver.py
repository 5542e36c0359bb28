"""`Resolver`: looks up names, each in a thread of its own, because the system can do it only so.

A look-up cannot be ended, and where a name server is silent it takes as long as the system likes.
So there is one at a time for each name, however many ask; one that is silent gives up its turn to
others; and a name that was silent the last time takes no turn at all.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from contextlib import suppress

_AT_ONCE = 32
_SILENT_AFTER = 0.25  # seconds
_MOST_SILENT = 512  # look-ups that have given up their turn


class Resolver:
    """Looks names up: name servers that are silent hold back no other name."""

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._aside = asyncio.Semaphore(_MOST_SILENT)
        self._silent: set[str] = set()
        self._under_way: dict[tuple[str, int], asyncio.Task[list[str]]] = {}

    async def __call__(self, host: str, port: int) -> list[str]:
        """The addresses of a name; `OSError` when it has none."""
        name = host, port
        if name not in self._under_way:
            task = asyncio.create_task(self._look_up(host, port), name=f"look up {host}")
            task.add_done_callback(lambda task: self._ended(name, task))
            self._under_way[name] = task
        return await asyncio.shield(self._under_way[name])

    def close(self) -> None:
        """Wait for none any more; threads under way end by themselves."""
        for task in self._under_way.values():
            task.cancel()

    def _ended(self, name: tuple[str, int], task: asyncio.Task[list[str]]) -> None:
        del self._under_way[name]
        if not task.cancelled():
            task.exception()  # whoever asked may have left

    async def _look_up(self, host: str, port: int) -> list[str]:
        began = time.monotonic()
        try:
            if host in self._silent:
                async with self._aside:
                    began = time.monotonic()
                    return await _addresses(host, port)
            async with self._turns:
                began = time.monotonic()
                answer = _addresses(host, port)
                await asyncio.wait({answer}, timeout=_SILENT_AFTER)
                if answer.done() or self._aside.locked():
                    return await answer
                await self._aside.acquire()
            try:
                return await answer
            finally:
                self._aside.release()
        finally:
            was_silent = time.monotonic() - began > _SILENT_AFTER
            (self._silent.add if was_silent else self._silent.discard)(host)


def _addresses(host: str, port: int) -> asyncio.Future[list[str]]:
    """The addresses of a name, from a thread that keeps no program from ending."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[str]] = loop.create_future()

    def tell(found: list[str] | Exception) -> None:
        if answer.done():
            return
        if isinstance(found, Exception):
            answer.set_exception(found)
        else:
            answer.set_result(found)

    def look_up() -> None:
        found: list[str] | Exception
        try:
            entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            found = list(dict.fromkeys(str(entry[4][0]) for entry in entries))
        except Exception as error:  # noqa: BLE001 - it is whoever asks who is told
            found = error
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(tell, found)

    threading.Thread(target=look_up, name=f"webhook name {host}", daemon=True).start()
    return answer
