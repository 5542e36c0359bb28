"""Shared groups in SQL: claims are exact, come back, and end as dead letters one by one."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import IsolationLevel
from tests.fixtures.asking import Session, ask, call, refused, writing_nothing
from tests.log.steps import (
    TOPIC,
    Claim,
    append,
    claim,
    claim_at,
    configure,
    create,
    die,
    fill,
    join,
    maintain,
    process,
    read,
    seal,
    settle,
)

from trunkline.testing import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.fixtures.asking import Connect
    from tests.fixtures.postgres import TwoSessions

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
steady = settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
AVAILABLE: dict[str, Callable[[int], int]] = {
    "0": lambda most: 0,
    "1": lambda most: 1,
    "B-2": lambda most: max(most - 2, 0),
    "B-1": lambda most: most - 1,
    "B": lambda most: most,
    "B+1": lambda most: most + 1,
    "2B": lambda most: 2 * most,
}


@pytest.fixture
def topic(session: Session) -> str:
    return create(session)


@pytest.fixture
def claimers(connect: Connect) -> Iterator[Claimers]:
    with ThreadPoolExecutor(8) as threads:
        yield Claimers([connect() for _ in range(8)], threads)


class Claimers:
    """Readers of one group that claim at the same time."""

    def __init__(self, sessions: list[Session], threads: ThreadPoolExecutor):
        self.sessions = sessions
        self.threads = threads

    def drain(self, count: int, most: int, group: str) -> list[Claim]:
        """What `count` of them claim until nothing is left, in the order of offsets."""
        work = [
            self.threads.submit(self._drain, session, most, group)
            for session in self.sessions[:count]
        ]
        return sorted(
            (one for done in work for one in done.result()), key=lambda one: one.first_offset
        )

    def _drain(self, session: Session, most: int, group: str) -> list[Claim]:
        found: list[Claim] = []
        while one := claim(session, most, group=group):
            assert not found or one.first_offset > found[-1].last_offset
            found.append(one)
        return found


def offsets(claims: list[Claim]) -> list[int]:
    return [offset for one in claims for offset in one.offsets]


# Exactly what is there


@steady
@given(
    most=st.sampled_from([1, 2, 3, 10]),
    available=st.sampled_from(sorted(AVAILABLE)),
    count=st.sampled_from([1, 8]),
    before=st.integers(0, 3),
)
def test_claims_are_exact_whatever_is_available_and_however_many_claim(
    session: Session,
    topic: str,
    claimers: Claimers,
    most: int,
    available: str,
    count: int,
    before: int,
) -> None:
    """The cases in which a claim computed from the moved counter loses or repeats messages."""
    group = f"group-{uuid4()}"
    fill(session, before)
    claim(session, 100_000, group=group)  # the group has seen all there is so far
    start = len(read(session)) + 1
    total = AVAILABLE[available](most)
    fill(session, total)
    found = claimers.drain(count, most, group)
    assert offsets(found) == list(range(start, start + total))
    full, rest = divmod(total, most)
    assert sorted(len(one.offsets) for one in found) == sorted([most] * full + [rest] * (rest > 0))
    assert claim(session, most, group=group) is None


def claimable(session: Session, group: str = "readers") -> list[int]:
    return [row[0] for row in call(session, "log_claimable", topic=TOPIC, group_name=group)]


def test_partitions_are_claimable_as_long_as_a_claim_would_find_something(
    session: Session,
) -> None:
    create(session, partitions=4)
    for partition in (1, 2, 3):
        append(session, b"a", b"b", partition=partition)
    assert claimable(session) == [0, 1, 2, 3]  # the first claim makes the group
    join(session, process(session))
    assert claimable(session, "billing") == [0, 1, 2, 3]  # and would be refused in this one
    assert claim(session, partition=0) is None
    assert claimable(session) == [1, 2, 3]
    who = process(session)
    held = claim(session, 1, MINUTE, partition=1, process=who)
    assert held is not None
    claim(session, partition=2)
    claim(session, 2, timedelta(milliseconds=1), partition=3)
    wait_until(lambda: claimable(session) == [1, 3])  # two are left in flight, one ran out
    claim(session, partition=3)
    claim(session, partition=1)
    with writing_nothing(session):
        assert claimable(session) == []
    die(session, who)
    assert claimable(session) == [1]
    assert claim(session, 1, MINUTE, partition=1) is not None
    assert claimable(session) == []
    call(session, "log_seek", topic=TOPIC, group_name="readers", start="1", partition=2)
    assert claimable(session) == [2]
    call(session, "log_alter", topic=TOPIC, partitions=5)
    append(session, b"c", partition=4)
    assert claimable(session) == [2, 4]


def test_an_idle_poll_writes_nothing(session: Session, topic: str) -> None:
    fill(session, 3)
    assert claim(session) is not None
    for deadline in (None, MINUTE):
        with writing_nothing(session):
            assert claim(session, deadline=deadline) is None
    written = "select pg_current_wal_insert_lsn()"

    def polls_write_nothing() -> None:  # others on the server may, now and then
        before = ask(session, written)
        for _ in range(10):
            assert claim(session) is None
        assert ask(session, written) == before

    wait_until(polls_write_nothing)


def test_an_idle_poll_writes_nothing_while_claims_are_in_flight(
    session: Session, topic: str
) -> None:
    fill(session, 3)
    assert claim(session, deadline=MINUTE) is not None
    with writing_nothing(session):
        assert claim(session, deadline=MINUTE) is None


def test_a_second_claimer_waits_and_gets_what_follows(
    session: Session, topic: str, two: TwoSessions
) -> None:
    fill(session, 10)
    claim(session, 1)
    query = "select first_offset, last_offset from trunkline.log_claim(%s, 'readers', 0, 4)"
    assert two.a.execute(query, [TOPIC]).fetchone() == (2, 5)
    second = two.later(two.b, query, [TOPIC])
    two.blocked_by(two.a, two.b)
    two.a.commit()
    assert second.result(10).fetchone() == (6, 9)


@pytest.mark.parametrize("gone", ["group", "topic"])
def test_a_claimer_who_waits_while_its_group_is_deleted_does_not_begin_with_the_history(
    session: Session, topic: str, two: TwoSessions, gone: str
) -> None:
    fill(session, 10)
    assert claim(session, start="latest") is None
    fill(session, 2)
    if gone == "group":
        two.a.execute("select trunkline.log_group_delete(%s, 'readers')", [topic])
    else:
        two.a.execute("select trunkline.log_delete(%s)", [topic])
    waiting = two.later(
        two.b,
        "select first_offset from trunkline.log_claim(%s, 'readers', 0, 1, start => 'latest')",
        [topic],
    )
    two.blocked_by(two.a, two.b)
    two.a.commit()
    assert waiting.result(10).fetchall() == []
    two.b.commit()
    assert ask(session, "select count(*) from trunkline.cursor_key where resource ~ '^log'") == 0


def test_a_claimer_who_waits_while_the_segment_is_sealed_gets_what_follows(
    session: Session, topic: str, two: TwoSessions
) -> None:
    fill(session, 4)
    claim(session, 1)
    query = "select first_offset, last_offset from trunkline.log_claim(%s, 'readers', 0, 4)"
    assert two.a.execute(query, [TOPIC]).fetchone() == (2, 4)
    waiting = two.later(two.b, query, [TOPIC])
    two.blocked_by(two.a, two.b)
    seal(session)
    fill(session, 6)
    assert two.a.execute(query, [TOPIC]).fetchone() == (5, 8)
    two.a.commit()
    assert waiting.result(10).fetchone() == (9, 10)


def test_rolling_back_a_claim_hands_out_the_same_range_again(session: Session, topic: str) -> None:
    fill(session, 5)
    for deadline in (None, MINUTE):
        with session.transaction(force_rollback=True):
            first = claim(session, 3, deadline)
        second = claim(session, 3, deadline)
        assert first is not None
        assert second is not None
        assert first.offsets == second.offsets
        assert second.attempts == 1
        append(session, b"more")


def test_a_claim_without_a_deadline_is_done_at_once(session: Session, topic: str) -> None:
    fill(session, 3)
    claimed = claim(session)
    assert claimed is not None
    assert claimed.expires is None
    with refused("TL423"):
        settle(session, "ack", claimed)
    assert claim_at(session, NOON + timedelta(days=1000)) is None


def test_groups_progress_apart_and_a_new_one_starts_at_the_first_offset(
    session: Session, topic: str
) -> None:
    fill(session, 4)
    for group in ("a", "b"):
        one, two = claim(session, 3, group=group), claim(session, 3, group=group)
        assert one is not None
        assert two is not None
        assert (one.offsets, two.offsets) == ([1, 2, 3], [4])


@pytest.mark.parametrize(
    ("start", "expected"),
    [("earliest", [1, 2, 3]), ("latest", []), ("3", [3]), ("2020-01-01", [1, 2, 3])],
)
def test_a_new_group_starts_where_it_is_told_to(
    session: Session, topic: str, start: str, expected: list[int]
) -> None:
    fill(session, 3)
    claimed = claim(session, start=start)
    assert (claimed.offsets if claimed else []) == expected
    again = claim(session, start="earliest")  # counts only for a new group
    assert again is None


def test_ensuring_a_group_at_once_from_many_sessions_moves_nothing(
    session: Session, topic: str, claimers: Claimers
) -> None:
    fill(session, 6)
    found = claimers.drain(8, 2, "fresh")
    assert offsets(found) == [1, 2, 3, 4, 5, 6]
    assert ask(session, "select count(*) from trunkline.log_group") == 1
    assert call(session, "log_groups")[0][4] == 6


def test_a_partition_that_was_added_is_claimed_from_its_first_offset(
    session: Session, topic: str
) -> None:
    fill(session, 3)
    claim(session, start="latest")
    call(session, "log_alter", topic=TOPIC, partitions=2)
    fill(session, 2, partition=1)
    claimed = claim(session, partition=1)
    assert claimed is not None
    assert claimed.offsets == [1, 2]


def test_a_group_has_one_mode(session: Session, topic: str) -> None:
    claim(session)
    with refused("TL409"):
        call(
            session,
            "log_join",
            topic=TOPIC,
            group_name="readers",
            process=process(session),
        )


@pytest.mark.parametrize(
    "level", [IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE], ids=str
)
def test_a_claim_needs_a_snapshot_that_moves(
    session: Session, topic: str, connect: Connect, level: IsolationLevel
) -> None:
    fill(session, 4)
    claimed = claim(session, 1, MINUTE)
    assert claimed is not None
    late = connect(autocommit=False)
    late.isolation_level = level
    with refused("TL400"):
        claim(late)
    late.rollback()
    with refused("TL400"):
        settle(late, "ack", claimed)


# At least once


@pytest.fixture
def in_flight(session: Session, topic: str) -> Claim:
    """Ten messages; the first three claimed at noon, for a minute."""
    fill(session, 10)
    claim(session, start="1", group="readers", deadline=timedelta(days=1), most=10)
    call(session, "log_seek", topic=TOPIC, group_name="readers", start="earliest")
    claimed = claim_at(session, NOON, 3, MINUTE)
    assert claimed is not None
    assert claimed.offsets == [1, 2, 3]
    return claimed


def test_a_claim_comes_back_when_its_deadline_has_passed(
    session: Session, in_flight: Claim
) -> None:
    early = claim_at(session, NOON + MINUTE - timedelta(microseconds=1), 3, MINUTE)
    assert early is not None
    assert early.offsets == [4, 5, 6]
    late = claim_at(session, NOON + MINUTE, 3, MINUTE)
    assert late is not None
    assert (late.offsets, late.attempts, late.reason) == ([1, 2, 3], 2, None)
    assert late.expires == NOON + 2 * MINUTE


def test_a_late_acknowledgement_is_refused_when_somebody_else_has_the_claim(
    session: Session, in_flight: Claim
) -> None:
    second = claim_at(session, NOON + MINUTE, 3, MINUTE)
    assert second is not None
    for verb, more in (("ack", {}), ("release", {}), ("extend", {"deadline": MINUTE})):
        with refused("TL423"):
            settle(session, verb, in_flight, **more)
    settle(session, "ack", second)
    with refused("TL423"):
        settle(session, "ack", second)


def test_an_acknowledgement_after_the_deadline_counts_while_nobody_else_has_the_claim(
    session: Session, in_flight: Claim
) -> None:
    settle(session, "ack", in_flight)
    after = claim_at(session, NOON + timedelta(days=1), 3, MINUTE)
    assert after is not None
    assert after.offsets == [4, 5, 6]


def test_an_acknowledged_claim_never_comes_back(session: Session, in_flight: Claim) -> None:
    settle(session, "ack", in_flight)
    late = claim_at(session, NOON + timedelta(days=365), 100, MINUTE)
    assert late is not None
    assert late.offsets == list(range(4, 11))
    assert claim_at(session, NOON + timedelta(days=365), 100, MINUTE) is None


def test_a_released_claim_comes_back_with_its_reason(session: Session, in_flight: Claim) -> None:
    settle(session, "release", in_flight, reason="no disk")
    again = claim_at(session, datetime.now(UTC), 3, MINUTE)
    assert again is not None
    assert (again.offsets, again.attempts, again.reason) == ([1, 2, 3], 2, "no disk")


def test_a_released_claim_waits_for_its_retry_time(session: Session, in_flight: Claim) -> None:
    now = datetime.now(UTC)
    settle(session, "release", in_flight, retry_after=timedelta(hours=1), reason="later")
    soon = claim_at(session, now + timedelta(minutes=59), 3, MINUTE)
    assert soon is not None
    assert soon.offsets == [4, 5, 6]
    late = claim_at(session, now + timedelta(minutes=61), 3, 100 * MINUTE)
    assert late is not None
    assert late.offsets == [1, 2, 3]


def test_an_extended_claim_comes_back_later(session: Session, in_flight: Claim) -> None:
    until = settle(session, "extend", in_flight, deadline=timedelta(days=5000))
    early = claim_at(session, until - timedelta(microseconds=1), 3, MINUTE)
    assert early is not None
    assert early.offsets == [4, 5, 6]
    late = claim_at(session, until, 3, MINUTE)
    assert late is not None
    assert late.offsets == [1, 2, 3]


def test_a_claim_comes_back_when_its_process_is_gone(session: Session, topic: str) -> None:
    fill(session, 6)
    living, dead = process(session), process(session)
    kept = claim(session, 3, MINUTE, process=living)
    lost = claim(session, 3, MINUTE, process=dead)
    assert kept is not None
    assert lost is not None
    assert claim(session, 3, MINUTE, process=living) is None
    die(session, dead)
    again = claim(session, 3, MINUTE, process=living)
    assert again is not None
    assert (again.offsets, again.attempts) == (lost.offsets, 2)
    with refused("TL423"):
        settle(session, "ack", lost)
    settle(session, "ack", kept)
    settle(session, "ack", again)
    assert call(session, "log_groups")[0][4:9] == (6, 6, 0, 0, 0)


def test_a_range_that_comes_back_is_cut_to_what_is_asked_for(
    session: Session, in_flight: Claim
) -> None:
    later = NOON + MINUTE
    pieces = [claim_at(session, later, 2, MINUTE), claim_at(session, later, 2, MINUTE)]
    assert [piece and piece.offsets for piece in pieces] == [[1, 2], [3]]
    assert [piece and piece.attempts for piece in pieces] == [2, 2]


def test_the_last_try_of_a_range_is_made_message_by_message(
    session: Session, in_flight: Claim
) -> None:
    """Message 2 fails whenever it is tried; the others in its claim do not."""
    now, done, dead, tries = NOON, [], [], []
    settle_at = timedelta(seconds=1)
    while len(done) + len(dead) < 10:
        now += 2 * MINUTE
        while one := claim_at(session, now, 3, MINUTE, max_attempts=2):
            if one.attempts > 2:
                dead += one.offsets
                settle(session, "ack", one)
            elif 2 not in one.offsets:
                done += one.offsets
                settle(session, "ack", one)
            else:
                tries.append((one.offsets, one.attempts))
        now += settle_at
    assert dead == [2]
    assert sorted(done) == [1, 3, 4, 5, 6, 7, 8, 9, 10]
    assert tries == [([2], 2)]


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("limit", [1, 2, 3])
def test_only_a_message_that_failed_alone_is_a_dead_letter(
    session: Session, topic: str, size: int, limit: int
) -> None:
    """Nothing is ever acknowledged: each message must have been handed out alone before it dies."""
    fill(session, size)
    claim(session)
    call(session, "log_seek", topic=TOPIC, group_name="readers", start="earliest")
    now, alone, dead, tries = NOON, set(), [], Counter[int]()
    while len(dead) < size:
        now += 2 * MINUTE
        one = claim_at(session, now, size, MINUTE, max_attempts=limit)
        assert one is not None
        if one.attempts > limit:
            assert set(one.offsets) <= alone
            dead += one.offsets
            settle(session, "ack", one)
            continue
        tries.update(one.offsets)
        if len(one.offsets) == 1:
            alone |= set(one.offsets)
    assert dead == list(range(1, size + 1))
    in_company = limit == 1 and size > 1  # the only try was: each message is owed one of its own
    assert set(tries.values()) == {limit + in_company}


def test_too_many_claims_in_flight_are_refused(session: Session, topic: str) -> None:
    configure(session, log__max_claims="3")
    fill(session, 10)
    claimed = [claim(session, 2, MINUTE) for _ in range(3)]
    with refused("TL429"):
        claim(session, 2, MINUTE)
    assert claimed[0] is not None
    settle(session, "ack", claimed[0])
    assert claim(session, 2, MINUTE) is not None
    assert claim(session, 2) is not None  # at most once: nothing is in flight afterwards


def test_claims_that_come_back_are_handed_out_however_many_are_in_flight(
    session: Session, in_flight: Claim
) -> None:
    """Else ranges that have to be cut in pieces would be stuck for ever at the limit."""
    configure(session, log__max_claims="1")
    now = NOON + timedelta(hours=1)
    found = []
    while one := claim_at(session, now, 1, MINUTE):
        found += one.offsets
        if len(found) == 3:
            break
    assert found == [1, 2, 3]
    with refused("TL429"):
        claim_at(session, now, 1, MINUTE)


def test_a_seek_forgets_claims_in_flight(session: Session, in_flight: Claim) -> None:
    rows = call(session, "log_seek", topic=TOPIC, group_name="readers", start="8")
    assert rows == [(0, 8)]
    with refused("TL423"):
        settle(session, "ack", in_flight)
    after = claim_at(session, NOON + timedelta(days=1), 100, MINUTE)
    assert after is not None
    assert after.offsets == [8, 9, 10]


def test_lag_counts_what_is_claimed_but_not_done(session: Session, in_flight: Claim) -> None:
    assert call(session, "log_lag") == [(TOPIC, "readers", 10, 0, 1, 0)]
    settle(session, "ack", in_flight)
    assert call(session, "log_lag") == [(TOPIC, "readers", 7, 0, 1, 0)]


def test_claims_cross_segments(session: Session, topic: str) -> None:
    for _ in range(3):
        fill(session, 2)
        seal(session)
    claimed = claim(session, 5)
    assert claimed is not None
    assert claimed.offsets == [1, 2, 3, 4, 5]


# Behind the retention


def test_a_group_that_fell_behind_the_floor_is_told_where_the_log_starts(
    session: Session, in_flight: Claim
) -> None:
    settle(session, "ack", in_flight)
    call(session, "log_trim", topic=TOPIC, partition=0, before_offset=7)
    with refused("TL410") as caught:
        claim(session, deadline=MINUTE)
    assert "starts at 7, asked for 4" in str(caught.value)
    call(session, "log_seek", topic=TOPIC, group_name="readers", start="earliest")
    claimed = claim(session)
    assert claimed is not None
    assert claimed.offsets == [7, 8, 9, 10]


@pytest.fixture
def overtaken(session: Session, topic: str, two: TwoSessions) -> Callable[[str, int], Claim | None]:
    """Make the first claim of a group, and let all before an offset leave while it is made."""
    resource = "select trunkline._log_resource(topic_id, 'readers', 0) from trunkline.log_topic"
    query = "select * from trunkline.log_claim(%s, 'readers', 0, 3, start => %s)"

    def claim_first(start: str, floor: int) -> Claim | None:
        two.a.execute(f"select trunkline._cursor_ensure(({resource}))")
        claiming = two.later(two.b, query, [TOPIC, start])
        two.blocked_by(two.a, two.b)
        call(session, "log_trim", topic=TOPIC, partition=0, before_offset=floor)
        two.a.rollback()
        row = claiming.result(10).fetchone()
        two.b.commit()
        return Claim(*row) if row else None

    return claim_first


@pytest.mark.parametrize("start", ["earliest", "hot", "2020-01-01"])
def test_a_first_claim_that_retention_overtakes_begins_where_the_log_starts_by_then(
    session: Session, overtaken: Callable[[str, int], Claim | None], start: str
) -> None:
    fill(session, 10)
    first, second = overtaken(start, 6), claim(session, 3)
    assert first is not None
    assert second is not None
    assert (first.offsets, second.offsets) == ([6, 7, 8], [9, 10])


def test_a_first_claim_that_finds_everything_gone_begins_with_what_comes(
    session: Session, overtaken: Callable[[str, int], Claim | None]
) -> None:
    fill(session, 10)
    assert overtaken("earliest", 11) is None
    append(session, b"next")
    claimed = claim(session, 3)
    assert claimed is not None
    assert claimed.offsets == [11]


def test_a_first_claim_from_an_offset_that_leaves_meanwhile_is_refused(
    session: Session, overtaken: Callable[[str, int], Claim | None]
) -> None:
    fill(session, 10)
    with refused("TL410") as caught:
        overtaken("3", 6)
    assert "starts at 6, asked for 3" in str(caught.value)
    assert call(session, "log_groups") == []


def test_a_group_that_was_sought_to_earliest_claims_from_where_the_log_starts_by_then(
    session: Session, in_flight: Claim
) -> None:
    call(session, "log_seek", topic=TOPIC, group_name="readers", start="earliest")
    call(session, "log_trim", topic=TOPIC, partition=0, before_offset=7)
    first = claim(session, 2)
    assert first is not None
    assert first.offsets == [7, 8]
    call(session, "log_trim", topic=TOPIC, partition=0, before_offset=10)
    with refused("TL410"):  # it has begun: what left since then is missed
        claim(session)


def test_an_idle_poll_after_a_seek_to_earliest_writes_nothing(
    session: Session, in_flight: Claim
) -> None:
    call(session, "log_seek", topic=TOPIC, group_name="readers", start="earliest")
    call(session, "log_trim", topic=TOPIC, partition=0, before_offset=11)
    with writing_nothing(session):
        assert claim(session) is None
    append(session, b"next")
    claimed = claim(session)
    assert claimed is not None
    assert claimed.offsets == [11]


def test_a_claim_whose_messages_left_with_retention_is_not_handed_out_again(
    session: Session, in_flight: Claim
) -> None:
    rest = claim_at(session, NOON, 100, MINUTE)
    assert rest is not None
    call(session, "log_trim", topic=TOPIC, partition=0, before_offset=7)
    with refused("TL410"):
        claim_at(session, NOON + MINUTE, 3, MINUTE)
    settle(session, "ack", in_flight)  # whoever has read them may still say so
    settle(session, "ack", rest)
    assert claim_at(session, NOON + MINUTE, 3, MINUTE) is None


def test_positions_outlive_the_slots_of_their_ring(session: Session, topic: str) -> None:
    """Cursors are carried along when the ring they stand in is rotated and emptied."""
    fill(session, 10)
    claimed = claim(session, 3, timedelta(days=1))
    assert claimed is not None
    configure(
        session,
        ring__cursor__rotate_every="1 millisecond",
        ring__cursor__slots="3",
        maintain__settle="0",
    )
    old = ask(session, "select max(seq) from trunkline.cursor")
    for _ in range(300):  # a slot that somebody looks at just then is left for the next round
        append(session, b"more")
        claim(session, 1, group="busy")
        maintain(session)
        if ask(session, "select min(seq) from trunkline.cursor") > old:
            break
    else:
        pytest.fail("the old positions are still in their slot")
    settle(session, "ack", claimed)
    following = claim(session, 3)
    assert following is not None
    assert following.offsets == [4, 5, 6]


# Another life of the server


def test_a_claim_of_before_a_failover_does_not_acknowledge_one_of_after_it(
    session: Session,
) -> None:
    """A standby that lagged behind gives out numbers of the sequence again."""
    create(session)
    fill(session, 4)
    before = claim(session, 2, timedelta(hours=1))
    call(session, "log_seek", topic=TOPIC, group_name="readers", start="earliest")
    ask(session, "select setval('trunkline.cursor_seq', currval('trunkline.cursor_seq'), false)")
    after = claim(session, 2, timedelta(hours=1))
    assert before is not None
    assert after is not None
    with refused("TL423"):
        settle(session, "ack", before)
    settle(session, "ack", after)
