"""What the crash tests of the log kill: ``python log_worker.py produce|consume|soon|hold DSN ...``.

Everything that a test needs to know is a line on standard output.
"""

from __future__ import annotations

import asyncio
import sys
from itertools import count
from typing import Any

import psycopg

import trunkline
from trunkline import LeaseLost, Platform, Unavailable

EFFECT = "insert into effect select %s, unnest(%s::bigint[]), unnest(%s::text[])"


def say(*words: object) -> None:
    print(*words, flush=True)


async def produce(tl: Platform, name: str) -> None:
    """Append for ever, in several ways at once, and tell what was acknowledged."""
    one_by_one = (append(tl, f"{name}/{task}") for task in range(3))
    await asyncio.gather(*one_by_one, send(tl, f"{name}/sent"), stream(tl, f"{name}/stream"))


async def append(tl: Platform, name: str) -> None:
    """One message after the other."""
    for number in count():
        value = f"{name}/{number}"
        (at,) = await tl.log.append("orders", value, keys=value)
        say(value, at.partition, at.first_offset)


async def send(tl: Platform, name: str) -> None:
    """A few messages in the background."""
    producer = tl.log.producer("orders", linger=0.002)
    for number in count():
        values = [f"{name}/{number}/{part}" for part in range(5)]
        for value, answer in [(value, await producer.send(value)) for value in values]:
            at = await answer
            say(value, at.partition, at.first_offset)


async def stream(tl: Platform, name: str) -> None:
    """Full batches, several at a time."""
    producer = tl.log.producer("orders", batch_messages=5)
    for start in count(step=40):
        sent = []
        for first in range(start, start + 40, 5):
            values = [f"{name}/{number}" for number in range(first, first + 5)]
            sent += [(values, *await producer.send_many(values, partition=0))]
        for values, answer in sent:
            at = await answer
            for offset, value in enumerate(values, at.first_offset):
                say(value, at.partition, offset)


async def consume(tl: Platform) -> None:
    """Handle every message exactly once: its effect is a row."""
    async with tl.log.consume("orders", "g", max_messages=20) as consumer:
        async for batch in consumer:
            try:
                async with tl.transaction() as connection:
                    await effect(connection, batch)
                    await batch.commit(on=connection)
            except (psycopg.OperationalError, Unavailable):
                await batch.release()
            except LeaseLost:
                continue
            else:
                say("handled", len(batch))


async def consume_soon(tl: Platform, mode: str) -> None:
    """Handle every message at least once, and have it committed meanwhile."""
    async with tl.log.consume("orders", "g", mode=mode, max_messages=5) as consumer:
        async for batch in consumer:
            try:
                async with tl.transaction() as connection:
                    await effect(connection, batch)
            except (psycopg.OperationalError, Unavailable):
                await batch.release()
            else:
                batch.commit_soon()
                say("handled", len(batch))


async def hold(tl: Platform, mode: str) -> None:
    """Take a batch, do its work, and commit when a line comes in."""
    async with tl.log.consume("orders", "g", mode=mode) as consumer:
        batch = await consumer.poll()
        assert batch is not None
        try:
            async with tl.transaction() as connection:
                await effect(connection, batch)
                say("holding", *batch.offsets)
                await asyncio.to_thread(sys.stdin.readline)
                await batch.commit(on=connection)
        except trunkline.TrunklineError as error:
            say("refused", error.code)
        else:
            say("committed")


async def effect(connection: psycopg.AsyncConnection[Any], batch: Any) -> None:
    texts = [value.decode() for value in batch.values]
    await connection.execute(EFFECT, [batch.partition, batch.offsets, texts])


async def connect(dsn: str) -> Platform:
    while True:
        try:
            return await trunkline.connect(dsn)
        except Unavailable:
            await asyncio.sleep(0.1)


async def main(work: str, dsn: str, *words: str) -> None:
    async with await connect(dsn) as tl:
        works = {"produce": produce, "consume": consume, "soon": consume_soon, "hold": hold}
        await works[work](tl, *words)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
