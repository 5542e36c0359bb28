# %% [markdown]
# # A topic as a table
# Cells of a notebook: open this file in an editor that knows `# %%`, or run it as it is.

# %%
from contextlib import suppress

from pyspark.sql import functions as f

import trunkline
from trunkline.spark import session

spark = session("notebook")

# %% [markdown]
# Something to look at: temperatures, the name of the room is the key.

# %%
with trunkline.connect_sync() as tl:
    with suppress(trunkline.NotFound):
        tl.log.delete("temperatures")
    tl.log.create("temperatures", partitions=2)
    rooms = ["kitchen", "cellar", "attic"]
    tl.log.append(
        "temperatures",
        [str(10 + i % 3 * 5 + i / 100) for i in range(300)],
        keys=[rooms[i % 3] for i in range(300)],
    )

# %% [markdown]
# A batch reads from the earliest to the latest offset. Only the named columns are moved.

# %%
readings = (
    spark.read.format("trunkline.log")
    .option("subscribe", "temperatures")
    .option("columns", "key,value,partition,offset")
    .load()
    .select(
        f.col("key").cast("string").alias("room"),
        f.col("value").cast("string").cast("double").alias("celsius"),
        "partition",
        "offset",
    )
)
print(readings.count(), "readings")

# %% [markdown]
# From here on it is Spark: SQL, windows, pandas.

# %%
readings.createOrReplaceTempView("readings")
warmest = spark.sql(
    "select room, count(*) as n, round(max(celsius), 2) as warmest"
    " from readings group by room order by room"
)
print(warmest.toPandas().to_string(index=False))

# %% [markdown]
# A part of it: by offset (as here) or by time (`startingTimestamp`, `endingTimestamp`).
# Offsets are the next to read, so an end is not read any more.

# %%
part = (
    spark.read.format("trunkline.log")
    .option("subscribe", "temperatures")
    .option("startingOffsets", '{"temperatures": {"1": 11}}')
    .option("endingOffsets", '{"temperatures": {"1": 21}}')
    .load()
    .where("partition = 1")
)
print(part.agg(f.min("offset"), f.max("offset"), f.count("*")).first())
