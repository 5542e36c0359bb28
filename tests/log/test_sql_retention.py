"""Segments in SQL: sealed, retired and dropped without a gap, and without making anybody wait."""

from __future__ import annotations

import random
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import IsolationLevel
from tests.fixtures.asking import Session, ask, call, column, refused
from tests.log.steps import (
    TOPIC,
    append,
    claim,
    commit,
    configure,
    create,
    current_segment,
    fail_over,
    fetch,
    fill,
    join,
    maintain,
    problems,
    process,
    read,
    seal,
    segments,
    settle,
)

from trunkline.core.binaries import find_binaries
from trunkline.log.decoding import decode
from trunkline.testing import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.fixtures.asking import Connect
    from tests.fixtures.postgres import TwoSessions

TABLES = "select count(*) from pg_class where relname ~ '^log_segment_[0-9]+$'"


def three_segments(session: Session, **settings: Any) -> None:
    """Offsets 1 to 4, 5 to 8, and 9 to 12 in the one that takes appends."""
    create(session, **settings)
    for number in range(3):
        fill(session, 2)
        fill(session, 2)
        if number < 2:
            seal(session)
    assert segments(session) == [(1, 4), (5, 8), (9, None)]


def age(session: Session, by: timedelta, *, up_to: int) -> None:
    """Let segments be older than they are."""
    session.execute(
        "update trunkline.log_segment set last_at = last_at - %s where last_offset <= %s",
        [by, up_to],
    )


# Sealing


def test_a_segment_is_sealed_when_it_is_large(session: Session) -> None:
    create(session)
    configure(session, log__segment_bytes="200000")
    append(session, b"x" * 100_000)
    maintain(session)
    assert segments(session) == [(1, None)]
    append(session, b"x" * 100_000)
    maintain(session)
    assert segments(session) == [(1, 2), (3, None)]
    assert append(session, b"x") == (3, 3)


def test_a_segment_is_sealed_when_it_is_old_and_holds_something(session: Session) -> None:
    create(session)
    configure(session, log__segment_age="1 millisecond")
    maintain(session)
    assert segments(session) == [(1, None)]
    fill(session, 3)
    session.execute(f"update {current_segment(session)} set at = at - interval '1 second'")
    maintain(session)
    assert segments(session) == [(1, 3), (4, None)]


def test_sealing_gives_up_while_an_append_holds_the_partition(
    session: Session, connect: Connect
) -> None:
    create(session)
    fill(session, 1)
    other = connect(autocommit=False)
    append(other, b"open")
    configure(session, log__segment_bytes="8192")
    maintain(session)
    assert segments(session) == [(1, None)]
    other.commit()
    maintain(session)
    assert segments(session) == [(1, 2), (3, None)]


def test_a_segment_is_not_sealed_in_a_snapshot_that_may_be_old(
    session: Session, connect: Connect
) -> None:
    create(session)
    late = connect(autocommit=False)
    late.isolation_level = IsolationLevel.REPEATABLE_READ
    ask(late, "select count(*) from trunkline.log_topic")
    fill(session, 2)
    with refused("TL400"):
        seal(late)


# Retention


def test_segments_older_than_the_retention_leave(session: Session) -> None:
    three_segments(session, retention=timedelta(hours=1))
    maintain(session)
    assert segments(session) == [(1, 4), (5, 8), (9, None)]
    age(session, timedelta(hours=2), up_to=4)
    tables = ask(session, TABLES)
    maintain(session)
    assert segments(session) == [(5, 8), (9, None)]
    assert ask(session, TABLES) == tables - 1
    assert list(read(session, start=5)) == list(range(5, 13))
    assert problems(session) == []


def test_segments_leave_while_the_partition_is_larger_than_it_may_be(session: Session) -> None:
    create(session, retention_bytes=250_000)
    for _ in range(6):
        append(session, b"x" * 100_000)
        seal(session)
    maintain(session)
    first = segments(session)[0][0]
    assert first > 1
    kept = ask(session, "select sum(bytes) from trunkline.log_describe(%s)", [TOPIC])
    assert 250_000 <= kept < 450_000
    assert list(read(session, start=first)) == list(range(first, 7))
    assert problems(session) == []


def test_the_segment_that_takes_appends_stays_however_large_it_is(session: Session) -> None:
    create(session, retention_bytes=1)
    fill(session, 3)
    maintain(session)
    assert list(read(session)) == [1, 2, 3]


