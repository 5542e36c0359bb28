"""An event larger, as JSON, than the server can send holds up nobody who reads.

Each takes ten seconds and a gigabyte: those that try what another tries as well are a soak.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tests.broker.steps import publish, tick
from tests.fixtures.asking import ask

import trunkline
from trunkline.broker.stream import Place
from trunkline.core.unread import Unread

if TYPE_CHECKING:
    from tests.fixtures.asking import Session

WHY = "more than the 1 GB that the server can send"
AROUND = [1, WHY, 2]


@pytest.fixture
def filled(session: Session) -> Session:
    """Three events, of which the second cannot be sent, for a group of one lane."""
    session.execute("select trunkline.broker_subscribe('g', lanes => 1)")
    publish(session, "orders", 1)
    session.execute(  # 130 kB in the table, 1 GB as text
        "insert into trunkline.event (topic, payload, metadata)"
        """ select 'orders', jsonb_agg('1e131071'::jsonb), '{"by": "me"}'"""
        " from generate_series(1, 8200)"
    )
    publish(session, "orders", 2)
    tick(session)
    session.execute("select trunkline.broker_match()")
    return session


def told(payloads: list[Any]) -> list[Any]:
    """Payloads; of one that is unread, the reason as it is known."""
    return [WHY if isinstance(p, Unread) and WHY in p.reason and WHY in p else p for p in payloads]


async def test_events_that_are_read_come_with_one_that_cannot_be_sent(
    clean_dsn: str, filled: Session
) -> None:
    async with trunkline.connect(clean_dsn) as tl:
        waiting = await tl.broker.read("g", handler="h")
        found = await tl.broker.events(1)
    assert told([event.payload for event in waiting]) == AROUND
    assert told([event.payload for event in found]) == AROUND
    assert [event.metadata for event in found] == [None, None, None]
    assert ask(filled, "select count(*) from trunkline.broker_handler") == 1


@pytest.mark.soak
def test_blocking_code_reads_events_with_one_that_cannot_be_sent(
    clean_dsn: str, filled: Session
) -> None:
    with trunkline.connect_sync(clean_dsn) as tl:
        assert told([event.payload for event in tl.broker.read("g", peek=True)]) == AROUND


@pytest.mark.soak
async def test_a_stream_goes_on_after_an_event_that_cannot_be_sent(
    clean_dsn: str, filled: Session
) -> None:
    start = Place(ask(filled, "select trunkline.incarnation()"), 0).token
    seen: list[Any] = []
    async with trunkline.connect(clean_dsn) as tl, asyncio.timeout(120):
        async for event in tl.broker.stream("orders", after=start):
            seen.append(event.payload)
            if event.payload == 2:
                break
    assert told(seen) == AROUND


async def test_a_dead_letter_that_cannot_be_sent_is_shown_with_its_errors(
    clean_dsn: str, filled: Session
) -> None:
    filled.execute("select from trunkline.broker_read('g', 'h')")
    filled.execute(
        "insert into trunkline.broker_retry (group_id, handler, lane, delivery, batch, status,"
        " topic, payload, event_id, event_position, at, subscriptions, attempts, errors)"
        " select h.group_id, 'h', 0, 2, 1, 'dead', e.topic, e.payload, 2, 2, e.at, '{1}', 1,"
        """ '[{"error": "no"}]' from trunkline.event e, trunkline.broker_handler h"""
        " where e.metadata is not null"
    )
    number = ask(filled, "select retry from trunkline.broker_dead_list()")
    async with trunkline.connect(clean_dsn) as tl:
        letter = await tl.broker.dead_show(number)
    assert told([letter.payload]) == [WHY]
    assert letter.errors == [{"error": "no"}]


def test_in_sql_an_event_that_cannot_be_sent_is_read_without_its_payload(filled: Session) -> None:
    rows = filled.execute("select event_position, topic from trunkline.broker_read('g')")
    assert [row[0] for row in rows] == [1, 2, 3]
