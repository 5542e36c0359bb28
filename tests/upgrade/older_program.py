"""Run with an older package: use every capability as a program does. Arguments: the DSN."""

from __future__ import annotations

import sys

import psycopg

import trunkline


def main(dsn: str) -> None:
    print(trunkline.__file__)
    with trunkline.connect_sync(dsn) as tl:
        use_log(tl)
        use_broker(tl)
        use_tables(tl, dsn)
        use_keys(tl)
    print("done")


def use_log(tl: trunkline.SyncPlatform) -> None:
    tl.log.create("sales", partitions=2)
    tl.log.append("sales", ["paid 10", "paid 20"], keys=["alice", "bob"])
    with tl.log.producer("sales") as producer:
        producer.send(b"paid 30", key=b"alice")
    seen = 0
    with tl.log.consume("sales", "billing") as consumer:
        while batch := consumer.poll(timeout=2 if seen < 3 else 0.1):
            seen += len(batch.messages)
            batch.commit()
    assert seen == 3, seen
    with tl.log.consume("sales", "shared", mode="shared") as reader:
        assert reader.poll(timeout=2) is not None
    assert sum(group.lag for group in tl.log.lag("sales", group="billing")) == 0
    assert len(tl.log.list()) == 1


def use_broker(tl: trunkline.SyncPlatform) -> None:
    tl.broker.subscribe("audit", "e.topic = 'orders.paid'")
    tl.broker.publish("orders.paid", {"id": 1})
    tl.broker.tick()
    assert [event.payload for event in tl.broker.events(1, topics=["orders.paid"])] == [{"id": 1}]
    assert [group.group_name for group in tl.broker.groups()] == ["audit"]


def use_tables(tl: trunkline.SyncPlatform, dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as session:
        session.execute("create table public.things (id int primary key, size int)")
    tl.tube.ensure("things")
    tl.tube.attach("things", "public.things")
    tl.live.watch("public.things")
    with psycopg.connect(dsn, autocommit=True) as session:
        session.execute("insert into public.things values (1, 1)")
    assert [tube.tube for tube in tl.tube.list()] == ["things"]
    assert len(tl.live.tables()) == 1


def use_keys(tl: trunkline.SyncPlatform) -> None:
    tl.kv.namespace_put("settings")
    tl.kv.put("a", {"n": 1}, namespace="settings")
    assert tl.kv.get("a", namespace="settings") == {"n": 1}


if __name__ == "__main__":
    main(sys.argv[1])
