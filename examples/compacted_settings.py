"""A compacted topic keeps the last value of every key: a table that remembers how it changed.

Offsets keep their numbers, so what compaction took away shows as holes. A null value is a
tombstone: the key is deleted, and the tombstone itself leaves after `log.tombstone_retention`.
"""

import asyncio
from contextlib import suppress

import trunkline


async def show(tl: trunkline.Platform, title: str) -> None:
    print(title)
    async for message in tl.log.read("settings"):
        print(f"  {message.offset} {message.key!r} = {message.value!r}")


async def main() -> None:
    async with trunkline.connect() as tl:
        with suppress(trunkline.NotFound):
            await tl.log.delete("settings")
        await tl.log.create("settings", compact=True)
        await tl.log.append(
            "settings",
            ["light", "12", "dark", None, "14"],
            keys=["theme", "size", "theme", "beta", "size"],
        )
        await show(tl, "as written:")

        removed = await tl.log.compact("settings")
        await show(tl, f"compacted, {removed[0]} messages left:")

        await tl.log.append("settings", "light", keys="theme")
        await show(tl, "and on it goes:")


asyncio.run(main())
