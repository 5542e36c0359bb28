"""What SQL keeps of webhooks: who may see it, and for how long."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import psycopg
import pytest
from tests.broker.receiving import SECRET
from tests.fixtures.asking import ask, call, column

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.fixtures.asking import Session

URL = "https://shop.test/hook"


@pytest.fixture
def acting(connect: Callable[..., Session]) -> Iterator[Callable[[str], Session]]:
    """A session of a user who has one role and nothing else."""
    made: list[tuple[Session, str]] = []

    def make(role: str) -> Session:
        name, session = f"user_{uuid4().hex}", connect()
        session.execute(f"create role {name} login; grant {role} to {name}")
        session.execute(f"set session authorization {name}")
        made.append((session, name))
        return session

    yield make
    for session, name in made:
        session.execute("reset session authorization")
        session.execute(f"drop owned by {name}; drop role {name}")


def entry(webhook: int, at: str = "now()", **given: Any) -> dict[str, Any]:
    values = {"message": "m", "event_ids": [1], "attempt": 1, "status": 200, "milliseconds": 1}
    return {"webhook": webhook, "at": at, "error": None, "answer": None, **values, **given}


def state(session: Session, query: str, values: list[Any] | None = None) -> str | None:
    """The SQLSTATE that a query is refused with."""
    with pytest.raises(psycopg.Error) as caught:
        session.execute(query, values)
    return caught.value.sqlstate


def note(session: Session, *entries: dict[str, Any]) -> None:
    ask(session, "select trunkline._webhook_log_add(%s::jsonb)", [json.dumps(entries)])


@pytest.mark.parametrize("role", ["trunkline_reader", "trunkline_writer"])
def test_only_the_owner_and_admins_can_read_secrets(
    session: Session, acting: Callable[[str], Session], role: str
) -> None:
    call(session, "broker_webhook_add", group_name="g", url=URL, secret=SECRET)
    user = acting(role)
    for query in (
        "select * from trunkline.broker_webhook_secret",
        "select headers from trunkline.broker_webhook",
        "select * from trunkline._webhook_endpoints()",
    ):
        assert state(user, query) == "42501"
    listed = user.execute("select l::text from trunkline.broker_webhook_list() l").fetchall()
    assert SECRET not in str(listed)
    admin = acting("trunkline_admin")
    ((secrets,),) = admin.execute("select secrets from trunkline._webhook_endpoints()").fetchall()
    assert secrets == [[SECRET, None]]


def test_writers_manage_webhooks_and_readers_only_look(
    session: Session, acting: Callable[[str], Session]
) -> None:
    writer, reader = acting("trunkline_writer"), acting("trunkline_reader")
    ((number,),) = call(writer, "broker_webhook_add", group_name="g", url=URL)
    assert state(reader, "select trunkline.broker_webhook_pause(1)") == "42501"
    assert state(reader, "select trunkline.broker_webhook_add('g', 'https://a/')") == "42501"
    assert ask(reader, "select webhook from trunkline.broker_webhook_list()") == number
    assert ask(writer, "select trunkline.broker_webhook_remove(1)") is True


def test_the_same_condition_twice_is_one_subscription_and_two_webhooks(session: Session) -> None:
    for _ in range(2):
        call(session, "broker_webhook_add", group_name="g", url=URL, condition='{"topic": "a"}')
    assert ask(session, "select count(*) from trunkline.broker_subscription") == 1
    ask(session, "select trunkline.broker_webhook_remove(1)")
    assert ask(session, "select count(*) from trunkline.broker_subscription") == 1
    ask(session, "select trunkline.broker_webhook_remove(2)")
    assert ask(session, "select count(*) from trunkline.broker_subscription") == 0


def test_a_sender_that_has_not_heard_of_the_removal_cannot_bring_it_back(session: Session) -> None:
    call(session, "broker_webhook_add", group_name="g", url=URL)
    process = uuid4()
    ask(session, "select trunkline.lease_renew(%s, 'sender')", [process])
    join = "select count(*) from trunkline.broker_join('g', 'webhook:1', %s)"
    assert ask(session, join, [process]) == 4
    ask(session, "select trunkline.broker_webhook_remove(1)")
    assert state(session, join, [process]) == "TL404"
    assert column(session, "select handler from trunkline.broker_handler") == []


def test_a_group_with_webhooks_is_not_abandoned_while_they_are_paused(session: Session) -> None:
    call(session, "broker_webhook_add", group_name="g", url=URL)
    ask(session, "select trunkline.broker_webhook_pause(1)")
    ask(session, "select trunkline.config_set('broker.abandoned_after', '0')")
    for _ in range(3):
        ask(session, "select trunkline.broker_expire()")
    assert ask(session, "select count(*) from trunkline.broker_webhook_list('g')") == 1


@pytest.mark.parametrize(
    "url",
    [
        "ftp://shop.test/",
        "https://me:word@shop.test/",
        "https://shop.test:http/",
        "https://shop.test:65536/",
        "https://[::1/",
        "https://bücher.test/",
        "https://shop.test/café",
        "https://shop.test/a b",
    ],
)
def test_a_url_that_could_never_be_posted_to_is_refused_at_once(session: Session, url: str) -> None:
    assert state(session, "select trunkline.broker_webhook_add('g', %s)", [url]) == "TL422"


@pytest.mark.parametrize(
    "url",
    [
        "http://a",
        "HTTPS://Shop.test:8443/a/b?c=%20d&e=[f]#g",
        "https://[2606:2800:220:1::1]:443?x",
        "http://under_score.xn--bcher-kva.test:65535/",
    ],
)
def test_any_other_url_is_taken(session: Session, url: str) -> None:
    call(session, "broker_webhook_add", group_name="g", url=url)


def test_a_secret_that_signed_along_long_enough_is_forgotten(session: Session) -> None:
    call(session, "broker_webhook_add", group_name="g", url=URL, secret=SECRET)
    for letter in "xyz":
        rotate = "select trunkline.broker_webhook_rotate(1, %s, '0')"
        session.execute(rotate, ["whsec_" + letter * 32])
    assert ask(session, "select signatures from trunkline.broker_webhook_list()") == 1
    assert ask(session, "select count(*) from trunkline.broker_webhook_secret") == 2
    assert state(session, "select trunkline.broker_webhook_rotate(1, null)") == "TL422"
    assert state(session, "select trunkline.broker_webhook_rotate(9, 'x')") == "TL404"
    endless = "select trunkline.broker_webhook_rotate(1, 'x', '10000 years')"
    assert state(session, endless) == "TL422"


def test_the_log_is_read_in_pages_the_newest_first(session: Session) -> None:
    note(session, *(entry(1 + n % 2, at="2026-01-01", attempt=n) for n in range(6)))
    first = call(session, "broker_webhook_log", webhook=1, max_entries=2)
    assert [row[5] for row in first] == [4, 2]
    rest = call(session, "broker_webhook_log", webhook=1, before=first[-1][0])
    assert [row[5] for row in rest] == [0]
    assert len(call(session, "broker_webhook_log")) == 6
    assert call(session, "broker_webhook_log", max_entries=-1) == []


def test_the_log_of_a_webhook_that_is_not_there_is_not_shown_as_an_empty_one(
    session: Session,
) -> None:
    there = ask(session, "select trunkline.broker_webhook_add('g', 'https://example.com/')")
    note(session, entry(there + 1, at="now"))
    assert call(session, "broker_webhook_log", webhook=there) == []
    assert len(call(session, "broker_webhook_log", webhook=there + 1)) == 1  # it was removed
    assert state(session, f"select trunkline.broker_webhook_log({there + 2})") == "TL404"


def test_the_log_leaves_with_its_slots_when_it_is_old_enough(session: Session) -> None:
    for name, value in (
        ("ring.webhook_log.rotate_every", "1 millisecond"),
        ("maintain.settle", "0"),
        ("broker.webhook_log", "1 hour"),
    ):
        ask(session, "select trunkline.config_set(%s, %s)", [name, value])
    note(session, entry(1, at="2020-01-01"))
    ask(session, "select trunkline._ring_rotate('webhook_log', clock_timestamp())")
    note(session, entry(2, at="now"))
    ask(session, "select trunkline._ring_rotate('webhook_log', clock_timestamp() + '1 hour')")
    for _ in range(4):
        ask(session, "select trunkline._ring_clear('webhook_log', clock_timestamp())")
    assert column(session, "select webhook from trunkline.broker_webhook_log()") == [2]
