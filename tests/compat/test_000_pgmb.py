"""The statements that the document of pgmb prints, as printed."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg
import pytest
from tests.fixtures.asking import ask, column, refused
from tests.fixtures.roles import name_of

from trunkline.testing import wait_until

if TYPE_CHECKING:
    from tests.fixtures.asking import Connect, Session
    from tests.fixtures.roles import Role

GROUP = "my-unique-group-id"
SUBSCRIBE = """
INSERT INTO pgmb.subscriptions (group_id, conditions_sql, params)
VALUES (
	'my-unique-group-id',
	's.params @> jsonb_build_object(''topic'', e.topic)',
	jsonb_build_object('topic', 'user.created')
);
"""
RETENTION = """
UPDATE pgmb.config
SET value = '7 days'
WHERE key = 'partition_retention_period';
"""
INTERVAL = """
UPDATE pgmb.config
SET value = '1 day'
WHERE key = 'partition_interval';

-- also set how many future partitions to maintain
-- this must be greater than or equal to the partition interval
UPDATE pgmb.config
SET value = '14 days'
WHERE key = 'future_intervals_to_create';
"""
SET_CURSOR = """
SELECT pgmb.set_group_cursor(
 gid := '<group-id>',
 cursor := '<new-cursor>',
 release_lock := TRUE
);
"""
RETRY = """insert into pgmb.events(id, topic, payload, subscription_id)
				values (
					pgmb.create_event_id(NOW() + $1::interval, 0),
					$2, $3, $4
				)"""


class Item(NamedTuple):
    """A row of `read_next_events`."""

    id: str
    topic: str
    payload: Any
    metadata: Any
    subscription_ids: list[str]
    next_cursor: str


def subscribed(session: Session) -> str:
    session.execute(SUBSCRIBE)
    return str(ask(session, "SELECT id FROM pgmb.subscriptions WHERE group_id = %s", [GROUP]))


def publish(session: Session, *numbers: int, topic: str = "user.created") -> None:
    session.execute(
        "INSERT INTO pgmb.events (topic, payload, metadata)"
        " SELECT %s, jsonb_build_object('n', n), '{\"by\": \"test\"}'"
        " FROM unnest(%s::int[]) WITH ORDINALITY u(n, place) ORDER BY place",
        [topic, list(numbers)],
    )


def poll(session: Session) -> int:
    return int(ask(session, "SELECT pgmb.poll_for_events()"))


def read_next(
    session: Session, cursor: str | None = None, chunk_size: int = 100, *, peek: bool = False
) -> list[Item]:
    query = "SELECT * FROM pgmb.read_next_events(%s, %s, %s, peek := %s)"
    return [Item(*row) for row in session.execute(query, [GROUP, cursor, chunk_size, peek])]


def payloads(items: list[Item]) -> list[int]:
    return [item.payload["n"] for item in items]


def set_cursor(session: Session, cursor: str, *, release: bool = True) -> None:
    statement = SET_CURSOR.replace("<group-id>", GROUP).replace("<new-cursor>", cursor)
    session.execute(statement if release else statement.replace("TRUE", "FALSE"))


def test_a_subscription_gets_the_events_that_its_condition_wants(session: Session) -> None:
    subscription = subscribed(session)
    publish(session, 1, 2, 3)
    publish(session, 4, topic="user.deleted")
    assert poll(session) == 4
    items = read_next(session)
    assert payloads(items) == [1, 2, 3]
    assert {item.topic for item in items} == {"user.created"}
    assert items[0].metadata == {"by": "test"}
    assert items[0].subscription_ids == [subscription]


def test_the_same_subscription_is_there_once(session: Session) -> None:
    session.execute(SUBSCRIBE)
    session.execute(SUBSCRIBE)
    query = "SELECT group_id, conditions_sql, params FROM pgmb.subscriptions"
    assert session.execute(query).fetchall() == [
        (GROUP, "s.params @> jsonb_build_object('topic', e.topic)", {"topic": "user.created"})
    ]


def test_an_insert_returns_the_id_and_a_delete_ends_the_subscription(session: Session) -> None:
    made = ask(
        session,
        "INSERT INTO pgmb.subscriptions (group_id, expiry_interval) VALUES ('all', '15 minutes')"
        " RETURNING id",
    )
    assert session.execute(
        "SELECT id, conditions_sql, params FROM pgmb.subscriptions"
    ).fetchall() == [(made, "TRUE", {})]
    session.execute("DELETE FROM pgmb.subscriptions WHERE id = %s", [made])
    assert column(session, "SELECT id FROM pgmb.subscriptions") == []


def test_an_active_subscription_does_not_expire(session: Session) -> None:
    add = (
        "INSERT INTO pgmb.subscriptions (group_id, expiry_interval)"
        " VALUES (%s, '0.1 seconds') RETURNING id"
    )
    active, idle = (ask(session, add, [group]) for group in ("active", "idle"))
    session.execute("UPDATE pgmb.subscriptions SET last_active_at = NOW() WHERE id = %s", [active])

    def expired() -> None:
        session.execute("select trunkline.broker_expire()")
        assert column(session, "SELECT id FROM pgmb.subscriptions") == [active], idle

    wait_until(expired)
    with refused("TL409"):
        session.execute("UPDATE pgmb.subscriptions SET conditions_sql = 'true'")


def test_two_subscriptions_of_a_group_get_one_row_of_an_event(session: Session) -> None:
    first = subscribed(session)
    second = ask(
        session,
        "INSERT INTO pgmb.subscriptions (group_id, conditions_sql) VALUES (%s, 'e.topic <> ''x''')"
        " RETURNING id",
        [GROUP],
    )
    publish(session, 1)
    poll(session)
    (item,) = read_next(session)
    assert sorted(item.subscription_ids) == sorted([first, second])


def test_the_cursor_moves_only_when_it_is_set(session: Session) -> None:
    subscribed(session)
    publish(session, *range(1, 6))
    poll(session)
    items = read_next(session, chunk_size=2)
    assert payloads(items) == [1, 2]
    assert payloads(read_next(session, chunk_size=2)) == [1, 2]
    ahead = read_next(session, items[-1].next_cursor, 2)
    assert payloads(ahead) == [3, 4], "a cursor reads ahead of the stored one"
    set_cursor(session, items[0].next_cursor)
    assert payloads(read_next(session)) == [3, 4, 5]
    set_cursor(session, read_next(session)[0].next_cursor)
    assert read_next(session) == []


def test_one_session_reads_a_group_at_a_time(session: Session, connect: Connect) -> None:
    subscribed(session)
    publish(session, 1, 2)
    poll(session)
    other = connect()
    items = read_next(session, chunk_size=1)
    assert read_next(other) == []
    assert payloads(read_next(other, peek=True)) == [1, 2], "a peek takes nothing"
    with refused("TL423"):
        set_cursor(other, items[0].next_cursor)
    set_cursor(session, items[0].next_cursor, release=False)
    assert read_next(other) == []
    set_cursor(session, items[0].next_cursor)
    assert payloads(read_next(other)) == [2]


def test_ids_tell_their_time_and_sort_in_the_order_of_events(session: Session) -> None:
    made = ask(session, "SELECT pgmb.create_event_id('2026-01-02 03:04:05.678901+00', 26)")
    assert re.fullmatch(r"pm[0-9a-f]{22}", made)
    assert made.endswith("00000001a")
    assert ask(session, "SELECT pgmb._event_time(%s)::text", [made]).startswith("2026-01-02")
    publish(session, *range(20))
    poll(session)
    found = session.execute("SELECT id, payload FROM pgmb.events ORDER BY id").fetchall()
    assert [payload["n"] for _, payload in found] == list(range(20))


def test_an_insert_returns_the_ids_by_which_events_are_found(session: Session) -> None:
    subscribed(session)
    made = column(
        session,
        "INSERT INTO pgmb.events (topic, payload) SELECT 'user.created', jsonb_build_object('n', n)"
        " FROM generate_series(1, 20) n RETURNING id",
    )
    poll(session)
    assert made == sorted(made)
    assert [item.id for item in read_next(session)] == made
    assert column(session, "SELECT payload FROM pgmb.events WHERE id = %s", made[3:4]) == [{"n": 4}]


def test_an_event_for_one_subscription_reaches_only_that(session: Session) -> None:
    subscription = subscribed(session)
    session.execute("INSERT INTO pgmb.subscriptions (group_id) VALUES ('others')")
    session.execute(
        "INSERT INTO pgmb.events (topic, payload, subscription_id)"
        " VALUES ('direct', '{\"n\": 1}', %s)",
        [subscription],
    )
    poll(session)
    assert payloads(read_next(session)) == [1]
    assert session.execute("SELECT * FROM pgmb.read_next_events('others')").fetchall() == []


def test_the_retry_example_delivers_the_ids_again_after_its_time(session: Session) -> None:
    subscription = subscribed(session)
    publish(session, 1)
    poll(session)
    items = read_next(session)
    set_cursor(session, items[-1].next_cursor)
    retry = {"ids": [item.id for item in items], "retryNumber": 1, "handlerName": "someWork"}
    with psycopg.RawCursor(session) as cursor:
        cursor.execute(RETRY, ["1 minute", "pgmb-retry", json.dumps(retry), subscription])
        cursor.execute(RETRY, ["0.2 seconds", "pgmb-retry", json.dumps(retry), subscription])
    assert ask(session, "select count(*) from trunkline.event_due") == 2
    session.execute("select pg_sleep_until(min(deliver_at)) from trunkline.event_due")
    for _ in range(2):  # the first publishes what is due, the second numbers it
        poll(session)
    (item,) = read_next(session)
    assert (item.topic, item.payload) == ("pgmb-retry", retry)
    found = "SELECT payload FROM pgmb.events WHERE id = ANY(%s)"
    assert column(session, found, [item.payload["ids"]]) == [{"n": 1}]
    assert ask(session, "select count(*) from trunkline.event_due") == 1


def test_events_of_a_transaction_that_rolls_back_are_gone(
    session: Session, connect: Connect
) -> None:
    subscribed(session)
    other = connect(autocommit=False)
    publish(other, 1)
    other.rollback()
    publish(session, 2)
    poll(session)
    assert payloads(read_next(session)) == [2]


def test_the_printed_settings_take_effect(session: Session) -> None:
    session.execute(RETENTION)
    session.execute(INTERVAL)
    found = dict(session.execute("SELECT key, value FROM pgmb.config").fetchall())
    assert found["partition_retention_period"] == "7 days"
    assert found["partition_interval"] == "1 day"
    assert found["future_intervals_to_create"] == "16 days"
    assert ask(session, "select trunkline.config_get('broker.retention')") == "7 days"
    assert ask(session, "select trunkline.config_get('ring.event.rotate_every')") == "1 day"
    with refused("TL422"):
        session.execute(RETENTION.replace("7 days", "soon"))


def test_upkeep_can_be_called_at_any_time(session: Session) -> None:
    publish(session, 1)
    for _ in range(3):
        session.execute("SELECT pgmb.maintain_events_table();")
    poll(session)
    assert column(session, "SELECT payload FROM pgmb.events") == [{"n": 1}]


def test_the_printed_uninstall_removes_the_schema_and_no_event(session: Session) -> None:
    publish(session, 1)
    session.execute("DROP SCHEMA pgmb CASCADE;")
    assert ask(session, "select count(*) from trunkline.event") == 1


def test_rights_are_those_of_our_functions(role: Role, session: Session) -> None:
    stranger, writer = role(), role("trunkline_writer")
    for statement in (
        SUBSCRIBE,
        "TABLE pgmb.events",
        "TABLE pgmb.config",
        "SELECT pgmb.poll_for_events()",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            stranger.execute(statement)
    writer.execute(SUBSCRIBE)
    publish(writer, 1)
    for statement in (RETENTION, "SELECT pgmb.poll_for_events()"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            writer.execute(statement)
    poll(session)
    assert payloads(read_next(writer)) == [1], name_of(writer)


def test_readers_in_turn_handle_every_event_once_and_in_order(
    session: Session, connect: Connect
) -> None:
    """The effect and the cursor are one transaction, as an outbox reader would do it."""
    subscribed(session)
    session.execute("create table public.done (n int, id int generated always as identity)")
    readers = [connect() for _ in range(3)]

    def take_turns(reader: Session) -> None:
        while ask(session_of[reader], "select count(*) from public.done") < 100:
            with reader.transaction():
                items = read_next(reader, chunk_size=7)
                for number in payloads(items):
                    reader.execute("insert into public.done (n) values (%s)", [number])
                if items:
                    set_cursor(reader, items[-1].next_cursor)

    session_of = {reader: connect() for reader in readers}
    with ThreadPoolExecutor(3) as threads:
        working = [threads.submit(take_turns, reader) for reader in readers]
        for start in range(0, 100, 10):
            publish(session, *range(start, start + 10))
            poll(session)
        for work in working:
            work.result(60)
    assert column(session, "select n from public.done order by id") == list(range(100))
