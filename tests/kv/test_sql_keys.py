"""Keys: reading, putting, deleting, comparing, expiring and listing them."""

from __future__ import annotations

from concurrent.futures import FIRST_COMPLETED, wait
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest
from tests.fixtures.asking import Session, ask, call, column, refused, writing_nothing
from tests.kv.sql_steps import (
    SECOND,
    SPACE,
    changes,
    clock,
    configure,
    delete,
    expire,
    forget,
    get,
    head,
    patch,
    put,
    put_many,
    read,
    remembered,
    scan,
    set_clock,
    stamps,
    tick,
    version,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fixtures.postgres import TwoSessions

HOUR = timedelta(hours=1)
PUT = "select trunkline.kv_put('default', 'k', %s)"


# Reading and writing


def test_an_unknown_key_is_null(session: Session) -> None:
    assert get(session, "nobody") is None
    assert read(session, "nobody") is None


def test_the_first_put_inserts_and_the_next_updates(session: Session) -> None:
    assert put(session, "k", {"a": 1}) == "INSERT"
    assert put(session, "k", {"b": 2}) == "UPDATE"
    assert get(session) == {"b": 2}


@pytest.mark.parametrize("value", [None, 0, "", [], {}, False, "ä€😀", {"a": {"b": [1, None]}}])
def test_a_value_is_any_json(session: Session, value: object) -> None:
    """JSON null is a value: the key is there."""
    assert put(session, "k", value) == "INSERT"
    assert get(session) == value
    assert put(session, "k", value) == "UPDATE"
    assert read(session) is not None


def test_a_deleted_key_is_null_and_may_be_put_again(session: Session) -> None:
    put(session)
    assert delete(session) == "UPDATE"
    assert get(session) is None
    assert scan(session) == {}
    assert put(session) == "INSERT"
    assert get(session) == 1


def test_deleting_an_unknown_key_is_remembered_and_told(session: Session) -> None:
    tick(session)
    start = head(session)
    assert delete(session) == "INSERT"
    assert remembered(session) == ["k"]
    tick(session)
    assert [change.key for change in changes(session, start)] == ["k", None]


def test_keys_are_told_apart_by_every_byte(session: Session) -> None:
    names = ["k", "K", "k ", " k", "kk", "k/", "ä", "a\u0308", "k\n", "k" * 512]
    put_many(session, {name: name for name in names})
    assert {name: get(session, name) for name in names} == {name: name for name in names}


def test_namespaces_are_apart(session: Session) -> None:
    assert call(session, "kv_namespace_put", namespace="other") == [(True,)]
    assert call(session, "kv_namespace_put", namespace="other") == [(False,)]
    put(session, "k", 1)
    assert put(session, "k", 2, namespace="other") == "INSERT"
    assert (get(session), get(session, "k", "other")) == (1, 2)
    assert scan(session) == {"k": 1}


def test_a_put_is_part_of_the_transaction(
    session: Session, connect: Callable[..., Session]
) -> None:
    writer = connect(autocommit=False)
    put(writer, "k", 1)
    assert get(session) is None
    writer.rollback()
    put(writer, "k", 2)
    writer.commit()
    assert get(session) == 2


# Stamps


def test_a_put_that_is_older_than_what_is_there_conflicts_and_changes_nothing(
    session: Session,
) -> None:
    now = clock(session)
    assert put(session, "k", "new", stamp=now) == "INSERT"
    tick(session)
    before, seen = stamps(session), head(session)
    for stamp in (now, now - 1, 1):
        assert put(session, "k", "old", stamp=stamp) == "CONFLICT"
    assert get(session) == "new"
    assert stamps(session) == before
    tick(session)
    assert head(session) == seen
    assert put(session, "k", "newer", stamp=now + 1) == "UPDATE"


def test_a_stamp_from_before_a_delete_brings_nothing_back(session: Session) -> None:
    put(session)
    before = clock(session)
    delete(session)
    assert put(session, "k", "late", stamp=before) == "CONFLICT"
    assert get(session) is None
    configure(session, dead_keep="0")
    assert forget(session) == ["k"]
    assert put(session, "k", "late", stamp=before) == "CONFLICT"
    assert get(session) is None
    assert put(session, "k", "new", stamp=clock(session)) == "INSERT"


def test_of_two_writes_the_later_has_the_higher_stamp_whatever_the_clock_does(
    session: Session,
) -> None:
    put(session, "k", 1)
    for value, ahead in enumerate((-10, 0, -3600, 10, 0), start=2):
        before = stamps(session)[0]
        set_clock(session, ahead)
        assert put(session, "k", value) == "UPDATE"
        assert get(session) == value
        assert stamps(session)[0] > before


def test_a_write_of_a_transaction_that_began_earlier_is_not_refused(
    session: Session, connect: Callable[..., Session]
) -> None:
    early = connect(autocommit=False)
    get(early, "other")
    put(session, "k", "first")
    assert put(early, "k", "second") == "UPDATE"
    early.commit()
    assert get(session) == "second"


# Comparing


def test_a_put_with_the_version_that_is_there_succeeds_once(session: Session) -> None:
    put(session, "k", 1)
    seen = version(session)
    assert put(session, "k", 2, if_version=seen) == "UPDATE"
    assert put(session, "k", 3, if_version=seen) == "CONFLICT"
    assert delete(session, if_version=seen) == "CONFLICT"
    assert get(session) == 2
    assert delete(session, if_version=version(session)) == "UPDATE"
    assert put(session, "k", 3, if_version=seen) == "CONFLICT"


def test_a_put_for_a_key_that_must_not_be_there(session: Session) -> None:
    assert put(session, "k", 1, if_version="") == "INSERT"
    assert put(session, "k", 2, if_version="") == "CONFLICT"
    delete(session)
    assert put(session, "k", 3, if_version="") == "INSERT"
    put(session, "k", 4, ttl=HOUR)
    expire(session, "k")
    assert put(session, "k", 5, if_version="") == "INSERT"
    assert get(session) == 5


def test_a_conflict_leaves_no_trace(session: Session) -> None:
    put(session, "k", 1)
    tick(session)
    start = head(session)
    assert put(session, "new", 2, if_version="1-1") == "CONFLICT"
    assert put(session, "k", 2, if_version="1-1") == "CONFLICT"
    assert delete(session, "gone", if_version="1-1") == "CONFLICT"
    assert tick(session) == 0
    assert head(session) == start
    assert remembered(session) == ["k"]


def test_a_patch_changes_the_version(session: Session) -> None:
    """Otherwise who read before it would put over what was added."""
    for first in (lambda: put(session, "k", {"a": 1}), lambda: patch(session, {"a": 1})):
        first()
        seen = version(session)
        patch(session, {"a": 1})
        assert put(session, "k", {"a": 10}, if_version=seen) == "CONFLICT"
        assert get(session) == {"a": 2}
        again = version(session)
        patch(session, {"a": None})
        assert version(session) != again
        assert put(session, "k", {"a": 10}, if_version=version(session)) == "UPDATE"
        delete(session)


# Expiry


def test_an_expired_key_is_never_read(session: Session) -> None:
    put(session, "k", 1, ttl=HOUR)
    put(session, "stays", 2)
    tick(session)
    entry = read(session)
    assert entry is not None
    assert entry.expires_at is not None
    assert timedelta() < entry.expires_at - datetime.now(UTC) <= HOUR
    expire(session, "k")
    assert get(session) is None
    assert read(session) is None
    assert scan(session) == {"stays": 2}
    assert [change.value for change in changes(session, head(session) - 2)] == [None, 2, None]
    assert put(session, "k", 3) == "INSERT"


def test_the_last_put_says_how_long_a_key_lives(session: Session) -> None:
    put(session, "k", 1, ttl=HOUR)
    put(session, "k", 2)
    entry = read(session)
    assert entry is not None
    assert entry.expires_at is None
    put(session, "k", 3, ttl=HOUR)
    delete(session)
    put(session, "k", 4)
    assert read(session) == ("k", 4, version(session), None)


def test_a_policy_says_how_long_keys_of_a_namespace_live(session: Session) -> None:
    put_policy = {"namespace": SPACE, "policy": "short"}
    assert call(session, "kv_policy_put", **put_policy, keep=HOUR) == [(True,)]
    assert call(session, "kv_policy_put", **put_policy, keep=HOUR) == [(False,)]
    put(session, "old", 1, policy="short")
    assert call(session, "kv_policy_put", **put_policy, keep=2 * HOUR) == [(True,)]
    put_many(session, {"new": 1}, policy="short")
    assert [row[:3] for row in call(session, "kv_policies")] == [(SPACE, "short", 2 * HOUR)]
    old, new = read(session, "old"), read(session, "new")
    assert old is not None
    assert new is not None
    assert old.expires_at is not None
    assert new.expires_at is not None
    assert timedelta(minutes=59) < new.expires_at - old.expires_at < timedelta(minutes=61)
    assert call(session, "kv_policy_drop", **put_policy) == [(True,)]
    assert call(session, "kv_policy_drop", **put_policy) == [(False,)]
    assert get(session, "old") == 1
    with refused("TL404"):
        put(session, "k", 1, policy="short")


def test_expired_keys_are_forgotten_and_others_never(session: Session) -> None:
    put_many(session, {"short": 1, "refreshed": 1}, ttl=HOUR)
    put_many(session, {"forever": 1})
    patch(session, {"n": 1}, "counted", ttl=HOUR)
    patch(session, {"n": 1}, "counted for ever")
    expire(session, "short", "refreshed", "counted")
    put(session, "refreshed", 2, ttl=HOUR)
    assert forget(session) == []
    configure(session, dead_keep="0")
    assert forget(session) == ["counted", "short"]
    assert scan(session) == {"forever": 1, "refreshed": 2, "counted for ever": {"n": 1}}
    assert column(session, "select distinct key from trunkline.kv_counter") == ["counted for ever"]


def test_upkeep_without_policies_removes_nothing_that_lives(session: Session) -> None:
    configure(session, dead_keep="0")
    values = {str(number): number for number in range(20)}
    put_many(session, values)
    session.execute("call trunkline.maintain()")
    assert scan(session) == values
    assert column(session, "select error from trunkline.duty where error is not null") == []


def test_forgetting_goes_on_in_parts(session: Session) -> None:
    configure(session, dead_keep="0")
    keys = [f"{number:04}" for number in range(1_001)]
    put_many(session, dict.fromkeys(keys, 1), ttl=HOUR)
    expire(session, *keys)
    assert ask(session, "select trunkline.kv_forget()") is True
    assert len(remembered(session)) == 1
    assert ask(session, "select trunkline.kv_forget()") is False
    assert remembered(session) == []


def test_a_key_that_is_refreshed_while_it_is_being_forgotten_stays(
    session: Session, racing: TwoSessions
) -> None:
    configure(session, dead_keep="0")
    put(session, "k", 1, ttl=HOUR)
    expire(session, "k")
    put(racing.a, "k", 2)
    assert forget(session) == []
    racing.a.commit()
    assert forget(session) == []
    assert get(session) == 2


def test_a_key_that_was_forgotten_is_stamped_above_what_it_was(session: Session) -> None:
    """Others may remember it longer."""
    configure(session, dead_keep="0")
    set_clock(session, 50)
    put(session)
    delete(session)
    forgotten = stamps(session)[0]
    session.execute("update trunkline.kv_entry set dead_at = clock_timestamp()")
    assert forget(session) == ["k"]
    set_clock(session, 0)
    put(session)
    assert stamps(session)[0] > forgotten


# Many keys


def test_many_keys_are_put_and_read_at_once(session: Session) -> None:
    put(session, "b", 0)
    assert put_many(session, {"c": 3, "a": 1, "b": 2}) == {
        "a": "INSERT",
        "b": "UPDATE",
        "c": "INSERT",
    }
    delete(session, "c")
    rows = call(session, "kv_get_many", namespace=SPACE, keys=["c", "b", "nobody", "a", "a"])
    assert [(row[0], row[1]) for row in rows] == [("a", 1), ("b", 2)]


def test_of_a_key_that_is_named_twice_the_last_value_counts(session: Session) -> None:
    rows = session.execute(
        "select * from trunkline.kv_put_many('default', '{a,b,a}', array['1', '2', '3']::jsonb[])"
    ).fetchall()
    assert rows == [("a", "INSERT"), ("b", "INSERT")]
    assert scan(session) == {"a": 3, "b": 2}


def test_many_keys_are_all_put_or_none(session: Session) -> None:
    with refused("TL422"):
        put_many(session, {"a": 1, "": 2})
    assert remembered(session) == []
    assert put_many(session, {}) == {}


def test_a_scan_finds_what_begins_with_a_prefix_in_the_order_of_bytes(session: Session) -> None:
    names = ["a", "a/", "a/1", "a/10", "a/2", "a0", "A/1", "b", "a/ä", "a/%", "a/_", "a/\U0010ffff"]
    names.append("a/" + "\U0010ffff" * 100)
    put_many(session, dict.fromkeys(names, 0))
    found = list(scan(session, "a/"))
    assert found == sorted((n for n in names if n.startswith("a/")), key=str.encode)
    assert list(scan(session)) == sorted(names, key=str.encode)
    assert list(scan(session, "%")) == []
    assert list(scan(session, "a/_")) == ["a/_"]


def test_a_scan_goes_on_after_a_key(session: Session) -> None:
    names = [f"{number:02}" for number in range(10)]
    put_many(session, dict.fromkeys(["1", *names, "2"], 0))
    delete(session, "03")
    assert list(scan(session, "0", max_keys=3)) == ["00", "01", "02"]
    assert list(scan(session, "0", after_key="02", max_keys=2)) == ["04", "05"]
    assert list(scan(session, "0", after_key="09")) == []
    assert list(scan(session, "1", after_key="0")) == ["1"]


def test_a_scan_ends_at_a_key_and_cuts_tell_where(session: Session) -> None:
    names = [f"{number:02}" for number in range(10)]
    put_many(session, dict.fromkeys(["1", *names, "ä"], 0))
    assert list(scan(session, after_key="07", until_key="1")) == ["08", "09", "1"]
    assert list(scan(session, "0", until_key="1")) == names
    assert list(scan(session, after_key="5", until_key="2")) == []

    def cuts(prefix: str, parts: int) -> list[str]:
        given = {"namespace": SPACE, "prefix": prefix, "parts": parts}
        return [row[0] for row in call(session, "kv_cuts", **given)]

    assert cuts("0", 2) == ["04"]
    assert cuts("0", 3) == ["03", "06"]
    assert cuts("", 4) == ["02", "05", "08"]
    assert cuts("0", 100) == names[:-1]
    assert cuts("ä", 5) == []
    assert cuts("nothing", 5) == []
    for parts in (0, -1, 100_001):
        with refused("TL422"):
            cuts("", parts)


def test_reads_write_nothing(session: Session) -> None:
    put(session)
    tick(session)
    with writing_nothing(session):
        get(session)
        read(session)
        scan(session)
        changes(session, head(session))
        tick(session)
        for name in ("policies", "topology", "status", "held", "head", "digest"):
            call(session, f"kv_{name}")


def test_upkeep_without_work_writes_nothing(session: Session) -> None:
    put(session, "k", 1)
    patch(session, {"n": 1}, "counted")
    delete(session, "gone")
    put(session, "short", 1, ttl=HOUR)
    with writing_nothing(session):
        for name in ("expire", "release", "forget"):
            assert call(session, f"kv_{name}") == [(False,)]


# Races


def test_the_second_of_two_puts_waits_and_wins(session: Session, racing: TwoSessions) -> None:
    put(racing.a, "k", "first")
    waiting = racing.later(racing.b, PUT, ['"second"'])
    racing.blocked_by(racing.a, racing.b)
    racing.a.commit()
    assert waiting.result(10).fetchone() == ("UPDATE",)
    racing.b.commit()
    assert get(session) == "second"


def test_a_put_that_waited_for_a_delete_inserts(session: Session, racing: TwoSessions) -> None:
    put(session)
    delete(racing.a)
    waiting = racing.later(racing.b, PUT, ["2"])
    racing.blocked_by(racing.a, racing.b)
    racing.a.commit()
    assert waiting.result(10).fetchone() == ("INSERT",)


def test_of_two_comparing_puts_one_succeeds(session: Session, racing: TwoSessions) -> None:
    put(session, "k", 0)
    compare = "select trunkline.kv_put('default', 'k', %s, if_version => %s)"
    seen = version(session)
    assert put(racing.a, "k", 1, if_version=seen) == "UPDATE"
    waiting = racing.later(racing.b, compare, ["2", seen])
    racing.blocked_by(racing.a, racing.b)
    racing.a.commit()
    assert waiting.result(10).fetchone() == ("CONFLICT",)
    racing.b.commit()
    assert get(session) == 1


@pytest.mark.parametrize("made", ["put", "patch", "delete", "nothing"])
def test_a_key_that_must_not_be_there_may_come_while_one_waits(
    session: Session, racing: TwoSessions, made: str
) -> None:
    compare = "select trunkline.kv_put('default', 'k', '{\"n\": 9}', if_version => '')"
    {"put": put, "patch": lambda s: patch(s, {"n": 1}), "delete": delete, "nothing": put}[made](
        racing.a
    )
    waiting = racing.later(racing.b, compare)
    racing.blocked_by(racing.a, racing.b)
    racing.a.rollback() if made == "nothing" else racing.a.commit()
    lives = made in ("put", "patch")
    assert waiting.result(10).fetchone() == ("CONFLICT" if lives else "INSERT",)
    racing.b.commit()
    assert get(session) == {"put": 1, "patch": {"n": 1}}.get(made, {"n": 9})


def test_a_comparing_put_waits_for_a_patch_and_sees_it(
    session: Session, racing: TwoSessions
) -> None:
    patch(session, {"n": 1})
    seen = version(session)
    patch(racing.a, {"n": 1})
    waiting = racing.later(
        racing.b, "select trunkline.kv_put('default', 'k', '{}', if_version => %s)", [seen]
    )
    racing.blocked_by(racing.a, racing.b)
    racing.a.commit()
    assert waiting.result(10).fetchone() == ("CONFLICT",)
    racing.b.commit()
    assert get(session) == {"n": 2}


@pytest.mark.parametrize("there", [False, True])
def test_many_keys_in_opposite_orders_do_not_deadlock(
    session: Session, racing: TwoSessions, there: bool
) -> None:
    names = [f"{number:03}" for number in range(300)]
    if there:
        put_many(session, dict.fromkeys(names, 0))
    many = "select trunkline.kv_put_many('default', %s::text[], array_fill(%s::jsonb, array[300]))"
    for turn in range(10):
        under_way = {
            racing.later(racing.a, many, [names, str(turn)]): racing.a,
            racing.later(racing.b, many, [names[::-1], str(-turn - 1)]): racing.b,
        }
        while under_way:  # whoever has the keys first lets go of them first
            done, _ = wait(under_way, timeout=10, return_when=FIRST_COMPLETED)
            assert done
            for put_ in done:
                put_.result()
                under_way.pop(put_).commit()
    assert len(set(scan(session).values())) == 1


@pytest.mark.parametrize("write", ["put", "delete", "patch", "compare"])
def test_a_snapshot_from_before_a_change_loses_nothing(
    session: Session, connect: Callable[..., Session], write: str
) -> None:
    put(session, "k", {"n": 1})
    old = connect(autocommit=False)
    old.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    seen = version(old)
    patch(session, {"n": 1})
    with refused("40001"):
        {
            "put": lambda: put(old, "k", {"n": 5}),
            "delete": lambda: delete(old),
            "patch": lambda: patch(old, {"n": 5}),
            "compare": lambda: put(old, "k", {"n": 5}, if_version=seen),
        }[write]()
    old.rollback()
    assert get(session) == {"n": 2}


@pytest.mark.parametrize("write", ["put", "compare", "patch", "put many"])
def test_a_snapshot_from_before_a_key_was_made_does_not_make_it_again(
    session: Session, connect: Callable[..., Session], write: str
) -> None:
    old = connect(autocommit=False)
    old.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    assert get(old) is None
    patch(session, {"n": 1})
    with refused("40001"):
        {
            "put": lambda: put(old, "k", 5),
            "compare": lambda: put(old, "k", 5, if_version=""),
            "patch": lambda: patch(old, {"n": 5}),
            "put many": lambda: put_many(old, {"a": 1, "k": 2}),
        }[write]()
    old.rollback()
    assert scan(session) == {"k": {"n": 1}}


def test_stamps_are_near_the_clock(session: Session) -> None:
    put(session)
    assert abs(stamps(session)[0] - clock(session)) < 10 * SECOND