def test_messages_leave_with_the_retention_also_when_their_segment_is_not_full(
    session: Session,
) -> None:
    create(session, retention=timedelta(hours=1))
    fill(session, 3)
    session.execute(f"update {current_segment(session)} set at = at - interval '2 hours'")
    maintain(session)
    assert segments(session) == [(4, None)]
    assert append(session, b"next") == (4, 4)


def test_a_position_below_the_floor_is_told_the_first_offset(session: Session) -> None:
    three_segments(session, retention=timedelta(hours=1))
    age(session, timedelta(hours=2), up_to=8)
    maintain(session)
    with refused("TL410") as caught:
        read(session, start=3)
    assert "starts at 9, asked for 3" in str(caught.value)
    assert '"first": 9' in (caught.value.diag.message_detail or "")


def test_numbers_go_on_when_everything_has_left(session: Session) -> None:
    create(session)
    fill(session, 3)
    seal(session)
    call(session, "log_trim", topic=TOPIC, partition=0, before_offset=4)
    maintain(session)
    assert segments(session) == [(4, None)]
    assert read(session, start=4) == {}
    assert append(session, b"next") == (4, 4)
    assert problems(session) == []


@pytest.mark.parametrize("held_first", [False, True])
def test_retention_passes_by_a_partition_that_an_append_holds(
    session: Session, connect: Connect, held_first: bool
) -> None:
    """maintain() returns while the append is still open, and other topics get their turn."""
    if not held_first:
        three_segments(session, retention=timedelta(hours=1))
    create(session, "held", retention=timedelta(hours=1))
    fill(session, 4, topic="held")
    seal(session, "held")
    if held_first:
        three_segments(session, retention=timedelta(hours=1))
    age(session, timedelta(hours=2), up_to=4)
    other = connect(autocommit=False)
    append(other, b"open", topic="held")
    for _ in range(2):
        maintain(session)
    assert segments(session) == [(5, 8), (9, None)]
    assert segments(session, "held") == [(1, 4), (5, None)]
    other.commit()
    maintain(session)
    assert segments(session, "held") == [(5, None)]


# Trimming


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        (1, [(1, 4), (5, 8), (9, None)]),
        (4, [(1, 4), (5, 8), (9, None)]),
        (5, [(5, 8), (9, None)]),
        (7, [(5, 8), (9, None)]),
        (11, [(9, None)]),
        (13, [(9, None)]),
    ],
)
def test_a_trim_moves_the_floor_and_takes_whole_segments(
    session: Session, before: int, expected: list[tuple[int, int | None]]
) -> None:
    three_segments(session)
    trim = {"topic": TOPIC, "partition": 0}
    assert call(session, "log_trim", **trim, before_offset=before) == [(before,)]
    assert segments(session) == expected
    assert list(read(session, start=before)) == list(range(before, 13))
    if before > 1:
        with refused("TL410"):
            read(session, start=before - 1)
    assert call(session, "log_trim", **trim, before_offset=1) == [(before,)]
    ((_, first, last, messages, problem),) = call(session, "log_verify", topic=TOPIC)
    assert (first, last, messages, problem) == (before, 12, 13 - before, None)


def test_groups_behind_a_trim_are_listed_with_their_real_position(session: Session) -> None:
    three_segments(session)
    (share,) = join(session, process(session))
    commit(session, share, 2)
    call(session, "log_trim", topic=TOPIC, partition=0, before_offset=9)
    assert standing(session) == [(2, 12, 10, 6)]


def test_groups_behind_the_retention_are_listed_with_what_they_have_lost(session: Session) -> None:
    three_segments(session, retention=timedelta(hours=1))
    (share,) = join(session, process(session))
    commit(session, share, 3)
    claim(session, 4, group="shared")
    assert standing(session) == [(3, 12, 9, 0), (4, 12, 8, 0)]
    age(session, timedelta(hours=2), up_to=8)
    maintain(session)

    assert standing(session) == [(3, 12, 9, 5), (4, 12, 8, 4)]
    assert call(session, "log_lag", group_name="billing") == [(TOPIC, "billing", 9, 5, 1, 1)]
    with refused("TL410"):
        claim(session, group="shared")

    call(session, "log_seek", topic=TOPIC, group_name="billing", start="earliest")
    assert standing(session)[0] == (8, 12, 4, 0)


