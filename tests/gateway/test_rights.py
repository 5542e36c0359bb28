"""Row-level security and grants decide what is told, of deletes too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from psycopg.conninfo import make_conninfo
from tests.gateway.nodes import bearer, make_live

if TYPE_CHECKING:
    from tests.fixtures.asking import Session
    from tests.gateway.nodes import Node, OpenNode, Roles

CHANGED = "subscription { notesChanged { items { change key { id } row { body } } } }"
BY_CLAIMS = "org = (current_setting('request.jwt.claims')::jsonb ->> 'org')::int"
BY_SETTING = "org = current_setting('app.org_id', true)::int"


def protect(session: Session, roles: Roles, policy: str) -> None:
    session.execute("create table notes (id int primary key, org int, body text, secret text)")
    session.execute("alter table notes enable row level security")
    session.execute(f"create policy p on notes to {roles.member} using ({policy})")
    make_live(session, "notes", roles.member)


def brief(told: dict[str, Any]) -> list[tuple[str, int]]:
    return [(item["change"], item["key"]["id"]) for item in told["notesChanged"]["items"]]


@pytest.mark.parametrize("policy", [BY_CLAIMS, BY_SETTING], ids=["claims", "setting"])
async def test_each_sees_the_rows_that_policies_let_him_see_of_deletes_too(
    start: OpenNode, session: Session, roles: Roles, policy: str
) -> None:
    protect(session, roles, policy)
    node = await start(jwt_settings="app.org_id=org")
    async with (
        node.talk(roles.member, org=1) as first,
        node.talk(roles.member, org=2) as second,
    ):
        await first.subscribe(node.gateway, CHANGED)
        await second.subscribe(node.gateway, CHANGED)
        node.write("insert into notes values (1, 1), (2, 2)", "update notes set body = 'x'")
        node.write("update notes set org = 1 where id = 2", "delete from notes")

        expected = {
            "first": ["CREATED 1", "UPDATED 1", "ENTERED 2", "DELETED 1", "DELETED 2"],
            "second": ["CREATED 2", "UPDATED 2", "LEFT 2"],
        }
        for talk, changes in zip((first, second), expected.values(), strict=True):
            found: list[str] = []
            while len(found) < len(changes):
                found += [f"{change} {number}" for change, number in brief(await talk.next())]
            assert found == changes


async def test_a_policy_on_subscriptions_says_who_may_subscribe_to_what(
    node: Node, session: Session, roles: Roles
) -> None:
    session.execute("create table notes (id int primary key, org int)")
    make_live(session, "notes", roles.member)
    session.execute(
        f"create policy own_org on trunkline.live_subscription to {roles.member} with check"
        " ((condition -> 'org' ->> 'eq') = current_setting('request.jwt.claims')::json ->> 'org')"
    )
    asked = "subscription { notesCreated(condition: {org: {eq: %s}}) { items { id } } }"
    async with node.talk(roles.member, org=1) as talk:
        await talk.send(asked % 2)
        error = await talk.error()
        assert error["extensions"]["code"] == "TL403"
        await talk.send("subscription { notesCreated { items { id } } }")
        assert (await talk.error())["extensions"]["status"] == 403
        await talk.subscribe(node.gateway, asked % 1)
        node.write("insert into notes values (1, 1)")

        assert (await talk.next())["notesCreated"]["items"] == [{"id": 1}]


async def test_columns_that_a_role_may_not_select_are_null_and_cannot_be_asked_for(
    node: Node, session: Session, roles: Roles
) -> None:
    session.execute("create table notes (id int primary key, org int, body text, secret text)")
    session.execute(f"grant select (id, body) on notes to {roles.member}")
    session.execute("select trunkline.live_watch('notes', %s)", [[roles.member]])
    async with node.talk(roles.member) as talk:
        for asked in (
            'subscription { notesCreated(condition: {secret: {eq: "x"}}) { items { id } } }',
            "subscription { notesUpdated { items { patch { secret } } } }",
        ):
            await talk.send(asked)
            assert (await talk.error())["extensions"]["code"] == "TL403"
        await talk.subscribe(
            node.gateway, "subscription { notesCreated { items { id body secret } } }"
        )
        node.write("insert into notes values (1, 1, 'seen', 'not seen')")

        assert (await talk.next())["notesCreated"]["items"] == [
            {"id": 1, "body": "seen", "secret": None}
        ]


async def test_who_may_not_read_a_table_may_not_subscribe_to_it(
    node: Node, session: Session, roles: Roles
) -> None:
    protect(session, roles, "true")
    async with node.talk(roles.stranger) as talk:
        await talk.send(CHANGED)
        assert (await talk.error())["extensions"]["code"] == "TL403"
    session.execute(f"grant select on notes to {roles.stranger}")
    answer = await node.http.get("/v1/live/notes", headers=bearer(roles.stranger))
    assert answer.status_code == 403  # nobody has let him subscribe


async def test_a_refusal_names_the_role_of_the_token_and_what_gives_the_right(
    node: Node, session: Session, roles: Roles
) -> None:
    session.execute("create table notes (id int primary key, org int, secret text)")
    session.execute(f"grant select (id, org) on notes to {roles.member}")
    session.execute("select trunkline.live_watch('notes', %s)", [[roles.member]])
    session.execute(f"grant select on notes to {roles.stranger}")

    async def problem(role: str, **params: str) -> dict[str, Any]:
        answer = await node.http.get("/v1/live/notes", headers=bearer(role), params=params)
        assert answer.status_code == 403
        found: dict[str, Any] = answer.json()
        return found

    found = await problem(roles.stranger)
    assert found["role"] == roles.stranger
    assert f"trunkline live allow {roles.stranger}" in found["hint"]
    found = await problem(roles.member, columns="secret")
    assert f"grant select (secret) on public.notes to {roles.member};" in found["hint"]
    session.execute(
        f"create policy none on trunkline.live_subscription to {roles.member} with check (false)"
    )
    found = await problem(roles.member)
    assert found["role"] == roles.member
    assert "policy" in found["hint"]
    assert "Grant trunkline" not in found["hint"]


async def test_live_tables_are_listed_to_roles_that_may_select_from_them(
    node: Node, session: Session, roles: Roles
) -> None:
    session.execute("create table notes (id int primary key, org int, secret text)")
    session.execute(f"grant select (id, org) on notes to {roles.member}")
    session.execute("select trunkline.live_watch('notes', %s)", [[roles.member]])
    query = {"query": "{ live { name } __schema { subscriptionType { name } } }"}

    async def listed(role: str) -> tuple[Any, Any]:
        tables = await node.http.get("/v1/live", headers=bearer(role))
        graphql = await node.http.post("/graphql", json=query, headers=bearer(role))
        return tables.json(), graphql.json()["data"]

    (table,), told = await listed(roles.member)
    assert [column["name"] for column in table["columns"]] == ["id", "org"]
    assert told == {
        "live": [{"name": "notes"}],
        "__schema": {"subscriptionType": {"name": "Subscription"}},
    }
    assert await listed(roles.stranger) == (
        [],
        {"live": [], "__schema": {"subscriptionType": None}},
    )


@pytest.mark.parametrize("role", ["missing", "login"])
async def test_a_role_that_the_gateway_may_not_become_learns_nothing(
    start: OpenNode, gateway_dsn: str, session: Session, roles: Roles, role: str
) -> None:
    make = "create role poor_gateway login; grant trunkline_writer to poor_gateway"
    session.execute(f"{make}; create role foreign_login")
    named = {"missing": "nobody_there", "login": "foreign_login"}[role]
    try:
        node = await start(dsn=make_conninfo(gateway_dsn, user="poor_gateway"))
        query = {"query": "{ live { name } }"}
        for answer in (
            await node.http.get("/v1/live", headers=bearer(named)),
            await node.http.post("/graphql", json=query, headers=bearer(named)),
        ):
            assert answer.status_code == 403
            assert f'"poor_gateway" may not act as "{named}"' in answer.json()["detail"]
        async with node.talk(begin=False) as talk:
            await talk.say({"type": "connection_init", "payload": bearer(named)})
            assert (await talk.closed())[0] == 4403
        await node.platform.close()
    finally:
        session.execute("drop owned by poor_gateway; drop role poor_gateway, foreign_login")


async def test_a_policy_that_raises_ends_the_stream_with_422_and_tells_no_row(
    node: Node, session: Session, roles: Roles
) -> None:
    protect(session, roles, "body::int >= 0")
    async with (
        node.talk(roles.member) as talk,
        node.follow("/v1/live/notes", roles.member) as followed,
    ):
        await talk.subscribe(node.gateway, CHANGED)
        await followed.frame()
        node.write("insert into notes values (1, 1, 'hidden words')")

        problem = (await followed.event()).json
        assert (problem["code"], problem["status"]) == ("TL422", 422)
        assert "policy" in problem["detail"]
        error = await talk.error()
        assert error["extensions"]["code"] == "TL422"
        assert "hidden words" not in f"{problem} {error}"


async def test_a_right_that_is_taken_away_ends_the_stream(
    node: Node, session: Session, roles: Roles
) -> None:
    protect(session, roles, "true")
    async with node.talk(roles.member) as talk:
        await talk.subscribe(node.gateway, CHANGED)
        node.write(f"revoke select on notes from {roles.member}", "insert into notes values (1)")

        error = await talk.error()
        assert error["extensions"]["code"] == "TL403"


async def test_a_policy_that_fails_for_one_harms_nobody_else(
    node: Node, session: Session, roles: Roles
) -> None:
    protect(session, roles, BY_CLAIMS)
    async with (
        node.talk(roles.member, org="rubbish") as bad,
        node.talk(roles.member, org=1) as good,
    ):
        await bad.subscribe(node.gateway, CHANGED)
        await good.subscribe(node.gateway, CHANGED)
        node.write("insert into notes values (1, 1)")

        assert brief(await good.next()) == [("CREATED", 1)]
        assert (await bad.error())["extensions"]


async def test_the_anonymous_role_sees_what_it_may(
    start: OpenNode, session: Session, roles: Roles
) -> None:
    protect(session, roles, "true")
    session.execute("create policy open on notes to public using (body = 'open')")
    make_live(session, "notes", roles.guest)
    node = await start(anonymous_role=roles.guest)
    async with node.follow("/v1/live/notes") as followed:
        await followed.frame()
        node.write("insert into notes (id, body) values (1, 'closed'), (2, 'open')")

        assert (await followed.event()).json["key"] == {"id": 2}
