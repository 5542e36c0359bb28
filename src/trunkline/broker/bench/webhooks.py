"""Cell `webhooks`: many endpoints of one sender, and what one that hangs does to the others."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import multiprocessing
import resource
import time
from contextlib import asynccontextmanager, contextmanager
from secrets import token_bytes
from typing import TYPE_CHECKING, Any

import psycopg

from trunkline.broker.client import Broker
from trunkline.core.db import AsyncDb
from trunkline.core.lease import ProcessLease
from trunkline.core.listen import Listener
from trunkline.core.service import Loop
from trunkline.log.bench.measure import Figures, Row, Target, percentile

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterator
    from multiprocessing.connection import Connection

    from trunkline.log.bench.lab import Lab

_BATCH = 50
_EVERY = 0.02  # seconds between two publishing transactions
_PATIENCE = 300.0  # seconds until the last event has come
_ADD = """
  select trunkline.broker_webhook_add(
    %(prefix)s || g,
    format('http://127.0.0.1:%%s/%%s', %(port)s::int, g),
    format('{"and": [{"topic": "%%s"}, {"eq": {"payload.endpoint": %%s}}]}', %(prefix)s::text, g),
    secret => %(secret)s, batch => %(batch)s)
    from generate_series(1, %(n)s) g
"""
_PUBLISH = """
  insert into trunkline.event (topic, payload)
  select %s, jsonb_build_object('endpoint', 1 + n %% %s, 'at', %s::float8)
    from generate_series(%s::int, %s::int) n
"""
_REMOVE = """
  select trunkline.broker_webhook_remove(w.webhook), trunkline.broker_group_delete(w.group_name)
    from trunkline.broker_webhook_list() w where starts_with(w.group_name, %s)
