"""An outbox: an order publishes its event in its own transaction, and a handler invoices it.

An order that is rolled back is never heard of. For one the tax office does not answer at first, so
it is tried again. One makes no sense and becomes a dead letter with the reason. An invoice is
written in the transaction that commits the handler's position: once, whatever happens.
"""

import asyncio
from collections import Counter
from contextlib import suppress

import psycopg

import trunkline
from trunkline.testing import eventually

GROUP = "example.billing"
TOTALS = {1: 10, 2: 25, 3: 5, 4: -1, 5: 40}  # by the numbers of orders

app = trunkline.App()
tries: Counter[int] = Counter()


@app.on("example.orders.*", group=GROUP, retry=[0.1, 0.1])
async def invoice(order: dict[str, int], transaction: psycopg.AsyncConnection) -> None:
    number, total = order["number"], order["total"]
    tries[number] += 1
    if number == 3 and tries[number] == 1:
        raise ConnectionError("the tax office does not answer")
    if total < 0:
        raise ValueError("nobody pays less than nothing")
    await transaction.execute("insert into invoice values (%s, %s)", [number, total])


async def prepare(tl: trunkline.Platform) -> None:
    with suppress(trunkline.NotFound):
        await tl.broker.group_delete(GROUP)
    async with tl.transaction() as connection:
        await connection.execute("drop table if exists purchase, invoice")
        await connection.execute("create table purchase (number int primary key, total int)")
        await connection.execute("create table invoice (number int primary key, total int)")


async def buy(
    tl: trunkline.Platform, number: int, total: int, *, change_mind: bool = False
) -> None:
    async with tl.transaction() as connection:
        await connection.execute("insert into purchase values (%s, %s)", [number, total])
        order = {"number": number, "total": total}
        await tl.broker.publish("example.orders.made", order, key=str(number), on=connection)
        if change_mind:
            raise psycopg.Rollback


async def invoiced(tl: trunkline.Platform) -> list[int]:
    async with tl.transaction() as connection:
        cursor = await connection.execute("select number from invoice order by number")
        return [number for (number,) in await cursor.fetchall()]


async def main() -> None:
    async with app:
        tl = app.platform
        await prepare(tl)
        await app.register()
        stop = asyncio.Event()
        running = asyncio.create_task(app.run(stop))

        for number, total in TOTALS.items():
            await buy(tl, number, total)
        await buy(tl, 6, 99, change_mind=True)

        async def settled() -> bool:
            return len(await invoiced(tl)) + len(await tl.broker.dead_list(GROUP)) == len(TOTALS)

        await eventually(settled, timeout=30)
        print("invoiced:", await invoiced(tl))
        print("order 3 was tried", tries[3], "times")
        for letter in await tl.broker.dead_list(GROUP):
            print(f"dead letter {letter.key} after {letter.attempts} tries: {letter.error}")
        stop.set()
        await running
        await tl.broker.group_delete(GROUP)


asyncio.run(main())
