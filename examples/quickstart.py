"""The first example of the README: append, consume in a group, read again."""

import asyncio

import trunkline


async def main() -> None:
    async with trunkline.connect() as tl:  # no DSN: a bundled Postgres is started
        await tl.log.create("orders", partitions=4)
        await tl.log.append("orders", ["paid 10", "paid 20"], keys=["alice", "bob"])

        async with tl.log.consume("orders", "billing") as consumer:
            while batch := await consumer.poll(timeout=0.5):
                for message in batch.messages:
                    print(message.partition, message.offset, message.key, message.value)
                await batch.commit()


asyncio.run(main())
