"""Who may consume and manage groups, subscriptions and webhooks; quotas of publishers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.broker.groups import Member, last_delivery, match, read, subscribe
from tests.broker.steps import events, publish, tick
from tests.fixtures.asking import ask, call, column, refused
from tests.fixtures.roles import login_roles, name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.fixtures.asking import Session
    from tests.fixtures.roles import Role

CONSUME = 'needs the privilege "consume" on group:billing'
MANAGE = 'needs the privilege "manage" on group:billing'


@pytest.fixture
def role(session: Session, connect: Callable[..., Session]) -> Iterator[Role]:
    with login_roles(session, connect) as make:
        yield make
        for kind in ("broker_webhook", "broker_group"):
            session.execute(f"delete from trunkline.{kind}")


@pytest.fixture
def owner(role: Role) -> Session:
    """A writer who made the group billing, with an event in it."""
    made = role("trunkline_writer")
    subscribe(made, "billing", {"topic": "order"}, handler="bill")
    return made


@pytest.fixture
def closed(session: Session) -> None:
    """New objects are for their owners."""
    call(session, "config_set", name="objects.open", value="false")


def grant(session: Session, privilege: str, to: Session, what: str = "group:billing") -> None:
    call(session, "grant_on", object=what, privilege=privilege, role=name_of(to))


ATTACKS: dict[str, dict[str, Any]] = {
    "broker_subscribe": {"handler": "mine"},
    "broker_group": {},
    "broker_read": {"peek": True},
    "broker_join": {"handler": "bill", "process": "00000000-0000-0000-0000-000000000001"},
    "broker_leave": {"handler": "bill", "process": "00000000-0000-0000-0000-000000000001"},
    "broker_commit": {"handler": "bill", "lane": 0, "epoch": 1, "up_to": 1},
    "broker_progress": {"handler": "bill", "up_to": 1},
    "broker_fetch": {"handler": "bill", "lanes": [0], "after": [0]},
    "broker_look": {"handler": "bill", "lanes": [0]},
    "broker_fail": {
        "handler": "bill",
        "lane": 0,
        "epoch": 1,
        "deliveries": [1],
        "error": "x",
    },
    "broker_park": {"handler": "bill", "lane": 0, "epoch": 1, "deliveries": [1]},
    "broker_retries": {"handler": "bill", "lane": 0, "epoch": 1},
    "broker_retried": {"handler": "bill", "lane": 0, "epoch": 1, "batch": 1},
    "broker_trial": {"handler": "bill", "lane": 0, "epoch": 1, "delivery": 1},
    "broker_deliveries": {"from_delivery": 1, "to_delivery": 9},
    "broker_dead_retry": {"handler": "bill"},
    "broker_dead_discard": {"handler": "bill"},
}
MANAGED: dict[str, dict[str, Any]] = {
    "broker_group_delete": {},
    "broker_handler_delete": {"handler": "bill"},
    "broker_seek": {"handler": "bill", "up_to": 0},
}


@pytest.mark.usefixtures("closed", "owner")
@pytest.mark.parametrize("function", ATTACKS)
def test_no_role_consumes_the_group_of_another(role: Role, function: str) -> None:
    with refused("TL403", CONSUME):
        call(role("trunkline_writer"), function, group_name="billing", **ATTACKS[function])


@pytest.mark.usefixtures("owner")
@pytest.mark.parametrize("function", MANAGED)
def test_no_role_manages_the_group_of_another(role: Role, function: str) -> None:
    with refused("TL403", MANAGE):
        call(role("trunkline_writer"), function, group_name="billing", **MANAGED[function])


@pytest.mark.usefixtures("closed")
def test_a_reader_cannot_skip_the_events_of_an_idle_handler(
    session: Session, owner: Session, role: Role
) -> None:
    publish(owner, "order", 1)
    match(session)
    reader = role("trunkline_reader")
    with refused("TL403", CONSUME):
        Member(reader, handler="bill").join()
    lanes: dict[str, Any] = {"group_names": ["billing"], "handlers": ["bill"], "lanes": [0]}
    more = {"epochs": [1], "up_tos": [last_delivery(session)], "cuts": [None]}
    assert call(reader, "_broker_cut_many", **lanes, **more) == [([],)]
    (row,) = call(reader, "_broker_fetch_many", **lanes, after=[0], most=[9])
    assert set(row[1:]) == {None}
    assert [one.payload for one in read(owner, "billing", handler="bill")] == [1]


@pytest.mark.usefixtures("closed")
def test_a_role_that_was_granted_consume_works_and_does_not_manage(
    session: Session, owner: Session, role: Role
) -> None:
    worker = role("trunkline_writer")
    grant(owner, "consume", worker)
    publish(owner, "order", 1)
    match(session)
    Member(worker, handler="bill").commit_all()
    assert read(owner, "billing", handler="bill") == []
    with refused("TL403", MANAGE):
        call(worker, "broker_seek", group_name="billing", handler="bill", up_to=0)
    grant(owner, "manage", worker)
    call(worker, "broker_seek", group_name="billing", handler="bill", up_to=0)


def test_a_subscription_is_ended_and_replaced_by_its_owner_and_by_managers(
    session: Session, owner: Session, role: Role
) -> None:
    other = role("trunkline_writer")
    (one,) = column(owner, "select subscription from trunkline.broker_subscriptions()")
    with refused("TL403", MANAGE):
        call(other, "broker_unsubscribe", subscription=one)
    with refused("TL403", MANAGE):
        subscribe(other, "billing", {"topic": "x"}, handler="bill", replace=True)
    with refused("TL403", MANAGE):
        call(other, "broker_resume", subscription=one)
    mine = subscribe(other, "billing", {"topic": "x"}, handler="other")
    assert call(other, "broker_unsubscribe", subscription=mine) == [(True,)]
    grant(owner, "manage", other)
    assert call(other, "broker_unsubscribe", subscription=one) == [(True,)]
    assert call(other, "broker_unsubscribe", subscription=one) == [(False,)]


def test_listings_show_owners(session: Session, owner: Session) -> None:
    call(owner, "broker_webhook_add", group_name="billing", url="https://example.com/")
    for listing in ("broker_groups()", "broker_subscriptions()", "broker_webhook_list()"):
        owners = column(session, f"select distinct owner from trunkline.{listing}")
        assert owners == [name_of(owner)]


def test_a_webhook_is_managed_by_its_owner(owner: Session, role: Role) -> None:
    other = role("trunkline_writer")
    number = call(owner, "broker_webhook_add", group_name="billing", url="https://example.com/")[0][
        0
    ]
    for function, given in {
        "broker_webhook_pause": {},
        "broker_webhook_resume": {},
        "broker_webhook_rotate": {"secret": "x" * 32},
        "broker_webhook_remove": {},
    }.items():
        with refused("TL403", f'"manage" on webhook:{number}'):
            call(other, function, webhook=number, **given)
    with refused("TL403", MANAGE):
        subscribe(other, "billing", {"topic": "x"}, handler=f"webhook:{number}", replace=True)
    call(owner, "broker_webhook_remove", webhook=number)


@pytest.mark.usefixtures("closed")
def test_dead_letters_are_for_those_who_consume_the_group(
    session: Session, owner: Session, role: Role
) -> None:
    publish(owner, "order", {"secret": 1})
    match(session)
    member = Member(owner, handler="bill")
    found = ask(session, "select lane from trunkline.delivery")
    (lane,) = [share for share in member.join() if share.lane == found]
    call(
        owner,
        "broker_fail",
        group_name="billing",
        handler="bill",
        lane=lane.lane,
        epoch=lane.epoch,
        deliveries=[1],
        error="boom",
    )
    (letter,) = column(owner, "select retry from trunkline.broker_dead_list()")
    other = role("trunkline_writer")
    assert call(other, "broker_dead_list") == []
    for function in ("broker_dead_show", "broker_dead_retry", "broker_dead_discard"):
        with refused("TL403", CONSUME):
            call(other, function, retry=letter)
    call(owner, "broker_dead_discard", retry=letter)


def test_quotas_count_what_is_published(session: Session, role: Role) -> None:
    writer = role("trunkline_writer")
    call(session, "quota_set", role=name_of(writer), messages_per_second=2)
    with refused("TL429", "may write 2 messages a second"):
        for _ in range(20):
            publish(writer, "order", 1)
    with refused("TL429", "may write 2 messages a second"):
        for _ in range(20):
            call(writer, "broker_publish_many", topics=["a"] * 5, payloads=["1"] * 5)
    publish(session, "order", 1)
    tick(session)
    assert 1 <= len(events(session)) < 20
    call(session, "quota_set", role=name_of(writer))
    publish(writer, "order", 1)
    assert ask(session, "select count(*) from trunkline.quota") == 0
