"""Those who write and read page views in the demonstration."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from trunkline.core.errors import LeaseLost

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from trunkline.demo.figures import Amount, Figures
    from trunkline.demo.outbox import Outbox
    from trunkline.log.consumer import Batch, Consumer
    from trunkline.log.models import Message
    from trunkline.platform import Platform

COUNTERS = "counters"
MAILERS = "mailers"
PAGES = tuple(f"/products/{number}" for number in range(1, 25))

_ORDERS_AT_ONCE = 20
_ROLLED_BACK_EVERY = 200  # orders: before one of so many, a transaction is rolled back
_ORDER_STEPS = (
    "insert into {} (id, customer, amount) select n, 'customer ' || n %% 50, n %% 97 + 0.95"
    " from generate_series(%(first)s::bigint, %(last)s) n",
    "update {} set state = 'paid' where id between %(first)s - 50 and %(last)s and id %% 3 = 0",
    "delete from {} where id between %(first)s - 30 and %(first)s and id %% 10 = 0",
)
_TICK = 0.05  # seconds between two bursts of a producer
_BROKEN_EVERY = 2_000  # page views: one of so many cannot be handled


async def write_orders(
    platform: Platform,
    schema: str,
    amount: Amount,
    figures: Figures,
    stop: asyncio.Event,
    *,
    outbox: Outbox,
    halfway: Callable[[], Awaitable[None]],
) -> None:
    """A shop: it inserts, pays and cancels orders in plain SQL, and publishes each new one.

    It knows nothing of tubes. Now and then it changes its mind before it commits. ``halfway`` is
    waited for in between, so that whoever follows sees the rest as it happens.
    """
    for _ in range(2):
        await _write_half(platform, schema, amount.half(), figures, stop, outbox)
        await halfway()


async def _write_half(
    platform: Platform,
    schema: str,
    amount: Amount,
    figures: Figures,
    stop: asyncio.Event,
    outbox: Outbox,
) -> None:
    loop = asyncio.get_running_loop()
    table = sql.Identifier(schema, "orders")
    began = loop.time()
    written = 0
    while not stop.is_set() and not _enough(amount, written, loop.time() - began):
        numbers = range(figures.last_order + 1, figures.last_order + _ORDERS_AT_ONCE + 1)
        if numbers.start % _ROLLED_BACK_EVERY == 1:
            async with platform.transaction() as connection:
                await outbox.publish(numbers, connection, kept=False)
                raise psycopg.Rollback
        async with platform.transaction() as connection:
            for statement in _ORDER_STEPS:
                done = await connection.execute(
                    sql.SQL(statement).format(table),
                    {"first": numbers.start, "last": numbers.stop - 1},
                )
                figures.orders += done.rowcount
            await outbox.publish(numbers, connection, kept=True)
        figures.last_order = numbers.stop - 1
        figures.placed += _ORDERS_AT_ONCE
        written += _ORDERS_AT_ONCE
        await asyncio.sleep(max(0.0, began + written / amount.per_second - loop.time()))


async def write_views(
    platform: Platform, topic: str, amount: Amount, figures: Figures, stop: asyncio.Event
) -> None:
    """A producer: page views, keyed by page, until there are enough or it is told to stop."""
    loop = asyncio.get_running_loop()
    burst = max(1, int(amount.per_second * _TICK))
    began = loop.time()
    sent = 0
    async with platform.log.producer(topic) as producer:
        while not stop.is_set() and not _enough(amount, sent, loop.time() - began):
            more = burst if amount.messages is None else min(burst, amount.messages - sent)
            for number in range(sent + 1, sent + more + 1):
                page = random.choice(PAGES)  # noqa: S311 - a page, not a secret
                view = {"page": page, "visitor": number, "broken": number % _BROKEN_EVERY == 0}
                answer = await producer.send(json.dumps(view), key=page)
                answer.add_done_callback(partial(_note, figures, view))
            sent += more
            await asyncio.sleep(max(0.0, began + sent / amount.per_second - loop.time()))


def _enough(amount: Amount, sent: int, seconds: float) -> bool:
    return seconds >= amount.seconds if amount.messages is None else sent >= amount.messages


def _note(figures: Figures, view: dict[str, Any], done: asyncio.Future[Any]) -> None:
    """Only what was acknowledged counts."""
    if not done.cancelled() and done.exception() is None:
        figures.written += 1
        figures.broken += view["broken"]
        figures.by_page[view["page"]] += 1


async def count_views(platform: Platform, consumer: Consumer, schema: str) -> None:
    """A member of an assigned group: the effect and the position commit together, or not at all."""
    async for batch in consumer:
        try:
            await _count(platform, batch, schema)
        except LeaseLost:
            continue  # somebody else has the partition now, and our counts were rolled back


async def _count(platform: Platform, batch: Batch, schema: str) -> None:
    views = Counter(message.key.decode() for message in batch.messages if message.key)
    upsert = sql.SQL(
        "insert into {0} as seen (page, views) values (%s, %s)"
        " on conflict (page) do update set views = seen.views + excluded.views"
    ).format(sql.Identifier(schema, "views"))
    async with platform.transaction() as connection:
        async with connection.cursor() as cursor:
            await cursor.executemany(upsert, sorted(views.items()))
        await batch.commit(on=connection)


async def mail_views(consumer: Consumer, figures: Figures) -> None:
    """A reader of a shared group; what it cannot handle it gives back with the reason."""
    async for batch in consumer:
        try:
            for message in batch.messages:
                _mail(message)
                figures.mailed.add((message.partition, message.offset))
        except ValueError as error:
            figures.failures += 1
            await batch.release(reason=str(error))
        else:
            await batch.commit()


def _mail(message: Message) -> None:
    if json.loads(message.value or b"{}")["broken"]:
        raise ValueError("the page view has no address to write to")
