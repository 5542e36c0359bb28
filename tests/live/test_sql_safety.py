"""What nobody can forge or find out by way of a live table, and how large a read gets."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from tests.broker.steps import head, tick
from tests.fixtures.asking import ask, call, called, column, refused
from tests.fixtures.postgres import open_two_sessions
from tests.fixtures.roles import login_roles
from tests.live.steps import CONTACTS, Reading, app_role, contacts, subscribe, visible, watch

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fixtures.asking import Session


def names(session: Session) -> list[tuple[str, str]]:
    return session.execute("select name, relation from trunkline.live_tables()").fetchall()


def lost(reading: Reading) -> list[bool]:
    return [row["lost"] is True for row in reading.rows()]


def test_nothing_that_is_called_like_a_type_of_a_condition_is_run(
    session: Session, connect: Callable[..., Session]
) -> None:
    """It would run as the owner of the schema."""
    session.execute("create table ran (who text); grant insert on ran to public")
    with login_roles(session, connect) as role:
        owner = role("trunkline_writer")
        owner.execute(
            "create type mood as enum ('sad', 'glad');"
            "create table moods (id int primary key, m mood)"
        )
        watch(owner, "moods")
        reading = Reading(session, subscribe(owner, {"m": {"gt": "sad"}}, relation="moods"))
        owner.execute("insert into moods values (1, 'sad'), (2, 'glad')")
        assert reading.keys() == [2]
        owner.execute(
            "create function note(text) returns bool language sql as"
            " $$ insert into public.ran values (current_user) returning true $$;"
            "alter table moods alter m type text; drop type mood;"
            "create domain mood as text check (note(value)); insert into moods values (3, 'glad')"
        )
        (row,) = reading.rows()
        assert "is not a label" in row["error"]
    assert column(session, "select who from ran") == []


def test_a_label_that_an_enum_gets_later_has_its_place_in_conditions(session: Session) -> None:
    session.execute(
        "create type mood as enum ('sad', 'glad'); create table moods (id int primary key, m mood)"
    )
    watch(session, "moods")
    reading = Reading(session, subscribe(session, {"m": {"gt": "sad"}}, relation="moods"))
    session.execute("alter type mood add value 'fair' before 'glad'")
    session.execute("insert into moods values (1, 'sad'), (2, 'fair'), (3, 'glad'), (4, null)")
    assert reading.keys() == [2, 3]


def test_only_the_triggers_of_a_table_tell_of_it(
    session: Session, connect: Callable[..., Session]
) -> None:
    contacts(session)
    reading = Reading(session, subscribe(session))
    number = ask(session, "select watch from trunkline.broker_watched()")
    event = ("public.contacts.insert", '{"id": 1}', '{"op": "insert", "table": "public.contacts"}')
    with login_roles(session, connect) as role:
        stranger = role("trunkline_writer")
        stranger.execute("select trunkline.broker_publish(%s, %s, metadata => %s)", event)
        stranger.execute(
            "insert into trunkline.event (topic, payload, metadata) values (%s, %s, %s)", event
        )
        stranger.execute(
            "select trunkline._broker_capture(%s, '{}', '{1}', '{\"{}\"}', watch => %s,"
            " pass => coalesce((select pass from trunkline.broker_watch_pass),"
            " gen_random_uuid()))",
            [event[0], number],
        )
        for statement in (
            "insert into trunkline.event (topic, payload, watch) values ('a', '{}', 1)",
            "select pass from trunkline.broker_watch_mark",
        ):
            with refused("42501"):
                stranger.execute(statement)
        assert reading.rows() == []
        session.execute(f"grant insert on contacts to {ask(stranger, 'select current_user')}")
        stranger.execute("insert into contacts values (2, 7)")
        assert reading.keys() == [2]


def test_a_read_ends_with_the_row_that_makes_it_large(session: Session) -> None:
    contacts(session)
    number = subscribe(session)
    tick(session)
    place, seen, reads = head(session), list[int](), 0
    session.execute(
        "insert into contacts select n, 7, repeat('x', 1000000) from generate_series(1, 20) n"
    )
    tick(session)
    while rows := called(session, "live_read", after=place, subscription=number).fetchall():
        assert sum(len(row["new_row"]["name"]) for row in rows if row["new_row"]) < 10_000_000
        seen += [row["new_row"]["id"] for row in rows if row["new_row"]]
        place, reads = rows[-1]["up_to"], reads + 1
    assert (seen, reads) == (list(range(1, 21)), 3)


# Names


def test_a_table_that_gets_another_name_goes_on_under_it(session: Session) -> None:
    contacts(session)
    reading = Reading(session, subscribe(session))
    start = reading.up_to
    session.execute("insert into contacts values (1, 7)")
    session.execute("alter table contacts rename to people; insert into people values (2, 7)")
    assert names(session) == [("people", "public.people")]
    watch(session, "people")
    session.execute("insert into people values (3, 7)")
    assert reading.keys() == [1, 2, 3]
    reading.up_to = start
    assert reading.keys() == [1, 2, 3]


def test_rows_of_a_table_are_never_told_as_those_of_one_that_took_its_name(
    session: Session,
) -> None:
    contacts(session)
    session.execute("create table others (id int primary key); insert into contacts values (1, 7)")
    watch(session, "others")
    reading = Reading(session, subscribe(session, relation="others"))
    reading.up_to = 0
    session.execute("alter table contacts rename to former; alter table others rename to contacts")
    session.execute("insert into contacts values (2); insert into former values (3, 7)")
    watch(session)
    assert reading.keys() == [2]


def test_a_table_that_is_made_anew_has_the_name_and_nothing_else_of_the_former(
    session: Session,
) -> None:
    contacts(session)
    session.execute("insert into contacts values (1, 7); drop table contacts")
    contacts(session)
    assert names(session) == [("contacts", "public.contacts")]
    reading = Reading(session, subscribe(session))
    session.execute("insert into contacts values (2, 7)")
    reading.up_to = 0
    assert reading.keys() == [2]


@pytest.mark.parametrize(
    "change",
    [
        "rename org_id to org",
        "drop org_id",
        "rename org_id to tmp; alter table contacts rename id to org_id;"
        "alter table contacts rename tmp to id",
        "drop org_id; alter table contacts add org_id int",
    ],
)
def test_what_was_written_before_a_column_changed_its_name_is_told_to_nobody(
    session: Session, change: str
) -> None:
    contacts(session)
    number = subscribe(session)
    reading = Reading(session, number)
    session.execute("insert into contacts values (1, 7)")
    session.execute(f"alter table contacts {change}")
    assert lost(reading) == [True]
    session.execute("call trunkline.maintain()")
    reading.up_to = 0
    assert lost(reading) == [True]
    session.execute("insert into contacts values (3, 8)")
    assert lost(reading) == [False]


def test_a_column_that_is_added_disturbs_nobody(session: Session) -> None:
    contacts(session)
    reading = Reading(session, subscribe(session))
    session.execute("insert into contacts values (1, 7)")
    session.execute("alter table contacts add more int; insert into contacts values (2, 7)")
    assert reading.keys() == [1, 2]


def test_a_row_that_lacks_what_a_policy_speaks_of_is_seen_by_nobody(session: Session) -> None:
    contacts(session)
    session.execute(
        "alter table contacts enable row level security;"
        "create policy p on contacts using (name is distinct from 'secret')"
    )
    with app_role(session, "usage on schema public", "select on contacts") as role:
        assert visible(session, role, [{"id": 1, "name": "a"}, {"id": 2}]) == [True, False]


def test_what_was_written_before_triggers_marked_it_is_told_as_lost(session: Session) -> None:
    """As in a schema that is older than the marks: the table has to be watched again."""
    contacts(session)
    reading = Reading(session, subscribe(session))
    source = ask(session, "select prosrc from pg_proc where proname ~ '^trunkline_watch_'")
    session.execute(
        "update trunkline.live_table set column_names = '{}', history_from = 9223372036854775807"
    )
    unmarked = re.sub(r"\(select .* trunkline.broker_watch_pass .*\)", "null", source)
    assert unmarked != source
    session.execute("update pg_proc set prosrc = %s where prosrc = %s", [unmarked, source])
    subscribe(session)
    session.execute("alter table contacts rename name to called")
    subscribe(session)
    session.execute("insert into contacts values (1, 7)")
    session.execute("update pg_proc set prosrc = %s where prosrc = %s", [source, unmarked])
    assert lost(reading) == [True]
    watch(session)
    reading.up_to = 0
    assert lost(reading) == [True]
    session.execute("insert into contacts values (2, 7)")
    assert reading.keys() == [2]


def test_subscriptions_end_where_a_table_was_unwatched_meanwhile(session: Session) -> None:
    contacts(session)
    subscribe(session)
    call(session, "broker_unwatch", relation="contacts")
    session.execute("insert into contacts values (1, 7)")
    watch(session)
    assert call(session, "live_subscriptions") == []


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_a_transaction_that_began_before_a_table_was_watched_is_not_passed_over(
    session: Session, connect: Callable[..., Session], isolation: str
) -> None:
    session.execute(CONTACTS)
    other = connect()
    other.execute(f"begin isolation level {isolation}")
    ask(other, "select count(*) from contacts")
    other.execute("commit")
    other.execute(f"begin isolation level {isolation}")
    ask(other, "select 1 from trunkline.config limit 1")
    watch(session)
    with refused("40001"):
        other.execute("insert into contacts values (1, 7)")
    other.execute("rollback")
    reading = Reading(session, subscribe(session))
    other.execute(f"begin isolation level {isolation}")
    other.execute("insert into contacts values (1, 7)")
    other.execute("commit")
    assert reading.keys() == [1]


def test_a_table_tells_of_itself_when_it_and_its_triggers_get_another_owner(
    session: Session,
) -> None:
    with app_role(session) as former, app_role(session) as present:
        for role in (former, present):
            session.execute(
                f"grant trunkline_writer to {role}; grant create on schema public to {role}"
            )
        session.execute(f"set role {former}")
        contacts(session)
        session.execute(f"reset role; reassign owned by {former} to {present}")
        session.execute(f"drop owned by {former}")
        reading = Reading(session, subscribe(session))
        session.execute("insert into contacts values (1, 7)")
        assert reading.keys() == [1]
        session.execute("drop table contacts")


# Who may subscribe


def test_members_of_a_role_that_is_forbidden_are_told_no_more(session: Session) -> None:
    contacts(session)
    with (
        app_role(session, "usage on schema public", "select on contacts") as group,
        app_role(session) as member,
    ):
        session.execute(f"grant {group} to {member}")
        call(session, "live_allow", role=group)
        session.execute(f"set role {member}")
        subscribe(session)
        session.execute("reset role")
        other = subscribe(session)
        call(session, "live_forbid", role=group)
        assert column(session, "select subscription from trunkline.live_subscriptions()") == [other]


def test_of_who_subscribes_and_who_forbids_it_the_second_waits(
    session: Session, clean_dsn: str
) -> None:
    contacts(session)
    with app_role(session, "usage on schema public", "select on contacts") as role:
        call(session, "live_allow", role=role)
        subscribing = "select * from trunkline.live_subscribe('contacts')"
        forbidding = f"select trunkline.live_forbid('{role}')"
        with open_two_sessions(clean_dsn) as two:
            two.a.execute(f"set role {role}")
            two.a.execute(subscribing)
            forbids = two.later(two.b, forbidding)
            two.blocked_by(two.a, two.b)
            two.a.commit()
            forbids.result(10)
            subscribes = two.later(two.a, subscribing)
            two.blocked_by(two.b, two.a)
            two.b.commit()
            with refused("TL403"):
                subscribes.result(10)
        assert call(session, "live_subscriptions") == []


def test_what_was_allowed_can_be_taken_back_and_stays_so(session: Session) -> None:
    contacts(session)
    with app_role(session, "usage on schema public", "select on contacts") as role:
        call(session, "live_allow", role=role)
        session.execute(f"set role {role}")
        subscribe(session)
        session.execute("reset role")
        other = subscribe(session)
        assert call(session, "live_forbid", role=role) == [(True,)]
        assert column(session, "select subscription from trunkline.live_subscriptions()") == [other]
        assert call(session, "live_forbid", role=role) == [(False,)]
        session.execute("select trunkline.roles_grant()")
        session.execute(f"set role {role}")
        with refused("42501"):
            subscribe(session)


def test_who_may_subscribe_for_another_reason_is_not_said_to_be_forbidden(
    session: Session,
) -> None:
    with app_role(session) as role:
        call(session, "live_allow", role=role)
        session.execute(f"grant trunkline_reader to {role}")
        with refused("TL409") as error:
            call(session, "live_forbid", role=role)
        assert "trunkline_reader" in str(error.value)
        assert column(session, "select role from trunkline.live_role") == [role]
    for name, state in (("trunkline_reader", "TL409"), ("no_such_role", "TL404")):
        with refused(state):
            call(session, "live_forbid", role=name)


def test_a_function_of_a_policy_cannot_return_to_the_role_of_the_session(dsn: str) -> None:
    """Labelled immutable it may still call set_config(), and by that what is volatile."""
    owner, visitor = f"owner_{uuid4().hex}", f"visitor_{uuid4().hex}"
    with psycopg.connect(dsn, autocommit=True) as session:
        session.execute(
            f"create role {owner} login; grant trunkline_writer to {owner}; create role {visitor};"
            f"grant create on schema public to {owner}"
        )
        with psycopg.connect(make_conninfo(dsn, user=owner), autocommit=True) as its_owner:
            its_owner.execute(
                "create table item (id int primary key, n int); create sequence escaped;"
                "create function evil(int) returns boolean language plpgsql immutable as $$ begin"
                "  perform set_config('role', 'none', true);"
                "  if (select rolsuper from pg_roles where rolname = current_user) then"
                "    perform nextval('public.escaped');"
                "  end if;"
                "  return true; "
                "exception when insufficient_privilege then return true; end $$"
            )
            its_owner.execute(
                f"create policy p on item for select to {visitor} using (evil(n));"
                f"alter table item enable row level security; grant select on item to {visitor}"
            )
            its_owner.execute("select trunkline.live_watch('item')")
        images = [json.dumps({"id": 1, "n": 2})]
        seen = session.execute(
            "select trunkline.live_visible('item', %s, '{}', %s::jsonb[])", [visitor, images]
        ).fetchall()
        escaped = session.execute("select is_called from escaped").fetchone()
        session.execute("select trunkline.live_unwatch('item')")
        for role in (owner, visitor):
            session.execute(f"drop owned by {role} cascade; drop role {role}")
    assert seen == [([True],)]
    assert escaped == (False,)
