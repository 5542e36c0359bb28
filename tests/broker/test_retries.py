"""Events that failed: tried again with their errors, dead in the end, their keys in order."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest
from tests.broker.steps import publish, tick
from tests.fixtures.asking import ask, call, column, refused, writing_nothing

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fixtures.asking import Session

NOW = "0 seconds"
HOUR = "1 hour"


@dataclass
class Worker:
    """A process that owns the only lane of a handler."""

    session: Session
    process: UUID
    handler: str
    epoch: int

    def place(self) -> dict[str, Any]:
        return {"group_name": "shop", "handler": self.handler, "lane": 0, "epoch": self.epoch}

    def fail(self, *deliveries: int, error: str = "no", retry_after: str | None = NOW) -> int:
        [[batch]] = call(
            self.session,
            "broker_fail",
            **self.place(),
            deliveries=list(deliveries),
            error=error,
            retry_after=retry_after,
        )
        return int(batch or 0)

    def park(self, *deliveries: int) -> None:
        call(self.session, "broker_park", **self.place(), deliveries=list(deliveries))

    def retries(self, max_batches: int = 100) -> list[tuple[Any, ...]]:
        return call(self.session, "broker_retries", **self.place(), max_batches=max_batches)

    def due(self) -> list[list[str]]:
        """The payloads of what is due, batch by batch."""
        found: dict[int, list[str]] = {}
        for row in self.retries():
            found.setdefault(row[0], []).append(row[8])
        return list(found.values())

    def retried(self, batch: int, error: str | None = None, wait: str | None = None) -> list[str]:
        [[freed]] = call(
            self.session,
            "broker_retried",
            **self.place(),
            batch=batch,
            error=error,
            retry_after=wait,
        )
        return sorted(freed)

    def succeed(self) -> list[str]:
        """Settle the batch that is due first; the keys that are free."""
        return self.retried(self.retries()[0][0])

    def blocked(self) -> list[str]:
        rows = call(
            self.session,
            "broker_fetch",
            group_name="shop",
            handler=self.handler,
            lanes=[0],
            after=[0],
            max_events=100,
        )
        return [row[6] for row in rows if row[10]]


def deliver(session: Session, *names: str) -> None:
    """Publish events, each named by its payload and with its first letter as key, and deliver."""
    for name in names:
        publish(session, "orders", name, key=name[0] if name[0] != "-" else None)
    tick(session)
    last = ask(session, "select trunkline._broker_delivered()")
    positions = column(
        session, "select generate_series(trunkline._broker_matched() + 1, trunkline.broker_head())"
    )
    session.execute(
        "insert into trunkline.delivery (slot, group_id, lane, first, n, lowest, positions,"
        " subscriptions, at) select 0, group_id, 0, %s, %s, %s, %s, array_fill(7, array[%s]), now()"
        " from trunkline.broker_group",
        [last + 1, len(positions), positions[0], positions, len(positions)],
    )
    session.execute(
        "select trunkline._cursor_write(cursor_id, %s, jsonb_build_object('deliveries', %s::int))"
        " from trunkline.cursor_key where resource = 'broker:matcher'",
        [positions[-1], last + len(positions)],
    )


def joined(session: Session, handler: str = "bill", ordering: str = "strict") -> Worker:
    call(session, "broker_group", group_name="shop", lanes=1)
    process = uuid4()
    call(session, "lease_renew", process=process)
    [row] = call(session, "broker_join", group_name="shop", handler=handler, process=process)
    session.execute(
        "update trunkline.broker_handler set ordering = %s where handler = %s", [ordering, handler]
    )
    return Worker(session, process, handler, row[2])


@pytest.fixture
def worker(session: Session) -> Worker:
    return joined(session)


def dead(session: Session, **given: Any) -> list[tuple[Any, ...]]:
    return call(session, "broker_dead_list", **given)


def test_a_failed_batch_comes_back_with_the_same_events_the_attempts_and_the_errors(
    session: Session, worker: Worker
) -> None:
    deliver(session, "a1", "b1", "c1")
    batch = worker.fail(1, 3, error="out of paper")
    rows = worker.retries()
    assert [row[0] for row in rows] == [batch, batch]
    assert [(row[1], row[3], row[6], row[7], row[8]) for row in rows] == [
        (1, 1, "orders", "a", "a1"),
        (1, 3, "orders", "c", "c1"),
    ]
    [error] = rows[0][2]
    assert (error["attempt"], error["error"]) == (1, "out of paper")
    assert rows[0][11] == [7]


def test_a_failed_batch_does_not_come_before_its_time(session: Session, worker: Worker) -> None:
    deliver(session, "a1")
    worker.fail(1, retry_after=HOUR)
    assert worker.retries() == []
    [[_, head, due_in]] = call(session, "broker_look", group_name="shop", handler="bill", lanes=[0])
    assert head == 1
    assert 3500 < due_in.total_seconds() <= 3600


def test_a_worker_that_finds_nothing_to_do_writes_nothing(session: Session, worker: Worker) -> None:
    deliver(session, "a1")
    worker.fail(1, retry_after=HOUR)
    handler = {"group_name": "shop", "handler": "bill"}
    with writing_nothing(session):
        call(session, "broker_join", **handler, process=worker.process)
        call(session, "broker_look", **handler, lanes=[0])
        call(session, "broker_fetch", **handler, lanes=[0], after=[1])
        assert worker.retries() == []


def test_success_settles_a_batch_for_good(session: Session, worker: Worker) -> None:
    deliver(session, "a1", "b1")
    batch = worker.fail(1, 2)
    assert worker.retried(batch) == ["a", "b"]
    assert worker.retries() == []
    with refused("TL404"):
        worker.retried(batch)


def test_every_attempt_keeps_its_error_until_the_last_makes_a_dead_letter(
    session: Session, worker: Worker
) -> None:
    deliver(session, "a1")
    batch = worker.fail(1, error="first")
    worker.retried(batch, "second", NOW)
    worker.retried(batch, "third")
    [letter] = dead(session)
    assert (letter[1], letter[2], letter[7], letter[8]) == ("shop", "bill", 3, "third")
    [shown] = call(session, "broker_dead_show", retry=letter[0])
    assert shown[6] == "a1"
    assert [(error["attempt"], error["error"]) for error in shown[13]] == [
        (1, "first"),
        (2, "second"),
        (3, "third"),
    ]


def test_without_a_wait_a_failure_is_a_dead_letter_at_once(
    session: Session, worker: Worker
) -> None:
    deliver(session, "a1", "b1")
    worker.fail(1, 2, retry_after=None)
    assert len(dead(session, group_name="shop", handler="bill")) == 2
    assert dead(session, group_name="shop", handler="ship") == []
    assert worker.retries() == []


def test_later_events_of_a_failed_key_are_blocked_and_others_are_not(
    session: Session, worker: Worker
) -> None:
    deliver(session, "a1", "a2", "b1", "-1")
    worker.fail(1)
    assert worker.blocked() == ["a1", "a2"]


def test_a_dead_letter_holds_back_its_key_too(session: Session, worker: Worker) -> None:
    deliver(session, "a1", "a2", "b1")
    worker.fail(1, retry_after=None)
    assert worker.blocked() == ["a1", "a2"]


def test_events_without_a_key_are_never_blocked(session: Session, worker: Worker) -> None:
    deliver(session, "-1", "-2")
    worker.fail(1)
    assert worker.blocked() == []


def test_ordering_skip_blocks_nothing(session: Session) -> None:
    worker = joined(session, ordering="skip")
    deliver(session, "a1", "a2")
    worker.fail(1)
    assert worker.blocked() == []


def test_the_failure_of_one_handler_blocks_no_other(session: Session, worker: Worker) -> None:
    other = joined(session, "ship")
    deliver(session, "a1", "a2")
    worker.fail(1)
    assert other.blocked() == []
    assert other.retries() == []


def test_parked_events_follow_one_by_one_when_the_one_before_is_settled(
    session: Session, worker: Worker
) -> None:
    deliver(session, "a1", "a2", "a3", "b1")
    worker.fail(1)
    worker.park(2, 3)
    assert worker.due() == [["a1"]]
    assert worker.succeed() == []
    assert worker.due() == [["a2"]]
    assert worker.retries()[0][1] == 0  # it was not tried yet
    worker.succeed()
    assert worker.due() == [["a3"]]
    assert worker.succeed() == ["a"]
    assert worker.blocked() == []


def test_a_parked_event_that_fails_holds_back_the_rest(session: Session, worker: Worker) -> None:
    deliver(session, "a1", "a2", "a3")
    worker.fail(1)
    worker.park(2, 3)
    worker.succeed()
    worker.retried(worker.retries()[0][0], "no", HOUR)
    assert worker.due() == []


def test_an_event_that_is_parked_too_late_is_due_at_once(session: Session, worker: Worker) -> None:
    deliver(session, "a1", "a2")
    worker.fail(1)
    worker.succeed()
    worker.park(2)
    assert worker.due() == [["a2"]]


def test_discarding_a_dead_letter_frees_what_is_parked_behind_it(
    session: Session, worker: Worker
) -> None:
    deliver(session, "a1", "a2", "b1")
    worker.fail(1, retry_after=None)
    worker.park(2)
    [letter] = dead(session)
    assert letter[10] == 1
    assert call(session, "broker_dead_discard", retry=letter[0]) == [(1,)]
    assert dead(session) == []
    assert worker.due() == [["a2"]]


def test_a_dead_letter_is_tried_once_more_and_dies_again(session: Session, worker: Worker) -> None:
    deliver(session, "a1")
    worker.fail(1, retry_after=None)
    [letter] = dead(session)
    assert call(session, "broker_dead_retry", retry=letter[0]) == [(1,)]
    assert dead(session) == []
    assert worker.due() == [["a1"]]
    assert worker.retries()[0][1] == 1
    worker.retried(worker.retries()[0][0], "again")
    assert dead(session)[0][0] == letter[0]


def test_all_dead_letters_of_a_handler_are_tried_in_the_order_of_their_keys(
    session: Session, worker: Worker
) -> None:
    deliver(session, "a1", "a2", "b1", "-1", "-2")
    worker.fail(1, 2, 3, 4, 5, retry_after=None)
    assert call(session, "broker_dead_retry", group_name="shop", handler="bill") == [(5,)]
    assert worker.due() == [["a1"], ["b1"], ["-1"], ["-2"]]
    worker.succeed()
    assert ["a2"] in worker.due()


def test_a_dead_letter_that_is_not_the_oldest_of_its_key_waits_for_it(
    session: Session, worker: Worker
) -> None:
    deliver(session, "a1", "a2")
    worker.fail(1, 2, retry_after=None)
    younger, older = (letter[0] for letter in dead(session))
    call(session, "broker_dead_retry", retry=younger)
    assert worker.due() == []
    call(session, "broker_dead_discard", retry=older)
    assert worker.due() == [["a2"]]


def test_all_dead_letters_of_a_handler_can_be_discarded(session: Session, worker: Worker) -> None:
    deliver(session, "a1", "a2", "b1")
    worker.fail(1, 3, retry_after=None)
    worker.park(2)
    assert call(session, "broker_dead_discard", group_name="shop", handler="bill") == [(2,)]
    assert worker.due() == [["a2"]]


def test_only_what_is_dead_can_be_retried_or_discarded(session: Session, worker: Worker) -> None:
    deliver(session, "a1")
    worker.fail(1)
    retry = ask(session, "select retry from trunkline.broker_retry")
    for function in ("broker_dead_show", "broker_dead_retry", "broker_dead_discard"):
        with refused("TL404"):
            call(session, function, retry=retry)


@pytest.mark.parametrize("function", ["broker_dead_retry", "broker_dead_discard"])
def test_one_letter_or_all_of_a_handler_must_be_named(session: Session, function: str) -> None:
    for given in ({}, {"group_name": "shop"}, {"retry": 1, "group_name": "g", "handler": "h"}):
        with refused("TL422"):
            call(session, function, **given)
    with refused("TL404"):
        call(session, function, group_name="nobody", handler="bill")


def test_a_worker_that_lost_its_lane_can_settle_nothing(session: Session, worker: Worker) -> None:
    deliver(session, "a1", "a2")
    batch = worker.fail(1)
    worker.epoch -= 1
    for attempt in (
        lambda: worker.fail(2),
        lambda: worker.park(2),
        lambda: worker.retries(),
        lambda: worker.retried(batch),
        lambda: call(session, "broker_trial", **worker.place(), delivery=1),
    ):
        with refused("TL423"):
            attempt()
    assert ask(session, "select count(*) from trunkline.broker_retry") == 1


def test_a_failure_and_the_position_are_committed_together(
    session: Session, worker: Worker
) -> None:
    deliver(session, "a1")
    with session.transaction(force_rollback=True):
        worker.fail(1)
        call(session, "broker_commit", **worker.place(), up_to=1)
    assert worker.retries() == []
    assert (
        ask(
            session, "select up_to from trunkline.broker_join('shop', 'bill', %s)", [worker.process]
        )
        == 0
    )


def test_discarding_waits_for_whoever_parks_behind_the_letter(
    session: Session, worker: Worker, other: Session, connect: Callable[..., Session]
) -> None:
    """Otherwise an event would be parked behind something that is no longer there."""
    deliver(session, "a1", "a2")
    worker.fail(1, retry_after=None)
    parking = Worker(other, worker.process, worker.handler, worker.epoch)
    parking.park(2)
    hurried = connect()
    hurried.execute("set lock_timeout = '50ms'")
    with refused("55P03"):
        call(hurried, "broker_dead_discard", group_name="shop", handler="bill")
    other.commit()
    call(hurried, "broker_dead_discard", group_name="shop", handler="bill")
    assert worker.due() == [["a2"]]


def test_failing_twice_with_the_same_delivery_counts_both(session: Session, worker: Worker) -> None:
    """After a seek to an earlier position an event may come while it is a dead letter."""
    deliver(session, "a1")
    worker.fail(1, error="once", retry_after=None)
    worker.fail(1, error="twice")
    [row] = worker.retries()
    assert row[1] == 2
    assert [error["error"] for error in row[2]] == ["once", "twice"]


def test_a_delivery_that_is_named_twice_failed_once(session: Session, worker: Worker) -> None:
    deliver(session, "a1", "a2")
    worker.fail(1, 1)
    worker.park(2, 2)
    [row] = worker.retries()
    assert (row[1], len(row[2]), row[8]) == (1, 1, "a1")
    worker.succeed()
    assert worker.due() == [["a2"]]


def test_a_failure_of_an_event_that_has_left_is_refused(session: Session, worker: Worker) -> None:
    deliver(session, "a1")
    session.execute("delete from trunkline.event")
    with refused("TL410"):
        worker.fail(1)


def test_trials_count_until_the_lane_is_trusted_again(session: Session, worker: Worker) -> None:
    tried = [
        call(session, "broker_trial", **worker.place(), delivery=d)[0][0] for d in (5, 5, 6, 5)
    ]
    assert tried == [1, 2, 1, 3]
    assert call(session, "broker_trial", **worker.place(), delivery=5, note=False) == [(3,)]
    assert call(session, "broker_trial", **worker.place(), delivery=None) == [(0,)]
    assert call(session, "broker_trial", **worker.place(), delivery=5) == [(1,)]


@pytest.mark.parametrize(
    "given",
    [
        {"deliveries": []},
        {"error": None},
        {"retry_after": "-1 second"},
        {"retry_after": "178000000 years"},
    ],
    ids=lambda given: "-".join(map(str, *given.items())),
)
def test_a_failure_that_makes_no_sense_is_refused(
    session: Session, worker: Worker, given: dict[str, Any]
) -> None:
    deliver(session, "a1")
    whole = {"deliveries": [1], "error": "no", "retry_after": NOW, **given}
    with refused("TL422"):
        call(session, "broker_fail", **worker.place(), **whole)


def test_a_long_error_is_cut_to_what_somebody_would_read(session: Session, worker: Worker) -> None:
    deliver(session, "a1")
    worker.fail(1, error="x" * 100_000)
    assert len(json.dumps(worker.retries()[0][2])) < 10_000


def test_nobody_can_forge_a_retry_by_publishing(session: Session, worker: Worker) -> None:
    """Theirs keeps retries as events of a topic that anybody may publish to."""
    deliver(session, "a1")
    rights = "select has_table_privilege('public', 'trunkline.broker_retry', 'insert, update')"
    assert ask(session, rights) is False
    assert worker.retries() == []


def test_a_handler_is_deleted_with_all_that_is_its_own_and_nothing_of_others(
    session: Session, worker: Worker
) -> None:
    other = joined(session, "ship")
    deliver(session, "a1", "b1")
    worker.fail(1, retry_after=None)
    other.fail(2, retry_after=None)
    with refused("TL409"):
        call(session, "broker_handler_delete", group_name="shop", handler="bill")
    call(session, "lease_end", process=worker.process)
    call(session, "broker_handler_delete", group_name="shop", handler="bill")
    assert [letter[2] for letter in dead(session)] == ["ship"]
    left = "select count(*) from trunkline.cursor_key where resource like 'broker:%%:bill'"
    assert ask(session, left) == 0
    with refused("TL404"):
        call(session, "broker_handler_delete", group_name="shop", handler="bill")


def test_a_handler_that_no_longer_keeps_the_order_goes_on_with_what_was_parked(
    session: Session,
) -> None:
    worker = joined(session)
    deliver(session, "a1", "a2", "a3")
    worker.fail(1, retry_after=None)
    worker.park(2, 3)

    number = ask(session, "select group_id from trunkline.broker_group")
    call(
        session,
        "_broker_handler_ensure",
        group_id=number,
        handler="bill",
        subscription=None,
        ordering="skip",
    )

    assert worker.due() == [["a2"], ["a3"]]