def test_what_leaves_of_an_added_partition_before_a_group_came_is_not_passed_over(
    session: Session,
) -> None:
    create(session, retention=timedelta(hours=1))
    claim(session)
    who = process(session)
    join(session, who)
    call(session, "log_alter", topic=TOPIC, partitions=2)
    fill(session, 3, partition=1)
    session.execute(
        f"update {current_segment(session, partition=1)} set at = at - interval '2 hours'"
    )
    maintain(session)
    fill(session, 1, partition=1)

    with refused("TL410") as caught:
        claim(session, partition=1)
    assert "starts at 4, asked for 1" in str(caught.value)
    (_, added) = join(session, who)
    assert (added.partition, added.up_to) == (1, 0)
    assert [lost for _, _, _, lost in standing(session)] == [0, 3, 0, 3]


def standing(session: Session) -> list[tuple[int, int, int, int]]:
    """What groups have done, what is there, how far behind they are, what of that has left."""
    query = "select up_to, last_offset, lag, lost from trunkline.log_groups()"
    return session.execute(query).fetchall()


# Dropping waits for nobody


def test_a_drop_waits_for_no_reader_and_nobody_waits_for_it(
    session: Session, connect: Connect
) -> None:
    three_segments(session)
    reader = connect(autocommit=False)
    assert list(read(reader)) == list(range(1, 13))  # holds ACCESS SHARE on every segment
    call(session, "log_trim", topic=TOPIC, partition=0, before_offset=9)
    tables = ask(session, TABLES)
    for _ in range(3):
        maintain(session)  # returns although the reader holds what it wants to drop
        append(session, b"more")
    assert ask(session, TABLES) == tables
    with refused("TL410"):
        read(session)
    reader.rollback()
    maintain(session)
    assert ask(session, TABLES) == tables - 2
    assert problems(session) == []


def test_a_held_segment_keeps_no_other_from_being_dropped(
    session: Session, connect: Connect
) -> None:
    three_segments(session)
    held = segments(session)[0]
    holder = connect(autocommit=False)
    read(holder, start=held[0], most=4)
    call(session, "log_trim", topic=TOPIC, partition=0, before_offset=9)
    maintain(session)
    assert ask(session, "select count(*) from trunkline.log_segment where topic_id is null") == 1


def test_a_deleted_topic_is_gone_at_once_and_its_tables_soon(
    session: Session, connect: Connect
) -> None:
    three_segments(session)
    join(session, process(session))
    claim(session)
    reader = connect(autocommit=False)
    read(reader)
    tables = ask(session, TABLES)
    call(session, "log_delete", topic=TOPIC)
    for name, more in (("log_read", {}), ("log_delete", {}), ("log_describe", {})):
        with refused("TL404"):
            call(session, name, topic=TOPIC, **more)
    with refused("TL404"):
        append(session, b"x")
    assert call(session, "log_groups") == []
    for table in ("owner", "cursor_key"):
        ours = f"select resource from trunkline.{table} where starts_with(resource, 'log:')"
        assert column(session, ours) == []
    maintain(session)
    assert ask(session, TABLES) == tables
    reader.rollback()
    maintain(session)
    assert ask(session, TABLES) == tables - 3
    create(session)
    assert append(session, b"anew") == (1, 1)


@pytest.mark.parametrize(
    "look",
    [
        "log_list()",
        "log_describe('orders')",
        "log_verify('orders')",
        "log_groups()",
        "log_lag()",
        "log_ends('{orders}')",
        "log_segments_seal()",
    ],
)
def test_whoever_looks_at_all_partitions_holds_none_of_their_segments(
    connect: Connect, look: str
) -> None:
    """The server has room for so many locks, and some have thousands of partitions."""
    session = connect()
    three_segments(session, partitions=2)
    join(session, process(session))
    held = (
        "select count(*) from pg_locks l join pg_class c on c.oid = l.relation"
        " where l.pid = pg_backend_pid() and c.relname ~ '^log_segment_[0-9]'"
    )
    with session.transaction():
        assert session.execute(f"select * from trunkline.{look}").fetchall()
        assert ask(session, held) == 0


def test_a_delete_waits_for_an_append_under_way(session: Session, two: TwoSessions) -> None:
    create(session)
    append(two.a, b"under way")
    deleting = two.later(two.b, "select trunkline.log_delete(%s)", [TOPIC])
    two.blocked_by(two.a, two.b)
    two.a.commit()
    deleting.result(10)
    two.b.commit()
    assert call(session, "log_list") == []