"""


async def webhooks(lab: Lab) -> AsyncGenerator[Row]:
    """6,000 events a second for 1,000 endpoints; then the same while one of them hangs.

    More is offered than the 5,000 asked for: what counts is the time from the first event
    published to the last one there, in which even a sender that keeps up comes behind its offer.
    """
    endpoints, rate, seconds = (20, 200, 2) if lab.quick else (1_000, 6_000, 25)
    with _receiver() as (receiver, port), _allowed(lab):
        async with _sending(lab, endpoints, port) as topic:
            await _turn(lab, receiver, topic, endpoints, endpoints, 1.0)  # until all have begun
            free = await _turn(lab, receiver, topic, endpoints, rate, seconds)
            receiver.send("hang")
            held = await _turn(lab, receiver, topic, endpoints, rate, seconds, hanging=1)
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    about = f"{endpoints} endpoints, {rate} events/s offered"
    yield Row(
        "webhooks",
        f"{about}: delivered",
        free.rate,
        unit="events/s",
        ours=free,
        target=None if lab.quick else Target(at_least=5_000),
        note=f"p50 {free.p50_ms:g} ms, p99 {free.p99_ms:g} ms; {megabytes} MB in all",
        details={"megabytes": megabytes},
    )
    yield Row(
        "webhooks",
        f"{about}: p99 of the others while one hangs",
        round(held.p99_ms / free.p99_ms, 2),
        ours=held,
        target=None if lab.quick else Target(at_most=1.2),
        note=f"p99 {free.p99_ms:g} and {held.p99_ms:g} ms",
    )


async def _turn(
    lab: Lab,
    receiver: Connection,
    topic: str,
    endpoints: int,
    rate: float,
    seconds: float,
    *,
    hanging: int = 0,
) -> Figures:
    """Publish from another process; how fast and how late the events came."""
    context = multiprocessing.get_context("spawn")
    n = int(rate * seconds)
    publisher = context.Process(
        target=_publisher, args=(lab.dsn, topic, endpoints, n, rate), daemon=True
    )
    publisher.start()
    await asyncio.to_thread(publisher.join)
    expected = n - sum(1 for number in range(n) if number % endpoints < hanging)
    seen: list[tuple[float, float]] = []
    give_up = time.monotonic() + _PATIENCE
    while len(seen) < expected:
        assert time.monotonic() < give_up, f"{len(seen)} of {expected} events came"
        await asyncio.sleep(0.05)
        receiver.send("seen")
        seen += await asyncio.to_thread(receiver.recv)
    late = sorted(arrived - published for published, arrived in seen)
    taken = max(arrived for _, arrived in seen) - min(published for published, _ in seen)
    return Figures(
        rate=round(len(seen) / taken, 1),
        p50_ms=percentile(late, 0.50),
        p95_ms=percentile(late, 0.95),
        p99_ms=percentile(late, 0.99),
    )


def _publisher(dsn: str, topic: str, endpoints: int, n: int, rate: float) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        begin, done = time.monotonic(), 0
        while done < n:
            due = min(n, int((time.monotonic() - begin) * rate) + 1)
            if due > done:
                values = [topic, endpoints, time.monotonic(), done, due - 1]
                connection.execute(_PUBLISH, values, prepare=True)
                done = due
            time.sleep(_EVERY)


@asynccontextmanager
async def _sending(lab: Lab, endpoints: int, port: int) -> AsyncIterator[str]:
    """Webhooks, a group each, and the services in this process; the topic that they want."""
    topic = f"{lab.prefix}.webhooks."
    secret = base64.b64encode(token_bytes(32)).decode()
    given = {"prefix": topic, "port": port, "batch": _BATCH, "n": endpoints, "secret": secret}
    with psycopg.connect(lab.dsn, autocommit=True) as connection:
        connection.execute(_ADD, given)
        db = AsyncDb(lab.dsn)
        lease, listener = ProcessLease(db, name="bench"), Listener(db.connect)
        broker = Broker(db, lease=lease, listener=listener)
        stop = asyncio.Event()
        services = broker.services()
        running = [asyncio.create_task(Loop(service).run(stop)) for service in services]
        try:
            yield topic
        finally:
            stop.set()
            await asyncio.wait(running)
            for service in services:
                await service.close()
            await broker.close()
            await lease.close()
            await listener.close()
            await db.close()
            connection.execute(_REMOVE, [topic])


@contextmanager
def _allowed(lab: Lab) -> Iterator[None]:
    """Webhooks may go to this machine inside the block."""
    name = "broker.webhook_private"
    before = lab.ask("select trunkline.config_get(%s)", name)
    lab.ask("select trunkline.config_set(%s, 'true')", name)
    try:
        yield
    finally:
        lab.ask("select trunkline.config_set(%s, %s)", name, before)


@contextmanager
def _receiver() -> Iterator[tuple[Connection, int]]:
    """A receiver in a process of its own, and its port."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_receive, args=(theirs,), daemon=True)
    process.start()
    try:
        yield ours, ours.recv()
    finally:
        process.kill()
        process.join()


def _receive(pipe: Connection) -> None:
    asyncio.run(_Receiver(pipe).run())


class _Receiver:
    """Answers 200 to everything; told to, the first endpoint says nothing any more."""

    def __init__(self, pipe: Connection):
        self._pipe = pipe
        self._seen: list[tuple[float, float]] = []
        self._hangs = False

    async def run(self) -> None:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=2_000)
        self._pipe.send(server.sockets[0].getsockname()[1])
        while True:
            if self._pipe.poll():
                if self._pipe.recv() == "hang":
                    self._hangs = True
                else:
                    self._pipe.send(self._seen)
                    self._seen = []
            await asyncio.sleep(0.01)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                headers = dict(line.partition(b": ")[::2] for line in head.split(b"\r\n")[1:])
                body = await reader.readexactly(int(headers[b"content-length"]))
                if self._hangs and head.startswith(b"post /1 "):
                    await asyncio.sleep(3_600)
                if b"content-encoding" in headers:
                    body = gzip.decompress(body)
                self._note(json.loads(body)["items"])
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def _note(self, items: list[dict[str, Any]]) -> None:
        now = time.monotonic()
        self._seen += [(item["payload"]["at"], now) for item in items]
