"""Conditions in SQL: what is accepted, what is refused, and as whom they run."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.broker.steps import RUN_AS_MATCHER
from tests.fixtures.asking import ask, column, refused
from tests.fixtures.postgres import new_database

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures.postgres import AnyServer

Session = psycopg.Connection[Any]

OF_A_USER = """
create function public.harmless() returns boolean immutable language sql as 'select true';
create function public.powerful() returns boolean immutable security definer language sql
  as 'select true';
create function public.same(text, text) returns boolean immutable language sql as 'select true';
create operator public.=== (leftarg = text, rightarg = text, function = public.same);
create domain public.word as text check (public.powerful());
create type public.colour as enum ('red');
create table public.secret (a int);
"""

ACCEPTED = {
    "e.topic = 'a'": "(e.topic = 'a'::text)",
    "true -- whatever": "true",
    "true -- )": "true",
    "e.topic like '%x'": "(e.topic ~~ '%x'::text)",
    "5 % 2 = 1": "((5 % 2) = 1)",
    "(e.payload ->> 'n')::int / 0 = 1": "((((e.payload ->> 'n'::text))::integer / 0) = 1)",
    "e.topic = $x$ ; drop table $x$": "(e.topic = ' ; drop table '::text)",
    "e.key = 'it''s' || E'\\n'": "(e.key = ('it''s'::text || '\n'::text))",
    "e.at > current_date": "(e.at > CURRENT_DATE)",
    "now() - e.at < interval '1 day'": "((now() - e.at) < '1 day'::interval)",
    "e.at < '2026-01-01 00:00+01'": ("(e.at < '2025-12-31 23:00:00+00'::timestamp with time zone)"),
    "extract(hour from e.at) = 8": "(EXTRACT(hour FROM e.at) = (8)::numeric)",
    "e.payload @? '$.a ? (@ > 1)'": "(e.payload @? '$.\"a\"?(@ > 1)'::jsonpath)",
    "e.topic in ('a', s.params ->> 'b')": (
        "((e.topic = 'a'::text) OR (e.topic = (s.params ->> 'b'::text)))"
    ),
    "s.params @> jsonb_build_object('topic', e.topic)": (
        "(s.params @> jsonb_build_object('topic', e.topic))"
    ),
    "concat('a', e.topic) = 'ab'": "(concat('a', e.topic) = 'ab'::text)",
    "case when e.key is null then true else e.key > s.group_name end": (
        "CASE\n            WHEN (e.key IS NULL) THEN true\n"
        "            ELSE (e.key > s.group_name)\n        END"
    ),
}

REFUSED = {
    "true; drop table x": "syntax error",
    "true) as holds; select (true": "multi-query",
    "true) union select (true": "more than one expression",
    "true) union all select (true": "more than one expression",
    "true), (true": "more than one expression",
    "true) from pg_class where (true": "syntax error",
    "true) as holds from pg_class e, pg_proc s where (true": "syntax error",
    "true /* x": "unterminated /* comment",
    "e.topic = 'a": "unterminated quoted string",
    "((true)": "syntax error at or near its end",
    "e.topic =": "syntax error at or near ",
    "e.topic as x": 'syntax error at or near "as"',
    "true))": "syntax error",
    ")": "syntax error",
    "e.topic = 'a') or (true": "do not match",
    "e.topic = 'a') and (e.key = 'b'": "do not match",
    "1": "it gives integer",
    "null": "it gives text",
    "'true'": "it gives text",
    "count(*) > 1": "an aggregate",
    "row_number() over () = 1": "a window function",
    "exists (select 1)": "a sub-select",
    "e.topic = (select 'a')": "a sub-select",
    "e.topic = any (array(select 'a'))": "a sub-select",
    "e.ctid is null": "a system column",
    "e.tableoid > 0": "a system column",
    "e is null": "a whole row",
    "to_jsonb(s) is null": "a whole row",
    "s.key_hash = 1": "column s.key_hash does not exist",
    "x.topic = 'a'": "missing FROM-clause entry",
    "$1 = e.topic": "there is no parameter $1",
    "pg_sleep(1) is null": "function pg_sleep",
    "current_setting('port') = '5432'": "function current_setting",
    "current_user = 'x'": "only the time",
    "version() = e.key": "function version",
    "random() < 0.5": "function random",
    "clock_timestamp() > e.at": "function clock_timestamp",
    "query_to_xml('select 1', true, true, '') is null": "function query_to_xml",
    "nextval('trunkline.event_seq') = 1": "function nextval",
    "pg_read_file('/etc/passwd') = e.key": "function pg_read_file",
    "has_table_privilege('pg_class', 'select')": "function has_table_privilege",
    "'pg_class'::regclass is not null": "type regclass",
    "e.event_id::regclass::text = 'x'": "not allowed",
    "e.key::regproc is null": "not allowed",
    "generate_series(1, 2) = 1": "not allowed",
    "repeat('x', 1000000000) = e.topic": "function repeat",
    "lpad('x', 1000000000) = e.topic": "function lpad",
    "array_fill(1, array[10000, 10000]) is null": "function array_fill",
    "trunkline.broker_head() > 0": "function trunkline.broker_head",
    "e.topic operator(public.=) e.key": "operator does not exist",
    "harmless()": "function harmless",
    "public.harmless()": "function",
    "public.powerful()": "function",
    "e.topic operator(public.===) e.key": "function",
    "e.topic::public.word = 'a'": "not allowed",
    "'red'::public.colour = 'red'": "type public.colour",
    "(" * 5000 + "true" + ")" * 4900: "syntax error",
}


@pytest.fixture(scope="module")
def lawless_dsn(server: AnyServer, template: str) -> Iterator[str]:
    """A database with functions, types and operators of a user."""
    with new_database(server, template=template) as name:
        with psycopg.connect(server.dsn(name)) as opened:
            opened.execute(OF_A_USER)
        yield server.dsn(name)


@pytest.fixture
def session(lawless_dsn: str) -> Iterator[Session]:
    """A session that leaves nothing behind."""
    with (
        closing(psycopg.connect(lawless_dsn, autocommit=True)) as opened,
        opened.transaction(force_rollback=True),
    ):
        yield opened


def subscribe(
    session: Session, condition: str | None, params: str = "{}", group: str = "watchers"
) -> int:
    return int(
        ask(session, "select trunkline.broker_subscribe(%s, %s, %s)", [group, condition, params])
    )


@pytest.mark.parametrize(("condition", "canonical"), ACCEPTED.items())
def test_a_condition_is_kept_as_the_server_understood_it(
    session: Session, condition: str, canonical: str
) -> None:
    subscribe(session, condition)
    assert column(session, "select expression from trunkline.broker_condition") == [canonical]


@pytest.mark.parametrize(("condition", "words"), REFUSED.items())
def test_what_is_not_a_harmless_expression_is_refused_when_subscribed(
    session: Session, condition: str, words: str
) -> None:
    with refused("TL422") as caught, session.transaction():
        subscribe(session, condition)
    assert words in str(caught.value)
    assert ask(session, "select count(*) from trunkline.broker_condition") == 0


def test_a_condition_of_a_megabyte_is_refused(session: Session) -> None:
    with refused("TL413"):
        subscribe(session, "e.topic = '" + "x" * 1_000_000 + "'")


@pytest.mark.parametrize("params", ["[]", "1", "null", '"x"'])
def test_params_are_an_object(session: Session, params: str) -> None:
    with refused("TL422"):
        subscribe(session, "true", params)


def test_checking_a_condition_leaves_nothing_in_the_session(session: Session) -> None:
    subscribe(session, "e.key is null")
    with refused("TL422"), session.transaction():
        subscribe(session, "exists (select 1)")
    assert ask(session, "select count(*) from pg_class where relname ~ 'trunkline_condition'") == 0


def test_settings_of_the_session_do_not_change_what_a_condition_means(session: Session) -> None:
    session.execute("set timezone = 'Asia/Tokyo'; set datestyle = 'German'")
    subscribe(session, "e.at > '2026-01-01'")
    assert column(session, "select expression from trunkline.broker_condition") == [
        "(e.at > '2026-01-01 00:00:00+00'::timestamp with time zone)"
    ]


def test_constants_do_not_depend_on_settings_of_the_session(session: Session) -> None:
    session.execute(
        "set standard_conforming_strings = off; set transform_null_equals = on;"
        " set array_nulls = off; set extra_float_digits = -10"
    )
    subscribe(session, r"e.topic ~ 'a\.b'")
    subscribe(session, "(e.key = null) is true")
    subscribe(session, "e.key = any ('{a,NULL}'::text[])")
    subscribe(session, "(e.payload -> 'n')::float > 0.1234567890123456::float")
    session.execute("reset all")
    expressions = "select expression from trunkline.broker_condition order by condition_id"
    assert column(session, expressions) == [
        r"(e.topic ~ 'a\.b'::text)",
        "((e.key = NULL::text) IS TRUE)",
        "(e.key = ANY ('{a,NULL}'::text[]))",
        "(((e.payload -> 'n'::text))::double precision > (0.1234567890123456)::double precision)",
    ]


def test_a_session_that_reads_backslashes_otherwise_gets_the_same_answers(session: Session) -> None:
    session.execute("set standard_conforming_strings = off")
    for condition in ("pg_sleep(1) is null", "random() < 2", "lower(current_user) = 'me'"):
        with refused("TL422"), session.transaction():
            subscribe(session, condition)
    assert ask(session, "select trunkline._topic_regex('a.*.#.b+')") == r"^a\.[^.]+(\..*)?\.b\+$"
    subscribe(session, '{"topic": "a.b", "eq": {"payload.n": 1}}')
    assert ask(session, "select event_key from trunkline.broker_condition") == (
        "row((e.payload #> '{n}'::text[]), e.topic)"
    )


def test_conditions_run_as_a_role_that_may_read_nothing_but_the_events_at_hand(
    session: Session,
) -> None:
    assert ask(session, "select trunkline._condition_sandboxed()")
    run = "select * from trunkline._condition_run(%s)"
    assert session.execute(run, ["select 1, 2::bigint"]).fetchall() == [(1, 2)]
    shapes = "trunkline.broker_match_event, trunkline.broker_match_subscription"
    assert session.execute(run, [f"select 1, 1::bigint from {shapes}"]).fetchall() == []
    for statement in (
        "select 1, count(*) from trunkline.event",
        "select 1, count(*) from trunkline.broker_subscription",
        "select 1, count(*) from public.secret",
        "select 1, trunkline.broker_head()",
        "select 1, count(*) from trunkline.broker_unsubscribe(1)",
    ):
        with refused("42501"), session.transaction():
            session.execute(run, [statement])


def test_the_role_of_conditions_can_neither_log_in_nor_be_borrowed(session: Session) -> None:
    row = session.execute(
        "select rolcanlogin, rolsuper, rolcreaterole, rolbypassrls from pg_roles"
        " where rolname = 'trunkline_matcher'"
    ).fetchone()
    assert row == (False, False, False, False)
    for function in RUN_AS_MATCHER:
        for role in ("public", "trunkline_reader", "trunkline_admin"):
            assert not ask(
                session,
                "select has_function_privilege(%s, %s, 'execute')",
                [role, f"trunkline.{function}"],
            )
