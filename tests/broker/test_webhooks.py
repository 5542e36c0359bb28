"""Webhooks: events are posted, signed, tried again, and nothing else comes with them."""

from __future__ import annotations

import asyncio
import threading
from contextlib import ExitStack
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from standardwebhooks import Webhook as Verifier
from standardwebhooks import WebhookVerificationError
from tests.broker.receiving import (
    SECRET,
    Receiver,
    allow_private,
    answer,
    receiving,
    sending,
    waits_for,
)
from tests.broker.steps import publish
from tests.fixtures.postgres import new_database, take_over

from trunkline.testing import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.fixtures.asking import Session
    from tests.fixtures.postgres import AnyServer

SOON = [timedelta(milliseconds=10)] * 3


@pytest.fixture
def open_receiver() -> Iterator[Callable[..., Receiver]]:
    with ExitStack() as opened:
        yield lambda **given: opened.enter_context(receiving(**given))


@pytest.fixture
def receiver(open_receiver: Callable[..., Receiver]) -> Receiver:
    return open_receiver()


@pytest.fixture(autouse=True)
def _allowed(session: Session) -> None:
    allow_private(session)


def dead(session: Session) -> list[tuple[Any, ...]]:
    query = "select l.handler, l.error, l.attempts from trunkline.broker_dead_list() l"
    return session.execute(query).fetchall()


async def test_an_event_is_posted_as_json_with_everything_that_belongs_to_it(
    clean_dsn: str, session: Session, receiver: Receiver
) -> None:
    async with sending(clean_dsn) as (tl, _):
        await tl.broker.webhook_add("g", receiver.url, {"topic": "orders.*"})
        await tl.broker.publish("other", 1)
        event_id = publish(session, "orders.made", {"n": 1}, key="k", metadata={"by": "me"})
        await eventually(lambda: len(receiver.requests) == 1)
    request = receiver.requests[0]
    assert request.headers["content-type"] == "application/json"
    assert request.headers["idempotency-key"].startswith("msg_")
    (item,) = request.items
    assert item.pop("at").endswith("+00:00")
    assert item == {
        "id": str(event_id),
        "topic": "orders.made",
        "key": "k",
        "payload": {"n": 1},
        "metadata": {"by": "me"},
    }


async def test_numbers_arrive_as_they_were_published(
    clean_dsn: str, session: Session, receiver: Receiver
) -> None:
    numbers = b'{"price": 1.10, "large": 12345678901234567890.5, "id": 9007199254740993}'
    receiver.answers.append(answer(500))
    async with sending(clean_dsn) as (tl, _):
        await tl.broker.webhook_add("g", receiver.url, retry=[timedelta()])
        session.execute("select trunkline.broker_publish('t', %s::jsonb)", [numbers.decode()])
        await eventually(lambda: len(receiver.requests) == 2)
    first, second = (request.body for request in receiver.requests)
    assert first == second
    stored = session.execute("select %s::jsonb::text", [numbers.decode()]).fetchone() or ()
    assert stored[0].encode() in first
    assert b"1.10" in first


async def test_payloads_that_are_no_objects_arrive_as_they_are(
    clean_dsn: str, receiver: Receiver
) -> None:
    payloads = ["text", ["a", ["b"]], [], 7, True, None, {"ü": "☃"}]
    async with sending(clean_dsn) as (tl, _):
        await tl.broker.webhook_add("g", receiver.url)
        for payload in payloads:
            await tl.broker.publish("t", payload, key="same")
        await eventually(lambda: len(receiver.requests) == len(payloads))
    assert receiver.payloads == payloads


async def test_a_body_is_compressed_from_the_threshold_on_and_signed_as_it_was_before(
    clean_dsn: str, receiver: Receiver
) -> None:
    async with sending(clean_dsn) as (tl, _):
        await tl.broker.webhook_add("g", receiver.url, secret=SECRET)
        await tl.broker.publish("t", "small", key="k")
        await tl.broker.publish("t", "large" * 1000, key="k")
        await eventually(lambda: len(receiver.requests) == 2)
    small, large = receiver.requests
    assert "content-encoding" not in small.headers
    assert large.headers["content-encoding"] == "gzip"
    assert len(large.raw) < 500
    for request in (small, large):
        assert request.headers["webhook-id"] == request.headers["idempotency-key"]
        assert Verifier(SECRET).verify(request.body, request.headers) == request.json
        with pytest.raises(WebhookVerificationError):
            Verifier(SECRET).verify(request.body + b" ", request.headers)


