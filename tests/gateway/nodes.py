"""A gateway under test, tokens for it, and the roles that they name."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol, Self
from uuid import uuid4

import httpx
import jwt
import websockets
from tests.broker.steps import publish, tick
from tests.broker.test_reading import age, rotate
from tests.fixtures.asking import ask, call

from trunkline import connect
from trunkline.gateway.server import serve
from trunkline.gateway.settings import GatewaySettings
from trunkline.testing import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.fixtures.asking import Session

    from trunkline.gateway.gateway import Gateway
    from trunkline.platform import Platform

SECRET = "a secret of the tests, long enough"
WITHIN = 10.0  # seconds for whatever is awaited

SWEEP = """
delete from trunkline.live_subscription;
delete from trunkline.live_process;
delete from trunkline.live_shape;
delete from trunkline.live_table;
delete from trunkline.live_role;
do $$
declare
  policy record;
begin
  for policy in select polname from pg_policy
    where polrelid = 'trunkline.live_subscription'::regclass and polname <> 'live_open' loop
    execute format('drop policy %I on trunkline.live_subscription', policy.polname);
  end loop;
end $$;
"""


BOOKS = """
create table books (
  id int primary key, title varchar(100), creator varchar(10), tags varchar[], pages int)
"""


def make_live(session: Session, table: str, *roles: str) -> None:
    """Let roles read a table and subscribe to it."""
    session.execute(f"grant select on {table} to {', '.join(roles)}")
    session.execute("select trunkline.live_watch(%s, %s)", [table, list(roles)])


def forget_history(session: Session) -> None:
    """Let the events leave that are there, and number another."""
    call(session, "broker_match")
    age(session, timedelta(hours=5))
    rotate(session)
    assert ask(session, "select count(*) from trunkline.event") == 0
    publish(session, "after")
    tick(session)


@dataclass(frozen=True)
class Roles:
    """``member`` is who tests act as mostly, ``guest`` has no token, ``stranger`` no rights."""

    member: str
    guest: str
    stranger: str

    @classmethod
    def make(cls, session: Session) -> Self:
        made = cls(*(f"{name}_{uuid4().hex[:8]}" for name in cls.__dataclass_fields__))
        for name in made.names:
            session.execute(f"create role {name}")
        return made

    @property
    def names(self) -> tuple[str, ...]:
        return (self.member, self.guest, self.stranger)

    @property
    def all(self) -> str:
        return ", ".join(self.names)

    def drop(self, session: Session) -> None:
        session.execute(f"drop role {self.all}")


def token(role: str, *, key: Any = SECRET, algorithm: str = "HS256", **claims: Any) -> str:
    """A token that names a role; ``lasts`` is for how many seconds it is good."""
    if "lasts" in claims:
        claims["exp"] = time.time() + claims.pop("lasts")
    return jwt.encode({"role": role, **claims}, key, algorithm)


def bearer(role: str, **claims: Any) -> dict[str, str]:
    return {"Authorization": f"Bearer {token(role, **claims)}"}


@dataclass
class Node:
    """A gateway that serves."""

    gateway: Gateway
    address: str
    platform: Platform
    session: Session
    http: httpx.AsyncClient

    def write(self, *statements: str) -> None:
        """Write something, and number the events of it."""
        for statement in statements:
            self.session.execute(statement)
        tick(self.session)

    async def query(
        self, text: str, variables: dict[str, Any] | None = None, **options: Any
    ) -> dict[str, Any]:
        """The answer to a query of GraphQL."""
        told = await self.http.post(
            "/graphql", json={"query": text, "variables": variables}, **options
        )
        answer: dict[str, Any] = told.json()
        return answer

    @asynccontextmanager
    async def talk(
        self, role: str | None = None, *, begin: bool = True, **claims: Any
    ) -> AsyncIterator[Talk]:
        """A conversation over a WebSocket."""
        url = f"ws{self.address.removeprefix('http')}/graphql"
        async with websockets.connect(
            url, subprotocols=[websockets.Subprotocol("graphql-transport-ws")]
        ) as socket:
            talk = Talk(socket)
            if begin:
                given = {"Authorization": f"Bearer {token(role, **claims)}"} if role else None
                await talk.begin(given)
            yield talk

    @asynccontextmanager
    async def follow(
        self, path: str, role: str | None = None, *, method: str = "GET", **options: Any
    ) -> AsyncIterator[Followed]:
        """Server-sent events."""
        headers = {**options.pop("headers", {}), **(bearer(role) if role else {})}
        async with self.http.stream(
            method, path, headers={"Accept": "text/event-stream", **headers}, **options
        ) as answer:
            if answer.status_code != 200:
                await answer.aread()
            assert answer.status_code == 200, answer.text
            yield Followed(answer)


@dataclass
class Talk:
    """The client's side of graphql-transport-ws, as raw as tests need it."""

    socket: websockets.ClientConnection
    _numbers: int = 0

    async def say(self, message: Any) -> None:
        await self.socket.send(message if isinstance(message, str | bytes) else json.dumps(message))

    async def hear(self, within: float = WITHIN) -> dict[str, Any]:
        async with asyncio.timeout(within):
            message: dict[str, Any] = json.loads(await self.socket.recv())
        return message

    async def begin(self, payload: Any = None) -> None:
        await self.say({"type": "connection_init", "payload": payload})
        assert await self.hear() == {"type": "connection_ack"}

    async def send(
        self, query: str, *, variables: dict[str, Any] | None = None, name: str | None = None
    ) -> str:
        """Send an operation; its id."""
        self._numbers += 1
        name = name or str(self._numbers)
        payload = {"query": query, "variables": variables}
        await self.say({"type": "subscribe", "id": name, "payload": payload})
        return name

    async def subscribe(self, gateway: Gateway, query: str, **options: Any) -> str:
        """Send a subscription, and wait until it is open."""
        before = len(gateway.feeds)
        name = await self.send(query, **options)
        await opened(gateway, before + 1)
        return name

    async def next(self) -> dict[str, Any]:
        """The data of the next answer."""
        message = await self.hear()
        assert message["type"] == "next", message
        assert "errors" not in message["payload"], message
        data: dict[str, Any] = message["payload"]["data"]
        return data

    async def error(self) -> dict[str, Any]:
        """The first error of an operation that failed."""
        message = await self.hear()
        assert message["type"] == "error", message
        first: dict[str, Any] = message["payload"][0]
        return first

    async def closed(self) -> tuple[int, str]:
        """The code and the reason with which the other side ends it."""
        async with asyncio.timeout(WITHIN):
            await self.socket.wait_closed()
        assert self.socket.close_code is not None
        return self.socket.close_code, self.socket.close_reason or ""


