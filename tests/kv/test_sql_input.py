"""Bad input gets an answer: an error of class TL, and nothing has changed."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.fixtures.asking import Session, ask, call, refused
from tests.kv.sql_steps import SECOND, clock, configure, head, patch, put, put_many, read, tick

if TYPE_CHECKING:
    from collections.abc import Iterator

HOUR = timedelta(hours=1)
TABLES = (
    *("kv_entry", "kv_counter", "kv_change", "kv_life", "kv_here", "kv_peer", "kv_held"),
    *("kv_clock", "cursor_key", "cursor", "owner"),
)
FINGERPRINT = " || ".join(
    f"(select md5(coalesce(string_agg(t::text, '' order by t::text), '')) from trunkline.{table} t)"
    for table in TABLES
)
PLACE = {"namespace": "default", "key": "k"}


@pytest.fixture
def unchanged(session: Session) -> Iterator[int]:
    """All there can be, which is the same after the test; the head."""
    call(session, "kv_instance_put", zone="a", shard="s", dsn="dbname=a")
    call(session, "kv_instance_here", zone="a", shard="s")
    call(session, "kv_policy_put", namespace="default", policy="short", keep=HOUR)
    put(session, "k", {"a": 1, "word": "x"})
    patch(session, {"n": 1}, "counted")
    put(session, "number", 5)
    session.execute("select trunkline.kv_hello('a/s')")
    session.execute("select trunkline.kv_copy_begin('a/s', 7)")
    tick(session)
    before = ask(session, f"select {FINGERPRINT}")
    yield head(session)
    assert ask(session, f"select {FINGERPRINT}") == before
    assert tick(session) == 0


def refusals(session: Session, name: str, cases: list[tuple[str, dict[str, Any]]]) -> None:
    """Each call is refused with its state, in words that end with a full stop."""
    for state, arguments in cases:
        with refused(state) as caught:
            call(session, name, **arguments)
        message = caught.value.diag.message_primary or ""
        assert message.endswith("."), (name, arguments, message)


def test_puts_of_impossible_keys_values_or_times(session: Session, unchanged: int) -> None:
    good = {**PLACE, "value": "1"}
    future = clock(session) + 61 * SECOND
    refusals(
        session,
        "kv_put",
        [
            ("TL404", {**good, "namespace": None}),
            ("TL404", {**good, "namespace": ""}),
            ("TL404", {**good, "namespace": "nobody"}),
            ("TL404", {**good, "namespace": "x" * 5_000}),
            ("TL403", {**good, "namespace": "parade"}),
            ("TL422", {**good, "key": None}),
            ("TL422", {**good, "key": ""}),
            ("TL422", {**good, "key": "x" * 513}),
            ("TL422", {**good, "key": "ä" * 257}),
            ("TL422", {**good, "key": "x" * 100_000}),
            ("TL422", {**good, "value": None}),
            ("TL413", {**good, "value": json.dumps("x" * 1_048_577)}),
            ("TL404", {**good, "policy": "nobody"}),
            ("TL404", {**good, "policy": ""}),
            ("TL404", {**good, "policy": "short/long"}),
            ("TL422", {**good, "policy": "short", "ttl": HOUR}),
            ("TL422", {**good, "ttl": timedelta()}),
            ("TL422", {**good, "ttl": -HOUR}),
            ("TL422", {**good, "ttl": timedelta(days=999_999_999)}),
            ("TL422", {**good, "if_version": "1"}),
            ("TL422", {**good, "if_version": "x-y"}),
            ("TL422", {**good, "if_version": "-1-1"}),
            ("TL422", {**good, "if_version": "1-1-1"}),
            ("TL422", {**good, "if_version": " "}),
            ("TL422", {**good, "if_version": "9" * 20 + "-1"}),
            ("TL422", {**good, "stamp": future}),
            ("TL422", {**good, "stamp": 2**63 - 1}),
            ("TL422", {**good, "stamp": 0}),
            ("TL422", {**good, "stamp": -1}),
            ("TL422", {**good, "stamp": -(2**63)}),
        ],
    )


def test_what_the_server_itself_cannot_read(session: Session, unchanged: int) -> None:
    for state, value in (("22P02", "{"), ("22P02", "'a'"), ("22P05", '"\\u0000"'), ("22P02", "")):
        with refused(state):
            call(session, "kv_put", **PLACE, value=value)
    with pytest.raises(psycopg.DataError):
        call(session, "kv_put", namespace="default", key="a\0b", value="1")


def test_deletes_of_impossible_keys(session: Session, unchanged: int) -> None:
    refusals(
        session,
        "kv_delete",
        [
            ("TL422", {"namespace": "default", "key": None}),
            ("TL422", {"namespace": "default", "key": ""}),
            ("TL422", {"namespace": "default", "key": "x" * 513}),
            ("TL404", {"namespace": "nobody", "key": "k"}),
            ("TL404", {"namespace": None, "key": "k"}),
            ("TL403", {"namespace": "parade", "key": "instance/a/s"}),
            ("TL422", {**PLACE, "if_version": "rubbish"}),
        ],
    )


def test_patches_that_are_no_numbers(session: Session, unchanged: int) -> None:
    refusals(
        session,
        "kv_patch_numeric",
        [
            *(
                ("TL422", {**PLACE, "offsets": offsets})
                for offsets in (
                    *(None, "null", "1", '"a"', "[]", '[{"a": 1}]', "true"),
                    *('{"a": "1"}', '{"a": true}', '{"a": [1]}', '{"a": {"b": 1}}'),
                    *('{"word": 1}', '{"a": 1, "word": 1}', '{"b": 1e100}', '{"b": -1e131071}'),
                    *('{"b": 1e-101}', json.dumps({"x" * 513: 1}), json.dumps({"ä" * 3_000: 1})),
                )
            ),
            ("TL422", {**PLACE, "key": "number", "offsets": '{"a": 1}'}),
            ("TL422", {**PLACE, "key": "", "offsets": '{"a": 1}'}),
            ("TL422", {**PLACE, "key": None, "offsets": '{"a": 1}'}),
            ("TL422", {**PLACE, "key": "new", "offsets": '{"a": "x"}'}),
            ("TL404", {**PLACE, "namespace": "nobody", "offsets": '{"a": 1}'}),
            ("TL403", {**PLACE, "namespace": "parade", "offsets": '{"a": 1}'}),
            ("TL404", {**PLACE, "policy": "nobody", "offsets": '{"a": 1}'}),
            ("TL422", {**PLACE, "ttl": timedelta(), "offsets": '{"a": 1}'}),
            ("TL422", {**PLACE, "ttl": HOUR, "policy": "short", "offsets": '{"a": 1}'}),
            (
                "TL413",
                {**PLACE, "offsets": json.dumps({f"{n:0500}": n for n in range(2_100)})},
            ),
        ],
    )


def test_many_keys_with_one_that_is_wrong(session: Session, unchanged: int) -> None:
    many = "select trunkline.kv_put_many(%s, %s::text[], %s::jsonb[])"
    for state, namespace, keys, payloads in (
        ("TL422", "default", ["a", None], ["1", "2"]),
        ("TL422", "default", ["a", ""], ["1", "2"]),
        ("TL422", "default", ["a", "b"], ["1", None]),
        ("TL422", "default", ["a", "b"], ["1"]),
        ("TL422", "default", ["a"], []),
        ("TL422", "default", None, None),
        ("TL422", "default", ["a"], None),
        ("TL422", "default", None, ["1"]),
        ("TL422", "default", ["a", "x" * 513], ["1", "2"]),
        ("TL413", "default", ["a", "b"], ["1", json.dumps("x" * 1_048_577)]),
        ("TL404", "nobody", ["a"], ["1"]),
        ("TL404", None, ["a"], ["1"]),
        ("TL403", "parade", ["a"], ["1"]),
    ):
        with refused(state):
            session.execute(many, [namespace, keys, payloads])


def test_reads_of_what_cannot_be(session: Session, unchanged: int) -> None:
    refusals(session, "kv_get", [("TL404", {"namespace": n, "key": "k"}) for n in (None, "", "x")])
    for name, arguments in (("kv_get_many", {"keys": ["k"]}), ("kv_scan", {}), ("kv_changes", {})):
        if name == "kv_changes":
            arguments["after_position"] = unchanged
        refusals(session, name, [("TL404", {**arguments, "namespace": n}) for n in (None, "", "x")])
    refusals(
        session,
        "kv_scan",
        [
            ("TL422", {"namespace": "default", "prefix": None}),
            ("TL422", {"namespace": "default", "after_key": None}),
            ("TL422", {"namespace": "default", "max_keys": 0}),
            ("TL422", {"namespace": "default", "max_keys": -1}),
            ("TL422", {"namespace": "default", "max_keys": None}),
        ],
    )
    refusals(
        session,
        "kv_changes",
        [
            ("TL422", {"namespace": "default", "after_position": 0, "prefix": None}),
            ("TL422", {"namespace": "default", "after_position": 0, "max_changes": 0}),
            ("TL422", {"namespace": "default", "after_position": 0, "max_changes": None}),
            ("TL422", {"namespace": "default", "after_position": -1}),
            ("TL410", {"namespace": "default", "after_position": 2**63 - 1}),
        ],
    )
    assert ask(session, "select trunkline.kv_get('default', null)") is None
    assert call(session, "kv_get_many", namespace="default", keys=[None, ""]) == []


@pytest.mark.parametrize("name", [None, "", "a/b", "a b", "x" * 64, "ä", "a\n", "%", "'"])
def test_names_of_the_parade_that_are_none(
    session: Session, unchanged: int, name: str | None
) -> None:
    dsn = "dbname=x"
    refusals(session, "kv_instance_put", [("TL422", {"zone": name, "shard": "s", "dsn": dsn})])
    refusals(session, "kv_instance_put", [("TL422", {"zone": "a", "shard": name, "dsn": dsn})])
    refusals(session, "kv_namespace_put", [("TL422", {"namespace": name})])
    policy = {"namespace": "default", "policy": name, "keep": HOUR}
    refusals(session, "kv_policy_put", [("TL422", policy)])
    refusals(session, "kv_instance_here", [("TL404", {"zone": name, "shard": "s"})])
    assert call(session, "kv_instance_drop", zone=name, shard="s") == [(False,)]
    assert call(session, "kv_policy_drop", namespace="default", policy=name) == [(False,)]


def test_instances_and_policies_that_cannot_be(session: Session, unchanged: int) -> None:
    instance = {"zone": "b", "shard": "s"}
    refusals(
        session, "kv_instance_put", [("TL422", {**instance, "dsn": dsn}) for dsn in (None, "")]
    )
    policy = {"namespace": "default", "policy": "p"}
    refusals(
        session,
        "kv_policy_put",
        [
            *(("TL422", {**policy, "keep": keep}) for keep in (None, timedelta(), -HOUR)),
            ("TL404", {**policy, "namespace": "nobody", "keep": HOUR}),
            ("TL404", {**policy, "namespace": None, "keep": HOUR}),
        ],
    )
    refusals(session, "kv_instance_here", [("TL404", {"zone": "nowhere", "shard": "s"})])


def test_what_other_instances_ask_wrongly(session: Session, unchanged: int) -> None:
    known = {"instance": "a/s", "origin": 7}
    export = {**known, "after_position": unchanged}
    refusals(
        session,
        "kv_export",
        [
            ("TL404", {**export, "instance": None}),
            ("TL404", {**export, "instance": "x" * 5_000}),
            ("TL410", {**export, "origin": None}),
            ("TL410", {**export, "origin": 8}),
            ("TL422", {**export, "after_position": None}),
            ("TL422", {**export, "after_position": -1}),
            ("TL410", {**export, "after_position": unchanged + 1}),
            ("TL422", {**export, "scope": "most"}),
            ("TL422", {**export, "scope": None}),
            ("TL422", {**export, "max_changes": 0}),
            ("TL422", {**export, "max_changes": None}),
        ],
    )
    refusals(
        session,
        "kv_copy",
        [
            ("TL404", {**known, "instance": "nobody/s"}),
            ("TL410", {**known, "origin": 8}),
            ("TL422", {**known, "after_namespace": None}),
            ("TL422", {**known, "after_key": None}),
            ("TL422", {**known, "scope": "most"}),
            ("TL422", {**known, "max_keys": 0}),
            ("TL422", {**known, "max_keys": None}),
        ],
    )
    refusals(session, "kv_hello", [("TL404", {"instance": i}) for i in (None, "", "nobody/s")])
    refusals(
        session,
        "kv_copy_begin",
        [
            *(("TL404", {"instance": i, "origin": 1}) for i in (None, "", "nobody/s")),
            ("TL422", {"instance": "a/s", "origin": None}),
        ],
    )
    refusals(
        session,
        "kv_confirm",
        [
            ("TL422", {**known, "up_to": None}),
            ("TL422", {**known, "up_to": unchanged + 1}),
            ("TL410", {**known, "origin": 8, "up_to": 0}),
        ],
    )
    refusals(session, "kv_digest", [("TL422", {"buckets": n}) for n in (None, 0, -1, 1_000_001)])
    refusals(
        session,
        "kv_bucket",
        [
            ("TL422", {**known, "buckets": n, "chosen": chosen})
            for n, chosen in (
                *((None, [0]), (0, [0]), (-1, [0])),
                *((4, [0, 4]), (4, [-1]), (4, None), (4, [None])),
            )
        ],
    )


def test_states_that_are_none(session: Session, unchanged: int) -> None:
    """Nothing is applied without an epoch, a position and an origin."""
    state = '{"origin": 5}'
    entry = {"namespace": "default", "key": "new", "stamp": 1, "origin": 1, "counted_stamp": 1}
    now = clock(session)
    apply = "select trunkline.kv_apply('a/s', %s, %s, %s, %s, %s)"
    for expected, values in (
        ("TL423", [1, 0, state, "[]", now]),
        ("TL423", [None, 0, state, json.dumps([entry]), now]),
        ("TL422", [1, None, state, "[]", now]),
        ("TL422", [1, 0, None, "[]", now]),
        ("TL422", [1, 0, "{}", "[]", now]),
        ("TL422", [1, 0, "[]", "[]", now]),
        ("TL422", [1, 0, state, None, now]),
        ("TL422", [1, 0, state, "{}", now]),
        ("TL422", [1, 0, state, "null", now]),
        ("TL422", [1, 0, state, "[]", None]),
        ("TL409", [1, 0, state, "[]", now - 3_600 * SECOND]),
        ("TL422", [1, 0, state, "[1]", now]),
        ("TL422", [1, 0, state, "[{}]", now]),
        ("TL422", [1, 0, state, json.dumps([{**entry, "stamp": None}]), now]),
        ("TL422", [1, 0, state, json.dumps([{**entry, "stamp": "soon"}]), now]),
        ("TL422", [1, 0, state, json.dumps([{**entry, "key": None}]), now]),
        ("TL422", [1, 0, state, json.dumps([{**entry, "counters": 5}]), now]),
        ("TL422", [1, 0, state, json.dumps([{**entry, "counters": [["f"]]}]), now]),
        ("TL422", [1, 0, state, json.dumps([entry, entry]), now]),
    ):
        with refused(expected):
            session.execute(apply, values)


def test_limits_are_settings(session: Session) -> None:
    configure(session, key_bytes="3", value_bytes="50")
    put(session, "abc", "x")
    put(session, "ä€"[:1] + "a", "x")
    for key, value in (("abcd", "x"), ("äää", "x")):
        with refused("TL422"):
            put(session, key, value)
    with refused("TL413"):
        put(session, "abc", "x" * 60)
    with refused("TL413"):
        put_many(session, {"abc": "x" * 60})
    assert read(session, "abc") is not None


def test_a_ttl_of_this_server_that_never_ends_is_none(session: Session) -> None:
    if session.info.server_version < 170000:
        pytest.skip("intervals are finite before Postgres 17")
    session.execute("select trunkline.kv_put('default', 'k', '1', ttl => 'infinity')")
    entry = read(session)
    assert entry is not None
    assert entry.expires_at is None
    with refused("TL422"):
        session.execute("select trunkline.kv_put('default', 'k', '1', ttl => '-infinity')")
