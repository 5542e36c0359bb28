"""Columns of every type: what is told loses no digit, and can be asked for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.gateway.nodes import make_live

from trunkline.testing import eventually

if TYPE_CHECKING:
    from tests.fixtures.asking import Session
    from tests.gateway.nodes import Node, Roles

THINGS = """
create type mood as enum ('sad', 'ok', 'happy');
create type odd as enum ('a b', 'true');
create domain email as text;
create table things (
  id bigint primary key, exact numeric, whole int, small smallint, near double precision,
  mood mood, moods mood[], odd odd, moment timestamptz, local timestamp, day date, clock time,
  uid uuid, doc jsonb, raw json, bytes bytea, ints int[], bigs bigint[], texts text[],
  flag boolean, mail email, span interval, address inet, fixed char(3))
"""

VALUES: dict[str, tuple[str, Any]] = {
    "exact": ("12345678901234567890.123456789012345678901234567890", ...),
    "whole": ("-2147483648", -2147483648),
    "small": ("7", 7),
    "near": ("0.1", 0.1),
    "mood": ("happy", "happy"),
    "moods": ("{sad,NULL,ok}", ["sad", None, "ok"]),
    "odd": ("a b", "a b"),
    "moment": ("2026-03-01T12:00:00.123456+02", "2026-03-01T10:00:00.123456+00:00"),
    "local": ("2026-03-01T12:00:00.5", "2026-03-01T12:00:00.5"),
    "day": ("2026-03-01", "2026-03-01"),
    "clock": ("12:30", "12:30:00"),
    "uid": ("123E4567-e89b-12d3-a456-426614174000", "123e4567-e89b-12d3-a456-426614174000"),
    "bytes": ("\\x00ff", "\\x00ff"),
    "ints": ("{1,2}", [1, 2]),
    "bigs": ("{9007199254740993}", ["9007199254740993"]),
    "texts": ('{"a,b",NULL}', ["a,b", None]),
    "flag": ("true", True),
    "mail": ("a@b.example", "a@b.example"),
    "address": ("10.0.0.1/8", "10.0.0.1/8"),
    "fixed": ("ab", "ab "),
}
BIG = 9223372036854775807


@pytest.fixture(autouse=True)
def things(session: Session, roles: Roles) -> None:
    session.execute(THINGS)
    make_live(session, "things", roles.member)


def insert(**values: str) -> str:
    quoted = ", ".join("'" + value.replace("'", "''") + "'" for value in values.values())
    return f"insert into things (id, {', '.join(values)}) values ({BIG}, {quoted})"


async def test_values_of_every_type_come_whole(node: Node, roles: Roles) -> None:
    columns = " ".join(VALUES)
    query = f"subscription {{ thingsCreated {{ items {{ id {columns} nodeId }} }} }}"
    async with node.talk(roles.member) as talk:
        await talk.subscribe(node.gateway, query)
        node.write(insert(**{name: text for name, (text, _) in VALUES.items()}))

        (item,) = (await talk.next())["thingsCreated"]["items"]
        assert item.pop("id") == str(BIG)
        assert item.pop("nodeId")
        expected = {name: text if told is ... else told for name, (text, told) in VALUES.items()}
        assert item == expected


async def test_plain_events_tell_the_same(node: Node, roles: Roles) -> None:
    async with node.follow("/v1/live/things", roles.member) as followed:
        await followed.frame()
        node.write(insert(**{name: text for name, (text, _) in VALUES.items()}))

        told = (await followed.event()).json
        assert told["key"] == {"id": str(BIG)}
        expected = {name: text if told is ... else told for name, (text, told) in VALUES.items()}
        assert {name: told["row"][name] for name in VALUES} == expected


DOC = """{"n": 1.10000000000000000000000000001, "big": 123456789012345678901234567890,
  "t": [0.5, null]}"""


@pytest.mark.parametrize("column", ["doc", "raw"])
async def test_numbers_inside_json_stay_numbers_with_all_their_digits(
    node: Node, roles: Roles, column: str
) -> None:
    query = f"subscription {{ thingsCreated {{ items {{ {column} }} }} }}"
    async with (
        node.talk(roles.member) as talk,
        node.follow("/v1/live/things", roles.member) as followed,
    ):
        await followed.frame()
        await talk.subscribe(node.gateway, query)
        node.write(insert(**{column: DOC}))

        said = str(await talk.socket.recv()), (await followed.event()).data
        for text in said:
            assert '"n":1.10000000000000000000000000001' in text
            assert '"big":123456789012345678901234567890' in text
            assert '"t":[0.5,null]' in text
            json.loads(text)


async def test_floats_that_are_no_numbers_are_null_in_graphql_and_text_elsewhere(
    node: Node, roles: Roles
) -> None:
    query = "subscription { thingsCreated { items { near exact } } }"
    async with (
        node.talk(roles.member) as talk,
        node.follow("/v1/live/things", roles.member) as followed,
    ):
        await followed.frame()
        await talk.subscribe(node.gateway, query)
        node.write(insert(near="-Infinity", exact="NaN"))

        assert (await talk.next())["thingsCreated"]["items"] == [{"near": None, "exact": "NaN"}]
        row = (await followed.event()).json["row"]
        assert (row["near"], row["exact"]) == ("-Infinity", "NaN")


ASKED: list[tuple[str, dict[str, str]]] = [
    ("{id: {eq: 9223372036854775807}}", {}),
    ('{id: {in: ["1", "9223372036854775807"]}}', {}),
    ('{exact: {gt: "1.00000000000000000001"}}', {"exact": "1.00000000000000000002"}),
    ("{exact: {eq: 1.50}}", {"exact": "1.5"}),
    ("{whole: {gte: 5, lt: 7}}", {"whole": "5"}),
    ("{whole: {eq: null}}", {"small": "1"}),
    ("{whole: {in: [1, null]}}", {"small": "1"}),
    ("{near: {lte: 0.1}}", {"near": "0.1"}),
    ("{mood: {gt: sad}}", {"mood": "ok"}),
    ("{mood: {in: [happy, ok]}}", {"mood": "ok"}),
    ("{moods: {eq: ok}}", {"moods": "{sad,ok}"}),
    ('{odd: {eq: "a b"}}', {"odd": "a b"}),
    ('{moment: {lt: "2026-01-01T00:00:00Z"}}', {"moment": "2026-01-01 00:59+01"}),
    ('{day: {gte: "2026-03-01"}}', {"day": "2026-03-01"}),
    (
        '{uid: {eq: "123E4567-E89B-12D3-A456-426614174000"}}',
        {"uid": "123e4567-e89b-12d3-a456-426614174000"},
    ),
    ('{doc: {eq: {a: [1, "x"]}}}', {"doc": '{"a": [1, "x"]}'}),
    ("{ints: {eq: 2}}", {"ints": "{1,2}"}),
    ('{bigs: {in: ["9007199254740993"]}}', {"bigs": "{9007199254740993}"}),
    ('{texts: {icontains: "ELL"}}', {"texts": "{no,hello}"}),
    ("{flag: {eq: true}}", {"flag": "true"}),
    ('{mail: {icontains: "@B"}}', {"mail": "a@b.example"}),
    ('{fixed: {eq: "ab"}}', {"fixed": "ab"}),
]
UNLIKE = {"whole": "8", "mood": "sad", "moment": "2027-01-01", "near": "7"}


async def test_a_condition_asks_in_the_type_of_its_column(node: Node, roles: Roles) -> None:
    async with node.talk(roles.member) as talk:
        for condition, matching in ASKED:
            query = f"subscription {{ thingsCreated(condition: {condition}) {{ items {{ id }} }} }}"
            name = await talk.subscribe(node.gateway, query)
            unlike = insert(**UNLIKE).replace(str(BIG), "5", 1)
            node.write(unlike, insert(**{"span": "1 day", **matching}))

            assert (await talk.next())["thingsCreated"]["items"] == [{"id": str(BIG)}], condition
            await talk.say({"type": "complete", "id": name})
            await eventually(lambda: len(node.gateway.feeds) == 0)
            node.write("delete from things")


REFUSED = [
    ("{whole: {eq: 1.5}}", "Int cannot represent"),
    ("{whole: {eq: 2147483648}}", "Int cannot represent"),
    ("{small: {eq: 40000}}", "fits no smallint"),
    ('{id: {eq: "1.5"}}', "BigInt is a whole number"),
    ('{id: {eq: "9223372036854775808"}}', "fits no bigint"),
    ('{exact: {eq: "x"}}', "Decimal is a number"),
    ("{mood: {eq: angry}}", "does not exist"),
    ('{moment: {lt: "yesterday evening"}}', "fits no timestamp"),
    ('{uid: {eq: "x"}}', "fits no uuid"),
    ('{flag: {eq: "x"}}', "Boolean cannot represent"),
    ("{whole: {in: null}}", "takes a list"),
    ("{whole: {gt: null}}", "takes a value"),
    ("{whole: {}}", "says nothing"),
    ("{whole: null}", "is null"),
    ("{whole: {icontains: 1}}", "unknown field"),
    ("{span: {eq: 1}}", "unknown field"),
    ("{nothing: {eq: 1}}", "unknown field"),
    ('{texts: {eq: "a\\u0000"}}', "\\u0000"),
    ('{whole: "5"}', "Int cannot represent"),
    ("{whole: [5]}", "Expected value"),
]


async def test_a_condition_that_makes_no_sense_is_refused_when_subscribing(
    node: Node, roles: Roles
) -> None:
    async with node.talk(roles.member) as talk:
        for condition, said in REFUSED:
            await talk.send(
                f"subscription {{ thingsCreated(condition: {condition}) {{ items {{ id }} }} }}"
            )

            assert said in (await talk.error())["message"], condition


async def test_conditions_come_as_variables_too(node: Node, roles: Roles) -> None:
    query = """subscription ($c: ThingsCondition) {
      thingsCreated(condition: $c) { items { id } } }"""
    async with node.talk(roles.member) as talk:
        await talk.send(query, variables={"c": {"mood": {"eq": "angry"}}})
        assert "angry" in (await talk.error())["message"]
        await talk.subscribe(
            node.gateway,
            query,
            variables={"c": {"mood": {"in": ["ok"]}, "id": {"gte": str(BIG)}}},
        )
        node.write(insert(mood="ok"))

        assert (await talk.next())["thingsCreated"]["items"] == [{"id": str(BIG)}]