@pytest.mark.parametrize(
    "query",
    [
        "select trunkline.log_commit('orders', 'billing', 0, %(epoch)s, 11, %(life)s)",
        "select trunkline.log_position_check('orders', 0, 12, %(life)s)",
    ],
)
def test_who_is_overtaken_by_a_drop_while_its_history_is_looked_at_may_try_again(
    session: Session, log_dsn: str, two: TwoSessions, query: str
) -> None:
    three_segments(session)
    (share,) = join(session, process(session))
    given = {"epoch": share.epoch, "life": ask(session, "select trunkline.incarnation()")}
    fail_over(log_dsn, after=8)
    two.a.execute("select trunkline.log_trim('orders', 0, 9)")
    while ask(two.a, "select trunkline.log_segments_drop()"):
        pass
    looking = two.later(two.b, query, given)
    two.blocked_by(two.a, two.b)
    two.a.commit()
    with refused("40001"):
        looking.result(10)
    two.b.rollback()
    with refused("TL410"):
        two.b.execute(query, given)


# Everything at once


class Crew:
    """Threads that work until all of the writers have done their share."""

    def __init__(self, connect: Connect):
        self.connect = connect
        self.over = threading.Event()

    def run(self, writers: list[Callable[[Session], None]], others: list[Any]) -> None:
        with ThreadPoolExecutor(len(writers) + len(others)) as threads:
            beside = [threads.submit(self._repeat, work) for work in others]
            working = [threads.submit(work, self.connect()) for work in writers]
            try:
                for one in working:
                    one.result(60)
            finally:
                self.over.set()
            for one in beside:
                one.result(60)

    def _repeat(self, work: Callable[[Session], Iterator[None]]) -> None:
        steps = work(self.connect())
        while not self.over.is_set():
            next(steps)


def writer(topic: str, number: int, turns: int, **more: Any) -> Callable[[Session], None]:
    def write(session: Session) -> None:
        dice = random.Random(number)
        producer = uuid4()
        for turn in range(1, turns + 1):
            size = dice.randint(1, 4)
            append(
                session,
                *(dice.randbytes(dice.randint(1, 900)) for _ in range(size)),
                topic=topic,
                partition=number % 2,
                producer=(producer, turn),
                keys=[b"%d" % dice.randint(0, 20) for _ in range(size)],
            )

    return write


def tail(topic: str, partition: int) -> Callable[[Session], Iterator[None]]:
    """Follow a partition; a gap is an error, but falling behind the retention is none."""

    def follow(session: Session) -> Iterator[None]:
        start = 1
        while True:
            try:
                batches = fetch(session, start, topic=topic, partition=partition)
            except psycopg.DatabaseError as error:
                if error.sqlstate != "TL410":
                    raise
                start = ask(
                    session,
                    "select first_offset from trunkline.log_describe(%s) where partition = %s",
                    [topic, partition],
                )
                continue
            for batch in batches:
                offsets = decode(batch).offsets
                if topic == TOPIC:
                    assert offsets == list(range(start, start + len(offsets)))
                start = batch.last_offset + 1
            yield

    return follow


def lookers(session: Session) -> Iterator[None]:
    """Read all that people look at."""
    while True:
        for name in ("log_list", "log_groups", "log_lag"):
            call(session, name)
        call(session, "log_describe", topic=TOPIC)
        call(session, "log_offset_at", topic=TOPIC, partition=0, at_time="-infinity")
        assert problems(session) == []
        assert problems(session, "state") == []
        yield


def sharer(session: Session) -> Iterator[None]:
    """Claim and acknowledge; a group that fell behind seeks."""
    while True:
        try:
            if claimed := claim(session, 5, timedelta(minutes=5), group="sharers"):
                settle(session, "ack", claimed, group="sharers")
        except psycopg.DatabaseError as error:
            if error.sqlstate not in ("TL410", "TL423"):
                raise
            call(session, "log_seek", topic=TOPIC, group_name="sharers", start="earliest")
        yield


def member(session: Session) -> Iterator[None]:
    """Join, and commit what is there."""
    who = process(session)
    while True:
        for share in join(session, who):
            described = call(session, "log_describe", topic=TOPIC)
            commit(session, share, described[share.partition][2])
            if share.surplus:
                session.execute(
                    "select trunkline.log_leave(%s, 'billing', %s, '', %s)",
                    [TOPIC, who, [share.partition]],
                )
        yield


def maintainer(session: Session) -> Iterator[None]:
    while True:
        maintain(session)
        yield


