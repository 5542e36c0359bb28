"""Groups and handlers that change under those who read them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from tests.broker.groups import Member, blocked, match, read, subscribe
from tests.broker.steps import publish, tick
from tests.fixtures.asking import ask, call, refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fixtures.asking import Session


def test_who_joins_a_group_that_is_being_deleted_learns_that_it_is_not_there(
    session: Session, other: Session, connect: Callable[..., Session]
) -> None:
    subscribe(session)
    call(other, "broker_group_delete", group_name="billing")
    joining = connect()
    with ThreadPoolExecutor(1) as threads:
        joined = threads.submit(Member(joining, handler="new").join)
        blocked(joining, by=other, watcher=session)
        other.commit()

        with refused("TL404"):
            joined.result(10)


def test_a_handler_whose_subscription_changes_while_positions_move_up_misses_nothing(
    session: Session, other: Session, connect: Callable[..., Session]
) -> None:
    subscribe(session, condition={"topic": "rare"}, handler="h", lanes=1)
    subscribe(session, condition={"topic": "all"}, handler="other")
    session.execute(
        "select trunkline.broker_publish_many(array_fill('all'::text, array[1500]),"
        " array_fill('1'::jsonb, array[1500]))"
    )
    publish(session, "new")
    tick(session)
    keeper = connect()
    other.execute("lock table trunkline.delivery in access exclusive mode")
    with ThreadPoolExecutor(1) as threads:
        moved = threads.submit(keeper.execute, "select trunkline.broker_cursors_advance()")
        blocked(keeper, by=other, watcher=session)
        subscribe(other, condition={"topic": "new"}, handler="h", replace=True)
        ask(other, "select trunkline.broker_match()")
        other.commit()
        moved.result(10)

    assert [one.topic for one in read(session, handler="h")] == ["new"]


def test_a_handler_made_anew_fences_who_worked_for_the_old_one(session: Session) -> None:
    subscribe(session, lanes=1)
    publish(session, "a")
    match(session)
    old = Member(session, handler="h")
    [share] = old.join()
    session.execute("update trunkline.lease set expires = now() - interval '1 minute'")
    call(session, "broker_handler_delete", group_name="billing", handler="h")
    Member(session, handler="h").join()

    with refused("TL423"):
        old.commit(share.lane, share.epoch, 1)
