"""A handler keeps its subscription unless another one replaces it by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.broker.groups import match, received, subscribe
from tests.broker.steps import publish
from tests.fixtures.asking import call, column, refused

import trunkline

if TYPE_CHECKING:
    from tests.fixtures.asking import Session


def present(session: Session) -> list[int]:
    return column(session, "select subscription from trunkline.broker_subscriptions('billing')")


def test_another_subscription_of_a_handler_is_refused(session: Session) -> None:
    first = subscribe(session, condition={"topic": "a"}, params={"n": 1}, handler="h")

    with refused("TL409") as why:
        subscribe(session, condition={"topic": "b"}, handler="h")

    assert f'handler "h" of group "billing" has subscription {first}' in str(why.value)
    assert '{"topic": "a"} and params {"n": 1}' in str(why.value)
    assert "replace => true" in (why.value.diag.message_hint or "")
    assert present(session) == [first]
    publish(session, "a", 1)
    publish(session, "b", 2)
    assert received(session, handler="h") == [1]


def test_another_subscription_replaces_the_first_when_asked_to(session: Session) -> None:
    subscribe(session, condition={"topic": "a"}, handler="h")
    publish(session, "a", 1)
    match(session)
    second = subscribe(session, condition={"topic": "b"}, handler="h", replace=True)
    publish(session, "b", 2)

    assert present(session) == [second]
    assert received(session, handler="h") == [1, 2]


def test_the_same_subscription_again_replaces_nothing(session: Session) -> None:
    first = subscribe(session, condition={"topic": "a"}, handler="h")
    assert subscribe(session, condition={"topic": "a"}, handler="h") == first
    assert subscribe(session, condition={"topic": "a"}, handler="h", replace=True) == first


def test_a_handler_whose_subscription_ended_takes_another(session: Session) -> None:
    call(
        session, "broker_unsubscribe", subscription=subscribe(session, params={"n": 1}, handler="h")
    )
    subscribe(session, condition={"topic": "b"}, handler="h")


def test_a_handler_of_the_whole_group_sees_every_subscription(session: Session) -> None:
    subscribe(session, condition={"topic": "a"})
    call(session, "broker_read", group_name="billing", handler="all")
    subscribe(session, condition={"topic": "b"}, handler="all")
    publish(session, "a", 1)
    publish(session, "b", 2)
    match(session)
    assert received(session, handler="all") == [1, 2]


def test_replace_needs_a_handler(session: Session) -> None:
    with refused("TL422") as why:
        subscribe(session, replace=True)
    assert "name the handler too" in str(why.value)


async def test_the_client_refuses_and_replaces(session: Session, clean_dsn: str) -> None:
    async with trunkline.connect(clean_dsn) as tl:
        await tl.broker.subscribe("billing", {"topic": "a"}, handler="h")
        with pytest.raises(trunkline.Conflict, match="has subscription"):
            await tl.broker.subscribe("billing", {"topic": "b"}, handler="h")
        second = await tl.broker.subscribe("billing", {"topic": "b"}, handler="h", replace=True)
        assert present(session) == [second]
