"""Events of watched tables: which roles see them."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from tests.broker.groups import match
from tests.broker.steps import publish
from tests.fixtures.asking import ask, column, refused
from tests.fixtures.roles import login_roles, name_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures.asking import Connect, Session
    from tests.fixtures.roles import Role


@pytest.fixture
def role(session: Session, connect: Connect) -> Iterator[Role]:
    with login_roles(session, connect) as make:
        yield make


def process(session: Session) -> str:
    number = str(uuid4())
    session.execute("select trunkline.lease_renew(%s)", [number])
    return number


def subscribe(
    session: Session, group: str = "billing", handler: str = "h", condition: str = "true"
) -> int:
    made = "select trunkline.broker_subscribe(%s, %s, handler => %s)"
    return int(ask(session, made, [group, condition, handler]))


def join(session: Session, group: str = "billing", handler: str = "h") -> int:
    joined = "select epoch from trunkline.broker_join(%s, %s, %s) where lane = 0"
    return int(ask(session, joined, [group, handler, process(session)]))


def test_declared_topics_are_managed_by_their_owner(role: Role) -> None:
    alice, mallory = role("trunkline_writer"), role("trunkline_writer")
    alice.execute("select trunkline.broker_topic('orders', 'locked')")
    with refused("TL403", "event_topic:orders"):
        mallory.execute("select trunkline.broker_topic('orders', 'committed')")
    alice.execute("select trunkline.broker_topic('orders', 'committed')")


@pytest.fixture
def secret(session: Session) -> Iterator[str]:
    """A watched table with an event, beside an event that was published."""
    session.execute("create table secret (id int primary key, word text)")
    session.execute("select trunkline.broker_watch('secret')")
    yield "secret"
    session.execute("drop table secret")


READS = {
    "broker_events(1)": "topic",
    "broker_scan(after => 0)": "topic",
    "broker_read('readers', 'h')": "topic",
    "broker_fetch('readers', 'h', '{0,1,2,3}', '{0,0,0,0}')": "topic",
    "broker_deliveries('readers', 1, 100)": "topic",
}


def seen(session: Session) -> dict[str, set[str]]:
    """What each way to read shows of events."""
    return {
        call: {
            topic
            for topic in column(session, f"select {name} from trunkline.{call}")  # type: ignore[arg-type]
            if topic
        }
        for call, name in READS.items()
    }


@pytest.mark.usefixtures("secret")
def test_events_of_a_table_are_for_roles_that_may_read_it(session: Session, role: Role) -> None:
    subscribe(session, "readers")
    join(session, "readers")
    session.execute("insert into secret values (1, 'x')")
    publish(session, "orders")
    session.execute("insert into secret values (2, 'y')")
    match(session)
    everything = {call: {"public.secret.insert", "orders"} for call in READS}
    public = {call: {"orders"} for call in READS}
    reader = role("trunkline_reader")
    assert seen(session) == everything
    assert seen(reader) == public
    explain = "select events from trunkline.broker_explain('true')"
    assert (ask(session, explain), ask(reader, explain)) == (3, 1)

    session.execute(f"grant select on secret to {name_of(reader)}")
    assert seen(reader) == everything
    session.execute("alter table secret enable row level security")
    assert seen(reader) == public
    session.execute("select trunkline.config_set('broker.watch_open', 'true')")
    assert seen(reader) == everything
    session.execute("select trunkline.config_set('broker.watch_open', null)")
    session.execute(f"revoke select on secret from {name_of(reader)}")
    session.execute(f"grant select (id) on secret to {name_of(reader)}")
    assert seen(reader) == public
    session.execute("select trunkline.broker_unwatch('secret')")
    assert seen(reader) == public
    assert seen(role("trunkline_admin")) == everything


@pytest.mark.usefixtures("secret")
def test_a_reader_passes_over_events_that_it_may_not_read(session: Session, role: Role) -> None:
    reader = role("trunkline_reader")
    subscribe(session, "readers")
    join(session, "readers")
    session.execute("insert into secret select g, 'x' from generate_series(1, 50) g")
    publish(session, "orders", key="k")
    match(session)
    read = "select topic from trunkline.broker_read('readers', 'h', max_events => 5)"
    assert column(reader, read) == ["orders"]
    fetch = "trunkline.broker_fetch('readers', 'h', '{0,1,2,3}', '{0,0,0,0}', 5)"
    rows = reader.execute(f"select up_to, topic from {fetch}").fetchall()
    assert {topic for _, topic in rows} <= {None, "orders"}
    assert max(up_to for up_to, _ in rows) >= 5


@pytest.mark.usefixtures("secret")
def test_a_webhook_gets_what_the_role_that_added_it_may_read(session: Session, role: Role) -> None:
    mallory = role("trunkline_writer")
    add = "select trunkline.broker_webhook_add('posts', 'https://example.org/')"
    theirs, ours = ask(mallory, add), ask(session, add)
    session.execute("insert into secret values (1, 'x')")
    publish(session, "orders")
    match(session)
    fetch = "select topic from trunkline.broker_fetch('posts', %s, '{0,1,2,3}', '{0,0,0,0}')"
    got = {name: {*column(session, fetch, [f"webhook:{name}"])} - {None} for name in (theirs, ours)}
    assert got == {theirs: {"orders"}, ours: {"orders", "public.secret.insert"}}


@pytest.mark.usefixtures("secret")
def test_dead_letters_of_a_table_are_for_roles_that_may_read_it(
    session: Session, role: Role
) -> None:
    subscribe(session, "readers")
    session.execute("insert into secret values (1, 'x')")
    match(session)
    lanes = "select lane, epoch from trunkline.broker_join('readers', 'h', %s)"
    lane = ask(
        session,
        "select lane from trunkline.delivery d join trunkline.broker_group g"
        " using (group_id) where group_name = 'readers'",
    )
    epochs = dict(session.execute(lanes, [process(session)]).fetchall())
    number = ask(session, "select up_to from trunkline.broker_read('readers', 'h')")
    fail = "select trunkline.broker_fail('readers', 'h', %s, %s, %s, 'it broke')"
    session.execute(fail, [lane, epochs[lane], [number]])
    listed = "select retry from trunkline.broker_dead_list()"
    (letter,) = column(session, listed)
    reader = role("trunkline_reader")
    assert column(reader, listed) == []
    with refused("TL404"):
        reader.execute("select * from trunkline.broker_dead_show(%s)", [letter])
