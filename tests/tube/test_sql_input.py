"""Bad input gets an answer: an error of class TL, and nothing has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

import psycopg
import pytest
from tests.fixtures.asking import Session, ask, call, refused
from tests.tube.sql_steps import TUBE, attach, ensure, gaps, join, member, schedule, tick, touch

if TYPE_CHECKING:
    from collections.abc import Iterator

TABLES = (
    *("tube", "tube_table", "tube_hook", "tube_gap", "tube_entry", "tube_parked"),
    *("tube_backfill", "tube_downstream", "cursor_key", "cursor", "owner", "party"),
)
FINGERPRINT = " || ".join(
    f"(select md5(coalesce(string_agg(t::text, '' order by t::text), '')) from trunkline.{table} t)"
    for table in TABLES
)


@pytest.fixture
def unchanged(session: Session) -> Iterator[dict[str, Any]]:
    """A tube with all there can be, which is the same after the test; numbers to ask for."""
    ensure(session, lanes=2, condition="total is null")
    session.execute("create table plain (id int, note text)")
    session.execute("create view seen as select * from orders")
    session.execute("create table pair (a int, b text, total int, primary key (a, b))")
    attachment = attach(session)
    attach(session, "pair", shard="a")
    session.execute("insert into orders (id) values (1)")
    backfill = schedule(session, relation="orders")
    tick(session)
    process = member(session)
    shares = join(session, process)
    before = ask(session, f"select {FINGERPRINT}")
    triggers = ask(session, "select count(*) from pg_trigger")
    yield {
        "attachment": attachment,
        "backfill": backfill,
        "process": process,
        "epoch": shares[0].epoch,
    }
    assert ask(session, f"select {FINGERPRINT}") == before
    assert ask(session, "select count(*) from pg_trigger") == triggers


def refusals(session: Session, name: str, cases: list[tuple[str, dict[str, Any]]]) -> None:
    """Each call is refused with its state, in words that end with a full stop."""
    for state, arguments in cases:
        with refused(state) as caught:
            call(session, name, **arguments)
        message = caught.value.diag.message_primary or ""
        assert message.endswith("."), (name, arguments, message)


def test_tubes_with_impossible_names_lanes_or_conditions(
    session: Session, unchanged: dict[str, Any]
) -> None:
    refusals(
        session,
        "tube_ensure",
        [
            ("TL422", {"tube": None}),
            ("TL422", {"tube": ""}),
            ("TL422", {"tube": "two words"}),
            ("TL422", {"tube": "x" * 201}),
            ("TL422", {"tube": "tübe"}),
            ("TL422", {"tube": "new", "lanes": 0}),
            ("TL422", {"tube": "new", "lanes": -1}),
            ("TL422", {"tube": "new", "lanes": 1025}),
            ("TL422", {"tube": "new", "condition": "this is (not"}),
            ("TL422", {"tube": "new", "condition": "total >"}),
            ("TL422", {"tube": TUBE, "condition": "unknown > 1"}),
            ("TL422", {"tube": TUBE, "condition": "total > 1)"}),
            ("TL422", {"tube": TUBE, "condition": "total + 1"}),
            ("TL422", {"tube": TUBE, "condition": "count(*) > 1"}),
            ("TL422", {"tube": TUBE, "lanes": 7, "condition": "ctid is null"}),
        ],
    )
    refusals(
        session,
        "tube_drop",
        [
            ("TL404", {"tube": None}),
            ("TL404", {"tube": "nowhere"}),
            ("TL409", {"tube": TUBE}),
            ("TL409", {"tube": TUBE, "force": None}),
        ],
    )


def test_tables_that_cannot_be_attached(session: Session, unchanged: dict[str, Any]) -> None:
    session.execute("create temp table passing (id int primary key)")
    session.execute("create sequence counter")
    attached = {"tube": TUBE, "relation": "orders"}
    refusals(
        session,
        "tube_attach",
        [
            ("TL404", {"tube": None, "relation": "orders"}),
            ("TL404", {"tube": "nowhere", "relation": "orders"}),
            ("TL422", {"tube": TUBE, "relation": None}),
            ("TL422", {"tube": TUBE, "relation": "seen"}),
            ("TL422", {"tube": TUBE, "relation": "counter"}),
            ("TL422", {"tube": TUBE, "relation": "orders_pkey"}),
            ("TL422", {"tube": TUBE, "relation": "passing"}),
            ("TL422", {"tube": TUBE, "relation": "pg_catalog.pg_class"}),
            ("TL422", {"tube": TUBE, "relation": "trunkline.tube"}),
            ("TL422", {"tube": TUBE, "relation": "0"}),
            ("TL422", {"tube": TUBE, "relation": "plain"}),  # no primary key
            ("TL422", {"tube": TUBE, "relation": "plain", "key_columns": ["id"]}),  # nullable
            ("TL422", {**attached, "key_columns": []}),
            ("TL422", {**attached, "key_columns": ["unknown"]}),
            ("TL422", {**attached, "key_columns": ["id", None]}),
            ("TL422", {**attached, "key_columns": ["ctid"]}),
            ("TL422", {**attached, "shard": "-1"}),
            ("TL422", {**attached, "shard": "99999999999"}),
            ("TL422", {**attached, "shard": ""}),
            ("TL422", {**attached, "shard": "unknown"}),
            ("TL422", {**attached, "shard": "region +"}),
            ("TL422", {**attached, "shard": "now()"}),
            ("TL422", {**attached, "condition": "unknown"}),
            ("TL422", {**attached, "condition": "total > 5; drop table orders"}),
            ("TL422", {**attached, "condition": "'maybe'"}),
            ("TL422", {**attached, "condition": "sum(total) > 5"}),
            ("TL422", {**attached, "condition": "tableoid > 5"}),
            ("TL422", {**attached, "on_error": "ignore"}),
        ],
    )
    with refused("42P01"):
        attach(session, "nowhere")
    refusals(
        session,
        "tube_detach",
        [
            ("TL422", {"tube": TUBE, "relation": None}),
            ("TL404", {"tube": "nowhere", "relation": "orders"}),
        ],
    )
    assert call(session, "tube_detach", tube=TUBE, relation="plain") == [(False,)]


def test_touches_of_nothing(session: Session, unchanged: dict[str, Any]) -> None:
    named = {"tube": TUBE, "relation": "orders", "keys": ["1"]}
    bare = {"tube": TUBE, "relation": None, "keys": ["1"]}
    refusals(
        session,
        "tube_touch",
        [
            ("TL404", {**named, "tube": None}),
            ("TL404", {**named, "tube": "nowhere"}),
            ("TL404", {**named, "relation": "plain"}),
            ("TL422", {**named, "keys": None}),
            ("TL422", {**named, "keys": []}),
            ("TL422", {**named, "keys": [None, None]}),
            ("TL422", {**named, "keys": ["one"]}),
            ("TL422", {**named, "keys": ["1.5"]}),
            ("TL422", {**named, "op": None}),
            ("TL422", {**named, "op": "X"}),
            ("TL422", {**named, "shard": -1}),
            ("TL422", bare),
            ("TL422", {**bare, "relation": "pair", "keys": ['[1, "x"]']}),  # which shard?
            ("TL422", {**bare, "relation": "pair", "shard": 0, "keys": ["1"]}),
            ("TL422", {**bare, "relation": "pair", "shard": 0, "keys": ["[1]"]}),
            ("TL422", {**bare, "relation": "pair", "shard": 0, "keys": ['["x", 1]']}),
            ("TL422", {**bare, "relation": "pair", "shard": 0, "keys": ["[null, null]"]}),
        ],
    )


def test_queries_that_are_none(session: Session, unchanged: dict[str, Any]) -> None:
    good: dict[str, Any] = {"tubes": [TUBE], "query": "select 1", "shard": 0}
    refusals(
        session,
        "tube_insert",
        [
            ("TL422", {**good, "tubes": None}),
            ("TL422", {**good, "tubes": []}),
            ("TL404", {**good, "tubes": [None]}),
            ("TL404", {**good, "tubes": [TUBE, "nowhere"]}),
            ("TL422", {**good, "query": None}),
            ("TL422", {**good, "query": ""}),
            ("TL422", {**good, "query": "select"}),
            ("TL422", {**good, "query": "selct 1"}),
            ("TL422", {**good, "query": "select 1 from nowhere"}),
            ("TL422", {**good, "query": "select 1 / 0"}),
            ("TL422", {**good, "query": "delete from orders returning id"}),
            ("TL422", {**good, "query": "select 1; select 2"}),
            ("TL422", {**good, "query": "select 'x'", "relation": "orders"}),
            ("TL422", {**good, "shard": None}),
            ("TL422", {**good, "shard": -1}),
            ("TL422", {**good, "op": "X"}),
            ("TL422", {**good, "op": None}),
            ("TL404", {**good, "relation": "plain"}),
            *[("TL422", {**good, "chunk": chunk}) for chunk in (None, 0, -1, 100_001)],
        ],
    )


def test_reading_and_acknowledging_what_is_not_there(
    session: Session, unchanged: dict[str, Any]
) -> None:
    good = {"tube": TUBE, "lane": 0, "priority": 0, "from_position": 1, "to_position": 9}
    rubbish: dict[str, tuple[Any, ...]] = {
        "lane": (None, -1, 2),
        "priority": (None, -1, 2),
        "from_position": (None,),
        "to_position": (None,),
        "max_entries": (None, 0, -1),
    }
    refusals(
        session,
        "tube_read",
        [
            ("TL404", {**good, "tube": None}),
            ("TL404", {**good, "tube": "nowhere"}),
            *[("TL422", {**good, name: v}) for name, values in rubbish.items() for v in values],
        ],
    )
    epoch = unchanged["epoch"]
    own = {"tube": TUBE, "lane": 0, "epoch": epoch}
    refusals(
        session,
        "tube_ack",
        [
            ("TL404", {**own, "tube": "nowhere", "live_up_to": 1}),
            ("TL404", {**own, "tube": None, "live_up_to": 1}),
            ("TL422", {**own, "live_up_to": 10**9}),
            ("TL422", {**own, "backfill_up_to": 10**9}),
            *[("TL423", {**own, "epoch": e, "live_up_to": 1}) for e in (None, 0, epoch + 1)],
            *[("TL423", {**own, "lane": lane, "live_up_to": 1}) for lane in (None, -1, 2)],
        ],
    )


def test_joining_and_parking_with_rubbish(session: Session, unchanged: dict[str, Any]) -> None:
    process, epoch = unchanged["process"], unchanged["epoch"]
    refusals(
        session,
        "tube_join",
        [
            ("TL404", {"tube": None, "process": process}),
            ("TL404", {"tube": "nowhere", "process": process}),
            ("TL423", {"tube": TUBE, "process": None}),
            ("TL423", {"tube": TUBE, "process": uuid4()}),
            ("TL422", {"tube": TUBE, "process": process, "member": None}),
        ],
    )
    refusals(session, "tube_leave", [("TL404", {"tube": None, "process": process})])
    call(session, "tube_leave", tube=TUBE, process=uuid4())
    good = {"tube": TUBE, "lane": 0, "epoch": epoch, "attachment": 0, "shard": 0}
    good |= {"key": "k", "attempts": 1, "error": "e"}
    refusals(
        session,
        "tube_park",
        [
            ("TL404", {**good, "tube": "nowhere"}),
            *[
                ("TL422", {**good, name: None})
                for name in ("lane", "attachment", "shard", "key", "attempts", "error")
            ],
            ("TL422", {**good, "shard": 1}),  # of another lane
            ("TL422", {**good, "shard": -2}),
            ("TL423", {**good, "epoch": None}),
            ("TL423", {**good, "epoch": epoch + 1}),
        ],
    )
    refusals(session, "tube_unpark", [("TL404", {"tube": None}), ("TL404", {"tube": "nowhere"})])


def test_enriching_what_is_no_key(session: Session, unchanged: dict[str, Any]) -> None:
    attachment = unchanged["attachment"]
    for name in ("tube_enrich", "tube_enrich_text"):
        refusals(
            session,
            name,
            [
                ("TL404", {"attachment": None, "keys": ["1"]}),
                ("TL404", {"attachment": 0, "keys": ["1"]}),
                ("TL422", {"attachment": attachment, "keys": ["one"]}),
                ("TL422", {"attachment": attachment + 1, "keys": ['["x", 1]']}),
                ("TL422", {"attachment": attachment + 1, "keys": ["[x]"]}),
            ],
        )
        nothing: dict[str, Any] = {"attachment": attachment, "keys": None}
        assert call(session, name, **nothing) == []
        assert call(session, name, attachment=attachment, keys=[None]) == [(None, None)]


def test_backfills_that_cannot_be(session: Session, unchanged: dict[str, Any]) -> None:
    good = {"tube": TUBE, "relation": "orders"}
    refusals(
        session,
        "tube_backfill_schedule",
        [
            ("TL404", {"tube": None}),
            ("TL404", {"tube": "nowhere"}),
            ("TL404", {**good, "relation": "plain"}),
            *[("TL422", {**good, "order_by": name}) for name in ("unknown", "total", "ctid", "")],
            *[("TL422", {**good, "chunk": chunk}) for chunk in (None, 0, -1, 10**7)],
            *[
                ("TL422", {**good, "throttle": value})
                for value in (None, "-1 second", "10000 years")
            ],
        ],
    )
    refusals(session, "tube_backfill_step", [("TL404", {"backfill": n}) for n in (None, 0, -1)])
    refusals(
        session,
        "tube_backfill_pause",
        [
            ("TL404", {"tube": None}),
            ("TL404", {"tube": "nowhere"}),
            ("TL422", {"tube": TUBE, "pause": None}),
        ],
    )
    refusals(session, "tube_backfill_cancel", [("TL404", {"tube": t}) for t in (None, "nowhere")])


def test_downstreams_of_no_kind(session: Session, unchanged: dict[str, Any]) -> None:
    refusals(
        session,
        "tube_downstream",
        [
            ("TL404", {"tube": None, "kind": "redis"}),
            ("TL404", {"tube": "nowhere", "kind": "redis"}),
            ("TL422", {"tube": TUBE, "kind": "kafka"}),
            ("TL422", {"tube": TUBE, "kind": ""}),
            ("TL422", {"tube": TUBE, "kind": "redis", "options": None}),
            ("TL422", {"tube": TUBE, "kind": "redis", "options": "[]"}),
            ("TL422", {"tube": TUBE, "kind": "redis", "options": '"x"'}),
        ],
    )


def test_looking_at_a_tube_that_is_not_there_is_refused_and_at_a_table_finds_nothing(
    session: Session, unchanged: dict[str, Any]
) -> None:
    for name in ("tube_stats", "tube_parked", "tube_backfill_status"):
        with refused("TL404"):
            call(session, name, tube="nowhere")
    assert call(session, "tube_list", relation="plain") == []
    generation, lsn, incarnation = call(session, "tube_version")[0]
    assert (generation > 0, "/" in lsn, incarnation) == (True, True, 1)


def test_a_statement_after_a_refusal_goes_on(session: Session) -> None:
    with pytest.raises(psycopg.Error), session.transaction():
        touch(session, "1")
        touch(session)
    assert tick(session) == 0
    assert touch(session, "1") == 1
    attach(session)
    assert gaps(session) == 0


@pytest.mark.parametrize(
    ("tube", "said"), [(None, "no tube NULL."), ("x" * 9_000, f'no tube "{"x" * 200}".')]
)
def test_a_name_in_an_error_is_never_left_out_and_never_endless(
    session: Session, tube: str | None, said: str
) -> None:
    with refused("TL404") as caught:
        call(session, "tube_drop", tube=tube)
    assert caught.value.diag.message_primary == f"there is {said}"


def test_null_for_one_of_several_words_is_called_null(session: Session) -> None:
    ensure(session)
    attach(session)
    for name, arguments in (
        ("tube_touch", {"tube": TUBE, "relation": "orders", "keys": ["1"], "op": None}),
        ("tube_backfill_pause", {"tube": TUBE, "pause": None}),
    ):
        with refused("TL422") as caught:
            call(session, name, **arguments)
        assert (caught.value.diag.message_primary or "").endswith(", got NULL.")


def test_a_condition_without_its_end_is_told_so(session: Session) -> None:
    ensure(session)
    for name, arguments in (
        ("tube_ensure", {"tube": TUBE, "condition": "length("}),
        ("tube_attach", {"tube": TUBE, "relation": "orders", "condition": "length("}),
    ):
        with refused("TL422") as caught:
            call(session, name, **arguments)
        assert "syntax error at end of input." in (caught.value.diag.message_primary or "")
