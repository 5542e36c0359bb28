"""The queue of a lane against a simple model of it: any order of events, any repetition."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from trunkline.tube.models import BACKFILL, LIVE, Entry, KeyId
from trunkline.tube.queue import LaneQueue, Pending

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KEYS = st.sampled_from(["a", "b", "c", "d", "e"])
PRIORITIES = st.sampled_from([LIVE, BACKFILL])
SHARE = 0.2


def entry(up_to: int, *keys: str, control: str | None = None, **parts: Any) -> Entry:
    told = {"attachment": 1, "relation": "orders", "shard": 0, "op": "U", "payload": None} | parts
    return Entry(up_to=up_to, seq=up_to, keys=list(keys), control=control, at=NOW, **told)


def ids(taken: list[Pending]) -> list[str]:
    return [pending.id.key for pending in taken]


class QueueMachine(RuleBasedStateMachine):
    """Entries come, keys go out, are done or fail; the model knows who is still owed what."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = LaneQueue(0, 0)
        self.position = 0
        self.time = 0.0
        self.owed: dict[int, tuple[tuple[int, int], str]] = {}
        """What was asked for and not delivered since: place and key."""
        self.asked = count()
        self.controls: set[tuple[int, int]] = set()
        self.flying: dict[str, tuple[Pending, set[int]]] = {}
        """Keys in flight, and what their delivery will satisfy."""
        self.delayed: dict[str, float] = {}
        self.floor = [0, 0]

    def ask(self, place: tuple[int, int], keys: list[str]) -> None:
        self.owed.update({next(self.asked): (place, key) for key in dict.fromkeys(keys)})

    @rule(priority=PRIORITIES, keys=st.lists(KEYS, max_size=6))
    def come(self, priority: int, keys: list[str]) -> None:
        self.position += 1
        self.queue.add(priority, entry(self.position, *keys))
        self.queue.read_up_to[priority] = self.position
        self.ask((priority, self.position), keys)

    @rule(priority=PRIORITIES)
    def come_control(self, priority: int) -> None:
        self.position += 1
        self.queue.add(priority, entry(self.position, control="truncate"))
        self.queue.read_up_to[priority] = self.position
        self.controls.add((priority, self.position))

    @precondition(lambda self: self.controls)
    @rule(data=st.data(), keys=st.lists(KEYS, max_size=4))
    def extend(self, data: st.DataObject, keys: list[str]) -> None:
        place = data.draw(st.sampled_from(sorted(self.controls)))
        self.queue.extend(place, [KeyId(1, 0, key) for key in keys], relation="orders", op="D")
        self.ask(place, keys)

    @precondition(lambda self: self.controls)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        place = data.draw(st.sampled_from(sorted(self.controls)))
        self.queue.settle(place)
        self.controls.remove(place)

    @rule(most=st.integers(1, 5))
    def take(self, most: int) -> None:
        taken = self.queue.take(most, backfill_share=SHARE)
        assert len(taken) <= most
        for pending in taken:
            key = pending.id.key
            assert key not in self.flying, "one key in flight twice"
            assert self.delayed.get(key, 0.0) <= self.time, "before its time"
            self.delayed.pop(key, None)
            wants = {ask for ask, (_, wanted) in self.owed.items() if wanted == key}
            assert wants, "nobody asked for it"
            self.flying[key] = (pending, wants)
        if len(taken) < most:
            waiting = {key for _, key in self.owed.values()}
            assert waiting <= self.flying.keys() | self.delayed.keys(), "left behind"

    @precondition(lambda self: self.flying)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        keys = data.draw(st.sets(st.sampled_from(sorted(self.flying)), min_size=1))
        batch = [self.flying.pop(key) for key in keys]
        self.queue.done([pending for pending, _ in batch])
        for _, satisfied in batch:
            for ask in satisfied:
                del self.owed[ask]

    @precondition(lambda self: self.flying)
    @rule(data=st.data(), wait=st.integers(0, 3))
    def fail(self, data: st.DataObject, wait: int) -> None:
        key = data.draw(st.sampled_from(sorted(self.flying)))
        pending, _ = self.flying.pop(key)
        self.queue.failed(pending, retry_at=self.time + wait)
        self.delayed[key] = self.time + wait

    @rule(passed=st.integers(0, 2))
    def wake(self, passed: int) -> None:
        self.time += passed
        self.queue.wake(self.time)
        for key in [key for key, due in self.delayed.items() if due <= self.time]:
            del self.delayed[key]

    def undone(self, priority: int) -> list[int]:
        places = self.controls | {place for place, _ in self.owed.values()}
        return sorted(position for kind, position in places if kind == priority)

    @invariant()
    def the_watermark_is_right_below_the_first_undone_entry(self) -> None:
        for priority in (LIVE, BACKFILL):
            first = next(iter(self.undone(priority)), None)
            mark = self.queue.watermark(priority)
            expected = self.queue.read_up_to[priority] if first is None else first - 1
            assert mark == expected
            assert mark >= self.floor[priority], "a watermark went back"
            self.floor[priority] = mark

    @invariant()
    def the_length_counts_every_key_once(self) -> None:
        wanted = {key for _, key in self.owed.values()}
        assert len(self.queue) == len(wanted)
        assert self.queue.in_flight == len(self.flying)
        due = self.queue.next_due()
        assert (due is None) == (not self.delayed)
        assert due is None or due == min(self.delayed.values())

    def teardown(self) -> None:
        """Whatever happened, in the end everything is delivered and acknowledged."""
        for place in sorted(self.controls):
            self.queue.settle(place)
        for pending, _ in self.flying.values():
            self.queue.done([pending])
        self.queue.wake(self.time + 100)
        for _ in range(100):
            taken = self.queue.take(3, backfill_share=SHARE)
            for pending in taken:
                self.queue.done([pending])
            if not taken:
                break
        assert len(self.queue) == 0
        assert [self.queue.watermark(p) for p in (LIVE, BACKFILL)] == self.queue.read_up_to


