"""Subscribing from Python: conditions built from parts, and processes that hold what they want."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.broker.steps import publish, tick
from tests.fixtures.asking import ask, call

import trunkline
from trunkline.broker.conditions import all_of, any_of, as_text, filters, none_of, topics
from trunkline.core.errors import Invalid, NotFound

if TYPE_CHECKING:
    from tests.fixtures.asking import Session

HOUR = timedelta(hours=1)


def test_conditions_are_built_from_parts() -> None:
    assert topics("orders.*") == {"topic": "orders.*"}
    assert topics("a", "b.#", key=("x", "y"), eq={"payload.tenant": 5}) == {
        "topic": ["a", "b.#"],
        "key": ["x", "y"],
        "eq": {"payload.tenant": 5},
    }
    assert filters(one_of={"payload.n": range(2)}, ranges={"payload.n": {"gte": 1}}) == {
        "in": {"payload.n": [0, 1]},
        "range": {"payload.n": {"gte": 1}},
    }
    assert any_of(topics("a"), all_of(topics("b"), filters(contains={"payload": {}}))) == {
        "or": [{"topic": "a"}, {"and": [{"topic": "b"}, {"contains": {"payload": {}}}]}]
    }
    assert none_of(topics("a")) == {"not": {"or": [{"topic": "a"}]}}
    assert as_text(topics("größe")) == '{"topic": "größe"}'


def test_an_empty_list_of_topics_or_conditions_is_refused() -> None:
    for empty in (topics, all_of, any_of, none_of):
        with pytest.raises(Invalid, match="at least one"):
            empty()
    strange: Any = ["topic"]
    for condition in (strange, {"eq": {"payload": object()}}, {"eq": {"payload": float("nan")}}):
        with pytest.raises(Invalid):
            as_text(condition)


async def test_a_topic_with_filters_matches_only_when_all_of_them_do(
    clean_dsn: str, session: Session
) -> None:
    async with trunkline.connect(clean_dsn) as tl:
        wanted = topics("orders.*", "stock.#", eq={"payload.tenant": 5}, key="k")
        for topic, tenant, key in (
            ("orders.new", 5, "k"),
            ("stock", 5, "k"),
            ("orders.new", 6, "k"),
            ("orders.new", 5, "x"),
            ("invoices", 5, "k"),
        ):
            publish(session, topic, {"tenant": tenant}, key=key)
        tick(session)
        explained = await tl.broker.explain(wanted)
        assert (explained.events, explained.matches, explained.way) == (5, 2, "index")
        subscription = await tl.broker.subscribe("billing", wanted)
        assert await tl.broker.subscribe("billing", wanted) == subscription
        (listed,) = await tl.broker.subscriptions("billing")
        assert (listed.subscription, listed.state) == (subscription, "live")
        assert await tl.broker.unsubscribe(subscription)
        with pytest.raises(NotFound):
            await tl.broker.resume(subscription)


async def test_a_subscription_with_expiry_is_held_by_the_process_that_made_it(
    clean_dsn: str, session: Session
) -> None:
    async with trunkline.connect(clean_dsn) as tl:
        subscription = await tl.broker.subscribe("page", topics("#"), expiry=HOUR)
        async with trunkline.connect(clean_dsn) as other:
            await other.broker.hold(subscription)
            (listed,) = await tl.broker.subscriptions()
            assert listed.holders == 2
        (listed,) = await tl.broker.subscriptions()
        assert listed.holders == 1
    call(session, "broker_expire")
    session.execute(
        "update trunkline.broker_subscription set idle_since = idle_since - interval '1 hour'"
    )
    call(session, "broker_expire")
    assert ask(session, "select count(*) from trunkline.broker_group") == 0


async def test_a_subscription_belongs_to_the_transaction_it_is_made_in(clean_dsn: str) -> None:
    async with trunkline.connect(clean_dsn) as tl:
        async with await psycopg.AsyncConnection.connect(clean_dsn) as connection:
            await tl.broker.subscribe("billing", "e.topic = 'a'", on=connection)
            await connection.rollback()
        assert await tl.broker.subscriptions() == []


def test_the_blocking_client_does_the_same(clean_dsn: str) -> None:
    with trunkline.connect_sync(clean_dsn) as tl:
        subscription = tl.broker.subscribe(
            "billing", "e.topic = s.params ->> 'topic'", {"topic": "a"}, expiry=HOUR, handler="h"
        )
        tl.broker.hold(subscription)
        (listed,) = tl.broker.subscriptions("billing")
        assert (listed.holders, listed.way, listed.params) == (1, "index", {"topic": "a"})
        assert tl.broker.explain("true").error is None
        assert tl.broker.unsubscribe(subscription)
        assert not tl.broker.unsubscribe(subscription)
