"""The broker for Python programs, async and blocking."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any
from uuid import UUID

import psycopg
import pytest
from tests.broker.steps import payloads

import trunkline
from trunkline import NewEvent
from trunkline.core.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures.asking import Session


async def test_an_event_is_published_with_the_rows_of_its_transaction(
    clean_dsn: str, session: Session
) -> None:
    session.execute("create table orders (id int)")
    async with trunkline.connect(clean_dsn) as tl:
        for kept in (True, False):
            async with tl.transaction() as connection:
                await connection.execute("insert into orders values (1)")
                await tl.broker.publish("orders", {"kept": kept}, key="1", on=connection)
                if not kept:
                    raise psycopg.Rollback
        assert await tl.broker.tick() == 1
        (event,) = await tl.broker.events(1, topics=["orders"])
    assert (event.position, event.topic, event.key) == (1, "orders", "1")
    assert (event.payload, event.metadata) == ({"kept": True}, None)
    assert session.execute("select count(*) from orders").fetchall() == [(1,)]


async def test_many_events_are_published_in_order(clean_dsn: str) -> None:
    async with trunkline.connect(clean_dsn) as tl:
        batch = [NewEvent("a", number, metadata={"n": number}) for number in range(3)]
        ids = await tl.broker.publish_many(batch)
        assert await tl.broker.publish_many([]) == []
        await tl.broker.tick()
        found = await tl.broker.events(1)
        assert [event.event_id for event in found] == ids
        assert [event.metadata for event in found] == [{"n": 0}, {"n": 1}, {"n": 2}]
        assert await tl.broker.head() == 3


def test_blocking_code_publishes_in_its_transaction_too(clean_dsn: str, session: Session) -> None:
    at = datetime.now(UTC) + timedelta(hours=1)
    with trunkline.connect_sync(clean_dsn) as tl:
        with tl.transaction() as connection:
            tl.broker.publish("a", None, on=connection)
            tl.broker.publish_many([NewEvent("a", "x")], on=connection)
            assert tl.broker.tick() == 0
        tl.broker.publish("a", "later", deliver_at=at)
        assert tl.broker.next_due() == at
        assert tl.broker.release() == 0
        tl.broker.topic("a", key_order="locked")
    assert payloads(session) == [None, "x"]


@pytest.fixture
def in_new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "America/New_York")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("in_new_york")
def test_a_time_without_a_zone_is_one_of_this_machine(clean_dsn: str) -> None:
    noon = datetime(2090, 1, 1, 12)  # noqa: DTZ001 - it has none
    with trunkline.connect_sync(clean_dsn) as tl:
        tl.broker.publish("a", 1, deliver_at=noon)
        assert tl.broker.next_due() == datetime(2090, 1, 1, 17, tzinfo=UTC)
        tl.broker.publish_many([NewEvent("a", 2, deliver_at=noon - timedelta(hours=1))])
        assert tl.broker.next_due() == datetime(2090, 1, 1, 16, tzinfo=UTC)
        tl.broker.publish("a", 3, deliver_at=datetime.min)  # noqa: DTZ901
        assert tl.broker.tick() == 1


async def test_what_is_not_text_and_no_event_is_refused_before_anything_is_sent(
    clean_dsn: str, session: Session
) -> None:
    async with trunkline.connect(clean_dsn) as tl:
        for given in (
            {"topic": b"a"},
            {"topic": "a", "key": b"k"},
            {"topic": "a", "key": bytearray()},
        ):
            with pytest.raises(Invalid, match="is text, got byte"):
                await tl.broker.publish(payload=1, **given)
            with pytest.raises(Invalid, match="is text, got byte"):
                await tl.broker.publish_many([NewEvent(payload=1, **given)])
        for said, given in (
            ("a topic is text, got Colour", {"topic": Colour.RED}),
            ("a key is text, got Colour", {"topic": "a", "key": Colour.RED}),
            ("a key is text, got tuple", {"topic": "a", "key": ("k", 1)}),
            ("a key is text, got bool", {"topic": "a", "key": True}),
            ("deliver_at is a datetime, got float", {"topic": "a", "deliver_at": 1.5}),
            ("deliver_at is a datetime, got timedelta", {"topic": "a", "deliver_at": timedelta(1)}),
        ):
            with pytest.raises(Invalid, match=said):
                await tl.broker.publish(payload=1, **given)  # type: ignore[arg-type]
            with pytest.raises(Invalid, match=said):
                await tl.broker.publish_many([NewEvent(payload=1, **given)])  # type: ignore[arg-type]
        with pytest.raises(Invalid, match="is a NewEvent, got int"):
            await tl.broker.publish_many([1])  # type: ignore[list-item]
        with pytest.raises(Invalid, match="are a list, got NewEvent"):
            await tl.broker.publish_many(NewEvent("a", 1))  # type: ignore[arg-type]
    assert payloads(session) == []


class Colour(Enum):
    RED = "red"


async def test_numbers_and_uuids_are_keys_as_their_text_is_whatever_they_are_published_with(
    clean_dsn: str,
) -> None:
    keys: list[Any] = [7, "seven", UUID(int=7), None]
    async with trunkline.connect(clean_dsn) as tl:
        await tl.broker.publish_many([NewEvent("a", 1, key=key) for key in keys])
        for key in keys:
            await tl.broker.publish("a", 1, key=key)
        assert await tl.broker.tick() == 8
        found = [event.key for event in await tl.broker.events(1)]
    assert found == ["7", "seven", "00000000-0000-0000-0000-000000000007", None] * 2


@pytest.mark.parametrize("payload", [object(), float("inf"), {1, 2}, b"bytes"])
async def test_what_is_not_json_is_refused_before_anything_is_sent(
    clean_dsn: str, payload: object
) -> None:
    async with trunkline.connect(clean_dsn) as tl:
        with pytest.raises(Invalid, match="payload cannot be written as JSON"):
            await tl.broker.publish("a", payload)
