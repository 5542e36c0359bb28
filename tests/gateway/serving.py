"""A gateway on a port, and those who ask it."""

from __future__ import annotations

import json
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
import jwt
from tests.gateway.conformance import conformance_of

from trunkline import connect
from trunkline.gateway.app import make_app
from trunkline.gateway.gateway import Gateway
from trunkline.gateway.server import serve
from trunkline.gateway.settings import GatewaySettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from trunkline.platform import Platform

SECRET = "a secret of the tests, long enough"
READER, WRITER, ADMIN = "trunkline_reader", "trunkline_writer", "trunkline_admin"


@dataclass(frozen=True)
class Frame:
    """One server-sent event."""

    event: str
    token: str | None
    data: Any


def token(role: str, **claims: Any) -> str:
    """A token that lets its owner act as a role."""
    return jwt.encode({"role": role, **claims}, SECRET, algorithm="HS256")


def bearer(role: str | None, **claims: Any) -> dict[str, str]:
    return {} if role is None else {"Authorization": f"Bearer {token(role, **claims)}"}


EXPIRED = {"exp": int(time.time()) - 60}


@dataclass(frozen=True)
class Web:
    """A gateway and a client of it."""

    platform: Platform
    gateway: Gateway
    client: httpx.AsyncClient

    async def ask(
        self, method: str, path: str, *, role: str | None = ADMIN, status: int = 200, **more: Any
    ) -> Any:
        """What is answered; it must have this status."""
        answer = await self.raw(method, path, role=role, **more)
        assert answer.status_code == status, answer.text
        return answer.json() if answer.content else None

    async def refused(
        self, method: str, path: str, status: int, *, role: str | None = ADMIN, **more: Any
    ) -> dict[str, Any]:
        """The problem that is answered."""
        answer = await self.raw(method, path, role=role, **more)
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        found: dict[str, Any] = answer.json()
        assert found["status"] == status
        return found

    async def raw(
        self,
        method: str,
        path: str,
        *,
        role: str | None = ADMIN,
        headers: dict[str, str] | None = None,
        **more: Any,
    ) -> httpx.Response:
        """The answer itself."""
        given = {**bearer(role), **(headers or {})}
        answer = await self.client.request(method, path, headers=given, **more)
        conformance_of(self.gateway).check(answer)
        return answer

    @asynccontextmanager
    async def follow(
        self, path: str, *, role: str = READER, last: str | None = None, **more: Any
    ) -> AsyncIterator[AsyncIterator[Frame]]:
        """The server-sent events of a path; those without data tell where it stands."""
        headers = bearer(role) | ({} if last is None else {"Last-Event-ID": last})
        headers |= more.pop("headers", {})
        async with self.client.stream("GET", path, headers=headers, **more) as answer:
            if answer.status_code != 200:
                await answer.aread()
                raise AssertionError(answer.text)
            assert answer.headers["content-type"].startswith("text/event-stream")
            yield _frames(answer)


async def _frames(answer: httpx.Response) -> AsyncIterator[Frame]:
    fields: dict[str, str] = {}
    async for line in answer.aiter_lines():
        name, _, value = line.partition(":")
        if name:
            fields[name] = value.removeprefix(" ")
        elif fields:
            data = json.loads(fields["data"]) if "data" in fields else None
            yield Frame(fields.get("event", "message"), fields.get("id"), data)
            fields = {}


@asynccontextmanager
async def serving(dsn: str, *, insecure: bool = False, **settings: Any) -> AsyncIterator[Web]:
    """A gateway over a database, on a port."""
    found = _settings(insecure=insecure, **settings)
    async with (
        connect(dsn, connect_timeout=found.connect_timeout) as platform,
        serve(platform, found, insecure=insecure) as (gateway, address),
        httpx.AsyncClient(base_url=address, timeout=20) as client,
    ):
        yield Web(platform, gateway, client)


@asynccontextmanager
async def asking(dsn: str, *, insecure: bool = False, **settings: Any) -> AsyncIterator[Web]:
    """A gateway over a database that is asked without a port between: it cannot be followed."""
    async with connect(dsn) as platform:
        found = _settings(insecure=insecure, **settings)
        async with platform.db.connection() as connection:
            own_role = connection.info.user
        gateway = Gateway(platform, found, own_role=own_role, insecure=insecure)
        transport = httpx.ASGITransport(make_app(gateway))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            yield Web(platform, gateway, client)


def _settings(*, insecure: bool, **settings: Any) -> GatewaySettings:
    keys = {} if insecure else {"jwt_secret": SECRET}
    return GatewaySettings(_env_file=None, **keys, **settings)  # type: ignore[call-arg]


async def take(frames: AsyncIterator[Frame], number: int) -> list[Frame]:
    """The next events that have data."""
    found: list[Frame] = []
    async for frame in frames:
        if frame.data is not None:
            found.append(frame)
            if len(found) == number:
                break
    return found


async def place(frames: AsyncIterator[Frame]) -> str:
    """Where a stream stands when it begins."""
    frame = await anext(frames)
    assert frame.data is None
    assert frame.token
    return frame.token
