"""Events of topics that are also topics of the log become messages there, once and in order."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.types.json import Jsonb
from tests.fixtures.asking import ask, call, column, refused, writing_nothing
from tests.log.steps import append, create, fetch

from trunkline.broker.forwarder import BrokerForwarder
from trunkline.core import migrate
from trunkline.core.listen import Listener
from trunkline.core.service import Loop, Supervisor
from trunkline.log.decoding import decode
from trunkline.testing import eventually, wait_until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.fixtures.postgres import TwoSessions

    from trunkline.core.db import AsyncDb
    from trunkline.core.embedded import Server
    from trunkline.log.batches import StoredBatch

Session = psycopg.Connection[Any]
PROGRAM = Path(__file__).with_name("forwarding.py")


@pytest.fixture
def dsn(clean_dsn: str) -> str:
    """What the fixtures of all tests stand on is here the shared database."""
    return clean_dsn


@pytest.fixture
async def forwarder(db: AsyncDb) -> AsyncIterator[BrokerForwarder]:
    listener = Listener(db.connect)
    made = BrokerForwarder(db, listener)
    yield made
    await made.close()
    await listener.close()


def publish(
    session: Session,
    payload: Any,
    *,
    topic: str = "orders",
    key: str | None = None,
    metadata: dict[str, Any] | None = None,
    subscription: int | None = None,
) -> int:
    """Publish with a plain INSERT; the id of the event."""
    return int(
        ask(
            session,
            "insert into trunkline.event (topic, payload, key, metadata, subscription)"
            " values (%s, %s, %s, %s, %s) returning seq",
            [topic, Jsonb(payload), key, metadata and Jsonb(metadata), subscription],
        )
    )


def forward(session: Session, topic: str = "orders", most: int = 10_000) -> int:
    """Number and forward; how many events were forwarded."""
    session.execute("select trunkline.broker_tick()")
    return int(ask(session, "select trunkline.broker_forward(%s, %s)", [topic, most]))


def batches(session: Session, topic: str = "orders", partition: int = 0) -> list[StoredBatch]:
    return fetch(session, 1, topic=topic, partition=partition, max_messages=100_000)


def payloads(session: Session, topic: str = "orders", partition: int = 0) -> list[Any]:
    found = batches(session, topic, partition)
    return [value and json.loads(value) for batch in found for value in decode(batch).values]


def test_an_event_becomes_a_message_with_its_id_key_and_metadata(session: Session) -> None:
    create(session)
    first = publish(session, {"total": 5}, key="alice", metadata={"trace": "abc"})
    second = publish(session, [1, "two"])
    assert forward(session) == 2
    [batch] = [decode(batch) for batch in batches(session)]
    assert [json.loads(value) for value in batch.values] == [{"total": 5}, [1, "two"]]
    assert batch.keys == [b"alice", None]
    assert batch.headers == [{"trace": "abc"}, None]
    assert batch.event_ids == [first, second]


def test_an_event_id_beyond_32_bits_is_kept(session: Session) -> None:
    create(session)
    session.execute("select setval('trunkline.event_seq', 9007199254740993)")
    ids = [publish(session, n) for n in range(2)]
    forward(session)
    assert [decode(batch).event_ids for batch in batches(session)] == [ids]
    assert ids[0] > 1 << 52


def test_offsets_go_on_without_gaps_between_forwarded_and_appended_messages(
    session: Session,
) -> None:
    create(session)
    append(session, b"1")
    for n in (2, 3):
        publish(session, n)
    forward(session)
    append(session, b"4")
    publish(session, 5)
    forward(session)
    ranges = [(batch.base_offset, batch.last_offset) for batch in batches(session)]
    assert ranges == [(1, 1), (2, 3), (4, 4), (5, 5)]
    assert payloads(session) == [1, 2, 3, 4, 5]


def test_a_key_goes_where_an_append_of_it_goes(session: Session) -> None:
    create(session, partitions=5)
    keys = [f"käfer-{n}" for n in range(40)]
    for key in keys:
        publish(session, key, key=key)
    assert forward(session) == 40
    for partition in range(5):
        there = payloads(session, partition=partition)
        assert there == [
            key
            for key in keys
            if ask(session, "select trunkline.log_partition_of(convert_to(%s, 'UTF8'), 5)", [key])
            == partition
        ]


def test_events_without_a_key_keep_their_order_in_one_partition(session: Session) -> None:
    create(session, partitions=5)
    for n in range(3):
        publish(session, n)
        forward(session)
    assert [payloads(session, partition=p) for p in range(5) if payloads(session, partition=p)] == [
        [0, 1, 2]
    ]


def test_an_open_transaction_delays_its_own_events_only(
    session: Session, connect: Callable[..., Session]
) -> None:
    create(session)
    slow = connect(autocommit=False)
    publish(slow, "slow")
    publish(session, "quick")
    assert forward(session) == 1
    slow.commit()
    assert forward(session) == 1
    assert payloads(session) == ["quick", "slow"]


def test_a_rolled_back_event_is_not_forwarded_and_leaves_no_gap(
    session: Session, connect: Callable[..., Session]
) -> None:
    create(session)
    other = connect(autocommit=False)
    publish(other, "never")
    other.rollback()
    publish(session, "kept")
    assert forward(session) == 1
    assert call(session, "log_ends", topics=["orders"])[0][2:4] == (1, 1)


def test_other_topics_stay_out_of_it(session: Session) -> None:
    create(session, "orders")
    create(session, "invoices")
    publish(session, 1, topic="orders")
    publish(session, 2, topic="payments")
    publish(session, 3, topic="invoices")
    assert forward(session, "orders") == 1
    assert payloads(session, "orders") == [1]
    assert payloads(session, "invoices") == []
    assert forwardable(session) == {"invoices": 1}


@pytest.mark.parametrize(
    "payload",
    ["to_jsonb(repeat('x', 400000))", "to_jsonb(array_fill(1e131071::numeric, array[3]))"],
    ids=["compressed", "short for what it says"],
)
def test_what_is_forwarded_together_is_bounded_by_its_size_in_the_log(
    session: Session, payload: str
) -> None:
    create(session)
    call(session, "config_set", name="log.batch_bytes", value="2000000")
    session.execute(
        f"insert into trunkline.event (topic, payload) select 'orders', {payload}"
        " from generate_series(1, 10)"
    )
    assert [forward(session) for _ in range(5)] == [3, 3, 3, 1, 0]
    assert sum(len(decode(batch).values) for batch in batches(session)) == 10


def test_an_event_larger_than_a_batch_is_forwarded_and_read(session: Session) -> None:
    create(session)
    call(session, "config_set", name="log.batch_bytes", value="40000")
    for payload in (1, "x" * 100_000, 2):
        publish(session, payload)
    while forward(session):
        pass
    assert payloads(session) == [1, "x" * 100_000, 2]
    assert [batch.n for batch in batches(session)] == [2, 1]


def test_an_event_too_large_for_the_log_is_set_aside_and_the_others_go_on(
    session: Session,
) -> None:
    create(session)
    call(session, "config_set", name="broker.forward_bytes", value="65536")
    publish(session, 1)
    large = publish(session, "x" * 70_000, key="k", metadata={"by": "web"})
    publish(session, 2)
    publish(session, "x" * 70_000, subscription=7)
    publish(session, 3)

    assert [forward(session) for _ in range(4)] == [1, 1, 2, 0]

    assert payloads(session) == [1, 2, 3]
    [found] = call(session, "broker_unforwarded")
    assert found[:4] == ("orders", large, head(session) - 3, "k")
    assert found[5] == "as JSON it has 70015 bytes, and what is forwarded has up to 65536."
    kept = session.execute("select payload, metadata from trunkline.broker_forward_aside")
    assert kept.fetchall() == [("x" * 70_000, {"by": "web"})]
    assert call(session, "broker_unforwarded", topic="orders") == [found]
    with refused("TL404"):
        call(session, "broker_unforwarded", topic="invoices")


@pytest.mark.soak
def test_an_event_that_postgres_cannot_write_as_json_is_set_aside_and_the_others_go_on(
    session: Session,
) -> None:
    create(session)
    publish(session, 1)
    session.execute(  # 130 kB in the table, 1 GB as text
        "insert into trunkline.event (topic, payload)"
        " select 'orders', jsonb_agg('1e131071'::jsonb) from generate_series(1, 8200)"
    )
    publish(session, 2)

    assert [forward(session) for _ in range(4)] == [1, 1, 1, 0]

    assert payloads(session) == [1, 2]
    assert "more bytes than Postgres can write" in call(session, "broker_unforwarded")[0][5]


def test_an_event_that_was_set_aside_is_discarded_by_its_id_or_with_its_topic(
    session: Session,
) -> None:
    create(session)
    call(session, "config_set", name="broker.forward_bytes", value="65536")
    ids = [publish(session, "x" * 70_000) for _ in range(2)]
    while forward(session):
        pass
    call(session, "broker_unforwarded_discard", event_id=ids[0])
    assert [row[1] for row in call(session, "broker_unforwarded")] == ids[1:]
    with refused("TL404"):
        call(session, "broker_unforwarded_discard", event_id=ids[0])
    call(session, "log_delete", topic="orders")
    assert call(session, "broker_unforwarded") == []


def forwardable(session: Session, after: int | None = None) -> dict[str, int]:
    rows = session.execute("select * from trunkline.broker_forwardable(%s)", [after])
    return dict(rows.fetchall())


def test_what_is_forwardable_is_told_beyond_the_cursors_or_a_position(session: Session) -> None:
    assert forwardable(session) == {}
    create(session, "orders")
    create(session, "invoices")
    before = head(session)
    for topic in ("orders", "orders", "payments", "invoices"):
        publish(session, 1, topic=topic)
    session.execute("select trunkline.broker_tick()")
    with writing_nothing(session):
        assert forwardable(session) == {"orders": 2, "invoices": 1}
        assert forwardable(session, after=before + 1) == {"orders": 1, "invoices": 1}
        assert forwardable(session, after=before + 4) == {}
    forward(session, "orders")
    assert forwardable(session, after=before) == {"invoices": 1}


def test_a_topic_made_later_gets_the_events_from_then_on(session: Session) -> None:
    publish(session, "before")
    session.execute("select trunkline.broker_tick()")
    create(session)
    publish(session, "after")
    assert forward(session) == 1
    assert payloads(session) == ["after"]


def test_what_is_published_after_a_topic_is_there_is_not_missed_whenever_numbers_are_given(
    session: Session, connect: Callable[..., Session]
) -> None:
    """The topic is made in a long transaction while events of others are numbered."""
    maker = connect(autocommit=False)
    create(maker)
    publish(session, "while it is made", topic="other")
    session.execute("select trunkline.broker_tick()")
    maker.commit()
    publish(session, "after")
    assert forward(session) == 1
    assert payloads(session) == ["after"]


def test_a_topic_that_is_not_made_after_all_holds_nothing(
    connect: Callable[..., Session], session: Session
) -> None:
    maker = connect(autocommit=False)
    create(maker)
    maker.rollback()
    assert cursors(session) == []


def cursors(session: Session) -> list[int]:
    return column(
        session,
        "select (trunkline._cursor_latest(k.cursor_id)).up_to from trunkline.cursor_key k"
        " where starts_with(k.resource, 'broker:forward:') order by 1",
    )


def head(session: Session) -> int:
    return int(ask(session, "select trunkline.broker_head()"))


def test_a_deleted_topic_holds_nothing_and_a_new_one_of_the_name_begins_anew(
    session: Session,
) -> None:
    create(session)
    publish(session, "first life")
    session.execute("select trunkline.broker_tick()")
    call(session, "log_delete", topic="orders")
    assert cursors(session) == []
    with refused("TL404"):
        forward(session)
    create(session)
    publish(session, "second life")
    assert forward(session) == 1
    assert payloads(session) == ["second life"]


def test_an_event_for_one_subscription_is_not_forwarded(session: Session) -> None:
    create(session)
    publish(session, "for one", subscription=7)
    assert forward(session) == 0
    publish(session, "for all")
    assert forward(session) == 1
    assert payloads(session) == ["for all"]
    assert cursors(session) == [head(session)]


def test_what_waits_behind_many_events_for_one_subscription_is_forwarded_at_once(
    session: Session,
) -> None:
    create(session)
    for n in range(5):
        publish(session, n, subscription=7)
    publish(session, "for all")
    assert forward(session, most=2) == 1
    assert payloads(session) == ["for all"]
    assert forward(session, most=2) == 0


def test_null_is_a_value_except_in_a_compacted_topic_where_it_is_a_tombstone(
    session: Session,
) -> None:
    create(session, "plain")
    create(session, "compacted", compact=True)
    for topic in ("plain", "compacted"):
        publish(session, None, topic=topic, key="k")
        assert forward(session, topic) == 1
    assert [decode(batch).values for batch in batches(session, "plain")] == [[b"null"]]
    assert [decode(batch).values for batch in batches(session, "compacted")] == [[None]]


def test_in_a_compacted_topic_events_without_a_key_share_the_empty_key(session: Session) -> None:
    create(session, compact=True)
    publish(session, 1)
    publish(session, 2, key="two")
    assert forward(session) == 2
    assert [decode(batch).keys for batch in batches(session)] == [[b"", b"two"]]


def test_a_backlog_is_forwarded_in_parts(session: Session) -> None:
    create(session)
    for n in range(7):
        publish(session, n)
    assert [forward(session, most=3) for _ in range(4)] == [3, 3, 1, 0]
    assert payloads(session) == [0, 1, 2, 3, 4, 5, 6]


def test_large_payloads_are_cut_into_batches_that_fit(session: Session) -> None:
    create(session)
    session.execute("select trunkline.config_set('log.batch_bytes', '40000')")
    text = "".join(random.Random(1).choices("abcdefghijklmnop", k=15_000))
    for n in range(5):
        publish(session, [n, text])
    forwarded = [forward(session) for _ in range(4)]
    assert sum(forwarded) == 5
    assert forwarded[-1] == 0
    assert [payload[0] for payload in payloads(session)] == [0, 1, 2, 3, 4]
    assert all(len(batch.payload) <= 40_000 for batch in batches(session))


def test_nothing_new_writes_nothing(session: Session) -> None:
    create(session)
    publish(session, 1)
    forward(session)
    with writing_nothing(session):
        assert forwardable(session) == {}
    before = ask(session, "select count(*) from trunkline.cursor")
    assert forward(session) == 0
    assert ask(session, "select count(*) from trunkline.cursor") == before


@pytest.mark.parametrize("most", [0, -1, None])
def test_less_than_one_event_is_refused(session: Session, most: int | None) -> None:
    create(session)
    with refused("TL422"):
        session.execute("select trunkline.broker_forward('orders', %s)", [most])


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_an_old_snapshot_is_refused(session: Session, isolation: str) -> None:
    create(session)
    with refused("TL400"), session.transaction():
        session.execute(f"set transaction isolation level {isolation}")
        session.execute("select trunkline.broker_forward('orders')")


def test_of_two_that_forward_a_topic_one_works(two_sessions: TwoSessions) -> None:
    s = two_sessions
    create(s.watcher)
    publish(s.watcher, 1)
    s.watcher.execute("select trunkline.broker_tick()")
    assert ask(s.a, "select trunkline.broker_forward('orders')") == 1
    publish(s.watcher, 2)
    s.watcher.execute("select trunkline.broker_tick()")
    assert ask(s.b, "select trunkline.broker_forward('orders')") == 0
    s.a.commit()
    s.b.commit()
    assert ask(s.b, "select trunkline.broker_forward('orders')") == 1
    s.b.commit()
    assert payloads(s.watcher) == [1, 2]


def test_a_forwarder_that_is_rolled_back_has_done_nothing(two_sessions: TwoSessions) -> None:
    s = two_sessions
    create(s.watcher)
    publish(s.watcher, 1)
    assert forward(s.a) == 1
    s.a.rollback()
    assert payloads(s.watcher) == []
    assert forward(s.watcher) == 1
    assert payloads(s.watcher) == [1]


def test_an_append_that_is_held_open_is_not_waited_for_long(two_sessions: TwoSessions) -> None:
    s = two_sessions
    create(s.watcher)
    append(s.a, b"0")
    publish(s.watcher, 1)
    with refused("55P03"):
        forward(s.watcher)
    s.a.commit()
    assert forward(s.watcher) == 1
    assert payloads(s.watcher) == [0, 1]


def test_a_topic_that_is_being_deleted_is_left_alone(two_sessions: TwoSessions) -> None:
    s = two_sessions
    create(s.watcher)
    publish(s.watcher, 1)
    s.watcher.execute("select trunkline.broker_tick()")
    call(s.a, "log_delete", topic="orders")
    assert ask(s.b, "select trunkline.broker_forward('orders')") == 0
    s.b.rollback()
    s.a.commit()
    with refused("TL404"):
        s.watcher.execute("select trunkline.broker_forward('orders')")


def test_idle_topics_move_up_so_that_they_hold_no_event_back(session: Session) -> None:
    create(session, "idle")
    create(session, "late")
    session.execute(
        "insert into trunkline.event (topic, payload)"
        " select 'other', '1' from generate_series(1, 10010)"
    )
    publish(session, 1, topic="late")
    session.execute("select trunkline.broker_tick()")
    assert not ask(session, "select trunkline.broker_forwards_advance()")
    assert cursors(session) == [head(session) - 1, head(session)]
    assert forward(session, "late") == 1
    assert ask(session, "select trunkline._event_keep_from()") <= head(session) + 1


def test_an_event_that_is_not_forwarded_does_not_leave_the_broker(session: Session) -> None:
    session.execute("select trunkline.config_set('broker.retention', '0')")
    create(session)
    publish(session, "waiting")
    session.execute("select trunkline.broker_tick()")
    session.execute("select trunkline.broker_match()")
    assert ask(session, "select trunkline._event_keep_from()") == head(session)
    assert forward(session) == 1
    assert ask(session, "select trunkline._event_keep_from()") == head(session) + 1


def test_a_topic_with_events_to_forward_does_not_move_up(session: Session) -> None:
    create(session)
    before = cursors(session)
    publish(session, "waiting")
    session.execute(
        "insert into trunkline.event (topic, payload)"
        " select 'other', '1' from generate_series(1, 10010)"
    )
    session.execute("select trunkline.broker_tick()")
    session.execute("select trunkline.broker_forwards_advance()")
    assert cursors(session) == before
    assert forward(session) == 1


async def test_the_forwarder_forwards_every_topic(
    session: Session, forwarder: BrokerForwarder
) -> None:
    for topic in ("orders", "invoices"):
        create(session, topic)
        publish(session, topic, topic=topic)
    session.execute("select trunkline.broker_tick()")
    assert await forwarder.run_once() == 2
    assert payloads(session, "orders") == ["orders"]
    assert payloads(session, "invoices") == ["invoices"]
    assert await forwarder.run_once() == 0


async def test_a_held_topic_holds_back_no_other_topic(
    session: Session, connect: Callable[..., Session], forwarder: BrokerForwarder
) -> None:
    holder = connect(autocommit=False)
    for topic in ("held", "free"):
        create(session, topic)
    append(holder, b"0", topic="held")
    for n in range(3):
        for topic in ("held", "free"):
            publish(session, n, topic=topic)
        session.execute("select trunkline.broker_tick()")
        assert await forwarder.run_once() == 1
    assert payloads(session, "free") == [0, 1, 2]
    holder.commit()

    async def caught_up() -> None:
        await forwarder.run_once()
        assert payloads(session, "held") == [0, 0, 1, 2]

    await eventually(caught_up)


async def test_a_topic_that_is_made_while_the_forwarder_runs_is_noticed(
    session: Session, connect: Callable[..., Session], forwarder: BrokerForwarder
) -> None:
    """It begins at a position that the forwarder has already seen."""
    maker = connect(autocommit=False)
    create(maker)
    publish(session, "while it is made")
    session.execute("select trunkline.broker_tick()")
    await forwarder.run_once()
    maker.commit()

    async def forwarded() -> None:
        await forwarder.run_once()
        assert payloads(session) == ["while it is made"]

    await eventually(forwarded)


async def test_a_tick_wakes_the_forwarder(session: Session, forwarder: BrokerForwarder) -> None:
    forwarder.interval = 600
    create(session)
    await forwarder.run_once()
    supervisor = Supervisor([forwarder])
    loop: Loop = supervisor.loop("broker-forwarder")
    idle = loop.ran.wait()
    running = asyncio.create_task(supervisor.run())
    await idle
    done = loop.ran.wait(lambda n: n == 1)
    publish(session, 1)
    session.execute("select trunkline.broker_tick()")
    await done
    await supervisor.stop()
    await running
    assert payloads(session) == [1]


@pytest.mark.crash
def test_killed_forwarders_neither_lose_nor_double_an_event(
    own_server: Callable[..., Server],
) -> None:
    dsn = own_server().dsn("postgres")
    migrate.install(dsn)
    chance = random.Random(5)
    with closing(psycopg.connect(dsn, autocommit=True)) as session:
        create(session, partitions=3)
        published: list[int] = []
        for _ in range(4):
            with subprocess.Popen(
                [sys.executable, str(PROGRAM), dsn], stdout=subprocess.PIPE, text=True
            ) as process:
                assert process.stdout is not None
                assert process.stdout.readline() == "ready\n"
                for _ in range(chance.randrange(50, 200)):
                    number = len(published)
                    published.append(number)
                    publish(session, number, key=str(number % 7))
                process.kill()
        others = (
            "select count(*) from pg_stat_activity"
            " where backend_type = 'client backend' and pid <> pg_backend_pid()"
        )
        wait_until(lambda: ask(session, others) == 0)  # who still forwards lets others find nothing
        wait_until(lambda: forward(session) == 0)
        found = [payloads(session, partition=partition) for partition in range(3)]
        assert sorted(number for there in found for number in there) == published
        for there in found:
            for key in range(7):
                of_key = [number for number in there if number % 7 == key]
                assert of_key == sorted(of_key)
        assert [row[-1] for row in call(session, "log_verify", topic="orders")] == [None] * 3
