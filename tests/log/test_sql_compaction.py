"""Compaction in SQL: the last value of every key stays with its offset, whatever happens beside."""

from __future__ import annotations

import random
import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import IsolationLevel
from tests.fixtures.asking import Session, ask, call, column, refused
from tests.log.steps import (
    TOPIC,
    append,
    claim,
    configure,
    create,
    create_anew,
    current_segment,
    fetch,
    maintain,
    problems,
    read,
    seal,
    segments,
)

from trunkline.log.decoding import decode

if TYPE_CHECKING:
    from tests.fixtures.asking import Connect
    from tests.fixtures.postgres import TwoSessions

steady = settings(
    deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
Message = tuple[bytes, bytes | None]

messages = st.tuples(
    st.sampled_from([b"a", b"b", b"c", b""]), st.none() | st.binary(min_size=0, max_size=3)
)
actions = st.lists(
    st.lists(messages, min_size=1, max_size=4) | st.sampled_from(["seal", "compact", "maintain"]),
    min_size=1,
    max_size=14,
)


@pytest.fixture
def topic(session: Session) -> str:
    return create(session, compact=True)


def put(session: Session, *entries: Message, topic: str = TOPIC) -> tuple[int, int]:
    keys, values = [key for key, _ in entries], [value for _, value in entries]
    return append(session, *values, keys=keys, topic=topic)


def compact(session: Session) -> int:
    ((_, removed),) = call(session, "log_compact", topic=TOPIC)
    return int(removed)


@dataclass
class Model:
    """What a compacted partition should hold."""

    keep_tombstones: bool
    tail: int = 0
    sealed: dict[int, Message] = field(default_factory=dict)
    current: dict[int, Message] = field(default_factory=dict)
    pending: bool = False

    def put(self, entries: list[Message]) -> None:
        for entry in entries:
            self.tail += 1
            self.current[self.tail] = entry

    def seal(self) -> None:
        self.pending = self.pending or bool(self.current)
        self.sealed |= self.current
        self.current = {}

    def compact(self) -> int:
        """Everything; the current segment is sealed only if something in it has to go."""
        before = len(self.sealed) + len(self.current)
        if len(self._kept(self.current)) < len(self.current):
            self.seal()
        self.sealed = self._kept(self.sealed)
        self.pending = False
        return before - len(self.sealed) - len(self.current)

    def maintain(self) -> None:
        """Sealed segments only, and only when one of them is new."""
        if self.pending:
            self.sealed = self._kept(self.sealed)
            self.pending = False

    def _kept(self, held: dict[int, Message]) -> dict[int, Message]:
        last = {key: offset for offset, (key, _) in sorted((self.sealed | self.current).items())}
        return {
            offset: (key, value)
            for offset, (key, value) in held.items()
            if last[key] == offset and (value is not None or self.keep_tombstones)
        }

    def survivors(self, start: int = 1) -> dict[int, bytes | None]:
        held = sorted((self.sealed | self.current).items())
        return {offset: value for offset, (_, value) in held if offset >= start}


def test_a_group_is_not_behind_on_last_messages_that_left(session: Session, topic: str) -> None:
    configure(session, log__tombstone_retention="0")
    put(session, (b"a", b"1"), (b"b", b"2"))
    claim(session)
    progress = {"topic": topic, "group_name": "billing", "partitions": [0], "up_to": [2]}
    call(session, "log_progress", **progress)
    put(session, (b"c", b"3"), (b"c", None))
    assert [row[2] for row in call(session, "log_lag")] == [2, 2]
    compact(session)
    assert [row[2] for row in call(session, "log_lag")] == [0, 0]
    put(session, (b"d", b"5"))
    assert [row[2] for row in call(session, "log_lag")] == [3, 3]


@steady
@given(work=actions, keep_tombstones=st.booleans(), most=st.integers(1, 5))
def test_readers_from_any_offset_get_exactly_the_survivors(
    session: Session, work: list[list[Message] | str], keep_tombstones: bool, most: int
) -> None:
    create_anew(session, compact=True)
    configure(session, log__tombstone_retention="1 day" if keep_tombstones else "0")
    model = Model(keep_tombstones)
    for action in work:
        match action:
            case "seal":
                seal(session)
                model.seal()
            case "compact":
                assert compact(session) == model.compact()
            case "maintain":
                maintain(session)
                model.maintain()
            case list(entries):
                put(session, *entries)
                model.put(entries)
    assert problems(session) == []
    for start in range(1, model.tail + 2):
        expected = model.survivors(start)
        assert read(session, start=start) == expected
        found = [o for batch in fetch(session, start, max_messages=most) for o in taken(batch)]
        assert found == list(expected)[:most]


def taken(batch: object) -> list[int]:
    return decode(batch).offsets  # type: ignore[arg-type]


def test_the_last_value_stays_with_its_offset(session: Session, topic: str) -> None:
    put(session, (b"a", b"1"), (b"b", b"1"), (b"a", b"2"))
    put(session, (b"a", b"3"), (b"c", b"1"))
    assert compact(session) == 2
    rows = call(session, "log_read", topic=TOPIC)
    assert [(row[0], row[2], row[3]) for row in rows] == [
        (2, b"b", b"1"),
        (4, b"a", b"3"),
        (5, b"c", b"1"),
    ]
    assert put(session, (b"d", b"1")) == (6, 6)


def test_compacting_again_changes_nothing(session: Session, topic: str) -> None:
    put(session, (b"a", b"1"), (b"a", b"2"))
    assert compact(session) == 1
    before = column(session, "select segment_id from trunkline.log_segment order by 1")
    assert compact(session) == 0
    maintain(session)
    assert compact(session) == 0
    after = column(session, "select segment_id from trunkline.log_segment order by 1")
    assert set(after) <= set(before)


def test_tombstones_stay_for_their_retention_and_then_go(session: Session, topic: str) -> None:
    put(session, (b"a", b"1"), (b"b", b"1"))
    put(session, (b"a", None))
    compact(session)
    assert read(session) == {2: b"1", 3: None}
    configure(session, log__tombstone_retention="0")
    assert compact(session) == 1
    assert read(session) == {2: b"1"}
    assert problems(session) == []


def test_a_partition_of_which_nothing_is_left_goes_on_counting(
    session: Session, topic: str
) -> None:
    configure(session, log__tombstone_retention="0")
    put(session, (b"a", b"1"), (b"a", None))
    seal(session)
    put(session, (b"a", b"2"), (b"a", None))
    assert compact(session) == 4
    maintain(session)
    assert read(session) == {}
    assert problems(session) == []
    assert put(session, (b"a", b"3")) == (5, 5)
    assert read(session) == {5: b"3"}


def test_keys_headers_times_and_event_ids_stay_with_their_messages(
    session: Session, topic: str
) -> None:
    values = [b"%d" % number for number in range(20)]
    keys = [b"%d" % (number % 11) for number in range(20)]
    headers = [{"n": number} if number % 3 else None for number in range(20)]
    append(session, *values, keys=keys, headers=headers)
    ids = struct.pack("<20q", *range(100, 120))
    session.execute(f"update {current_segment(session)} set event_ids = %s", [ids])
    (before,) = map(decode, fetch(session, 1))
    compact(session)
    (after,) = map(decode, fetch(session, 1))
    assert after.offsets == list(range(10, 21))
    assert after.at == before.at
    for name in ("values", "keys", "headers", "event_ids"):
        assert getattr(after, name) == getattr(before, name)[9:]


def test_claims_go_over_holes(session: Session, topic: str) -> None:
    for number in range(6):
        put(session, (b"a", b"%d" % number), (b"b%d" % number, b"x"))
    compact(session)
    found = []
    while claimed := claim(session, 4):
        inside = read(session, start=claimed.first_offset, most=4)
        found += [offset for offset in inside if offset <= claimed.last_offset]
    assert found == [2, 4, 6, 8, 10, 11, 12]


# Producers


def test_a_producer_whose_message_was_compacted_away_may_still_repeat_it(
    session: Session, topic: str
) -> None:
    producer = uuid4()
    answer = append(session, b"1", keys=[b"a"], producer=(producer, 1))
    put(session, (b"a", b"2"))
    compact(session)
    assert read(session) == {2: b"2"}
    for _ in range(2):
        assert append(session, b"1", keys=[b"a"], producer=(producer, 1)) == answer
        maintain(session)
    with refused("TL409"):
        append(session, b"0", keys=[b"a"], producer=(producer, 0))
    assert read(session) == {2: b"2"}


def test_witnesses_go_when_they_are_no_longer_asked(session: Session, topic: str) -> None:
    for number in range(4):
        append(session, b"%d" % number, keys=[b"a"], producer=(uuid4(), 1))
        seal(session)
        compact(session)
    assert problems(session) == []
    assert len(segments(session)) <= 2  # the newest sealed one, and the one that takes appends


# Beside everything else


def test_values_appended_during_compaction_are_never_lost(
    session: Session, topic: str, connect: Connect
) -> None:
    over = threading.Event()
    written: dict[int, Message] = {}

    def write(number: int) -> None:
        dice, own = random.Random(number), connect()
        for turn in range(40):
            entry = (b"%d" % dice.randint(0, 15), b"%d/%d" % (number, turn))
            written[put(own, entry)[0]] = entry

    def upkeep(work: str) -> int:
        own, rounds = connect(), 0
        while not over.is_set():
            if work == "compact":
                compact(own)
            else:
                maintain(own)
            rounds += 1
        return rounds

    configure(session, log__segment_bytes="16384")
    with ThreadPoolExecutor(6) as threads:
        beside = [threads.submit(upkeep, work) for work in ("compact", "maintain")]
        for one in [threads.submit(write, number) for number in range(4)]:
            one.result()
        over.set()
        assert all(one.result() for one in beside)
    compact(session)
    last = {key: offset for offset, (key, _) in sorted(written.items())}
    assert read(session) == {offset: written[offset][1] for offset in sorted(last.values())}
    assert problems(session) == []


def prepared(session: Session) -> tuple[object, ...]:
    row = session.execute(
        "select segments, copies, copied from trunkline._log_compact(%s, 0, true)", [TOPIC]
    ).fetchone()
    assert row is not None
    return row


SWAP = "select trunkline._log_compact_swap(%s, 0, %s, %s, %s)"


def test_appends_wait_for_no_copy_and_are_not_lost_when_it_takes_its_place(
    session: Session, topic: str, connect: Connect
) -> None:
    put(session, (b"a", b"1"), (b"b", b"1"), (b"a", b"2"))
    own = connect(autocommit=False)
    plan = prepared(own)
    assert put(session, (b"b", b"2"), (b"c", b"1")) == (4, 5)  # does not wait for the copy
    own.execute(SWAP, [TOPIC, *plan])
    own.commit()
    assert read(session) == {2: b"1", 3: b"2", 4: b"2", 5: b"1"}
    assert problems(session) == []
    maintain(session)  # the rest is taken up by the next round
    assert read(session) == {3: b"2", 4: b"2", 5: b"1"}


def test_a_segment_that_was_sealed_or_retired_meanwhile_is_no_trouble(
    session: Session, topic: str, connect: Connect
) -> None:
    put(session, (b"a", b"1"), (b"a", b"2"), (b"z", b"1"))
    seal(session)
    put(session, (b"a", b"3"), (b"a", b"4"))
    own = connect(autocommit=False)
    plan = prepared(own)
    seal(session)
    put(session, (b"b", b"1"))
    call(session, "log_trim", topic=TOPIC, partition=0, before_offset=4)
    own.execute(SWAP, [TOPIC, *plan])
    own.commit()
    assert read(session, start=4) == {5: b"4", 6: b"1"}
    maintain(session)
    assert problems(session) == []
    tables = "select count(*) from pg_class where relname ~ '^log_(segment|compact)_[0-9]+$'"
    assert ask(session, tables) == len(segments(session))


def test_the_last_step_waits_for_an_append_under_way(
    session: Session, topic: str, two: TwoSessions
) -> None:
    put(session, (b"a", b"1"), (b"a", b"2"))
    put(two.a, (b"b", b"open"))
    compacting = two.later(two.b, "select removed from trunkline.log_compact(%s)", [TOPIC])
    two.blocked_by(two.a, two.b)
    two.a.commit()
    assert compacting.result(10).fetchone() == (1,)
    two.b.commit()
    assert read(session) == {2: b"2", 3: b"open"}


def test_upkeep_passes_by_a_partition_that_an_append_holds(
    session: Session, topic: str, connect: Connect
) -> None:
    put(session, (b"a", b"1"), (b"a", b"2"))
    seal(session)
    own = connect(autocommit=False)
    put(own, (b"a", b"open"))
    maintain(session)
    assert len(read(session)) == 2
    own.commit()
    maintain(session)
    assert read(session) == {3: b"open"}


def test_a_damaged_topic_keeps_no_other_from_being_compacted(session: Session, topic: str) -> None:
    for name in ("a", "b", "c"):
        create(session, name, compact=True)
        put(session, (b"k", b"1"), (b"k", b"2"), topic=name)
        if name == "a":
            session.execute(
                f"update {current_segment(session, name)} set value_ends = %s",
                [struct.pack("<3i", 0, 5, 2)],
            )
        seal(session, name)
    session.execute("call trunkline.maintain()")
    assert [len(read(session, topic=name)) for name in ("b", "c")] == [1, 1]
    (error,) = column(session, "select error from trunkline.duty where error is not null")
    assert 'topic "a"' in error
    assert "damaged" in error
    with refused("TL422"):
        read(session, topic="a")


def test_compaction_needs_a_snapshot_that_moves(
    session: Session, topic: str, connect: Connect
) -> None:
    late = connect(autocommit=False)
    late.isolation_level = IsolationLevel.REPEATABLE_READ
    with refused("TL400"):
        compact(late)


def test_retention_and_compaction_go_together(session: Session) -> None:
    create(session, compact=True, retention=timedelta(hours=1))
    for number in range(3):
        put(session, (b"a", b"%d" % number), (b"b%d" % number, b"x"))
        seal(session)
    maintain(session)
    assert list(read(session)) == [2, 4, 5, 6]
    session.execute(
        "update trunkline.log_segment set last_at = last_at - interval '2 hours'"
        " where last_offset <= 4"
    )
    maintain(session)
    assert list(read(session, start=5)) == [5, 6]
    with refused("TL410"):
        read(session, start=4)
    assert problems(session) == []