async def test_without_a_secret_nothing_claims_to_be_signed(
    clean_dsn: str, receiver: Receiver
) -> None:
    async with sending(clean_dsn) as (tl, _):
        await tl.broker.webhook_add("g", receiver.url)
        await tl.broker.publish("t", 1)
        await eventually(lambda: len(receiver.requests) == 1)
    assert not [name for name in receiver.requests[0].headers if name.startswith("webhook-")]


async def test_headers_of_the_user_win_over_ours(clean_dsn: str, receiver: Receiver) -> None:
    given = {"Authorization": "Bearer abc", "Content-Type": "application/x", "user-agent": "me"}
    async with sending(clean_dsn) as (tl, _):
        await tl.broker.webhook_add("g", receiver.url, headers=given)
        await tl.broker.publish("t", 1)
        await eventually(lambda: len(receiver.requests) == 1)
    headers = receiver.requests[0].headers
    assert headers["authorization"] == "Bearer abc"
    assert (headers["content-type"], headers["user-agent"]) == ("application/x", "me")


async def test_what_was_answered_with_500_comes_again_with_the_same_body_and_key(
    clean_dsn: str, session: Session, receiver: Receiver
) -> None:
    receiver.answers.append(answer(500, b"sorry"))
    async with sending(clean_dsn) as (tl, _):
        await tl.broker.webhook_add("g", receiver.url, secret=SECRET, retry=SOON)
        await tl.broker.publish("t", {"b": 1, "a": [1.5, None]}, key="k", metadata={"x": 1})
        await eventually(lambda: len(receiver.requests) == 2)
    first, second = receiver.requests
    assert first.body == second.body
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert Verifier(SECRET).verify(second.body, second.headers)
    assert dead(session) == []


async def test_422_is_a_dead_letter_at_once(
    clean_dsn: str, session: Session, receiver: Receiver
) -> None:
    receiver.answers.append(answer(422, b"no such order"))
    async with sending(clean_dsn) as (tl, _):
        webhook = await tl.broker.webhook_add("g", receiver.url, retry=SOON)
        await tl.broker.publish("t", 1)
        await eventually(lambda: dead(session) != [])
        await tl.broker.publish("t", 2)
        await eventually(lambda: len(receiver.requests) == 2)
    assert dead(session) == [(f"webhook:{webhook}", "HTTP 422: no such order", 1)]
    assert receiver.payloads == [1, 2]


async def test_a_redirect_is_a_failure_and_not_followed(
    clean_dsn: str, session: Session, open_receiver: Callable[..., Receiver]
) -> None:
    first, elsewhere = open_receiver(), open_receiver()
    first.always = answer(301, location=elsewhere.url)
    async with sending(clean_dsn) as (tl, _):
        await tl.broker.webhook_add("g", first.url, retry=SOON[:1])
        await tl.broker.publish("t", 1)
        await eventually(lambda: dead(session) != [])
    assert len(first.requests) == 2
    assert elsewhere.requests == []
    assert "redirects are not followed" in dead(session)[0][1]


async def test_a_slow_endpoint_is_cut_at_its_timeout_and_tried_again(
    clean_dsn: str, receiver: Receiver
) -> None:
    told = threading.Event()
    receiver.answers.append(waits_for(told))
    async with sending(clean_dsn) as (tl, _):
        webhook = await tl.broker.webhook_add(
            "g", receiver.url, timeout=timedelta(seconds=0.2), retry=SOON
        )
        await tl.broker.publish("t", 1)
        await eventually(lambda: len(receiver.requests) == 2)
        told.set()

        async def logged() -> bool:
            return len(await tl.broker.webhook_log(webhook)) == 2

        await eventually(logged)
        newest, oldest = await tl.broker.webhook_log(webhook)
    assert (oldest.attempt, oldest.status, oldest.error) == (1, None, "no answer within 0.2 s")
    assert oldest.milliseconds >= 200
    assert (newest.attempt, newest.status, newest.error) == (2, 200, None)
    assert newest.message == oldest.message


