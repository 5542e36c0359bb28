"""Cell `publish`: what an event costs those who publish it, against a row in a plain table."""

from __future__ import annotations

import asyncio
import multiprocessing
from contextlib import AsyncExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psycopg

from trunkline.broker.services import BrokerSequencer
from trunkline.core.db import AsyncDb
from trunkline.log.bench.measure import Contender, Slice, Target, calling, compare_all

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Sequence
    from multiprocessing.synchronize import Event

    from trunkline.log.bench.lab import Lab
    from trunkline.log.bench.measure import Row, Side

_PLAIN = """
create schema bench_broker;
create table bench_broker.plain (
  id bigint generated always as identity primary key, topic text not null, key text,
  payload jsonb not null, metadata jsonb, subscription bigint,
  at timestamptz not null default clock_timestamp())
"""
_INTO = "insert into {} (topic, key, payload) values ('order.placed', %s, %s)"
_INSERT = _INTO.format("trunkline.event")
_CALL = "select trunkline.broker_publish('order.placed', key => %s, payload => %s)"
_PAYLOAD = '{"tenant": 17, "note": "a note of some length, as notes are", "total": 15.5}'
_TARGET = Target(at_least=0.85)
_SHORTER = (
    3  # turns that are so much shorter and more: what is to be seen is less than a disk's mood
)


async def publish(lab: Lab) -> AsyncGenerator[Row]:
    """One event per transaction, by 1, 4 and 8 clients.

    What an event costs its publisher is seen while the sequencer rests, for nobody reads the plain
    table either; what numbering takes from publishers on the same cores, while it works.
    """
    often = lab if lab.quick else replace(lab, runs=_SHORTER * lab.runs)
    lab.watcher.execute("drop schema if exists bench_broker cascade")
    lab.watcher.execute(_PLAIN)
    try:
        for clients in (1, 4, 8):
            async with AsyncExitStack() as stack:
                pause = stack.enter_context(_sequencer(lab.dsn))
                connections = [
                    await stack.enter_async_context(
                        await psycopg.AsyncConnection.connect(lab.dsn, autocommit=True)
                    )
                    for _ in range(clients)
                ]
                insert, call = _all(connections, _INSERT), _all(connections, _CALL)
                contenders = {
                    f"INSERT, {clients} clients, numbered": Contender(
                        _numbered(insert, pause), _TARGET
                    ),
                    f"broker_publish(), {clients} clients, numbered": Contender(
                        _numbered(call, pause)
                    ),
                    f"INSERT, {clients} clients, sequencer at rest": Contender(
                        _numbered_later(insert, lab), _TARGET
                    ),
                }
                plain = _all(connections, _INTO.format("bench_broker.plain"))
                for row in await compare_all(
                    often, "publish", contenders, baseline=plain, seconds=lab.seconds / _SHORTER
                ):
                    yield row
    finally:
        lab.watcher.execute("drop schema bench_broker cascade")


def _all(connections: Sequence[psycopg.AsyncConnection[Any]], statement: str) -> Side:
    """All clients at once, in sessions that stay."""

    def client(connection: psycopg.AsyncConnection[Any], number: int) -> Side:
        async def work() -> int:
            values = [f"customer {number}", _PAYLOAD]
            await connection.execute(statement.encode(), values, prepare=True)
            return 1

        return calling(work)

    async def side(seconds: float) -> Slice:
        parts = await asyncio.gather(
            *(client(connection, number)(seconds) for number, connection in enumerate(connections))
        )
        return Slice(
            sum(part.messages for part in parts),
            max(part.seconds for part in parts),
            [latency for part in parts for latency in part.latencies],
        )

    return side


def _numbered(side: Side, pause: Event) -> Side:
    """With a sequencer at work, in a process of its own."""

    async def numbered(seconds: float) -> Slice:
        pause.clear()
        try:
            return await side(seconds)
        finally:
            pause.set()

    return numbered


def _numbered_later(side: Side, lab: Lab) -> Side:
    """With the sequencer at rest; what has come is numbered when the turn is over."""

    async def numbered(seconds: float) -> Slice:
        try:
            return await side(seconds)
        finally:
            lab.watcher.execute("select trunkline.broker_tick()")

    return numbered


@contextmanager
def _sequencer(dsn: str) -> Iterator[Event]:
    """A sequencer in a process of its own, which rests while the event is set."""
    context = multiprocessing.get_context("spawn")
    pause = context.Event()
    pause.set()
    process = context.Process(target=_sequence, args=(dsn, pause), daemon=True)
    process.start()
    try:
        yield pause
    finally:
        process.kill()
        process.join()


def _sequence(dsn: str, pause: Event) -> None:
    asyncio.run(_keep_numbering(dsn, pause))


async def _keep_numbering(dsn: str, pause: Event) -> None:
    service = BrokerSequencer(AsyncDb(dsn))
    while True:
        done = 0 if pause.is_set() else await service.run_once()
        await asyncio.sleep(service.pause if done else service.interval)
