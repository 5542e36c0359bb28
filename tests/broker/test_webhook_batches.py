"""What was sent as a batch is known again: the same items, the same key, whatever came since."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.broker.groups import Member, match, read
from tests.broker.receiving import Receiver, allow_private, answer, receiving, sending
from tests.broker.steps import publish
from tests.fixtures.asking import ask, call

from trunkline.testing import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from http.server import BaseHTTPRequestHandler

    from tests.broker.groups import Share, Waiting
    from tests.fixtures.asking import Session

HANDLER = "webhook:1"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as one:
        yield one


@pytest.fixture(autouse=True)
def _allowed(session: Session) -> None:
    allow_private(session)


class Before:
    """A sender that was there before, and wrote batches down."""

    def __init__(self, session: Session, receiver: Receiver, *, batch: int = 10, events: int = 6):
        self.session = session
        ask(session, "select trunkline.config_set('broker.lanes', '1')")
        call(session, "broker_webhook_add", group_name="g", url=receiver.url, batch=batch)
        for number in range(1, events + 1):
            publish(session, "t", number, key=f"k{number}")
        match(session)
        self.member = Member(session, "g", HANDLER)
        self.waiting: list[Waiting] = read(session, "g", handler=HANDLER)
        self.lane = self.waiting[0].lane

    def share(self) -> Share:
        return next(share for share in self.member.join() if share.lane == self.lane)

    def cut(self, *batches: list[int]) -> None:
        """Write batches down: each its last event, and those that are not part of it."""
        cuts = [[self.waiting[number - 1].up_to for number in batch] for batch in batches]
        share = self.share()
        call(
            self.session,
            "_broker_cut",
            group_name="g",
            handler=HANDLER,
            lane=self.lane,
            epoch=share.epoch,
            up_to=share.up_to,
            cuts=json.dumps(cuts),
        )

    def leave(self) -> None:
        self.member.leave()

    def die(self) -> None:
        query = "update trunkline.lease set expires = clock_timestamp() where process = %s"
        self.session.execute(query, [self.member.process])


def batches(receiver: Receiver) -> list[list[Any]]:
    return [request.payloads for request in receiver.requests]


async def test_batches_that_were_written_down_are_sent_as_they_were(
    clean_dsn: str, session: Session, receiver: Receiver
) -> None:
    before = Before(session, receiver)
    before.cut([2], [5])
    before.leave()
    async with sending(clean_dsn):
        await eventually(lambda: len(receiver.payloads) == 6)
    assert batches(receiver) == [[1, 2], [3, 4, 5], [6]]


async def test_after_a_crash_they_are_sent_as_they_were_and_others_one_by_one(
    clean_dsn: str, session: Session, receiver: Receiver
) -> None:
    before = Before(session, receiver)
    before.cut([2], [4])
    before.die()
    async with sending(clean_dsn):
        await eventually(lambda: len(receiver.payloads) == 6)
    assert batches(receiver) == [[1, 2], [3, 4], [5], [6]]


async def test_what_waited_for_an_older_event_then_is_not_part_of_the_batch_now(
    clean_dsn: str, session: Session, receiver: Receiver
) -> None:
    before = Before(session, receiver)
    before.cut([4, 2, 3])
    before.leave()
    async with sending(clean_dsn):
        await eventually(lambda: sorted(receiver.payloads) == [1, 2, 3, 4, 5, 6])
    assert batches(receiver)[0] == [1, 4]


async def test_a_batch_is_known_again_though_batches_are_smaller_by_now(
    clean_dsn: str, session: Session, receiver: Receiver
) -> None:
    before = Before(session, receiver, events=40)
    before.cut([30])
    before.leave()
    session.execute("update trunkline.broker_webhook set batch = 2")
    ask(session, "select trunkline.config_set('broker.webhook_body_bytes', '100')")
    async with sending(clean_dsn):
        await eventually(lambda: len(receiver.payloads) == 40)
    assert batches(receiver)[0] == list(range(1, 31))
    assert max(map(len, batches(receiver)[1:])) <= 2


async def test_a_batch_that_failed_after_all_is_tried_again_as_it_was_and_so_is_the_next(
    clean_dsn: str, session: Session, receiver: Receiver
) -> None:
    before = Before(session, receiver)
    session.execute("update trunkline.broker_webhook set retry = '{10ms,10ms}'")
    before.cut([2], [5])
    before.die()
    receiver.answers.append(answer(500))
    async with sending(clean_dsn):
        await eventually(lambda: len(receiver.payloads) == 8)
    assert sorted(batches(receiver)) == [[1, 2], [1, 2], [3, 4, 5], [6]]


async def test_a_batch_over_which_senders_died_again_and_again_is_tried_one_by_one(
    clean_dsn: str, session: Session, receiver: Receiver
) -> None:
    before = Before(session, receiver)
    before.cut([4], [5])
    place = {"group_name": "g", "handler": HANDLER, "lane": before.lane}
    for _ in range(3):
        number = -before.waiting[0].up_to
        call(session, "broker_trial", **place, epoch=before.share().epoch, delivery=number)
    before.die()
    async with sending(clean_dsn):
        await eventually(lambda: len(receiver.payloads) == 6)
    assert batches(receiver) == [[number] for number in range(1, 7)]
    assert ask(session, "select count(*) from trunkline.broker_dead_list()") == 0


async def test_what_fails_after_a_crash_is_tried_as_often_as_it_may(
    clean_dsn: str, session: Session, receiver: Receiver
) -> None:
    before = Before(session, receiver, batch=1, events=100)
    session.execute(
        "update trunkline.broker_webhook set retry = array_fill('1ms'::interval, '{9}')"
    )
    before.share()
    before.die()

    def refuse_the_first(handler: BaseHTTPRequestHandler) -> None:
        first, times = receiver.requests[-1].payloads == [1], receiver.payloads.count(1)
        answer(500 if first and times < 6 else 200)(handler)

    receiver.always = refuse_the_first
    async with sending(clean_dsn):
        await eventually(lambda: receiver.payloads.count(1) == 6)
        await eventually(lambda: len(receiver.payloads) == 105)
    assert ask(session, "select count(*) from trunkline.broker_dead_list()") == 0


async def test_a_batch_whose_events_have_left_holds_nobody_up(
    clean_dsn: str, session: Session, receiver: Receiver
) -> None:
    before = Before(session, receiver)
    before.cut([2], [5])
    before.leave()
    session.execute("update trunkline.broker_group set trimmed_to = %s", [before.waiting[2].up_to])
    async with sending(clean_dsn):
        await eventually(lambda: len(receiver.payloads) == 3)
    assert batches(receiver) == [[4, 5], [6]]


async def test_a_batch_that_was_answered_with_410_is_the_same_when_it_is_resumed(
    clean_dsn: str, session: Session, receiver: Receiver
) -> None:
    receiver.answers.append(answer(410))
    async with sending(clean_dsn) as (tl, webhooks):
        webhook = await tl.broker.webhook_add("g", receiver.url, batch=10)
        async with tl.transaction() as connection:
            for number in range(3):
                await tl.broker.publish("t", number, key="k", on=connection)
        await eventually(lambda: len(receiver.requests) == 1 and not webhooks._running)
        for number in range(3, 6):
            await tl.broker.publish("t", number, key="k")
        await tl.broker.webhook_resume(webhook)
        await eventually(lambda: len(receiver.payloads) == 9)
    assert batches(receiver)[:2] == [[0, 1, 2], [0, 1, 2]]
    assert receiver.ids[0] == receiver.ids[1]


async def test_a_webhook_for_which_nothing_comes_writes_nothing(
    clean_dsn: str, session: Session, receiver: Receiver
) -> None:
    def written() -> int:
        return int(ask(session, "select count(*) from trunkline.cursor"))

    async with sending(clean_dsn) as (tl, webhooks):
        webhook = await tl.broker.webhook_add("g", receiver.url, batch=10)
        await eventually(lambda: bool(webhooks._running))
        worker = webhooks._running[webhook].worker
        await worker.quiet.wait()
        before = written()
        worker.look_every = worker.rejoin_every = 0.01
        for _ in range(5):
            await worker.quiet.wait()
        assert written() == before
