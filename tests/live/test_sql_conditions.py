"""What conditions of live tables can ask, and what is refused when subscribing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from psycopg.types.json import Jsonb
from tests.fixtures.asking import ask, column, refused
from tests.live.steps import Reading, contacts, subscribe, watch

if TYPE_CHECKING:
    from tests.fixtures.asking import Session

THINGS = """
create type mood as enum ('sad', 'fair', 'glad');
create table things (id int primary key, n int, big bigint, exact numeric, f float8, ok bool,
  t text, c char(3), d date, z timestamptz, u uuid, m mood, tags varchar[], numbers int[], j jsonb)
"""

ROWS = """
insert into things (id, n, big, exact, f, ok, t, c, d, z, u, m, tags, numbers, j) values
  (1, 10, 9007199254740993, 1.10, 1e100, true, 'Ann', 'a', '2026-01-02', '2026-01-02 03:04:05+00',
   '00000000-0000-0000-0000-000000000001', 'sad', '{red,Blue}', '{1,2}', '{"a": 1}'),
  (2, 9, 9007199254740992, 20, -1, false, 'bob %', 'abc', '2025-12-31', '2026-01-02 05:04:05+02',
   '00000000-0000-0000-0000-0000000000ff', 'glad', '{green}', '{2,3}', '[1]'),
  (3, null, null, null, null, null, null, null, null, null, null, null, null, null, null)
