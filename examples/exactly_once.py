"""Exactly once: the effect and the position are committed by the same transaction.

The first worker fails after it has changed the accounts and before it commits, as a crash would.
Its transaction leaves nothing behind, so the second worker starts from the same position and every
payment counts once.
"""

import asyncio
from contextlib import suppress

import trunkline

PAYMENTS = [("alice", 10), ("bob", 5), ("alice", 7), ("bob", 1)]


class PowerCut(Exception):
    """Something that a worker does not survive."""


async def prepare(tl: trunkline.Platform) -> None:
    async with tl.transaction() as connection:
        await connection.execute("drop table if exists account")
        await connection.execute("create table account (name text primary key, balance int)")
    with suppress(trunkline.NotFound):
        await tl.log.delete("payments")
    await tl.log.create("payments")
    names, amounts = zip(*PAYMENTS, strict=True)
    await tl.log.append("payments", [str(amount) for amount in amounts], keys=names)


async def work(tl: trunkline.Platform, *, fail: bool) -> None:
    async with tl.log.consume("payments", "accounts") as consumer:
        while batch := await consumer.poll(timeout=0.5):
            async with tl.transaction() as connection:
                for message in batch.messages:
                    await connection.execute(
                        "insert into account values (%s, %s) on conflict (name)"
                        " do update set balance = account.balance + excluded.balance",
                        [message.key.decode(), int(message.value)],
                    )
                if fail:
                    raise PowerCut
                await batch.commit(on=connection)  # the last statement of the transaction


async def balances(tl: trunkline.Platform) -> dict[str, int]:
    async with tl.transaction() as connection:
        cursor = await connection.execute("select name, balance from account order by name")
        return dict(await cursor.fetchall())


async def main() -> None:
    async with trunkline.connect() as tl:
        await prepare(tl)
        try:
            await work(tl, fail=True)
        except PowerCut:
            print("after the failure:", await balances(tl))
        await work(tl, fail=False)
        print("after the restart:", await balances(tl))
        await work(tl, fail=False)
        print("after a third run:", await balances(tl))


asyncio.run(main())