def test_the_queue_does_as_the_model_does() -> None:
    run_state_machine_as_test(
        QueueMachine, settings=settings(max_examples=80, stateful_step_count=40, deadline=None)
    )


def test_touches_that_come_during_a_delivery_cause_exactly_one_more() -> None:
    queue = LaneQueue(0, 0)
    queue.add(LIVE, entry(1, "a", op="I", payload={"n": 1}))
    (first,) = queue.take(10, backfill_share=SHARE)
    for position in (2, 3, 4):
        queue.add(LIVE, entry(position, "a", op="D", payload={"n": position}))
    assert queue.take(10, backfill_share=SHARE) == []
    queue.done([first])
    assert queue.watermark(LIVE) == 1
    (second,) = queue.take(10, backfill_share=SHARE)
    assert (second.touch().op, second.touch().payload) == ("D", {"n": 4})
    queue.done([second])
    assert queue.take(10, backfill_share=SHARE) == []


def test_one_id_in_two_tables_or_shards_is_two_keys() -> None:
    queue = LaneQueue(0, 0)
    queue.add(LIVE, entry(1, "a"))
    queue.add(LIVE, entry(2, "a", shard=4))
    queue.add(LIVE, entry(3, "a", attachment=2))
    queue.add(LIVE, entry(4, "a", attachment=None, relation=None))
    taken = queue.take(10, backfill_share=SHARE)
    assert [pending.id for pending in taken] == [(1, 0, "a"), (1, 4, "a"), (2, 0, "a"), (0, 0, "a")]


def test_one_id_in_two_entries_is_delivered_once_and_both_are_done() -> None:
    queue = LaneQueue(0, 0)
    queue.add(LIVE, entry(1, "a", "a", "b"))
    queue.add(LIVE, entry(2, "b", "a"))
    queue.read_up_to[LIVE] = 2
    taken = queue.take(10, backfill_share=SHARE)
    assert ids(taken) == ["a", "b"]
    for pending in taken:
        queue.done([pending])
    assert queue.watermark(LIVE) == 2


def test_the_latest_live_touch_tells_operation_and_payload() -> None:
    queue = LaneQueue(0, 0)
    queue.add(LIVE, entry(1, "a", op="I", payload={"n": 1}))
    queue.add(LIVE, entry(2, "a", op="U", payload={"n": 2}))
    queue.add(BACKFILL, entry(3, "a", op="B"))
    queue.add(BACKFILL, entry(4, "b", op="B"))
    queue.add(LIVE, entry(5, "b", op="U", payload={"n": 5}))
    told = [(p.touch().op, p.touch().payload) for p in queue.take(10, backfill_share=SHARE)]
    assert told == [("U", {"n": 2}), ("U", {"n": 5})]