async def test_two_webhooks_of_a_group_each_get_every_event_with_retries_of_their_own(
    clean_dsn: str, session: Session, open_receiver: Callable[..., Receiver]
) -> None:
    good, bad = open_receiver(), open_receiver()
    bad.answers.extend([answer(500)] * 2)
    async with sending(clean_dsn) as (tl, _):
        await tl.broker.webhook_add("g", good.url, retry=SOON)
        await tl.broker.webhook_add("g", bad.url, retry=SOON)
        await tl.broker.publish("t", 1)
        await eventually(lambda: (len(good.requests), len(bad.requests)) == (1, 3))
    assert len(set(bad.ids)) == 1
    assert set(good.ids).isdisjoint(bad.ids)
    assert dead(session) == []


async def test_what_no_try_could_deliver_is_not_dropped_but_a_dead_letter_that_can_be_sent(
    clean_dsn: str, session: Session, receiver: Receiver
) -> None:
    """Theirs drops a batch whose tries are used up, with a line in the log."""
    receiver.answers.extend([answer(500, b"down")] * 3)
    async with sending(clean_dsn) as (tl, _):
        webhook = await tl.broker.webhook_add("g", receiver.url, retry=SOON[:2])
        await tl.broker.publish("t", 1)
        await eventually(lambda: dead(session) == [(f"webhook:{webhook}", "HTTP 500: down", 3)])
        await tl.broker.dead_retry(group_name="g", handler=f"webhook:{webhook}")
        await eventually(lambda: len(receiver.requests) == 4)
    assert len(set(receiver.ids)) == 1


async def test_many_webhooks_are_all_served_and_each_asks_less_often(
    clean_dsn: str, receiver: Receiver
) -> None:
    async with sending(clean_dsn) as (tl, webhooks):
        async with tl.transaction() as connection:
            await connection.execute(
                "select trunkline.broker_webhook_add('g' || n, %s) from generate_series(1, 40) n",
                [receiver.url],
            )
        await tl.broker.publish("t", 1)
        await eventually(lambda: len(receiver.requests) == 40)
        worker = webhooks._running[1].worker
        assert (worker.pace, worker.reading.room) == (0.04, 4)
        assert 0.8 <= worker.look_every <= 2.4
        worker.share(50_000)
        assert worker.reading.room == 1  # what is read ahead by all of them is bounded
    assert len(set(receiver.ids)) == 40


@pytest.mark.parametrize("knows_webhook", [True, False])
async def test_an_event_that_a_standby_gives_the_number_of_a_lost_one_is_posted_as_another(
    server: AnyServer, template: str, receiver: Receiver, *, knows_webhook: bool
) -> None:
    """A webhook may have the number of a lost one too."""
    with new_database(server, template=template) as first:
        with psycopg.connect(server.dsn(first), autocommit=True) as session:
            allow_private(session)
            session.execute("select trunkline.incarnation()")
            if knows_webhook:
                session.execute("select trunkline.broker_webhook_add('g', %s)", [receiver.url])
        with new_database(server, template=first) as second:
            async with sending(server.dsn(first)) as (tl, _):
                if not knows_webhook:
                    await tl.broker.webhook_add("g", receiver.url)
                ids = [await tl.broker.publish("t", "lost")]
                await eventually(lambda: receiver.payloads == ["lost"])
                await asyncio.to_thread(take_over, server, first, second)
                if not knows_webhook:
                    await tl.broker.webhook_add("h", receiver.url)
                ids.append(await tl.broker.publish("t", "there"))
                await eventually(lambda: receiver.payloads == ["lost", "there"])
    assert len(set(ids)) == 1
    assert len({request.headers["idempotency-key"] for request in receiver.requests}) == 2
