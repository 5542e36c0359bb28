"""Appending in SQL: gapless offsets, visible in order; producers that may repeat themselves."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import IsolationLevel
from tests.fixtures.asking import Session, ask, call, column, refused
from tests.log.steps import TOPIC, append, create, current_segment, problems, read, seal

from trunkline.core.errors import DatabaseError, from_database
from trunkline.log.batches import partition_of

if TYPE_CHECKING:
    from tests.fixtures.asking import Connect
    from tests.fixtures.postgres import TwoSessions

APPEND = "select first_offset from trunkline.log_append(%s, 0, %s)"


@pytest.fixture
def topic(session: Session) -> str:
    return create(session)


def test_offsets_start_at_one_and_follow_each_other(session: Session, topic: str) -> None:
    assert append(session, b"a", b"b") == (1, 2)
    assert append(session, b"c") == (3, 3)
    assert read(session) == {1: b"a", 2: b"b", 3: b"c"}


def test_messages_are_stored_alike_where_backslashes_escape(session: Session) -> None:
    create(session, compact=True)
    session.execute("set standard_conforming_strings = off")
    session.execute(
        "select trunkline.log_append(%s, 0, array['a', null]::bytea[], array['k', 'l']::bytea[])",
        [TOPIC],
    )
    assert read(session) == {1: b"a", 2: None}


def test_a_rolled_back_append_leaves_its_offsets_to_the_next(session: Session, topic: str) -> None:
    append(session, b"a")
    with session.transaction(force_rollback=True):
        assert append(session, b"lost", b"lost") == (2, 3)
    with session.transaction():
        assert append(session, b"b") == (2, 2)
        with session.transaction(force_rollback=True):
            assert append(session, b"lost") == (3, 3)
        assert append(session, b"c") == (3, 3)
    assert read(session) == {1: b"a", 2: b"b", 3: b"c"}


@dataclass
class Race:
    """Eight writers and a reader on one partition."""

    connect: Connect
    stored: dict[int, bytes] = field(default_factory=dict)
    seen: list[int] = field(default_factory=list)
    done: threading.Event = field(default_factory=threading.Event)

    def write(self, number: int) -> None:
        dice = random.Random(number)
        session = self.connect(autocommit=False)
        for turn in range(30):
            values = [b"%d/%d/%d" % (number, turn, i) for i in range(dice.randint(1, 6))]
            first, last = append(session, *values)
            assert last - first + 1 == len(values)
            if dice.random() < 0.4:
                session.rollback()
            else:
                session.commit()
                self.stored.update(zip(range(first, last + 1), values, strict=True))

    def watch(self) -> None:
        session = self.connect()
        finished = False
        while not finished:
            finished = self.done.is_set()
            found = read(session, start=len(self.seen) + 1)
            assert list(found) == list(range(len(self.seen) + 1, len(self.seen) + 1 + len(found)))
            self.seen += found


def test_eight_writers_that_roll_back_at_random_leave_no_gap_and_no_reader_sees_one(
    session: Session, topic: str, connect: Connect
) -> None:
    race = Race(connect)
    with ThreadPoolExecutor(9) as threads:
        watcher = threads.submit(race.watch)
        for writer in [threads.submit(race.write, number) for number in range(8)]:
            writer.result()
        race.done.set()
        watcher.result()
    assert sorted(race.stored) == list(range(1, len(race.stored) + 1))
    assert read(session) == race.stored  # so every batch kept its order and its offsets
    assert race.seen == sorted(race.stored)
    assert problems(session) == []


def test_an_append_waits_until_the_one_before_it_has_ended(
    session: Session, topic: str, two: TwoSessions
) -> None:
    a, b = two.a, two.b
    assert ask(a, APPEND, [TOPIC, [b"a"]]) == 1
    second = two.later(b, APPEND, [TOPIC, [b"b"]])
    two.blocked_by(a, b)
    a.rollback()
    assert second.result(10).fetchone() == (1,)


def test_partitions_do_not_wait_for_each_other(session: Session, connect: Connect) -> None:
    create(session, partitions=2)
    other = connect(autocommit=False)
    append(other, b"held", partition=0)
    assert append(session, b"free", partition=1) == (1, 1)


def test_a_key_chooses_the_partition(session: Session) -> None:
    create(session, partitions=4)
    keys = [b"key-%d" % n for n in range(20)]
    rows = call(session, "log_append", topic=TOPIC, partition=None, payloads=keys, keys=keys)
    routed: dict[int, list[bytes]] = {}
    for key in keys:
        routed.setdefault(partition_of(key, 4), []).append(key)
    assert rows == [(number, 1, len(routed[number])) for number in sorted(routed)]
    for number, expected in routed.items():
        assert list(read(session, partition=number).values()) == expected


def test_messages_without_a_key_stay_together(session: Session) -> None:
    create(session, partitions=8)
    for _ in range(5):
        assert append(session, b"a", b"b", b"c", partition=None)[1] % 3 == 0
    assert sum(len(read(session, partition=number)) for number in range(8)) == 15


def test_a_named_partition_takes_everything_whatever_the_keys(session: Session) -> None:
    create(session, partitions=4)
    assert append(session, b"a", b"b", keys=[b"1", b"2"], partition=3) == (1, 2)


def test_text_is_appended_for_people(session: Session, topic: str) -> None:
    call(session, "log_append_text", topic=TOPIC, message="grüße", key="käse")
    (row,) = call(session, "log_read", topic=TOPIC)
    assert (row[2], row[3], row[4]) == ("käse".encode(), "grüße".encode(), None)


def test_partitions_are_added_while_appends_are_under_way(
    session: Session, topic: str, connect: Connect
) -> None:
    other = connect(autocommit=False)
    append(other, b"under way")
    call(session, "log_alter", topic=TOPIC, partitions=3)
    assert append(session, b"new", partition=2) == (1, 1)
    other.commit()
    assert read(session) == {1: b"under way"}
    keys = [b"%d" % n for n in range(30)]
    rows = call(session, "log_append", topic=TOPIC, partition=None, payloads=keys, keys=keys)
    assert [row[0] for row in rows] == [0, 1, 2]


def test_times_never_decrease_when_the_clock_is_set_back(session: Session, topic: str) -> None:
    append(session, b"a")
    session.execute(f"update {current_segment(session)} set at = now() + interval '1 hour'")
    append(session, b"b")
    seal(session)
    append(session, b"c")
    times = column(session, "select at from trunkline.log_read(%s)", [TOPIC])
    assert times[0] == times[1] == times[2]
    assert ask(session, "select %s > now() + interval '50 minutes'", [times[2]])


# Idempotent producers


def test_a_repeat_returns_the_first_answer_and_stores_nothing(session: Session, topic: str) -> None:
    producer = uuid4()
    assert append(session, b"a", b"b", producer=(producer, 7)) == (1, 2)
    assert append(session, b"c", producer=(producer, 8)) == (3, 3)
    for _ in range(2):
        assert append(session, b"c", producer=(producer, 8)) == (3, 3)
        assert append(session, b"a", b"b", producer=(producer, 7)) == (1, 2)
    assert read(session) == {1: b"a", 2: b"b", 3: b"c"}


def test_a_repeat_is_known_across_a_segment_roll(session: Session, topic: str) -> None:
    producer = uuid4()
    append(session, b"before")
    answer = append(session, b"a", producer=(producer, 1))
    seal(session)
    assert append(session, b"a", producer=(producer, 1)) == answer
    assert append(session, b"b", producer=(producer, 2)) == (3, 3)
    assert append(session, b"a", producer=(producer, 1)) == answer
    assert len(read(session)) == 3


def test_a_number_that_was_never_stored_and_is_older_is_refused(
    session: Session, topic: str
) -> None:
    producer = uuid4()
    append(session, b"a", producer=(producer, 5))
    for _ in range(2):
        with refused("TL409") as caught:
            append(session, b"late", producer=(producer, 4))
        assert "already stored number 5, got 4" in str(caught.value)
        seal(session)
    assert read(session) == {1: b"a"}


def test_two_repeats_at_once_store_once(session: Session, topic: str, two: TwoSessions) -> None:
    a, b = two.a, two.b
    query = "select first_offset from trunkline.log_append(%s, 0, %s, null, null, %s, 1)"
    values = [TOPIC, [b"once"], uuid4()]
    assert ask(a, query, values) == 1
    second = two.later(b, query, values)
    two.blocked_by(a, b)
    a.commit()
    assert second.result(10).fetchone() == (1,)
    b.commit()
    assert read(session) == {1: b"once"}


def test_a_repeat_after_the_first_was_rolled_back_stores_it(
    session: Session, topic: str, two: TwoSessions
) -> None:
    a, b = two.a, two.b
    query = "select first_offset from trunkline.log_append(%s, 0, %s, null, null, %s, 1)"
    values = [TOPIC, [b"once"], uuid4()]
    assert ask(a, query, values) == 1
    second = two.later(b, query, values)
    two.blocked_by(a, b)
    a.rollback()
    assert second.result(10).fetchone() == (1,)
    b.commit()
    assert read(session) == {1: b"once"}


@pytest.mark.parametrize("arrived", [True, False])
def test_a_repeat_after_an_ambiguous_commit_makes_no_duplicate(
    session: Session, topic: str, connect: Connect, arrived: bool
) -> None:
    """The connection breaks around the commit: the client cannot know whether it arrived."""
    producer = uuid4()
    first = connect(autocommit=False)
    append(first, b"pay 10", producer=(producer, 1))
    if arrived:
        first.commit()
    session.execute("select pg_terminate_backend(%s, 10000)", [first.info.backend_pid])
    with pytest.raises(psycopg.OperationalError):
        first.execute("select 1")
    assert append(session, b"pay 10", producer=(producer, 1)) == (1, 1)
    assert append(session, b"pay 10", producer=(producer, 1)) == (1, 1)
    assert read(session) == {1: b"pay 10"}


def test_a_routed_repeat_returns_every_partition_again(session: Session) -> None:
    create(session, partitions=4)
    keys = [b"%d" % n for n in range(12)]
    arguments = {
        "topic": TOPIC,
        "partition": None,
        "payloads": [*keys, b"keyless"],
        "keys": [*keys, None],
        "producer_id": uuid4(),
        "producer_seq": 1,
    }
    answer = call(session, "log_append", **arguments)
    assert call(session, "log_append", **arguments) == answer
    assert sum(len(read(session, partition=number)) for number in range(4)) == 13


def test_producers_and_partitions_count_apart(session: Session) -> None:
    create(session, partitions=2)
    mine, yours = uuid4(), uuid4()
    assert append(session, b"a", producer=(mine, 1)) == (1, 1)
    assert append(session, b"b", producer=(yours, 1)) == (2, 2)
    assert append(session, b"c", producer=(mine, 1), partition=1) == (1, 1)


# Isolation


@pytest.mark.parametrize(
    "level", [IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE], ids=str
)
@pytest.mark.parametrize("producer", [None, UUID(int=1)], ids=["plain", "idempotent"])
@pytest.mark.parametrize("meanwhile", ["an append", "a repeat", "a roll"])
def test_a_clash_in_an_older_snapshot_is_reported_as_a_serialization_failure(
    session: Session,
    connect: Connect,
    level: IsolationLevel,
    producer: UUID | None,
    meanwhile: str,
) -> None:
    create(session)
    append(session, b"first")
    late = connect(autocommit=False)
    late.isolation_level = level
    ask(late, "select count(*) from trunkline.log_topic")  # takes the snapshot
    numbered = (producer, 1 if producer else None)
    match meanwhile:
        case "an append":
            append(session, b"second")
        case "a repeat":
            append(session, b"late", producer=numbered)
        case "a roll":
            seal(session)
    with refused("40001"):
        append(late, b"late", producer=numbered)
    late.rollback()
    append(late, b"late", producer=numbered)
    late.commit()
    assert problems(session) == []


def test_an_append_in_repeatable_read_without_a_clash_is_stored(
    session: Session, topic: str, connect: Connect
) -> None:
    late = connect(autocommit=False)
    late.isolation_level = IsolationLevel.REPEATABLE_READ
    assert append(late, b"a") == (1, 1)
    assert append(late, b"b") == (2, 2)
    late.commit()
    assert read(session) == {1: b"a", 2: b"b"}


# Topics


def test_creating_a_topic_twice_at_once_is_harmless(connect: Connect) -> None:
    with ThreadPoolExecutor(8) as threads:
        made = [threads.submit(create, connect(), partitions=2) for _ in range(8)]
        assert [one.result() for one in made] == [TOPIC] * 8
    session = connect()
    assert ask(session, "select count(*) from trunkline.log_partition") == 2
    assert ask(session, "select count(*) from trunkline.log_segment") == 2


def test_a_topic_that_was_deleted_while_an_append_waited_is_missing(
    session: Session, topic: str, two: TwoSessions
) -> None:
    a, b = two.a, two.b
    a.execute("select trunkline.log_delete(%s)", [TOPIC])
    waiting = two.later(b, APPEND, [TOPIC, [b"x"]])
    two.blocked_by(a, b)
    a.commit()
    with refused("TL404"):
        waiting.result(10)


@pytest.mark.parametrize("allowed", [True, False])
def test_only_a_topic_that_allows_it_releases_early(session: Session, allowed: bool) -> None:
    create(session, early_release=allowed)
    session.execute("set synchronous_commit = on")
    with session.transaction():
        call(
            session,
            "log_append_batch",
            topic=TOPIC,
            partition=0,
            n=1,
            codec=0,
            value_ends=bytes([0, 0, 0, 0, 1, 0, 0, 0]),
            payload=b"x",
            release_early=True,
        )
        assert ask(session, "show synchronous_commit") == ("off" if allowed else "on")
    with session.transaction():
        session.execute("set local synchronous_commit = off")
        session.execute("select trunkline.log_flush()")
        assert ask(session, "show synchronous_commit") == "on"
        assert ask(session, "select pg_current_xact_id_if_assigned()") is not None


def test_messages_without_a_key_go_to_a_partition_that_is_free(
    session: Session, two: TwoSessions
) -> None:
    create(session, partitions=4)
    session.execute("set lock_timeout = '1s'")
    for partition in range(3):
        append(two.a, b"held", partition=partition)
        for _ in range(8):
            rows = call(session, "log_append", topic=TOPIC, partition=None, payloads=[b"x"])
            assert rows[0][0] > partition
    append(two.a, b"held", partition=3)
    with refused("55P03"):
        call(session, "log_append", topic=TOPIC, partition=None, payloads=[b"x"])
    two.a.rollback()
    taken = {
        call(session, "log_append", topic=TOPIC, partition=None, payloads=[b"x"])[0][0]
        for _ in range(60)
    }
    assert taken == {0, 1, 2, 3}


def test_messages_without_a_key_go_with_one_that_has_a_key(session: Session) -> None:
    create(session, partitions=8)
    rows = call(
        session,
        "log_append",
        topic=TOPIC,
        partition=None,
        payloads=[b"a", b"b", b"c"],
        keys=[None, b"k", None],
    )
    assert [row[0] for row in rows] == [partition_of(b"k", 8)]


def test_two_batches_over_several_partitions_never_wait_for_each_other(
    log_dsn: str, session: Session
) -> None:
    create(session, partitions=4)
    keys = [b"%d" % number for number in range(12)] + [None] * 3
    failed: list[Exception] = []

    def work(seed: int) -> None:
        order = random.Random(seed)
        with psycopg.connect(log_dsn, autocommit=True) as own:
            for _ in range(40):
                mixed = order.sample(keys, len(keys))
                try:
                    call(
                        own,
                        "log_append",
                        topic=TOPIC,
                        partition=None,
                        payloads=[b"x"] * len(mixed),
                        keys=mixed,
                    )
                except psycopg.Error as error:
                    failed.append(error)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))
    assert failed == []


def test_transactions_that_append_in_opposite_order_learn_to_try_again(
    session: Session, two: TwoSessions
) -> None:
    create(session, partitions=2)
    append(two.a, b"a", partition=0)
    append(two.b, b"b", partition=1)
    crossing = two.later(two.a, "select from trunkline.log_append(%s, 1, %s)", [TOPIC, [b"a"]])
    two.blocked_by(two.b, two.a)
    failed: list[psycopg.Error] = []
    try:
        append(two.b, b"b", partition=0)
    except psycopg.Error as error:
        failed.append(error)
        two.b.rollback()
    try:
        crossing.result(10)
    except psycopg.Error as error:
        failed.append(error)
    (lost,) = failed
    told = from_database(lost)
    assert isinstance(told, DatabaseError)
    assert told.sqlstate == "40P01"
    assert "Run the whole transaction again" in str(told)
