"""Scores that Spark computes are keys which programs read; what they change comes back to Spark."""

import tempfile

import trunkline
from trunkline.spark import session

spark = session("keys")

with trunkline.connect_sync() as tl:
    tl.kv.namespace_put("scores")
    tl.kv.namespace_put("scores_copy")

    scores = spark.range(1, 1001).selectExpr(
        "concat('user/', id) as key",
        "to_json(named_struct('score', id % 100, 'by', 'night run')) as value",
    )
    scores.write.format("trunkline.kv").option("namespace", "scores").mode("append").save()
    print("a program reads", tl.kv.get("user/42", namespace="scores"))

    frame = spark.read.format("trunkline.kv").option("namespace", "scores").load()
    best = frame.where("get_json_object(value, '$.score') > 97")
    print(best.count(), "of", frame.count(), "keys have the best scores")

    with tempfile.TemporaryDirectory(prefix="trunkline-") as checkpoint:
        following = (
            spark.readStream.format("trunkline.kv")
            .option("namespace", "scores")
            .option("startingOffsets", "earliest")  # all keys, then what changes
            .load()
        )

        def follow() -> None:
            (
                following.writeStream.format("trunkline.kv")
                .option("namespace", "scores_copy")
                .option("orderBy", "position")  # a key may change twice in one batch
                .option("checkpointLocation", checkpoint)
                .trigger(availableNow=True)
                .start()
                .awaitTermination()
            )

        follow()
        tl.kv.put("user/1", {"score": 100}, namespace="scores")
        tl.kv.delete("user/2", namespace="scores")
        follow()

    copy = tl.kv.scan(namespace="scores_copy", max_keys=2000)
    print(len(copy), "keys in the copy,", tl.kv.get("user/1", namespace="scores_copy"))
