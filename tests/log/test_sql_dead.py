"""Dead letters in SQL: messages that failed for good are moved aside once, and settled once."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from psycopg.types.json import Jsonb
from tests.fixtures.asking import Session, ask, call, called, column, refused
from tests.log.steps import TOPIC, append, claim, create, fill, read, seal, settle

from trunkline.log.batches import Codec, pack

if TYPE_CHECKING:
    from tests.fixtures.postgres import TwoSessions

MINUTE = timedelta(minutes=1)
DEAD = "orders.dead"
BURY = "select letter from trunkline.log_bury('orders', 'readers', 0, %s)"
RETRY = "select trunkline.log_dead_retry('orders', 1)"


@pytest.fixture
def topic(session: Session) -> str:
    return create(session)


def bury(session: Session, count: int = 1, **more: Any) -> list[int]:
    """Claim so many messages and make them dead letters; their numbers."""
    claimed = claim(session, count, MINUTE)
    assert claimed is not None
    return [
        letter
        for _, letter in call(
            session,
            "log_bury",
            topic=TOPIC,
            group_name="readers",
            partition=0,
            claim=claimed.claim,
            **more,
        )
    ]


def letters(session: Session, **chosen: str) -> list[int]:
    """The dead letters that wait, the oldest first."""
    return [row[0] for row in reversed(call(session, "log_dead_list", **chosen))]


def messages(session: Session, topic: str, partition: int = 0) -> list[dict[str, Any]]:
    asked = {"topic": topic, "partition": partition, "max_messages": 100_000}
    return called(session, "log_read", **asked).fetchall()


def squeezed(session: Session, topic: str, value: bytes, headers: dict[str, Any]) -> None:
    """Append a message as a client does that compresses."""
    batch = pack([value], keys=[b"k"], headers=[headers], codec=Codec.ZSTD)
    columns = ("n", "codec", "value_ends", "payload", "key_ends", "keys", "headers")
    given = {name: getattr(batch, name) for name in columns}
    call(session, "log_append_batch", topic=topic, partition=0, **given)


# Burying


def test_a_message_is_moved_with_all_that_is_known_of_it_and_its_claim_ends(
    session: Session, topic: str
) -> None:
    append(session, b"tea", b"milk", keys=[b"k", None], headers=[{"n": 1}, None])
    session.execute("set timezone = 'Asia/Tokyo'")
    assert bury(session, reason="no such address") == [1]
    (letter,) = messages(session, DEAD)
    assert (letter["key"], letter["value"]) == (b"k", b"tea")
    about = letter["headers"].pop("dead")
    assert letter["headers"] == {"n": 1}
    since = messages(session, TOPIC)[0]["at"]
    assert ask(session, "select %s::timestamptz", [about.pop("at")]) == since
    assert about == {
        "topic": TOPIC,
        "group": "readers",
        "partition": 0,
        "offset": 1,
        "attempts": 1,
        "reason": "no such address",
    }
    following = claim(session, 10, MINUTE)
    assert following is not None
    assert following.offsets == [2]


def test_without_a_reason_the_last_release_tells_it_and_this_delivery_was_no_attempt(
    session: Session, topic: str
) -> None:
    fill(session, 1)
    claimed = claim(session, 1, MINUTE)
    assert claimed is not None
    settle(session, "release", claimed, reason="boom")
    bury(session)
    (letter,) = messages(session, DEAD)
    assert (letter["headers"]["dead"]["attempts"], letter["headers"]["dead"]["reason"]) == (
        1,
        "boom",
    )


def test_a_claim_that_is_over_buries_nothing_and_a_transaction_that_ends_leaves_both(
    session: Session, topic: str
) -> None:
    fill(session, 1)
    with session.transaction(force_rollback=True):
        bury(session)
    claimed = claim(session, 1, MINUTE)
    assert claimed is not None
    settle(session, "ack", claimed)
    with refused("TL423"):
        settle(session, "bury", claimed)
    assert column(session, "select topic from trunkline.log_list()") == [TOPIC]


def test_of_two_who_bury_one_message_the_second_waits_and_is_refused(
    session: Session, topic: str, two: TwoSessions
) -> None:
    fill(session, 1)
    claimed = claim(session, 1, MINUTE)
    assert claimed is not None
    assert two.a.execute(BURY, [claimed.claim]).fetchall() == [(1,)]
    second = two.later(two.b, BURY, [claimed.claim])
    two.blocked_by(two.a, two.b)
    two.a.commit()
    with refused("TL423"):
        second.result(10)
    assert list(read(session, topic=DEAD)) == [1]


def test_a_range_is_buried_message_by_message_also_over_segments_and_what_is_large(
    session: Session, topic: str
) -> None:
    large = b"x" * (2200 << 10)  # two of them are more than one read brings
    for value in (b"1", large, large, b"4"):
        append(session, value)
        seal(session)
    assert bury(session, 4, reason="bad batch") == [1, 2, 3, 4]
    assert list(read(session, topic=DEAD).values()) == [b"1", large, large, b"4"]
    assert claim(session) is None


def test_a_compacted_topic_of_letters_takes_and_keeps_all_of_them(
    session: Session, topic: str
) -> None:
    call(session, "log_create", topic=DEAD, compact=True)
    append(session, b"a", b"b", b"c", keys=[b"k", b"k", None])
    assert bury(session, 3) == [1, 2, 3]
    seal(session, DEAD)
    call(session, "log_compact", topic=DEAD)
    assert letters(session) == [1, 2, 3]
    shown = [called(session, "log_dead_show", topic=TOPIC, letter=n).fetchone() for n in (1, 2, 3)]
    assert [(row["key"], row["value"]) for row in shown if row] == [
        (b"k", b"a"),
        (b"k", b"b"),
        (None, b"c"),
    ]
    assert ask(session, "select trunkline.log_dead_retry('orders', group_name => 'readers')") == 3
    back = messages(session, TOPIC)[3:]
    assert [(row["key"], row["value"]) for row in back] == [
        (b"k", b"a"),
        (b"k", b"b"),
        (None, b"c"),
    ]
    assert "key_hex" not in str(back[0]["headers"])
    assert letters(session) == []


def test_what_compaction_took_is_not_buried(session: Session) -> None:
    create(session, compact=True)
    append(session, b"1", b"2", keys=[b"a", b"a"])
    call(session, "log_compact", topic=TOPIC)
    assert bury(session, 2) == [1]
    assert read(session, topic=DEAD) == {1: b"2"}


def test_a_message_that_sql_cannot_read_is_handed_over(session: Session, topic: str) -> None:
    squeezed(session, TOPIC, b"small", {"n": 1})
    with refused("TL415"), session.transaction():
        bury(session)
    bury(session, payload=b"small", key=b"k", headers=Jsonb({"n": 1}))
    (letter,) = messages(session, DEAD)
    assert (letter["key"], letter["value"], letter["headers"]["n"]) == (b"k", b"small", 1)
    assert letter["headers"]["dead"]["offset"] == 1
    fill(session, 2)
    with refused("TL422"):
        bury(session, 2, payload=b"one of two")


# Settling


def test_a_letter_that_is_retried_is_in_its_topic_once_where_it_was_and_says_so(
    session: Session,
) -> None:
    create(session, partitions=3)
    append(session, b"tea", partition=2, keys=[b"k"], headers=[{"n": 1}])
    claimed = claim(session, 1, MINUTE, partition=2)
    assert claimed is not None
    place = {"topic": TOPIC, "group_name": "readers", "partition": 2, "claim": claimed.claim}
    call(session, "log_bury", **place, reason="boom")
    (listed,) = called(session, "log_dead_list", topic=TOPIC, group_name="readers").fetchall()
    assert (listed["letter"], listed["topic"], listed["group_name"]) == (1, TOPIC, "readers")
    assert (listed["partition"], listed["log_offset"], listed["key"]) == (2, 1, b"k")
    assert (listed["attempts"], listed["reason"]) == (1, "boom")
    (shown,) = called(session, "log_dead_show", topic=TOPIC, letter=1).fetchall()
    assert (shown["value"], shown["headers"]["n"], shown["reason"]) == (b"tea", 1, "boom")
    assert ask(session, RETRY) == 1
    again = messages(session, TOPIC, 2)[1]
    assert (again["key"], again["value"]) == (b"k", b"tea")
    origin = again["headers"].pop("retry_of")
    assert again["headers"] == {"n": 1}
    assert (origin["letter"], origin["offset"], origin["group"]) == (1, 1, "readers")
    assert (origin["attempts"], origin["reason"]) == (1, "boom")
    for gone in ("show", "retry", "discard"):
        with refused("TL404"):
            call(session, f"log_dead_{gone}", topic=TOPIC, letter=1)
    assert letters(session) == []


def test_of_two_who_retry_one_letter_the_second_waits_and_does_not_find_it(
    session: Session, topic: str, two: TwoSessions
) -> None:
    fill(session, 1)
    bury(session)
    two.a.execute(RETRY)
    second = two.later(two.b, RETRY)
    two.blocked_by(two.a, two.b)
    two.a.commit()
    with refused("TL404"):
        second.result(10)
    assert read(session) == {1: b"0", 2: b"0"}


def test_whatever_is_settled_in_whatever_order_all_others_wait(
    session: Session, topic: str
) -> None:
    chance = Random(7)
    fill(session, 12)
    bury(session, 12)
    waiting = set(range(1, 13))
    for number in chance.sample(range(1, 13), 9):
        verb = chance.choice(["retry", "discard"])
        call(session, f"log_dead_{verb}", topic=TOPIC, letter=number)
        waiting.remove(number)
        assert letters(session, topic=TOPIC) == sorted(waiting)
    claimed = []
    while one := claim(session, 2, topic=DEAD, group="dead-letters"):  # an ordinary group
        claimed += one.offsets
    assert claimed == sorted(waiting)
    assert letters(session, topic=TOPIC) == []


def test_who_has_claimed_a_letter_cannot_acknowledge_it_once_it_is_retried(
    session: Session, topic: str
) -> None:
    fill(session, 3)
    bury(session, 3)
    held = claim(session, 3, MINUTE, topic=DEAD, group="dead-letters")
    assert held is not None
    assert letters(session) == [1, 2, 3]
    call(session, "log_dead_retry", topic=TOPIC, letter=2)
    place = {"topic": DEAD, "group_name": "dead-letters", "partition": 0}
    with refused("TL423"):
        call(session, "log_ack", **place, claim=held.claim)
    assert letters(session) == [1, 3]


def test_all_letters_of_one_group_are_settled_and_those_of_others_wait(
    session: Session, topic: str
) -> None:
    fill(session, 2)
    for group in ("a", "b"):
        claimed = claim(session, 2, MINUTE, group=group)
        assert claimed is not None
        settle(session, "bury", claimed, group=group)
    assert letters(session) == [1, 2, 3, 4]
    assert call(session, "log_dead_retry", topic=TOPIC, group_name="b") == [(2,)]
    assert letters(session) == [1, 2]
    assert call(session, "log_dead_retry", topic=TOPIC, group_name="b") == [(0,)]
    assert call(session, "log_dead_discard", topic=TOPIC, group_name="a") == [(2,)]
    assert letters(session) == []
    assert list(read(session)) == [1, 2, 3, 4]


def test_a_tombstone_goes_back_as_one_and_a_header_of_that_name_is_kept(session: Session) -> None:
    create(session, compact=True)
    append(session, None, keys=[b"k"], headers=[{"dead": "or alive"}])
    bury(session)
    assert read(session, topic=DEAD) == {1: b""}
    call(session, "log_dead_retry", topic=TOPIC, letter=1)
    again = messages(session, TOPIC)[-1]
    assert (again["value"], again["headers"]["dead"]) == (None, "or alive")


def test_a_letter_whose_topic_is_gone_stays_until_there_is_one(
    session: Session, topic: str
) -> None:
    call(session, "log_alter", topic=TOPIC, partitions=2)
    append(session, b"tea", partition=1)
    claimed = claim(session, 1, MINUTE, partition=1)
    assert claimed is not None
    place = {"topic": TOPIC, "group_name": "readers", "partition": 1}
    call(session, "log_bury", **place, claim=claimed.claim)
    call(session, "log_delete", topic=TOPIC)
    with refused("TL404"):
        session.execute(RETRY)
    assert letters(session, topic=TOPIC) == [1]
    create(session)  # with one partition
    session.execute(RETRY)
    assert read(session) == {1: b"tea"}


def test_what_others_put_among_the_letters_harms_nothing_but_itself(
    session: Session, topic: str
) -> None:
    create(session, DEAD)
    odd: list[dict[str, Any] | None] = [
        None,
        {"dead": "text"},
        {"dead": {"topic": {}, "partition": "x", "offset": -1, "attempts": 1e300, "reason": []}},
        {"dead": {"partition": 2**80, "offset": 2**80}},
    ]
    for header in odd:
        append(session, b"odd", topic=DEAD, headers=[header])
    squeezed(session, DEAD, b"small", {})
    fill(session, 1)
    bury(session)
    assert letters(session) == [1, 2, 3, 4, 5, 6]
    call(session, "log_dead_retry", topic=TOPIC, letter=2)
    again = messages(session, TOPIC)[-1]
    assert again["headers"] == {"dead": "text", "retry_of": {"letter": 2}}
    for number, state in ((3, "TL404"), (5, "TL415")):
        with refused(state):
            call(session, "log_dead_retry", topic=TOPIC, letter=number)
    for number in (1, 3, 4, 5):
        call(session, "log_dead_discard", topic=TOPIC, letter=number)
    assert letters(session) == [6]


def test_letters_that_left_with_retention_are_not_listed(session: Session, topic: str) -> None:
    fill(session, 4)
    for _ in range(4):
        bury(session)
        seal(session, DEAD)
    call(session, "log_dead_discard", topic=TOPIC, letter=3)
    call(session, "log_trim", topic=DEAD, partition=0, before_offset=2)
    assert letters(session) == [2, 4]
    call(session, "log_dead_discard", topic=TOPIC, letter=2)
    assert letters(session) == [4]
    assert call(session, "_log_dead_waiting") == [(DEAD, 1)]
