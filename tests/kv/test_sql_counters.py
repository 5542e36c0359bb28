"""Numbers that are added to fields of a key."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
from tests.fixtures.asking import Session, ask, call, column, refused
from tests.kv.sql_steps import (
    changes,
    configure,
    delete,
    expire,
    forget,
    get,
    head,
    patch,
    put,
    read,
    scan,
    set_clock,
    tick,
    version,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fixtures.postgres import TwoSessions

HOUR = timedelta(hours=1)
TEXT = "select trunkline.kv_get('default', 'k')::text"


def test_a_patch_of_a_missing_key_stores_it_and_later_ones_add(session: Session) -> None:
    assert patch(session, {"a": 1, "b": -5, "c": 7}) == "INSERT"
    assert get(session) == {"a": 1, "b": -5, "c": 7}
    assert patch(session, {"a": 1, "b": -5}) == "UPDATE"
    assert get(session) == {"a": 2, "b": -10, "c": 7}


def test_null_removes_a_field_and_others_stay(session: Session) -> None:
    put(session, "k", {"a": 1, "word": "x"})
    patch(session, {"a": 1, "b": 1})
    assert patch(session, {"a": None, "nobody": None}) == "UPDATE"
    assert get(session) == {"b": 1, "word": "x"}
    patch(session, {"a": 5, "b": None})
    assert get(session) == {"a": 5, "word": "x"}
    patch(session, {"word": None})
    assert get(session) == {"a": 5}


def test_a_key_without_fields_is_still_there(session: Session) -> None:
    assert patch(session, {}) == "INSERT"
    assert get(session) == {}
    patch(session, {"a": 1})
    assert patch(session, {"a": None}) == "UPDATE"
    assert get(session) == {}
    assert scan(session) == {"k": {}}
    assert put(session, "k", 1, if_version="") == "CONFLICT"
    assert put(session, "k", {}, if_version=version(session)) == "UPDATE"
    assert delete(session) == "UPDATE"
    assert patch(session, {"a": None}) == "INSERT"


def test_numbers_are_added_to_those_of_a_document(session: Session) -> None:
    put(session, "k", {"a": 10, "word": "x", "list": [1]})
    assert patch(session, {"a": 1, "b": 2}) == "UPDATE"
    assert get(session) == {"a": 11, "b": 2, "word": "x", "list": [1]}


def test_a_put_or_delete_ends_what_was_counted(session: Session) -> None:
    patch(session, {"a": 5})
    assert put(session, "k", {"a": 1}) == "UPDATE"
    assert get(session) == {"a": 1}
    patch(session, {"a": 1})
    assert get(session) == {"a": 2}
    assert delete(session) == "UPDATE"
    assert get(session) is None
    assert patch(session, {"b": 3}) == "INSERT"
    assert get(session) == {"b": 3}
    put(session, "k", "text")
    assert get(session) == "text"


def test_sums_are_exact(session: Session) -> None:
    for _ in range(10):
        patch(session, {"a": 0.1})
    session.execute(
        "select trunkline.kv_patch_numeric('default', 'k', '{\"b\": 123456789012345678901234567890,"
        ' "c": 1e-30}\')'
    )
    patch(session, {"b": 1, "c": 1})
    row = session.execute(
        "select v -> 'a', (v ->> 'b')::numeric, (v ->> 'c')::numeric"
        " from trunkline.kv_get('default', 'k') v"
    ).fetchone()
    assert row == (1, 123456789012345678901234567891, Decimal("1." + "0" * 29 + "1"))


def test_what_cannot_be_added_to_is_left_alone(session: Session) -> None:
    put(session, "number", 5)
    put(session, "text", {"a": "x", "b": None, "c": 1})
    for key, offsets in (("number", {"a": 1}), ("text", {"c": 1, "a": 1}), ("text", {"b": 1})):
        with refused("TL422"):
            patch(session, offsets, key)
    assert scan(session) == {"number": 5, "text": {"a": "x", "b": None, "c": 1}}
    patch(session, {"a": None}, "text")
    assert patch(session, {"a": 1}, "text") == "UPDATE"


def test_a_sum_never_becomes_too_large_to_be_read(session: Session) -> None:
    with refused("TL422"):
        session.execute(
            "select trunkline.kv_patch_numeric('default', 'k', '{\"a\": 9e131071}'::jsonb)"
        )
    session.execute("select trunkline.kv_put('default', 'k', '{\"a\": 9e131071}'::jsonb)")
    with refused("TL422"):
        patch(session, {"a": 1})
    patch(session, {"b": 1})
    assert "9" in ask(session, TEXT)


# Time


def test_the_last_patch_says_how_long_a_key_lives(session: Session) -> None:
    for first in (lambda: patch(session, {"a": 1}), lambda: put(session, "k", {"a": 1})):
        first()
        patch(session, {"a": 1}, ttl=HOUR)
        entry = read(session)
        assert entry is not None
        assert entry.expires_at is not None
        patch(session, {"a": 1})
        entry = read(session)
        assert entry is not None
        assert (entry.value, entry.expires_at) == ({"a": 3}, None)
        patch(session, {"a": 1}, ttl=HOUR)
        expire(session, "k")
        assert get(session) is None
        assert patch(session, {"a": 1}) == "INSERT"
        assert get(session) == {"a": 1}
        delete(session)


def test_a_patch_lets_a_document_live_as_long_as_itself(session: Session) -> None:
    put(session, "k", {"a": 1, "word": "x"}, ttl=HOUR)
    patch(session, {"a": 1})
    expire(session, "k")
    assert get(session) == {"a": 2, "word": "x"}


def test_what_has_expired_does_not_count_again(session: Session) -> None:
    patch(session, {"a": 5}, ttl=HOUR)
    expire(session, "k")
    patch(session, {"a": 1})
    assert get(session) == {"a": 1}


def test_upkeep_ends_what_was_counted_for_expired_keys_once(session: Session) -> None:
    patch(session, {"a": 5}, ttl=HOUR)
    patch(session, {"a": 5}, "lives")
    tick(session)
    expire(session, "k")
    call(session, "kv_expire")
    assert tick(session) == 0  # somebody may have kept it alive in time
    call(session, "kv_put", namespace="default", key="other", value="1")
    session.execute("update trunkline.kv_entry set dead_at = dead_at - interval '61 minutes'")
    tick(session)
    start = head(session)
    assert call(session, "kv_expire") == [(False,)]
    assert tick(session) == 1
    assert changes(session, start)[0].key == "k"
    call(session, "kv_expire")
    assert tick(session) == 0
    assert get(session, "lives") == {"a": 5}


def test_a_policy_holds_for_patches_too(session: Session) -> None:
    call(session, "kv_policy_put", namespace="default", policy="short", keep=HOUR)
    patch(session, {"a": 1}, policy="short")
    entry = read(session)
    assert entry is not None
    assert entry.expires_at is not None


def test_counters_go_with_the_key(session: Session) -> None:
    configure(session, dead_keep="0")
    patch(session, {"a": 1})
    delete(session)
    assert forget(session) == ["k"]
    assert column(session, "select field from trunkline.kv_counter") == []
    patch(session, {"a": 1})
    assert get(session) == {"a": 1}


def test_a_clock_that_goes_back_loses_no_count(session: Session) -> None:
    for ahead in (0, -10, 5, -3600, 0):
        set_clock(session, ahead)
        patch(session, {"a": 1})
    assert get(session) == {"a": 5}


# Races


def test_a_patch_waits_for_another_and_adds_to_it(session: Session, racing: TwoSessions) -> None:
    add = "select trunkline.kv_patch_numeric('default', 'k', '{\"a\": 1}')"
    for before in (None, {"a": 1}):  # a missing key, and one that is there
        patch(racing.a, {"a": 1})
        waiting = racing.later(racing.b, add)
        racing.blocked_by(racing.a, racing.b)
        racing.a.commit()
        assert waiting.result(10).fetchone() == ("UPDATE",)
        racing.b.commit()
        assert get(session) == {"a": 2 if before is None else 4}


def test_a_patch_after_a_put_that_it_waited_for_adds_to_it(
    session: Session, racing: TwoSessions
) -> None:
    patch(session, {"a": 100})
    put(racing.a, "k", {"a": 10})
    waiting = racing.later(
        racing.b, "select trunkline.kv_patch_numeric('default', 'k', '{\"a\": 1}')"
    )
    racing.blocked_by(racing.a, racing.b)
    racing.a.commit()
    waiting.result(10)
    racing.b.commit()
    assert get(session) == {"a": 11}


def test_a_put_after_a_patch_that_it_waited_for_ends_it(
    session: Session, racing: TwoSessions
) -> None:
    for first in (None, {"a": 5}):
        if first:
            patch(session, first)
        patch(racing.a, {"a": 1, "b": 1})
        waiting = racing.later(racing.b, "select trunkline.kv_put('default', 'k', '{\"a\": 10}')")
        racing.blocked_by(racing.a, racing.b)
        racing.a.commit()
        assert waiting.result(10).fetchone() == ("UPDATE",)
        racing.b.commit()
        assert get(session) == {"a": 10}
        patch(session, {"a": 1})
        assert get(session) == {"a": 11}
        delete(session)


def test_increments_of_many_sessions_add_up(
    session: Session, connect: Callable[..., Session]
) -> None:
    sessions = [connect() for _ in range(4)]

    def add(mine: Session) -> None:
        for _ in range(25):
            patch(mine, {"a": 1, "b": -2})

    with ThreadPoolExecutor(len(sessions)) as threads:
        list(threads.map(add, sessions))
    assert get(session) == {"a": 100, "b": -200}


@pytest.mark.parametrize("ttl", [None, HOUR])
def test_a_rollback_takes_back_what_was_added(
    session: Session, connect: Callable[..., Session], ttl: timedelta | None
) -> None:
    patch(session, {"a": 1})
    writer = connect(autocommit=False)
    patch(writer, {"a": 5, "b": 1}, ttl=ttl)
    writer.rollback()
    assert get(session) == {"a": 1}
