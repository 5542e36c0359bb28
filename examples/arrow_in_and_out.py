"""Arrow in, Arrow out: a record batch is stored as Arrow buffers, so no message is touched.

Needs pyarrow: pip install 'trunkline[arrow]'
"""

import asyncio
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc

import trunkline

READINGS = pa.table(
    {
        "key": ["kitchen", "cellar", "kitchen", "cellar"],
        "value": ["21.5", "12.0", "22.5", "11.0"],
    }
)


async def main() -> None:
    async with trunkline.connect() as tl:
        with suppress(trunkline.NotFound):
            await tl.log.delete("readings")
        await tl.log.create("readings", codec="zstd")
        [stored] = await tl.log.append("readings", READINGS)
        print("stored as offsets", stored.first_offset, "to", stored.last_offset)

        async with tl.log.consume("readings", "means") as consumer:
            batch = await consumer.poll(timeout=5)
            table = batch.to_arrow()
            print("columns:", ", ".join(table.column_names))
            numbers = pc.cast(pc.cast(table["value"], pa.string()), pa.float64())
            rooms = pa.table({"room": pc.cast(table["key"], pa.string()), "degrees": numbers})
            means = rooms.group_by("room").aggregate([("degrees", "mean")]).sort_by("room")
            for row in means.to_pylist():
                print(row["room"], row["degrees_mean"])
            await batch.commit()


asyncio.run(main())