@pytest.fixture
def restless(session: Session) -> None:
    """Two topics whose segments are sealed, compacted, retired and dropped all the time."""
    create(session, partitions=2, retention_bytes=40_000)
    create(session, "state", partitions=2, compact=True)
    configure(
        session,
        log__segment_bytes="16384",
        ring__cursor__rotate_every="1 millisecond",
        maintain__settle="0",
    )


@pytest.mark.usefixtures("restless")
def test_readers_that_race_with_drops_never_miss_a_table_or_see_a_gap(
    session: Session, connect: Connect
) -> None:
    Crew(connect).run(
        [writer(TOPIC, number, 60) for number in range(2)]
        + [writer("state", number, 30) for number in range(2)],
        [
            maintainer,
            lookers,
            tail(TOPIC, 0),
            tail(TOPIC, 1),
            tail("state", 0),
            sharer,
            member,
        ],
    )
    segments_leave(session)


def segments_leave(session: Session) -> None:
    """The first segments of the topic are gone, or go with the next turns of upkeep."""

    def gone() -> bool:
        maintain(session)
        return min(row[1] for row in call(session, "log_describe", topic=TOPIC)) > 1

    wait_until(gone)


class Watch:
    """The longest time that a session waited for a lock of maintenance or of the backup."""

    def __init__(self) -> None:
        self.longest = 0.0

    def __call__(self, session: Session) -> Iterator[None]:
        while True:
            waited = ask(
                session,
                """select max(extract(epoch from clock_timestamp() - l.waitstart))
                     from pg_locks l join pg_stat_activity a using (pid)
                    where not l.granted and a.datname = current_database()
                      and strpos(a.query, 'maintain()') = 0 and exists (
                        select from pg_stat_activity b
                         where b.pid = any (pg_blocking_pids(l.pid))
                           and (strpos(b.query, 'maintain()') > 0
                                or b.application_name = 'pg_dump'))""",
            )
            self.longest = max(self.longest, float(waited or 0))
            yield


@pytest.fixture
def backup(log_dsn: str, session: Session, bin_dir: Path | None) -> Iterator[str]:
    """A pg_dump that holds its snapshot, for nobody reads what it writes."""
    for _ in range(3):
        append(session, random.Random(1).randbytes(200_000), partition=0)
    command = [find_binaries(bin_dir).directory / "pg_dump", "--data-only", log_dsn]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as dump:
        locked = """select count(*) > 0 from pg_locks l join pg_stat_activity a using (pid)
                     where a.application_name = 'pg_dump' and a.datname = current_database()
                       and l.relation = %s::regclass"""
        wait_until(lambda: ask(session, locked, [current_segment(session)]))
        yield "pg_dump"
        assert dump.poll() is None  # it held on to the end
        _, said = dump.communicate()
        assert dump.returncode == 0, said


@pytest.fixture
def long_reader(session: Session, log_dsn: str) -> Iterator[str]:
    """A snapshot with ACCESS SHARE on everything, as a backup has it."""
    with closing(psycopg.connect(log_dsn, application_name="pg_dump")) as holder:
        holder.isolation_level = IsolationLevel.REPEATABLE_READ
        for name in column(
            session,
            "select oid::regclass::text from pg_class where relkind = 'r'"
            " and relnamespace = 'trunkline'::regnamespace",
        ):
            holder.execute(f"lock table {name} in access share mode")
        yield "long reader"
        holder.rollback()


@pytest.mark.usefixtures("restless")
@pytest.mark.parametrize("holder", ["long_reader", "backup"])
def test_upkeep_disturbs_nobody_while_eight_write_eight_read_and_a_backup_holds_its_snapshot(
    session: Session, connect: Connect, request: pytest.FixtureRequest, holder: str
) -> None:
    request.getfixturevalue(holder)
    deadlocks = "select deadlocks from pg_stat_database where datname = current_database()"
    before = ask(session, deadlocks)
    watch = Watch()
    Crew(connect).run(
        [writer(TOPIC, number, 40) for number in range(6)]
        + [writer("state", number, 30) for number in range(2)],
        [
            maintainer,
            maintainer,
            watch,
            *(tail(TOPIC, partition) for partition in (0, 1)),
            *(tail("state", partition) for partition in (0, 1)),
            lookers,
            sharer,
            member,
            member,
        ],
    )
    assert watch.longest < 0.1 + 0.4  # the lock timeout, and slack for two busy cores
    assert problems(session) == []
    assert problems(session, "state") == []
    session.execute("select pg_stat_force_next_flush()")
    assert ask(session, deadlocks) == before
    segments_leave(session)