"""


@pytest.fixture
def things(session: Session) -> Session:
    session.execute(THINGS)
    watch(session, "things")
    return session


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        (None, [1, 2, 3]),
        ({}, [1, 2, 3]),
        ({"n": 10}, [1]),
        ({"n": {"eq": 10}}, [1]),
        ({"n": {"eq": "10"}}, [1]),
        ({"n": {"eq": None}}, [3]),
        ({"n": None}, [3]),
        ({"n": {"in": [9, 10]}}, [1, 2]),
        ({"n": {"in": [9, None]}}, [2, 3]),
        ({"n": {"in": []}}, []),
        ({"n": {"gt": 9}}, [1]),
        ({"n": {"gte": 9, "lt": 10}}, [2]),
        ({"n": {"lte": 9}}, [2]),
        ({"big": {"eq": "9007199254740993"}}, [1]),
        ({"big": {"gt": "9007199254740992"}}, [1]),
        ({"exact": {"eq": "1.1"}}, [1]),
        ({"exact": {"gte": 2}}, [2]),
        ({"f": {"lt": 0}}, [2]),
        ({"f": {"eq": 1e100}}, [1]),
        ({"ok": True}, [1]),
        ({"ok": {"in": [False, None]}}, [2, 3]),
        ({"t": "Ann"}, [1]),
        ({"t": {"icontains": "AN"}}, [1]),
        ({"t": {"icontains": "%"}}, [2]),
        ({"t": {"gt": "az"}}, [2]),
        ({"c": "a"}, [1]),
        ({"d": {"lt": "2026-01-01"}}, [2]),
        ({"z": {"eq": "2026-01-02T03:04:05Z"}}, [1, 2]),
        ({"z": {"gte": "2026-01-02 04:04:05+01"}}, [1, 2]),
        ({"u": {"gt": "00000000-0000-0000-0000-000000000001"}}, [2]),
        ({"u": "00000000-0000-0000-0000-0000000000FF"}, [2]),
        ({"m": "glad"}, [2]),
        ({"m": {"lt": "glad"}}, [1]),
        ({"tags": "red"}, [1]),
        ({"tags": {"in": ["red", "green", "pink"]}}, [1, 2]),
        ({"tags": {"icontains": "blu"}}, [1]),
        ({"tags": None}, [3]),
        ({"numbers": {"eq": 2}}, [1, 2]),
        ({"numbers": {"in": [3, 7]}}, [2]),
        ({"j": {"eq": {"a": 1}}}, [1]),
        ({"j": [1]}, [2]),
        ({"n": {"gte": 1}, "ok": True, "t": {"icontains": "n"}}, [1]),
        ({"n": 10, "ok": False}, []),
    ],
    ids=str,
)
def test_a_condition_holds_for_the_rows_that_it_means(
    things: Session, condition: Any, ids: list[int]
) -> None:
    things.execute("set timezone = 'Asia/Kolkata'; set datestyle = 'SQL, DMY'")
    number = subscribe(things, condition, "things")
    reading = Reading(things, number)
    things.execute(ROWS)
    things.execute("reset datestyle")  # psycopg reads no other
    assert reading.keys() == ids


def test_an_empty_table_of_rows_is_told_of_nothing(things: Session) -> None:
    reading = Reading(things, subscribe(things, {"n": 10}, "things"))
    assert reading.new() == []


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ([], "a condition is a JSON object"),
        ("n = 1", "a condition is a JSON object"),
        ({"nothing": 1}, 'no column "nothing"'),
        ({"n": {}}, "says nothing of column"),
        ({"n": {"like": "x"}}, '"like" cannot be asked'),
        ({"n": {"icontains": "x"}}, '"icontains" cannot be asked'),
        ({"n": "ten"}, 'on column "n" fits no integer'),
        ({"n": {"gt": None}}, '"gt" takes a value'),
        ({"n": {"in": 1}}, '"in" takes a list'),
        ({"n": [1]}, "not a single value"),
        ({"n": 99999999999}, 'on column "n" fits no integer'),
        ({"n": {"eq": {"or": 1}}}, "not a single value"),
        ({"ok": {"gt": False}}, '"gt" cannot be asked'),
        ({"d": "soon"}, 'on column "d" fits no date'),
        ({"m": "angry"}, 'on column "m" fits no'),
        ({"tags": {"gt": "a"}}, '"gt" cannot be asked'),
        ({"j": {"eq": 1, "gt": 1}}, ""),
        ({"t": {"eq": "x'); drop table things; --"}}, ""),
    ],
    ids=str,
)
def test_a_condition_that_makes_no_sense_is_refused_when_subscribing(
    things: Session, condition: Any, said: str
) -> None:
    if not said:  # odd, and taken at its word
        assert subscribe(things, condition, "things") > 0
        return
    with refused("TL422") as error:
        subscribe(things, condition, "things")
    assert said in str(error.value)
    assert column(things, "select subscription from trunkline.live_subscriptions()") == []


def test_a_condition_that_is_too_long_is_refused(things: Session) -> None:
    with refused("TL413"):
        subscribe(things, {"t": "x" * 20_000}, "things")


def test_conditions_that_differ_in_values_have_one_shape(session: Session) -> None:
    contacts(session)
    for org in range(5):
        subscribe(session, {"org_id": {"eq": org}})
        subscribe(session, {"org_id": {"gt": org}})
    assert ask(session, "select count(*) from trunkline.live_shape") == 2


VALUES = {
    "n": some.none() | some.integers(-3, 3),
    "exact": some.none() | some.decimals(-3, 3, places=2).map(str),
    "t": some.none() | some.text("aAbä%_\\'\"", max_size=3),
    "ok": some.none() | some.booleans(),
    "tags": some.none() | some.lists(some.none() | some.text("aAb", max_size=2), max_size=3),
}
SQL = {
    "eq": "{c} is not distinct from {v}",
    "in": "({c} = any ({v}) or {c} is null and array_position({v}, null) is not null)",
    "gt": "{c} > {v}",
    "gte": "{c} >= {v}",
    "lt": "{c} < {v}",
    "lte": "{c} <= {v}",
    "icontains": "strpos(lower({c}), lower({v})) > 0",
}
OF_ARRAYS = {
    "eq": "case when {v} is null then {c} is null else {v} = any ({c}) end",
    "in": "({c} && {v} or {c} is null and array_position({v}, null) is not null"
    " or array_position({c}, null) is not null and array_position({v}, null) is not null)",
    "icontains": "exists (select from unnest({c}) x where strpos(lower(x), lower({v})) > 0)",
}
TYPES = {"n": "int", "exact": "numeric", "t": "text", "ok": "bool", "tags": "varchar[]"}


@some.composite
def asked(draw: some.DrawFn) -> tuple[str, str, Any]:
    """A column, an operator and a value."""
    name = draw(some.sampled_from(sorted(VALUES)))
    operators = ["eq", "in"]
    if name == "tags":
        operators.append("icontains")
    elif name != "ok":
        operators += ["gt", "gte", "lt", "lte"] + (["icontains"] if name == "t" else [])
    operator = draw(some.sampled_from(operators))
    element = some.none() | some.text("aAb", max_size=2) if name == "tags" else VALUES[name]
    if operator == "in":
        return name, operator, draw(some.lists(element, max_size=3))
    if operator == "eq":
        return name, operator, draw(element)
    return name, operator, draw(element.filter(lambda value: value is not None))


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    conditions=some.lists(asked(), min_size=1, max_size=3, unique_by=lambda term: term[0]),
    rows=some.lists(some.fixed_dictionaries(VALUES), min_size=1, max_size=6),
)
def test_a_condition_means_what_the_same_words_mean_in_sql(
    things: Session, conditions: list[tuple[str, str, Any]], rows: list[dict[str, Any]]
) -> None:
    things.execute("truncate things; delete from trunkline.live_subscription")
    condition = {name: {operator: value} for name, operator, value in conditions}
    reading = Reading(things, subscribe(things, condition, "things"))
    things.execute(
        "insert into things (id, n, exact, t, ok, tags)"
        " select o, n, exact, t, ok, tags from jsonb_array_elements(%s) with ordinality e (r, o),"
        " jsonb_populate_record(null::things, r)",
        [Jsonb(rows)],
    )
    wanted = " and ".join(_as_sql(*term) for term in conditions)
    expected = column(things, f"select id from things where {wanted} order by id")
    assert reading.keys() == expected, json.dumps([condition, rows])


def _as_sql(name: str, operator: str, value: Any) -> str:
    base = TYPES[name].removesuffix("[]")
    if operator == "in":
        literal = f"array[{', '.join(_literal(each) for each in value)}]::{base}[]"
    else:
        literal = f"({_literal(value)})::{base}"
    text = (OF_ARRAYS if name == "tags" else SQL)[operator]
    return text.format(c=name, v=literal)


def _literal(value: Any) -> str:
    if value is None:
        return "null"
    text = str(value).replace("\\", "\\\\").replace("'", "''").replace("%", "%%")
    return f"E'{text}'"