@dataclass
class Frame:
    """One server-sent event."""

    event: str = ""
    data: str = ""
    id: str | None = None
    comment: bool = False

    @property
    def json(self) -> Any:
        return json.loads(self.data)


@dataclass
class Followed:
    """Server-sent events as they come."""

    answer: httpx.Response
    last_id: str | None = None
    _frames: AsyncIterator[Frame] = field(init=False)

    def __post_init__(self) -> None:
        self._frames = self._read()

    async def _read(self) -> AsyncIterator[Frame]:
        frame = Frame()
        async for line in self.answer.aiter_lines():
            name, _, value = line.partition(":")
            if not line:
                self.last_id = frame.id or self.last_id
                yield frame
                frame = Frame()
            elif not name:
                frame.comment = True
            elif name in {"event", "data", "id"}:
                setattr(frame, name, value.removeprefix(" "))

    async def frame(self) -> Frame:
        async with asyncio.timeout(WITHIN):
            return await anext(self._frames)

    async def event(self) -> Frame:
        """The next frame that is an event."""
        while not (frame := await self.frame()).event:
            pass
        return frame

    async def events(self, number: int) -> list[tuple[str, Any]]:
        """The next events: their names, and what they say."""
        found = [await self.event() for _ in range(number)]
        return [(frame.event, frame.json if frame.data else None) for frame in found]

    async def rest(self) -> list[Frame]:
        """What still comes before the end."""
        async with asyncio.timeout(WITHIN):
            return [frame async for frame in self._frames]


async def opened(gateway: Gateway, number: int, *, within: float = WITHIN) -> None:
    """Wait until so many streams are open, and told from now on."""

    def are() -> bool:
        return len(gateway.feeds) >= number and all(feed.token for feed in gateway.feeds)

    await eventually(are, within)


class OpenNode(Protocol):
    async def __call__(self, **given: Any) -> Node: ...


@asynccontextmanager
async def open_node(dsn: str, session: Session, **given: Any) -> AsyncIterator[Node]:
    options = {name: given.pop(name) for name in ("insecure", "cors") if name in given}
    settings = GatewaySettings(**{"jwt_secret": SECRET, **given})
    async with (
        connect(dsn) as platform,
        serve(platform, settings, **options) as (gateway, address),
        httpx.AsyncClient(base_url=address, timeout=WITHIN) as http,
    ):
        yield Node(gateway, address, platform, session, http)
