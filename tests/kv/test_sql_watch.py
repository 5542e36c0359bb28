"""Watching: which keys changed after a position, and what they say now."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from tests.fixtures.asking import Session, ask, call, refused, writing_nothing
from tests.kv.sql_steps import (
    Change,
    changes,
    configure,
    delete,
    expire,
    forget,
    head,
    patch,
    put,
    put_many,
    tick,
    version,
)

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def start(session: Session) -> int:
    tick(session)
    return head(session)


def told(session: Session, after: int, **options: object) -> list[tuple[str, object]]:
    """Keys that changed, with their values."""
    tick(session)
    return [(c.key, c.value) for c in changes(session, after, **options) if c.key is not None]


def test_a_change_is_told_with_what_the_key_says_now(session: Session, start: int) -> None:
    put(session, "k", 1, ttl=timedelta(hours=1))
    tick(session)
    change, end = changes(session, start)
    assert change[:4] == (start + 1, "k", 1, version(session))
    assert change.expires_at is not None
    assert end == Change(start + 1, None, None, None, None)


def test_without_a_change_only_the_position_is_told(session: Session, start: int) -> None:
    with writing_nothing(session):
        assert changes(session, start) == [Change(start, None, None, None, None)]


def test_a_key_that_changed_often_is_told_once_where_it_changed_last(
    session: Session, start: int
) -> None:
    for key in ("a", "b", "a", "c", "a"):
        put(session, key, key)
    tick(session)
    found = changes(session, start)
    assert [(c.up_to - start, c.key) for c in found] == [(2, "b"), (4, "c"), (5, "a"), (5, None)]


def test_deletes_patches_and_what_has_expired_are_told(session: Session, start: int) -> None:
    put(session, "gone", 1)
    delete(session, "gone")
    patch(session, {"n": 1}, "counted")
    patch(session, {"n": 1}, "counted")
    put(session, "short", 1, ttl=timedelta(hours=1))
    expire(session, "short")
    assert told(session, start) == [("gone", None), ("counted", {"n": 2}), ("short", None)]


def test_a_key_that_was_forgotten_is_told_as_gone(session: Session, start: int) -> None:
    configure(session, dead_keep="0")
    delete(session)
    forget(session)
    tick(session)
    assert changes(session, start)[0] == Change(start + 1, "k", None, None, None)


def test_a_prefix_and_a_namespace_leave_others_out_but_the_position_goes_on(
    session: Session, start: int
) -> None:
    call(session, "kv_namespace_put", namespace="other")
    put_many(session, {"a/1": 1, "a%": 1, "b/1": 1})
    put(session, "a/2", 1, namespace="other")
    assert told(session, start, prefix="a/") == [("a/1", 1)]
    assert told(session, start, namespace="other") == [("a/2", 1)]
    assert told(session, start, prefix="a_") == []
    assert changes(session, start, prefix="nobody")[-1].up_to == head(session)


def test_changes_are_told_in_parts(session: Session, start: int) -> None:
    names = [str(number) for number in range(7)]
    for name in names:
        put(session, name)
    tick(session)
    found: list[str | None] = []
    after = start
    while after < head(session):
        part = changes(session, after, max_changes=3)
        assert part[-1].up_to - after <= 3
        found += [change.key for change in part[:-1]]
        after = part[-1].up_to
    assert found == names


def test_what_is_committed_late_comes_later_and_is_not_missed(
    session: Session, connect: Callable[..., Session], start: int
) -> None:
    slow = connect(autocommit=False)
    put(slow, "slow")
    put(session, "quick")
    assert told(session, start) == [("quick", 1)]
    seen = head(session)
    slow.commit()
    assert told(session, seen) == [("slow", 1)]


def test_a_position_that_is_not_of_this_history_is_refused(session: Session, start: int) -> None:
    with refused("TL410"):
        changes(session, start + 1)
    for position in (-1, None):
        with refused("TL422"):
            call(session, "kv_changes", namespace="default", after_position=position)


def test_what_has_left_is_refused_with_the_first_there_is(session: Session, start: int) -> None:
    put(session)
    tick(session)
    put(session)
    tick(session)
    session.execute("begin")  # as a rotation leaves it
    session.execute(
        "delete from trunkline.tick where sequence = 'kv_change' and first_position <= %s",
        [start + 1],
    )
    with refused("TL410") as caught:
        changes(session, start)
    assert str(start + 2) in (caught.value.diag.message_detail or "")
    session.execute("rollback")
    assert ask(session, "select trunkline.kv_head()") == start + 2