def test_a_touch_of_a_delayed_key_waits_with_it_and_what_came_in_flight_too() -> None:
    queue = LaneQueue(0, 0)
    queue.add(BACKFILL, entry(1, "a", op="B"))
    (flying,) = queue.take(10, backfill_share=SHARE)
    queue.add(LIVE, entry(2, "a", op="D"))
    flying.attempts = 3
    queue.failed(flying, retry_at=5.0)
    queue.add(LIVE, entry(3, "a", op="U"))
    queue.wake(4.9)
    assert queue.take(10, backfill_share=SHARE) == []
    assert queue.next_due() == 5.0
    queue.wake(5.0)
    queue.add(LIVE, entry(4, "b"))
    again, other = queue.take(10, backfill_share=SHARE)
    assert (again.id.key, again.attempts, again.touch().op) == ("a", 3, "U")
    queue.read_up_to = [4, 1]
    queue.done([again])
    assert (queue.watermark(LIVE), queue.watermark(BACKFILL)) == (3, 1)
    queue.done([other])
    assert queue.watermark(LIVE) == 4


# Live before backfill, with a share


def filled(live: int, backfill: int) -> LaneQueue:
    queue = LaneQueue(0, 0)
    queue.add(BACKFILL, entry(1, *(f"b{n}" for n in range(backfill))))
    queue.add(LIVE, entry(2, *(f"l{n}" for n in range(live))))
    return queue


@given(st.integers(0, 60), st.integers(0, 60), st.integers(1, 40), st.sampled_from([0.0, 0.2, 0.5]))
def test_a_batch_is_filled_while_anything_waits_and_live_comes_first(
    live: int, backfill: int, most: int, share: float
) -> None:
    taken = ids(filled(live, backfill).take(most, backfill_share=share))
    assert len(taken) == min(most, live + backfill)
    lives = [key for key in taken if key[0] == "l"]
    assert len(lives) >= min(live, most - int(most * share) - 1)
    if lives and len(lives) < len(taken) and share == 0:
        assert len(lives) == live


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 30), st.sampled_from([0.1, 0.2, 0.5]))
def test_under_constant_live_load_backfill_gets_its_share_and_live_the_rest(
    most: int, share: float
) -> None:
    queue = LaneQueue(0, 0)
    queue.add(BACKFILL, entry(1, *(f"b{n}" for n in range(5_000))))
    lives = backs = 0
    for turn in range(100):
        queue.add(LIVE, entry(2 + turn, *(f"l{turn}.{n}" for n in range(most))))
        taken = queue.take(most, backfill_share=share)
        lives += sum(key[0] == "l" for key in ids(taken))
        backs += sum(key[0] == "b" for key in ids(taken))
    assert lives + backs == 100 * most
    assert backs == pytest.approx(100 * most * share, abs=1.5)


def test_the_share_is_not_saved_up_while_no_backfill_waits() -> None:
    queue = LaneQueue(0, 0)
    for turn in range(50):
        queue.add(LIVE, entry(1 + turn, f"l{turn}"))
        queue.take(1, backfill_share=0.5)
    queue.add(BACKFILL, entry(100, *(f"b{n}" for n in range(50))))
    queue.add(LIVE, entry(101, *(f"m{n}" for n in range(10))))
    taken = ids(queue.take(10, backfill_share=0.5))
    assert sum(key[0] == "b" for key in taken) == 5


def test_without_live_keys_backfill_takes_all() -> None:
    assert len(filled(0, 50).take(40, backfill_share=SHARE)) == 40


# Control entries


def test_a_control_entry_holds_the_watermark_until_it_and_its_keys_are_done() -> None:
    queue = LaneQueue(0, 0)
    queue.add(LIVE, entry(1, control="truncate"))
    queue.add(LIVE, entry(2, "z"))
    queue.read_up_to[LIVE] = 2
    queue.extend((LIVE, 1), [KeyId(1, 0, "a"), KeyId(1, 0, "a")], relation="orders", op="D")
    queue.extend((LIVE, 1), [KeyId(1, 0, "a"), KeyId(1, 0, "b")], relation="orders", op="D")
    assert queue.watermark(LIVE) == 0
    taken = queue.take(10, backfill_share=SHARE)
    assert sorted(ids(taken)) == ["a", "b", "z"]
    for pending in taken:
        queue.done([pending])
    assert queue.watermark(LIVE) == 0
    queue.settle((LIVE, 1))
    assert queue.watermark(LIVE) == 2


def test_a_control_entry_without_keys_is_done_when_it_is_settled() -> None:
    queue = LaneQueue(0, 0)
    queue.add(BACKFILL, entry(1, control="backfill_start"))
    queue.read_up_to[BACKFILL] = 1
    assert queue.watermark(BACKFILL) == 0
    queue.settle((BACKFILL, 1))
    assert queue.watermark(BACKFILL) == 1


def test_an_entry_without_keys_holds_nothing() -> None:
    queue = LaneQueue(0, 0)
    queue.add(LIVE, entry(1))
    queue.read_up_to[LIVE] = 1
    assert (queue.watermark(LIVE), len(queue)) == (1, 0)
