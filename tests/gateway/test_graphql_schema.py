"""The schema: which names tables and columns get, and what it tells of them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from graphql import GraphQLInputObjectType, GraphQLObjectType, print_type, validate_schema
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.gateway.nodes import bearer, make_live

from trunkline.gateway import naming, schema
from trunkline.live.models import Kind, LiveColumn, LiveTable

if TYPE_CHECKING:
    from tests.fixtures.asking import Session
    from tests.gateway.nodes import Node, Roles

KINDS = ("Created", "Updated", "Deleted", "Left", "Changed")


def column(name: str, type_: str = "integer", kind: Kind = Kind.NUMBER, **given: Any) -> LiveColumn:
    return LiveColumn(
        name, type_, kind, **{"array": False, "nullable": True, "comment": None} | given
    )


def table(name: str, *columns: LiveColumn, relation: str = "") -> LiveTable:
    return LiveTable(
        relation=relation or name,
        name=name,
        key_columns=[columns[0].name],
        columns=list(columns),
        comment=None,
        tagged=False,
        subscriptions=0,
        fault=None,
        created_at=datetime.now(UTC),
        oid=1,
    )


def fields(*tables: LiveTable) -> list[str]:
    built = schema.build(tables)
    assert validate_schema(built) == []
    assert built.subscription_type is not None
    return list(built.subscription_type.fields)


def test_a_table_gets_five_subscriptions() -> None:
    assert fields(table("org_members", column("id"))) == [f"orgMembers{kind}" for kind in KINDS]


def test_without_live_tables_there_are_queries_alone() -> None:
    built = schema.build([])

    assert validate_schema(built) == []
    assert built.subscription_type is None


@pytest.mark.parametrize(
    ("name", "camel", "pascal"),
    [
        ("org_id", "orgId", "OrgId"),
        ("orgID", "orgID", "OrgID"),
        ("Große Straße", "groXdfEStraXdfE", "GroXdfEStraXdfE"),
        ("élan", "elan", "Elan"),
        ("日本", "x65e5X672c", "X65e5X672c"),
        ("1st", "_1st", "_1st"),
        ("__typename", "_typename", "Typename"),
        ("_id", "_id", "Id"),
        ("---", "x", "X"),
        ('a"b.c', "aBC", "ABC"),
    ],
)
def test_names_of_sql_become_names_of_graphql(name: str, camel: str, pascal: str) -> None:
    assert (naming.camel(name), naming.pascal(name)) == (camel, pascal)


def test_names_that_clash_get_numbers_and_those_that_need_no_change_keep_theirs() -> None:
    names = naming.unique(["org_id", "orgId", "org-id", "node_id"], naming.camel, taken=["nodeId"])

    assert names == {
        "orgId": "orgId",
        "org-id": "orgId_2",
        "org_id": "orgId_3",
        "node_id": "nodeId_2",
    }


def test_types_of_tables_do_not_clash_with_each_other_or_with_ours() -> None:
    names = ("contact", "contact_key", "query", "subscription", "int", "big_int", "live_table")
    mood = column("m", "mood", Kind.ORDERED, labels=("a",))

    assert len(fields(*(table(name, column("id"), mood) for name in names), table("mood", mood)))


def test_enums_of_one_name_in_two_schemas_are_two() -> None:
    one = column("s", "a.state", Kind.ORDERED, labels=("x",))
    two = column("s", "b.state", Kind.ORDERED, labels=("y",))
    built = schema.build([table("one", one), table("two", two)])

    assert validate_schema(built) == []
    assert "x" in print_type(built.type_map["AState"])
    assert "y" in print_type(built.type_map["BState"])


@settings(max_examples=30, deadline=None)
@given(st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=8, unique=True))
def test_whatever_tables_and_columns_are_called_the_schema_is_valid(names: list[str]) -> None:
    tables = [table(name, *(column(each) for each in names)) for name in names]

    assert len(fields(*tables)) == 5 * len(names)


def test_a_condition_has_the_operators_of_each_columns_type() -> None:
    built = schema.build(
        [
            table(
                "t",
                column("id"),
                column("name", "text", Kind.TEXT),
                column("flag", "boolean", Kind.BOOLEAN),
                column("doc", "jsonb", Kind.JSON),
                column("tags", "text[]", Kind.TEXT, array=True),
                column("shape", "polygon", Kind.OTHER),
            ),
            table("u", column("id")),
        ]
    )
    condition = built.type_map["TCondition"]
    assert isinstance(condition, GraphQLInputObjectType)

    found = {name: set(each.type.fields) for name, each in condition.fields.items()}
    order = {"gt", "gte", "lt", "lte"}
    assert found == {
        "id": {"eq", "in"} | order,
        "name": {"eq", "in", "icontains"} | order,
        "flag": {"eq", "in"},
        "doc": {"eq"},
        "tags": {"eq", "in", "icontains"},
    }
    other = built.type_map["UCondition"]
    assert isinstance(other, GraphQLInputObjectType)
    assert other.fields["id"].type is condition.fields["id"].type


def test_comments_of_tables_and_columns_are_descriptions() -> None:
    built = schema.build([table("t", column("id", comment="Which one."))])
    row = built.type_map["T"]

    assert isinstance(row, GraphQLObjectType)
    assert row.fields["id"].description == "Which one."


async def test_tables_that_are_not_live_are_not_there(
    node: Node, session: Session, roles: Roles
) -> None:
    session.execute("create table shown (id int primary key); create table hidden (id int)")
    make_live(session, "shown", roles.member)
    answer = await node.query(
        "{ __schema { subscriptionType { fields { name } } } live { name relation key } }",
        headers=bearer(roles.member),
    )

    names = {each["name"] for each in answer["data"]["__schema"]["subscriptionType"]["fields"]}
    assert names == {f"shown{kind}" for kind in KINDS}
    assert answer["data"]["live"] == [{"name": "shown", "relation": "public.shown", "key": ["id"]}]


async def test_a_comment_makes_a_table_live(node: Node, session: Session, roles: Roles) -> None:
    session.execute("create table films (id int primary key)")
    session.execute(f"grant select on films to {roles.member}")
    session.execute("comment on table films is $$ @behaviour +subscribable $$")
    assert await node.platform.live.watch_tagged()
    answer = await node.query("{ live { name } }", headers=bearer(roles.member))

    assert answer["data"]["live"] == [{"name": "films"}]


async def test_two_tables_of_one_name_are_told_apart(
    node: Node, session: Session, roles: Roles
) -> None:
    session.execute("create schema app; create schema shop")
    session.execute(f"grant usage on schema app, shop to {roles.member}")
    for schema_name in ("app", "shop"):
        session.execute(f"create table {schema_name}.items (id int primary key)")
        make_live(session, f"{schema_name}.items", roles.member)
    async with node.talk(roles.member) as talk:
        first = await talk.subscribe(node.gateway, "subscription { itemsCreated { items { id } } }")
        second = await talk.subscribe(
            node.gateway, "subscription { shopItemsCreated { items { id nodeId } } }"
        )
        node.write("insert into app.items values (1)")
        node.write("insert into shop.items values (1)")

        heard = [await talk.hear(), await talk.hear()]  # tables wait for nobody but themselves
        assert sorted(message["id"] for message in heard) == [first, second]


ODD = 'app."Bücher & ""Co""/?#"'


async def test_odd_names_of_tables_and_columns_work_everywhere(
    node: Node, session: Session, roles: Roles
) -> None:
    session.execute("create schema app")
    session.execute(f"grant usage on schema app to {roles.member}")
    session.execute(
        f'create table {ODD} ("Größe" int, "select" text, "a b" int, "aB" int, "node_id" int,'
        ' primary key ("Größe", "select"))'
    )
    make_live(session, ODD, roles.member)
    query = """subscription { bucherCoUpdated(condition: {aB: {eq: 2}, aB_2: {eq: 1}}) {
      items { key { groXdfE select nodeId } changed patch { aB nodeId_2 } } } }"""
    path = "/v1/live/" + "B%C3%BCcher%20%26%20%22Co%22%2F%3F%23"
    node.write(f"insert into {ODD} values (1, 'x', 1, 1, 1)")
    async with node.talk(roles.member) as talk, node.follow(path, roles.member) as followed:
        await followed.frame()
        await talk.subscribe(node.gateway, query)
        node.write(f'update {ODD} set "aB" = 2, node_id = 5')

        (item,) = (await talk.next())["bucherCoUpdated"]["items"]
        assert item["key"]["groXdfE"] == 1
        assert item["key"]["select"] == "x"
        assert item["patch"] == {"aB": 2, "nodeId_2": 5}
        assert item["changed"] == ["aB", "nodeId_2"]
        assert (await followed.event()).json["patch"] == {"aB": 2, "node_id": 5}
