"""Many workers on one topic, and what becomes of a message that nobody can handle.

Three workers claim ranges of the same partition at the same time. A range whose worker fails is
handed out again, the last of `max_attempts` times message by message, and the one that still fails
goes to the topic `jobs.dead` with the reason.
"""

import asyncio
from contextlib import suppress

import trunkline

POISON = b"job 13"


def handle(job: bytes | None) -> None:
    if job == POISON:
        raise ValueError("unlucky number")


async def worker(tl: trunkline.Platform, done: set[bytes | None]) -> None:
    async with tl.log.consume(
        "jobs", "workers", mode="shared", max_messages=4, max_attempts=2
    ) as consumer:
        while batch := await consumer.poll(timeout=0.5):
            try:
                for message in batch.messages:
                    handle(message.value)
            except ValueError as error:
                await batch.release(reason=str(error))
            else:
                await batch.commit()
                done.update(batch.values)


async def main() -> None:
    async with trunkline.connect() as tl:
        for topic in ("jobs", "jobs.dead"):
            with suppress(trunkline.NotFound):
                await tl.log.delete(topic)
        await tl.log.create("jobs")
        await tl.log.append("jobs", [f"job {number}" for number in range(1, 21)])

        done: set[bytes | None] = set()
        await asyncio.gather(*(worker(tl, done) for _ in range(3)))
        print(len(done), "jobs are done")
        async for letter in tl.log.read("jobs.dead"):
            about = letter.headers["dead"]
            print(f"{letter.value!r} failed {about['attempts']} times: {about['reason']}")


asyncio.run(main())
