"""`Network`: connections on the event loop itself, in the form that httpcore asks for.

Its own go through a library for any event loop, which for a short message takes longer than the
message.
"""

from __future__ import annotations

import asyncio
import select
import ssl
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpcore

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_MOST_UNREAD = 262_144  # bytes, then the sender has to wait


class Network(httpcore.AsyncNetworkBackend):
    """Opens connections."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        loop = asyncio.get_running_loop()
        bound = None if local_address is None else (local_address, 0)
        with _failing_as(httpcore.ConnectTimeout, httpcore.ConnectError):
            async with asyncio.timeout(timeout):
                _, stream = await loop.create_connection(Stream, host, port, local_addr=bound)
        for option in socket_options or ():
            stream.get_extra_info("socket").setsockopt(*option)
        return stream

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Stream(asyncio.Protocol, httpcore.AsyncNetworkStream):
    """One connection. It has one reader and one writer."""

    def __init__(self) -> None:
        self._transport: Any = None
        self._unread = bytearray()
        self._ended = False
        self._lost: Exception | None = None
        self._came = asyncio.Event()
        self._may_write = asyncio.Event()
        self._may_write.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._unread += data
        self._came.set()
        if len(self._unread) > _MOST_UNREAD:
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        self._ended = True
        self._came.set()
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._ended = True
        self._lost = error
        self._came.set()
        self._may_write.set()

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        with _failing_as(httpcore.ReadTimeout, httpcore.ReadError):
            while not (self._unread or self._ended):
                self._came.clear()
                await asyncio.wait_for(self._came.wait(), timeout)
            if self._lost is not None and not self._unread:
                raise self._lost
        data = bytes(self._unread[:max_bytes])
        del self._unread[:max_bytes]
        if len(self._unread) <= _MOST_UNREAD and not self._ended:
            self._transport.resume_reading()
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        with _failing_as(httpcore.WriteTimeout, httpcore.WriteError):
            if self._transport.is_closing():
                raise ConnectionResetError("the connection is closed")
            self._transport.write(buffer)
            if not self._may_write.is_set():
                await asyncio.wait_for(self._may_write.wait(), timeout)
            if self._lost is not None:
                raise self._lost

    async def aclose(self) -> None:
        self._transport.abort()  # nobody is owed a goodbye, and it could take long

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.AsyncNetworkStream:
        loop = asyncio.get_running_loop()
        try:
            with _failing_as(httpcore.ConnectTimeout, httpcore.ConnectError):
                async with asyncio.timeout(timeout):
                    self._transport = await loop.start_tls(
                        self._transport, self, ssl_context, server_hostname=server_hostname
                    )
        except BaseException:
            await self.aclose()
            raise
        return self

    def get_extra_info(self, info: str) -> Any:
        if info == "is_readable":
            return bool(self._unread) or self._ended or self._is_spoken_to()
        return self._transport.get_extra_info(info)

    def _is_spoken_to(self) -> bool:
        """Whether something has come that the event loop has not read yet."""
        if not hasattr(select, "poll"):
            return False
        poll = select.poll()
        poll.register(self._transport.get_extra_info("socket").fileno(), select.POLLIN)
        return bool(poll.poll(0))


@contextmanager
def _failing_as(late: type[Exception], failed: type[Exception]) -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise late(str(error)) from error
    except (OSError, ssl.SSLError) as error:
        raise failed(str(error)) from error
