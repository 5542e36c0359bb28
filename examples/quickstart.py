"""The first example of the README: append, and consume in a group."""

import trunkline

with trunkline.connect_sync() as tl:  # no DSN: a bundled Postgres is started
    tl.log.create("sales", partitions=4)
    tl.log.append("sales", ["paid 10", "paid 20"], keys=["alice", "bob"])
    with tl.log.consume("sales", "billing") as consumer:
        while batch := consumer.poll(timeout=0.5):
            for message in batch.messages:
                print(message.partition, message.offset, message.key, message.value)
            batch.commit()
    print("behind by", sum(group.lag for group in tl.log.lag("sales")))
