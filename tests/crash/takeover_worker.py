"""What the tests of a take-over kill: ``python takeover_worker.py WORK DSN [pooled]``.

It works until it is ended, and says ``ready`` at first and ``handled`` for all that it did.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

import trunkline
from trunkline.tube.downstreams.callable import CallableDownstream

if TYPE_CHECKING:
    from trunkline import Platform


def say(*words: object) -> None:
    print(*words, flush=True)


async def log(tl: Platform, mode: Any) -> None:
    async with tl.log.consume("orders", "g", mode=mode) as consumer:
        say("ready")
        async for batch in consumer:
            if mode == "shared" and b"hold" in batch.values:
                say("holding")
                await asyncio.sleep(60)
            await batch.commit()
            say("handled", *(value.decode() for value in batch.values))


async def broker(app: trunkline.App) -> None:
    @app.on("orders.*", group="g")
    async def handle(event: trunkline.Event) -> None:
        say("handled", event.payload)

    say("ready")
    await app.run()


async def tube(tl: Platform) -> None:
    async def take(changes: Any) -> None:
        say("handled", *(change.key for change in changes))

    say("ready")
    await tl.tube.worker("orders", CallableDownstream(take)).run(asyncio.Event())


async def main(work: str, dsn: str, *words: str) -> None:
    prepare = "pooled" not in words
    if work == "broker":
        await broker(trunkline.App(dsn, prepare=prepare))
    else:
        async with trunkline.connect(dsn, prepare=prepare) as tl:
            await (tube(tl) if work == "tube" else log(tl, {"log": "assigned"}.get(work, work)))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
